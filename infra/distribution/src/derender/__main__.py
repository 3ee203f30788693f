"""``python -m derender``: the ``derender`` command."""

import sys

from derender import main

if __name__ == "__main__":
    sys.exit(main())
