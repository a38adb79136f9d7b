"""The parts of the flights pipeline on Spark; `flights_pipeline.py` starts it."""
