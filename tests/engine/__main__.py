"""``python -m tests.engine``: the scripted engine, as ``examples/scripted_engine.py`` starts it."""

import sys

from tests.engine.server import main

if __name__ == "__main__":
    sys.exit(main())
