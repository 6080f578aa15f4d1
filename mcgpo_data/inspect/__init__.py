"""Looking at a build: load its pairs, explain one, show the funnel."""
