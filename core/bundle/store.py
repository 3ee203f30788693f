"""Files by their SHA-256 in a local folder: what was fetched once is there for the next start.

A file appears under its sum whole or not at all, and is checked again by
whoever reads it. Several processes may use one folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_PARTIAL = re.compile(r"^\.partial-(\d+)-\d+$")
_numbers = itertools.count()


class ObjectStore:
    """A folder of checked files. Created when it does not exist, for this user alone.

    Raises:
        OSError: it cannot be created, belongs to somebody else, or others may write to it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # In a shared /tmp somebody else could have laid a model there for us.
        state = folder.lstat()
        if not stat.S_ISDIR(state.st_mode):
            raise PermissionError(f"{folder} is a link")  # to where another user may write
        if state.st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to another user")
        if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"other users may write to {folder}")
        self._sweep()

    def path(self, digest: str) -> Path:
        """Where the file of that sum is, or would be."""
        return self._folder / digest

    def has(self, digest: str, size: int) -> bool:
        """Whether a file of that sum and size is there. Its bytes are for the reader to check."""
        try:
            return self.path(digest).stat().st_size == size
        except OSError:
            return False

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """A file that becomes ``name`` when the block ends without an error, and never exists otherwise."""
        partial = self._folder / f".partial-{os.getpid()}-{next(_numbers)}"
        try:
            with partial.open("xb") as file:
                yield file
            partial.replace(self._folder / name)
        finally:
            partial.unlink(missing_ok=True)

    def discard(self, name: str) -> None:
        """Forget a file that turned out to be wrong."""
        with contextlib.suppress(OSError):
            self.path(name).unlink(missing_ok=True)

    def free_bytes(self) -> int:
        """Space left for files."""
        state = os.statvfs(self._folder)
        return state.f_bavail * state.f_frsize

    def _sweep(self) -> None:
        """Remove what a process left behind that was ended while it wrote."""
        for path in self._folder.iterdir():
            found = _PARTIAL.match(path.name)
            if found and int(found[1]) != os.getpid() and not _is_running(int(found[1])):
                path.unlink(missing_ok=True)


def pointer_name(address: str) -> str:
    """The name of the file that remembers what is at an address."""
    return f"at-{hashlib.sha256(address.encode()).hexdigest()}"


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
