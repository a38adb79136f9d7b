"""The command ``trio-stomp``: send, receive, move and measure messages, and find out why a connection fails.

Requires the extra ``cli``; without it, the command says how to install it.
"""

from trio_stomp.cli.entry import main

__all__ = ["main"]
