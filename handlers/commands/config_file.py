"""``--config FILE``: flags of ``serve`` from a YAML file, as vLLM reads them.

A key is the name of a flag, with dashes or underscores. What is given on the command line wins.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from core.errors import ConfigurationError

FLAG = "--config"
_MOST_BYTES = 1_000_000


def with_config_file(arguments: Sequence[str], flags: frozenset[str], lists: frozenset[str]) -> list[str]:
    """The arguments of ``serve`` with those of its configuration file before them.

    ``flags`` take no value, ``lists`` take several. The key ``model`` is the positional argument, where there is none.

    Raises:
        ConfigurationError: the file cannot be read, or holds what is no flag's value.
    """
    place = next((place for place, one in enumerate(arguments) if one.partition("=")[0] == FLAG), None)
    if place is None:
        return list(arguments)
    _, given, path = arguments[place].partition("=")
    taken = 1
    if not given:
        if place + 1 == len(arguments):
            raise ConfigurationError(f"{FLAG} needs the path of a YAML file")
        path, taken = arguments[place + 1], 2
    rest = [*arguments[:place], *arguments[place + taken :]]
    read = _read(Path(path))
    model = read.pop("model", None)
    before: list[str] = []
    for key, value in read.items():
        before += _flag(path, key.replace("_", "-"), value, flags, lists)
    first = [str(model)] if model is not None and (not rest or rest[0].startswith("-")) else rest[:1]
    return [*first, *before, *(rest if first and first != rest[:1] else rest[len(first) :])]


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise ConfigurationError(f"{FLAG} {path}: it has more than {_MOST_BYTES} bytes")
        read = yaml.safe_load(text)
    except OSError as exc:
        raise ConfigurationError(f"{FLAG} {path}: {exc.strerror}") from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise ConfigurationError(f"{FLAG} {path}: it is no YAML: {' '.join(str(exc).split())[:300]}") from exc
    if read is None:
        return {}
    if not isinstance(read, dict) or not all(isinstance(key, str) for key in read):
        raise ConfigurationError(f"{FLAG} {path}: it must hold names of flags with their values")
    return read


def _flag(path: str, name: str, value: Any, flags: frozenset[str], lists: frozenset[str]) -> list[str]:
    if value is None:
        return []
    flag = f"--{name}"
    if flag in flags:
        if not isinstance(value, bool):
            raise ConfigurationError(f"--config {path}: {name} must be true or false, not {value!r}")
        return [flag] if value else []
    if isinstance(value, list) and flag in lists:
        return [flag, *map(str, value)]
    if isinstance(value, bool):
        raise ConfigurationError(f"--config {path}: {name} takes a value, not {str(value).lower()}")
    # With a sign of equality, so that a value may begin with a dash.
    return [f"{flag}={json.dumps(value) if isinstance(value, dict | list) else value}"]
