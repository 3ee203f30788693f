"""What the processes of these tests do: functions that a job can name."""

from __future__ import annotations

import os
import re
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

from core.errors import InvalidState
from handlers.work.frames import apart
from handlers.work.tasks import Here


def pid(here: Here) -> int:
    return os.getpid()


def echo(here: Here, value: Any) -> Any:
    return value


def digest(here: Here, data: bytes) -> str:
    return sha256(data).hexdigest()


def large(here: Here, size: int) -> Any:
    return apart(b"x" * size)


def model(here: Here) -> Any:
    return here.model()


def wait_for(here: Here, begun: Path, path: Path) -> int:
    """Say that it has begun, then wait for a file."""
    begun.write_text(str(os.getpid()))
    while not path.exists():
        time.sleep(0.01)
    return os.getpid()


def burn(here: Here) -> None:
    while True:
        pass


def burn_in_c(here: Here) -> None:
    """Never comes back to the interpreter: no code of ours could look at a clock."""
    re.match(r"(a*)*b", "a" * 200)


def end(here: Here, once: Path | None = None) -> int:
    """End the process; with ``once`` only where that is not there yet."""
    if once is None or not once.exists():
        if once is not None:
            once.touch()
        os._exit(9)
    return os.getpid()


def refuse(here: Here) -> None:
    raise InvalidState("made up", "stream_state.field")


def fail(here: Here) -> None:
    raise KeyError("a secret of the request")


def unpicklable(here: Here) -> Any:
    return lambda: None


def grow(here: Here, size: int) -> int:
    _kept.append(b"x" * size)
    return os.getpid()


_kept: list[bytes] = []


def uses_fast_encoder(here: Here) -> bool:
    """Whether the process encodes by the fast encoder."""
    return here.model().tokenizer._fast_ids("a") is not None  # type: ignore[attr-defined]
