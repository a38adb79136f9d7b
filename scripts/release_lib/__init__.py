"""Building a release; `scripts/release` is the way in."""
