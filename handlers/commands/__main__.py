"""``python -m handlers.commands``: the ``derender`` command, wherever the package is."""

import sys

from handlers.commands.command_line import main

if __name__ == "__main__":
    sys.exit(main())
