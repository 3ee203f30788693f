"""Validation errors of request bodies in the form of vLLM 0.33.0's answers.

vLLM validates bodies through FastAPI and writes one line for each fault, with
the field's name freed of what pydantic calls the branches of a union. The
answer's size is bounded whatever the request's.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core.core_schema import CoreSchemaType

from core.errors import SchemaError

BODY = "body"
_MAX_ERRORS = 10
# pydantic has no way to ask for the first few: collecting millions would take longer than validating did.
MAX_COLLECTED = 5000
_MAX_INPUT = 200
_MAX_LINE = 1000
_CUT = "...[truncated]"
_BRACKETS = frozenset("[](){}")


def schema_error(exc: ValidationError, place: str = BODY) -> SchemaError:
    """The answer to a body that does not validate; ``param`` is its first faulty field.

    ``place`` is where in the body the value stands that was validated.
    """
    count = exc.error_count()
    if count > MAX_COLLECTED:
        return SchemaError(f"{count} validation errors: too many to list", place)
    found = exc.errors(include_url=False)
    lines = [_line(error, place) for error in found[:_MAX_ERRORS]]
    label = "error" if count == 1 else "errors"
    if count > _MAX_ERRORS:
        lines.append(f"...and {count - _MAX_ERRORS} more {label}")
    text = "".join(f"\n  {line}" for line in lines)
    return SchemaError(f"{count} validation {label}:{text}", _place(place, found[0]["loc"]))


def body_error(kind: str, message: str, shown: str, place: int | None = None, reason: str | None = None) -> SchemaError:
    """The answer to a body that is not a JSON object; ``shown`` stands for the body."""
    where = BODY if place is None else f"{BODY}.{place}"
    error: dict[str, Any] = {"type": kind, "loc": where, "msg": message, "input": shown}
    if reason is not None:
        error["ctx"] = {"error": reason}
    return SchemaError(f"1 validation error:\n  {error}", where)


def missing_body() -> SchemaError:
    """The answer to a call without a body."""
    return body_error("missing", "Field required", shown_input(None))


def shown_input(value: Any) -> Any:
    """A value as an error shows it: texts cut, containers by their size."""
    if isinstance(value, list | tuple | dict | set | frozenset):
        return f"<{type(value).__name__} of {len(value)} items>"
    try:
        text = value if isinstance(value, str) else str(value)
    except ValueError:  # an integer with too many digits
        return f"<{type(value).__name__}>"
    return text if len(text) <= _MAX_INPUT else text[:_MAX_INPUT] + _CUT


def _line(error: Any, place: str) -> str:
    text = str({**error, "loc": _place(place, error["loc"]), "input": shown_input(error["input"])})
    return text if len(text) <= _MAX_LINE else text[:_MAX_LINE] + _CUT


def _place(place: str, location: Iterable[int | str]) -> str:
    parts = [str(part) for part in location]
    return ".".join([place, *(p for p in parts if p.lower() not in _branches() and _BRACKETS.isdisjoint(p))])


@cache
def _branches() -> frozenset[str]:
    """The parts of a location that name a branch of a union: Python's types and pydantic's compound schemas."""
    kinds = get_args(CoreSchemaType)
    return frozenset(
        {"str", "int", "float", "bool", "bytes", "bytearray", "complex"}
        | {"list", "tuple", "dict", "set", "frozenset", "none", "nonetype"}
        | {"chain", "default", "nullable", "union", "call", "arguments", "callable"}
        | {kind for kind in kinds if kind.startswith("function-") or "-or-" in kind or "is-" in kind}
    )
