"""``python -m trio_stomp.cli``: the command when its script is not on the PATH."""

from trio_stomp.cli.entry import main

main()
