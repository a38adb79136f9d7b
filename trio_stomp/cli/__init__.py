"""The command ``trio-stomp``: send, subscribe, move and measure messages, and find out why a connection fails.

It needs the extra ``cli``; without it, the command says how to install that.
"""

from trio_stomp.cli.entry import main

__all__ = ["main"]
