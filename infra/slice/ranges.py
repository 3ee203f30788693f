"""A file on a server, of which only the parts that are read are fetched, and those once.

The parts are kept beside each other in a file of the same size, with holes. Whether the bytes are the right ones is
for the reader to know: a wheel's RECORD says it of every file in it.
"""

from __future__ import annotations

import io
import os
import ssl
from pathlib import Path

import httpx

from infra.slice.errors import SourceError

BLOCK = 1 << 16


class NoRanges(Exception):
    """The server gives the whole file only."""


class RangedFile(io.RawIOBase):
    """Reads the file at `url`, by way of `path`, a file that keeps what was fetched, and `path` + `.have`.

    Raises NoRanges when the server has no ranges, SourceError when it does not answer.
    """

    def __init__(self, url: str, path: Path) -> None:
        super().__init__()
        self._url = url
        # The system's certificates, as pip and curl use them.
        self._client = httpx.Client(follow_redirects=True, timeout=120, verify=ssl.create_default_context())
        self._have = path.with_name(path.name + ".have")
        self._data = path
        self.fetched = 0
        """Bytes that came from the server."""
        self._position = 0
        if not (self._have.is_file() and path.is_file()):
            self._begin()
        self.size = path.stat().st_size

    def _begin(self) -> None:
        """Learn the file's size, and make room for it. The last block is wanted in any case."""
        answer = self._get(f"bytes=-{BLOCK}")
        whole = answer.headers.get("content-range", "").rpartition("/")[2]
        if not whole.isdigit():
            raise NoRanges(self._url)
        self._data.parent.mkdir(parents=True, exist_ok=True)
        for path, size in ((self._data, int(whole)), (self._have, -(-int(whole) // BLOCK))):
            with path.open("wb") as file:
                file.truncate(size)

    def _get(self, ranges: str) -> httpx.Response:
        try:
            answer = self._client.get(self._url, headers={"Range": ranges, "Accept-Encoding": "identity"})
        except httpx.HTTPError as error:
            raise SourceError(f"{self._url}: {error}") from error
        if answer.status_code == httpx.codes.OK:
            raise NoRanges(self._url)
        if answer.status_code != httpx.codes.PARTIAL_CONTENT:
            raise SourceError(f"{self._url}: status {answer.status_code}")
        self.fetched += len(answer.content)
        return answer

    def _ensure(self, start: int, end: int) -> None:
        """Have the bytes from `start` to before `end`: blocks that are missing come in one request a gap."""
        first, last = start // BLOCK, -(-end // BLOCK)
        with self._have.open("r+b") as have, self._data.open("r+b") as data:
            have.seek(first)
            known = have.read(last - first)
            missing = [first + index for index, flag in enumerate(known) if not flag]
            while missing:
                length = next((n for n, block in enumerate(missing) if block != missing[0] + n), len(missing))
                low, high = missing[0] * BLOCK, min((missing[0] + length) * BLOCK, self.size)
                content = self._get(f"bytes={low}-{high - 1}").content
                if len(content) != high - low:
                    raise SourceError(f"{self._url}: {len(content)} bytes for a range of {high - low}")
                data.seek(low)
                data.write(content)
                data.flush()
                have.seek(missing[0])
                have.write(b"\1" * length)
                have.flush()
                missing = missing[length:]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self.size if size < 0 else min(self._position + size, self.size)
        if end <= self._position:
            return b""
        self._ensure(self._position, end)
        with self._data.open("rb") as file:
            file.seek(self._position)
            found = file.read(end - self._position)
        self._position = end
        return found

    def close(self) -> None:
        self._client.close()
        super().close()
