"""The parts of the flights demo; `flights_demo.py` starts it."""
