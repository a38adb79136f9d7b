"""The groups of measurements, one module each."""
