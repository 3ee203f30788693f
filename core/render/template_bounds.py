"""What a client's chat template may build, in one operation and in all.

A step limit bounds what a template does, not what one operation makes:
``'%999999999d' % 1`` is no step at all, and a text that is doubled thirty
times is thirty. Here every operator, filter, call and output of jinja2's that
makes texts, lists or numbers is bounded by the size of what goes in, before
anything is built. Sizes count characters, and sixteen for the place of each
thing in a list or mapping, as often as it stands there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any

from jinja2 import Environment, TemplateRuntimeError
from jinja2.runtime import Context
from markupsafe import Markup

# Of one value, and of all that one rendering makes: the longest context in characters, several times.
MAX_SIZE = 16 * 1024 * 1024
MAX_TOTAL = 4 * MAX_SIZE
_PLACE = 16
_MAX_BITS = 4096
_MAX_PATTERN = 200
# A width or precision of five digits or more, or one that is given by another argument.
_WIDE_PERCENT = re.compile(r"%[^a-zA-Z%]*?(\d{5,}|\*)")
_WIDE_BRACES = re.compile(r"\d{5,}|:[^{}]*\{")
_WIDE_TIME = re.compile(r"%[^a-zA-Z%]*\d")
# These hand on what they are given, or count it.
_PASSING = frozenset(
    "abs attr count d default dictsort first float groupby int items last length list map max min random reject "  # noqa: SIM905
    "rejectattr reverse round safe select selectattr sort unique".split()
)
_OPERATORS = frozenset(("+", "*", "%", "**"))
_TOO_LARGE = "The chat template builds something too large"


class Sizes:
    """The sizes of one rendering."""

    def __init__(self) -> None:
        self._left = MAX_TOTAL

    def bounded(self, size: float) -> None:
        """Refuse what would be of ``size``.

        Raises:
            TemplateRuntimeError: no value may be so large.
        """
        if size > MAX_SIZE:
            raise TemplateRuntimeError(_TOO_LARGE)

    def made(self, value: Any) -> Any:
        """``value``, which was made; it counts to what the rendering makes in all.

        Raises:
            TemplateRuntimeError: that is too much.
        """
        self._left -= self.of(value)
        if self._left < 0:
            raise TemplateRuntimeError(_TOO_LARGE)
        return value

    def of(self, *values: Any) -> int:
        """The size of values together.

        Raises:
            TemplateRuntimeError: it is more than any may have.
        """
        return self.shape(*values)[0]

    def shape(self, *values: Any) -> tuple[int, int]:
        """The size of values together, and how deep they are.

        Raises:
            TemplateRuntimeError: the size is more than any may have.
        """
        size, deepest = 0, 1
        level: list[Any] = list(values)
        while level:
            below: list[Any] = []
            for value in level:
                if isinstance(value, str | bytes):
                    size += len(value)
                elif isinstance(value, int):
                    size += 1 + value.bit_length() // 3
                elif isinstance(value, Mapping):
                    size += 2 * _PLACE * len(value)
                    below += value.keys()
                    below += value.values()
                elif isinstance(value, list | tuple | set | frozenset):
                    size += _PLACE * len(value)
                    below += value
                else:
                    size += _PLACE
                if size > MAX_SIZE:
                    raise TemplateRuntimeError(_TOO_LARGE)
            level, deepest = below, deepest + bool(below)
        return size, deepest


def bound(environment: Environment) -> None:
    """Bound all that the templates of ``environment`` make; it is changed, and serves one rendering."""
    sizes = Sizes()
    limited: Any = environment
    limited.globals = {name: value for name, value in environment.globals.items() if name != "lipsum"}
    if "strftime_now" in limited.globals:
        limited.globals["strftime_now"] = _bounded_time(limited.globals["strftime_now"])
    limited.filters = {
        name: function if name in _PASSING else _bounded_filter(name, function, sizes)
        for name, function in environment.filters.items()
    }
    binary, call = limited.call_binop, limited.call

    def operator(context: Context, name: str, left: Any, right: Any) -> Any:
        _bound_operator(name, left, right, sizes)
        return sizes.made(binary(context, name, left, right))

    def called(context: Context, function: Any, *arguments: Any, **named: Any) -> Any:
        owner = getattr(getattr(function, "__wrapped__", function), "__self__", None)
        if isinstance(owner, str | bytes | int):
            _bound_method(function.__name__, owner, arguments, named, sizes)
        return sizes.made(call(context, function, *arguments, **named))

    def joined(parts: Iterable[str]) -> str:
        kept, size = [], 0
        for part in parts:
            size += len(part)
            sizes.bounded(size)
            kept.append(part)
        text: str = sizes.made("".join(kept))
        return text

    def shown(value: Any) -> Any:
        if not isinstance(value, str):
            sizes.of(value)
        return value

    limited.intercepted_binops = _OPERATORS
    limited.call_binop = operator
    limited.call = called
    limited.concat = joined
    limited.finalize = shown


def join_values(environment: Environment, values: Iterable[Any]) -> str:
    """The operator ``~``, bounded as its environment says."""
    shown: Any = environment.finalize
    parts = [value if isinstance(value, str) else str(shown(value)) for value in values]
    text = environment.concat(iter(parts))
    return Markup(text) if any(isinstance(part, Markup) for part in parts) else text


def _bound_operator(name: str, left: Any, right: Any, sizes: Sizes) -> None:
    if name == "**":
        if isinstance(left, int) and isinstance(right, int):
            sizes.bounded(0 if max(left.bit_length(), 1) * abs(right) <= _MAX_BITS else MAX_SIZE + 1)
    elif name == "%":
        if isinstance(left, str | bytes):
            _bound_percent(left, right, sizes)
    elif name == "*":
        if isinstance(left, int) and isinstance(right, int):
            sizes.bounded(0 if left.bit_length() + right.bit_length() <= _MAX_BITS else MAX_SIZE + 1)
        elif isinstance(left, int) or isinstance(right, int):
            number, value = (left, right) if isinstance(left, int) else (right, left)
            sizes.bounded(sizes.of(value) * max(number, 0))
    elif not isinstance(left, int | float):
        sizes.of(left, right)


def _bound_percent(pattern: Any, values: Any, sizes: Sizes) -> None:
    text = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
    if _WIDE_PERCENT.search(text):
        raise TemplateRuntimeError(_TOO_LARGE)
    # Beside what the values are, a width of four digits at most.
    sizes.bounded(len(text) + text.count("%") * (sizes.of(values) * 10 + 10_000))


def _bound_method(name: str, owner: Any, arguments: tuple[Any, ...], named: Mapping[str, Any], sizes: Sizes) -> None:
    given = [*arguments, *named.values()]
    if name in ("center", "ljust", "rjust", "zfill", "to_bytes", "expandtabs"):
        number = max([8, *(value for value in given if isinstance(value, int))])
        sizes.bounded(number * (len(owner) if name == "expandtabs" else 1))
    elif name in ("format", "format_map"):
        if _WIDE_BRACES.search(str(owner)):
            raise TemplateRuntimeError(_TOO_LARGE)
        sizes.bounded(len(owner) + str(owner).count("{") * (sizes.of(*given) * 10 + 10_000))
    elif name == "replace" and len(given) > 1:
        _bound_replace(owner, given[0], given[1], sizes)
    elif name == "join":
        if any(not isinstance(value, str | list | tuple | Mapping) for value in given):
            raise TemplateRuntimeError("The chat template joins something that is no list")
        sizes.bounded(sum(sizes.of(value) + len(owner) * len(value) for value in given))
    elif name == "translate":
        sizes.bounded(len(owner) * sizes.of(*given))


def _bound_replace(text: Any, old: Any, new: Any, sizes: Sizes) -> None:
    if isinstance(text, str | bytes) and isinstance(new, type(text) | str):
        sizes.bounded(len(text) + (len(text) // max(len(old), 1) + 1) * len(new) if hasattr(old, "__len__") else 0)


def _bounded_filter(name: str, function: Callable[..., Any], sizes: Sizes) -> Callable[..., Any]:
    """The filter, which looks at its arguments first."""
    passes = int(getattr(function, "jinja_pass_arg", None) is not None)

    @wraps(function)
    def bounded(*arguments: Any, **named: Any) -> Any:
        value, *given = arguments[passes:]
        _bound_filter(name, value, [*given, *named.values()], sizes)
        return sizes.made(function(*arguments, **named))

    return bounded


def _bound_filter(name: str, value: Any, given: list[Any], sizes: Sizes) -> None:
    size, depth = sizes.shape(value)
    more = sum(value if isinstance(value, int) else sizes.of(value) for value in given if not isinstance(value, bool))
    if name in ("batch", "slice"):
        sizes.bounded(more * _PLACE)
    elif name == "format":
        _bound_percent(str(value), given, sizes)
    elif name == "replace" and len(given) > 1:
        _bound_replace(str(value), given[0], given[1], sizes)
    elif name in ("indent", "wordwrap", "join", "urlize"):
        # At worst what is given stands before each character, or between each two things.
        places = str(value).count("\n") + 1 if name == "indent" else size
        sizes.bounded(size + places * more)
    elif name in ("tojson", "pprint"):
        # Lines are indented by how deep they are.
        sizes.bounded(size * (1 + depth * more if name == "tojson" else depth))
    else:
        sizes.bounded(size + more)


def _bounded_time(function: Callable[[str], str]) -> Callable[[str], str]:
    @wraps(function)
    def bounded(pattern: str) -> str:
        if len(pattern) > _MAX_PATTERN or _WIDE_TIME.search(pattern):
            raise TemplateRuntimeError(_TOO_LARGE)
        return function(pattern)

    return bounded
