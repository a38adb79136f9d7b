"""The parts of the flights demo; `flights_demo.py` is where it starts."""
