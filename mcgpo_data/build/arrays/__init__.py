"""The pair builder on sorted integer arrays."""
