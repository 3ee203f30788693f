"""derender, installed: the application, and the parsers that it ships, out of the way of other packages.

``core``, ``handlers`` and the slice of vLLM are names that others have, too.
They lie in this package's own folders, which only its command puts on the
path: first, so that another ``vllm`` of the environment is never met.
"""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_APP = _HERE / "_app"
_SLICES = _HERE / "_slices"


def main() -> int:
    """The ``derender`` command. The exit status is 0, or 1 with one line on standard error."""
    # In a checkout there is no such folder: the installation for development has put its root on the path.
    sys.path[:0] = [str(folder) for folder in (_APP, *_slice()) if folder.is_dir()]
    from handlers.commands.command_line import main as command  # found only now

    return command()


def _slice() -> list[Path]:
    """The folder of the newest slice, each of which is named as vLLM's version; empty when none was built."""
    found = _SLICES.iterdir() if _SLICES.is_dir() else ()
    return sorted(found, key=lambda folder: [int(part) for part in folder.name.split(".")])[-1:]
