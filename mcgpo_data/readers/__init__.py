"""Readers of trajectory dumps: one module per family, found by content."""
