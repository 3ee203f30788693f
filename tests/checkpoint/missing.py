"""What a table of checkpoints lacks for the vLLM that is installed, and what it has too much.

    PYTHONPATH=build/slices/0.32.0 .venv/bin/python -m tests.checkpoint.missing

A new version begins with the table of its neighbour; this tells all that is to be changed in it at once. The tests
of the table ask the same.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

from core.parsing.checkpoint import CheckpointRefused, Layouts
from core.parsing.checkpoint.part import Part, Table
from core.upstream.tables import table_of
from core.upstream.version import vllm_version
from tests.checkpoint.vllm_source import Change, changes

NOT_INSTALLED = frozenset({"cohere_command", "cohere_command_reasoning_parser", "cohere_command_tool_parser"})
"""The package that the parsers of Cohere Command are based on is not installed: their modules cannot be imported."""

_ADAPTERS = "vllm.parser.engine.adapters."
_REGISTRIES = ("ParserManager", "ReasoningParserManager", "ToolParserManager", "_DeltaBuilder")
# Objects that are no part of a parser's state: what a step returns, the request, the classes of a registry.
NO_STATE_HOLDERS = frozenset(
    {
        "HarmonyParser",
        "cls",
        "current_tool_call",
        "current_tool_call.function",
        "delta",
        "delta.function",
        "delta_message",
        "existing",
        "existing.function",
        "existing_call",
        "existing_call.function",
        "fn",
        "function",
        "last_tc.function",
        "message",
        "msg",
        "name_delta",
        "request",
        "result",
        # The XML parser of a parser that is refused for it.
        "self.parser",
        "tc.function",
        "tool_call.function",
    }
)
# What methods reach on other objects: the class that it belongs to.
OTHER_HOLDERS = {
    "self._counting_parser_engine": "ParserEngine",
    "self._engine": "StreamingParserEngine",
    "self._parser_engine": "ParserEngine",
    "self._tool_slots[idx]": "ToolCallSlot",
    "slot": "ToolCallSlot",
    "state": "StreamState",
}
# Their own classes, under the qualified names of the table.
HOLDING_CLASSES = {
    "ParserEngine": "vllm.parser.engine.parser_engine.ParserEngine",
    "StreamState": "vllm.parser.abstract_parser.StreamState",
    "StreamingParserEngine": "vllm.parser.engine.streaming_parser_engine.StreamingParserEngine",
    "ToolCallSlot": "vllm.parser.engine.parser_engine.ToolCallSlot",
}


def unknown_changes(table: Table) -> list[str]:
    """Attributes that methods of vLLM's parsers change, and of which the table says nothing: class, attribute, method."""
    layouts = Layouts(table)

    @cache
    def accounted(name: str) -> frozenset[str]:
        """The attributes that the table accounts for, of the class with this qualified name."""
        try:
            layout = layouts.of(_class(name))
        except (ImportError, AttributeError, ValueError):
            # A module whose package is not installed: what its own part says.
            part = table.parts.get(name, Part())
            return frozenset({*part.state, *part.late, *part.kept, *part.left_out})
        except CheckpointRefused:
            return frozenset()
        return layout.kept | layout.left_out | layout.saved

    def holder(change: Change) -> str:
        if change.holder == "self":
            return f"{change.module}.{change.name}"
        return HOLDING_CLASSES.get(OTHER_HOLDERS.get(change.holder, ""), "")

    return sorted(
        f"{holder(change) or change.holder}.{change.attribute} ({change.method})"
        for change in set(changes())
        if change.holder not in NO_STATE_HOLDERS
        and change.name not in _REGISTRIES
        and change.attribute not in accounted(holder(change))
    )


def classes_that_are_gone(table: Table) -> list[str]:
    """The classes of the table that vLLM does not have."""
    # Adapters are made for an engine that is asked for: those that the table knows are those of its engines.
    engines = {name.rpartition(".")[2] for name in table.parts if name.startswith("vllm.parser.")}
    gone = []
    for name in table.parts:
        if name.startswith(_ADAPTERS):
            engine = name.removeprefix(_ADAPTERS).removesuffix("Adapter").removesuffix("Reasoning").removesuffix("Tool")
            if engine not in engines:
                gone.append(name)
        elif name.rpartition(".")[0].rpartition(".")[2] not in NOT_INSTALLED and not _is_there(name):
            gone.append(name)
    return sorted(gone)


def attributes_that_are_gone(table: Table) -> dict[str, list[str]]:
    """The attributes of the table that no module of their class, or of one that it is based on, speaks of."""
    found: dict[str, list[str]] = {}
    for name, part in table.parts.items():
        if name.startswith(_ADAPTERS) or not _is_there(name):
            continue
        text = "".join(_text(cls) for cls in _class(name).__mro__ if cls.__module__.startswith("vllm."))
        listed = {*part.state, *part.late, *part.children, *part.kept, *part.left_out}
        gone = sorted(attribute for attribute in listed if attribute not in text)
        if gone:
            found[name] = gone
    return found


def lines(table: Table) -> list[str]:
    """All of it, as it is told."""
    told = [f"gone: {name}" for name in classes_that_are_gone(table)]
    for name, attributes in attributes_that_are_gone(table).items():
        told.append(f"{name}: without({', '.join(map(repr, attributes))})")
    unknown: dict[str, list[str]] = defaultdict(list)
    for change in unknown_changes(table):
        place, _, method = change.partition(" ")
        name, _, attribute = place.rpartition(".")
        unknown[name].append(f"{attribute} {method}")
    told += [f"{name}: {', '.join(found)} changes, and the table does not say it" for name, found in unknown.items()]
    return told or ["nothing is missing"]


@cache
def _class(name: str) -> type:
    """The class of a qualified name. Raises ImportError or AttributeError when it is not there."""
    module, _, attribute = name.rpartition(".")
    found: type = getattr(importlib.import_module(module), attribute)
    return found


def _is_there(name: str) -> bool:
    try:
        return isinstance(_class(name), type)
    except (ImportError, AttributeError):
        return False


@cache
def _text(cls: type) -> str:
    return Path(inspect.getfile(cls)).read_text(encoding="utf-8")


if __name__ == "__main__":
    missing = lines(table_of(vllm_version()))
    print(*missing, sep="\n")
    sys.exit(missing != ["nothing is missing"])
