"""Conformance to the texts of STOMP 1.0, 1.1 and 1.2: vectors of bytes, and the map from statements to tests."""
