"""Writing answers that hold megabytes of features: in pieces that are never put together, compressed where accepted."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from core.errors import PayloadTooLarge
from core.images.reader import too_large
from core.images.tensors import EncodedItem
from core.json import Json
from core.protocol.json_text import json_bytes
from handlers.responses import json_response

# Below it compressing is not worth a caller's while.
_LEAST_COMPRESSED = 64 * 1024
# The fastest: features are base64 of pixels, which higher levels make little smaller.
_LEVEL = 1


class PiecesResponse(Response):
    """A JSON response whose body is sent piece by piece, with its length."""

    def __init__(self, pieces: list[bytes], headers: dict[str, str]) -> None:
        super().__init__(media_type="application/json", headers=headers)
        self._pieces = pieces
        self.headers["content-length"] = str(sum(map(len, pieces)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for index, piece in enumerate(self._pieces):
            last = index + 1 == len(self._pieces)
            await send({"type": "http.response.body", "body": piece, "more_body": not last})


def accepts_gzip(request: Request) -> bool:
    """Whether the caller takes gzip."""
    for entry in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, quality = entry.partition(";")
        if coding.strip() == "gzip":
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def image_response(answer: Json | list[Json], gzip: bool, limit: int | None) -> Response:
    """A render's answer; ``limit`` is what a Lambda function may return, None where there is none.

    Raises:
        PayloadTooLarge: it is more than that; names what can be asked for instead.
    """
    features = None if isinstance(answer, list) else answer.get("features")
    if isinstance(answer, list) or not features or features["kwargs_data"] is None:
        return json_response(answer)
    pieces = list(_pieces(answer))
    size = sum(map(len, pieces))
    if not gzip or size < _LEAST_COMPRESSED:
        if limit is not None and size > limit:
            raise PayloadTooLarge(too_large(size, limit))
        return PiecesResponse(pieces, {"vary": "accept-encoding"})
    packed = list(_compressed(pieces))
    packed_size = sum(map(len, packed))
    # A binary body passes a gateway as base64.
    if limit is not None and (packed_size + 2) // 3 * 4 > limit:
        raise PayloadTooLarge(too_large(size, limit))
    return PiecesResponse(packed, {"content-encoding": "gzip", "vary": "accept-encoding"})


def _pieces(answer: Json) -> Iterator[bytes]:
    """The answer's JSON, its encoded items as they are."""
    mark = secrets.token_hex(16)
    items: list[EncodedItem] = []
    parts = json_bytes(_marked(answer, mark, items)).split(mark.encode())
    for index, part in enumerate(parts):
        yield part
        if index < len(items):
            yield from items[index].pieces


def _marked(value: Any, mark: str, items: list[EncodedItem]) -> Any:
    """The features of an answer with a mark in the place of each item; the rest is as it was."""
    if isinstance(value, EncodedItem):
        items.append(value)
        return mark
    if isinstance(value, dict):
        return {
            key: _marked(item, mark, items) if key in _HOLDERS or isinstance(item, list | EncodedItem) else item
            for key, item in value.items()
        }
    if isinstance(value, list) and any(isinstance(item, EncodedItem) for item in value):
        return [_marked(item, mark, items) for item in value]
    return value


_HOLDERS = frozenset(("features", "kwargs_data", "mm_metadata"))


def _compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, wbits=31)
    for piece in pieces:
        packed = packer.compress(piece)
        if packed:
            yield packed
    yield packer.flush()
