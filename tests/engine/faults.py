"""Faults that a script may ask for: what tests of a client of an engine need an engine to do wrong.

A rule's `fault` is `{"kind": KIND, "after": TOKENS, ...}`; tokens are counted over all choices.  Kinds:

- `slow`: waits `seconds` once, and then goes on
- `break`: the connection breaks off
- `cut`: the stream ends, but not as it should
- `error`: the engine's own error event, with `status`
- `wrong`: `text` in place of a chunk
- `endless`: never stops, whatever the request says
- `status`: no stream at all, but an answer with `status`
"""

from dataclasses import dataclass, fields
from typing import Any

from tests.engine.errors import EngineError

KINDS = ("slow", "break", "cut", "error", "wrong", "endless", "status")


class ConnectionBroken(Exception):
    """Raised in the middle of an answer: the server then drops the connection."""


@dataclass(frozen=True)
class Fault:
    """One fault.  Raises ValueError where it is not one."""

    kind: str
    after: int = 0
    seconds: float = 1.0
    status: int = 500
    text: str = "not json"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a fault's kind must be one of {', '.join(KINDS)}, not {self.kind!r}")

    def error(self) -> EngineError:
        """The answer of an engine that failed."""
        return EngineError("the script says that this fails", None, self.status, "InternalServerError")


def read_fault(source: Any) -> Fault | None:
    """The fault of a rule.  Raises ValueError where it is not one."""
    if source is None:
        return None
    known = {field.name for field in fields(Fault)}
    if not isinstance(source, dict) or "kind" not in source or set(source) - known:
        raise ValueError(f"a fault is an object with kind and of {', '.join(sorted(known))}")
    return Fault(**source)
