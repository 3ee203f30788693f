"""The values of settings, read from text. What is none is a ConfigurationError that names the setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from core.errors import ConfigurationError

Reader = Callable[[str, str], Any]
"""(a setting's name, its text) -> its value"""


def values_of(
    environ: Mapping[str, str], prefix: str, names: Iterable[str], readers: Mapping[str, Reader]
) -> dict[str, Any]:
    """The values of the settings ``names`` that are set, as their ``readers`` read them; without a reader the text."""
    values: dict[str, Any] = {}
    for name in names:
        variable = prefix + name.upper()
        text = environ.get(variable)
        if text:
            values[name] = readers[name](variable, text) if name in readers else text
    return values


def names_of(name: str, text: str) -> tuple[str, ...]:
    """Names with spaces or commas between them, or a JSON list of strings, as vLLM wants it."""
    if text.lstrip().startswith("["):
        return _listed(name, text)
    names = tuple(part for part in text.replace(",", " ").split() if part)
    if not names:
        raise ConfigurationError(f"{name} must hold at least one name")
    return names


def _listed(name: str, text: str) -> tuple[str, ...]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ConfigurationError(f"{name} must be a JSON list of strings, not {text[:60]!r}")
    return tuple(found)


def flag_of(name: str, text: str) -> bool:
    """Whether it is true."""
    value = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}.get(text.strip().lower())
    if value is None:
        raise ConfigurationError(f"{name} must be true or false, not {text!r}")
    return value


def number_of(name: str, text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"{name} must be a whole number, not {text!r}") from None


def seconds_of(name: str, text: str) -> float:
    """A number of seconds."""
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"{name} must be a number of seconds, not {text!r}") from None


def json_object_of(name: str, text: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        raise ConfigurationError(f"{name} must be a JSON object: {exc}") from None
    if not isinstance(value, dict):
        raise ConfigurationError(f"{name} must be a JSON object, not {text[:60]!r}")
    return value
