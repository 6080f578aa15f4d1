"""Task rules: state summary, rubric progress and canonical action per task family."""
