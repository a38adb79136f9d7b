"""Statements about what a broker does on the wire, each with the conversation that shows whether it is so."""
