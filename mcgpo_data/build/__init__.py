"""From decisions to weighted preference pairs."""
