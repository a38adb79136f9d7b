"""Tests of the examples that are programs of several modules."""
