"""The orders of a shop."""
