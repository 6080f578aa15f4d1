"""Turn logged rollouts of LLM agents into trustworthy, weighted action preferences."""

__version__ = "0.1.0"
