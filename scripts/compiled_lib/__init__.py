"""Building the package compiled; `scripts/compiled` is the way in."""
