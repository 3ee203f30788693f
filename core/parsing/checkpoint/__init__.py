"""Carrying a vLLM parser across calls, as data.

vLLM documents that a parser's state cannot be serialised, and parses the whole
output again for every chunk. It can: between two chunks a parser is a small
tree of objects whose attributes are flags, counters, texts and lists. This
package saves them (:func:`snapshot`), turns them into text that a client can
carry (:func:`pack`), and brings a fresh parser to where the old one was
(:func:`unpack`, :func:`restore`), in time that does not grow with the output.

Nothing here trusts the text: it names no class, module or attribute, it cannot
ask for work or memory beyond its size, and what does not fit is an
:class:`InvalidCheckpoint`.
"""

from core.parsing.checkpoint.errors import CheckpointRefused, InvalidCheckpoint
from core.parsing.checkpoint.fresh import Prototype
from core.parsing.checkpoint.packing import Limits, pack, unpack
from core.parsing.checkpoint.prompt import read_prompt
from core.parsing.checkpoint.state import Plain, check_supported, restore, snapshot

__all__ = [
    "CheckpointRefused",
    "InvalidCheckpoint",
    "Limits",
    "Plain",
    "Prototype",
    "check_supported",
    "pack",
    "read_prompt",
    "restore",
    "snapshot",
    "unpack",
]
