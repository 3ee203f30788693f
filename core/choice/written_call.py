"""Calls as models write them, read without a parser: an object with the name in it, or a name and then an object.

No family's grammar is known here. What is known are the tools that were
offered, and that a call is one of them with an object of arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from core.choice.markers import has_markup, without_markup
from core.choice.written_object import ObjectEnd, read_object

_NAMES = ("name", "tool_name", "function_name", "function")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "kwargs")
# What may stand between a name and its arguments, apart from markup: `name:0`, ```json, an opening bracket.
_GAP = re.compile(r"[\s:.,`'\"=(\[\d>_-]*(?:json)?[\s`:]*")
_ATTRIBUTE = re.compile(r"\w=")
_LONGEST_LIST = 64 * 1024
_PYTHON = re.compile(r"\[\s*[A-Za-z_]\w*\(")
_LETTER = re.compile(r"[^\W\d_]")

Tools = Mapping[str, Any]
"""The schema of the parameters of each tool that was offered, by its name."""


class Call(NamedTuple):
    """A call; ``arguments`` is an object."""

    name: str
    arguments: dict[str, Any]


def named_call(value: Mapping[str, Any], tools: Tools) -> Call | None:
    """The call that an object with the name in it is; None for any other object."""
    if len(value) == 1:
        ((only, inner),) = value.items()
        if only in tools and isinstance(inner, dict):
            return Call(only, inner)
    inner = value.get("function")
    if isinstance(inner, dict):
        value = inner
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    if name is None:
        return None
    found: Any = next((value[key] for key in _ARGUMENTS if key in value), {})
    if isinstance(found, str):
        found = read_object(found)
    return Call(name, found) if isinstance(found, dict) else None


def offered(name: str, tools: Tools) -> str | None:
    """The tool that a name means: itself, or the one that it begins with, where what follows belongs to no name."""
    if name in tools:
        return name
    begun = [tool for tool in tools if name.startswith(tool) and not _LETTER.match(name[len(tool)]) and tool]
    best = max(begun, key=len, default=None)
    return None if best is None or name[len(best)] in "_-" else best


def begins_arguments(text: str, name: str) -> bool:
    """Whether an object that stands after ``text`` is the arguments of the call of ``name``, or the call itself."""
    place = text.rfind(name)
    if place < 0:
        return not _LETTER.search(without_markup(text).replace("json", "").replace("function", ""))
    gap = text[place + len(name) :]
    return not _ATTRIBUTE.search(gap) and _GAP.fullmatch(without_markup(gap)) is not None


def read_calls(text: str, tools: Tools, *, cut: bool = False) -> list[Call]:
    """The calls in a text of which no parser made any; all of its objects are calls, or there are none.

    The last object of a text that was ``cut`` may be without its end; it is none.
    """
    if len(text) < _LONGEST_LIST and _PYTHON.match(plain := without_markup(text).strip()):
        return _python_calls(plain, tools)
    calls: list[Call] = []
    place, marked = 0, has_markup(text)
    while (start := text.find("{", place)) >= 0:
        end = ObjectEnd(start)
        end.feed(text[start:])
        if end.end is None:
            return calls if cut else []
        value = read_object(text[start : end.end])
        call = None if value is None else _call_of(value, text[place:start], tools, marked)
        if call is None:
            return []
        calls.append(call)
        place = end.end
    return calls


def _python_calls(text: str, tools: Tools) -> list[Call]:
    """The calls in a list of Python's: ``[name(key=value), ...]``."""
    import ast  # late: few models write so

    calls = []
    try:
        for node in ast.parse(text, mode="eval").body.elts:  # type: ignore[attr-defined]
            if node.args or node.func.id not in tools:
                return []
            values = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords}
            calls.append(Call(node.func.id, values))
        json.dumps([call.arguments for call in calls])
    except (SyntaxError, ValueError, TypeError, AttributeError, RecursionError, MemoryError):
        return []
    return calls


def _call_of(value: dict[str, Any], before: str, tools: Tools, marked: bool) -> Call | None:
    named = named_call(value, tools)
    if named is not None:
        name = offered(named.name, tools)
        return None if name is None else Call(name, named.arguments)
    if not marked or _ATTRIBUTE.search(before):
        return None
    within = [tool for tool in tools if tool in before]
    if within:
        name = max(within, key=len)
        return Call(name, value) if begins_arguments(before, name) else None
    fitting = [tool for tool, schema in tools.items() if _fits(value, schema)]
    return Call(fitting[0], value) if len(fitting) == 1 else None


def _fits(value: Mapping[str, Any], schema: Any) -> bool:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not value:
        return False
    required = schema.get("required")
    wanted = required if isinstance(required, list) else ()
    return set(value) <= set(properties) and all(key in value for key in wanted)


def settled(parsed: Any, written: Any, schema: Any) -> Any:
    """A value that a parser made of what was ``written``: of its type there, where no schema asks for another."""
    known = schema if isinstance(schema, Mapping) else {}
    if isinstance(parsed, dict) and isinstance(written, dict):
        if set(parsed) != set(written):
            return written
        properties = known.get("properties")
        below = properties if isinstance(properties, Mapping) else {}
        return {key: settled(value, written[key], below.get(key)) for key, value in parsed.items()}
    if isinstance(parsed, list) and isinstance(written, list) and len(parsed) == len(written):
        return [settled(left, right, known.get("items")) for left, right in zip(parsed, written, strict=True)]
    if not isinstance(parsed, str):
        return written if isinstance(written, dict | list) else parsed
    types = known.get("type")
    texts = types is None if isinstance(written, str) else "anyOf" in known
    if texts or types == "string" or (isinstance(types, list) and "string" in types):
        return written if isinstance(written, str) else parsed
    return _value(written) if isinstance(written, str) else written


def _value(text: str) -> Any:
    """The JSON value that a text is, or the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def as_text(arguments: Mapping[str, Any]) -> str:
    """Arguments as the text of a JSON object."""
    return json.dumps(arguments, ensure_ascii=False)
