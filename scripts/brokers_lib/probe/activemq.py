"""x."""
from brokers_lib.probe.statements import Statement
STATEMENTS: list[Statement] = []
