"""Carrying a vLLM parser across calls, as data.

vLLM documents that a parser's state cannot be serialised, and parses the whole
output again for every chunk. It can: between two chunks a parser is a small
tree of objects whose attributes are flags, counters, texts and lists. This
package saves them (:func:`snapshot`), turns them into text that a client can
carry (:func:`pack`), and brings a fresh parser to where the old one was
(:func:`unpack`, :func:`restore`), in time that does not grow with the output.

It knows the walk, and no parser: what is known of each class is a
:class:`Table` of the vLLM version at hand, which it is given, compiled to
:class:`Layouts`.

Nothing here trusts the text: it names no class, module or attribute, it cannot
ask for work or memory beyond its size, and what does not fit is an
:class:`InvalidCheckpoint`.
"""

from core.parsing.checkpoint.errors import CheckpointRefused, InvalidCheckpoint
from core.parsing.checkpoint.fresh import Prototype
from core.parsing.checkpoint.layout import Layouts
from core.parsing.checkpoint.packing import Limits, pack, unpack
from core.parsing.checkpoint.part import Table
from core.parsing.checkpoint.state import Moment, Plain, check_supported, moment, read_prompt, restore, snapshot

__all__ = [
    "CheckpointRefused",
    "InvalidCheckpoint",
    "Layouts",
    "Limits",
    "Moment",
    "Plain",
    "Prototype",
    "Table",
    "check_supported",
    "moment",
    "pack",
    "read_prompt",
    "restore",
    "snapshot",
    "unpack",
]
