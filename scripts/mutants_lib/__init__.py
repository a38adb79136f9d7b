"""Mutation testing of the codec and the client; `scripts/mutants` is the way in."""
