"""Reading a request's body: media type, size and compression are checked before anything is parsed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from typing import NoReturn

from starlette.requests import ClientDisconnect, Request

from core.errors import BadRequest, PayloadTooLarge, SchemaError
from core.protocol.density import check_density

_WRONG_TYPE = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The JSON text of a request, decompressed.

    Raises:
        RequestError: as :func:`receive_body` and :func:`unpack_body` do.
    """
    return unpack_body(await receive_body(request, max_bytes), request.headers, max_bytes)


async def receive_body(request: Request, max_bytes: int, took: Callable[[int], None] = lambda size: None) -> bytes:
    """The body of a request as it came; ``took`` is told of every part, in bytes.

    Raises:
        SchemaError: the media type is not JSON.
        PayloadTooLarge: it is larger than ``max_bytes``.
        BadRequest: the client did not send all of it.
        RequestError: what ``took`` raises.
    """
    if request.headers.get("content-type", "").lower().split(";", 1)[0].strip() != "application/json":
        raise SchemaError(_WRONG_TYPE)
    if "transfer-encoding" in request.headers and "content-length" in request.headers:
        # Where two servers disagree about a body's end, the rest of it is somebody's next request.
        raise BadRequest("a request has a Content-Length or a Transfer-Encoding, not both")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes:
        raise _too_large(max_bytes)
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            took(len(part))
            if size > max_bytes:
                raise _too_large(max_bytes)
            parts.append(part)
    except ClientDisconnect:
        raise BadRequest("the client went away before the body was complete") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def unpack_body(body: bytes, headers: Mapping[str, str], max_bytes: int) -> bytes:
    """The JSON text in a body.

    Raises:
        PayloadTooLarge: it expands to more than ``max_bytes``.
        BadRequest: it is compressed in a way that is not understood, damaged, or no JSON that can be answered.
    """
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("gzip", "x-gzip"):
        body = _gunzip(body, max_bytes)
    elif encoding not in ("identity", ""):
        raise BadRequest(f"Content-Encoding {encoding[:40]!r} is not supported; send gzip or nothing")
    body = _as_utf8(body)
    check_density(body)
    _refuse_non_finite(body)
    return body


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the request body is larger than {max_bytes} bytes")


def _gunzip(body: bytes, max_bytes: int) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    try:
        text = inflater.decompress(body, max_bytes + 1)
    except zlib.error as exc:
        raise BadRequest(f"the gzip body is damaged: {exc}") from None
    if len(text) > max_bytes or inflater.unconsumed_tail:
        raise _too_large(max_bytes)
    if not inflater.eof or inflater.unused_data:
        raise BadRequest("the gzip body is damaged: it is cut short, or more than one stream")
    return text


def _as_utf8(body: bytes) -> bytes:
    """A body in UTF-8 without a mark: the standard library's reader, which is vLLM's, takes other encodings, too.

    What is in none of them stays as it is, for the real reading to refuse.
    """
    if body[:1] == b"{" and body[1:2] != b"\0":
        return body
    encoding = json.detect_encoding(body)
    if encoding == "utf-8":
        return body
    try:
        return body.decode(encoding).encode("utf-8")
    except UnicodeError:
        return body


def _refuse_non_finite(body: bytes) -> None:
    """Refuse the NaN and Infinity that some encoders write: no JSON answer could repeat them."""
    if b"NaN" not in body and b"Infinity" not in body:
        return

    def refuse(name: str) -> NoReturn:
        raise BadRequest("Out of range float values are not JSON compliant")

    try:
        # The words may stand inside a string, where they are just text: only a parser can tell.
        json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError):
        return  # not JSON, or too deep: the real validation says so
