"""Tensors on the wire: one item of ``kwargs_data``, base64 of the msgpack that vLLM's engine reads.

Source: ``vllm/v1/serial_utils.py`` and ``entrypoints/scale_out/token_in_token_out/mm_serde.py`` of vLLM 0.33.0.
Names, shapes and raw little-endian bytes; torch has no part in it.

The bytes of a tensor may be made while they are written: an image's pixels are
never there as a tensor, as msgpack and as base64 at once.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

_RAW_VIEW = 3  # vLLM's msgpack extension for the bytes of a tensor
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True)
class Tensor:
    """``dtype`` is torch's name of it; ``parts`` are the raw bytes, in order, and may be read once only."""

    dtype: str
    shape: tuple[int, ...]
    parts: Iterable[NDArray[Any]]


@dataclass(frozen=True)
class Field:
    """One named tensor of an item, and how the engine puts the tensors of several items together.

    ``layout`` is "batched" (stacked), "flat" (concatenated; ``rows`` of this
    item) or "shared" (the same for all). ``keep_on_cpu`` fields are metadata.
    """

    tensor: Tensor
    layout: str
    keep_on_cpu: bool = False

    def description(self) -> list[Any]:
        """What the engine needs to rebuild the field.

        A flat field lists the slice of each item that was processed in one
        call. Here it is always one item: what vLLM writes when the image comes
        from its cache. The engine does not read the slices.
        """
        options: dict[str, Any] = {"keep_on_cpu": self.keep_on_cpu}
        if self.layout == "flat":
            options |= {"slices": [[[0, self.tensor.shape[0], None]]], "dim": 0}
        elif self.layout == "shared":
            options |= {"batch_size": 1}
        return [self.layout, options]


Fields = Mapping[str, Field]


def array_tensor(array: NDArray[Any], dtype: str | None = None) -> Tensor:
    """A tensor of an array; ``dtype`` names what numpy has no name for."""
    return Tensor(dtype or str(array.dtype), array.shape, (array,))


def integers(*values: int) -> Tensor:
    """A one-dimensional tensor of 64-bit integers."""
    return array_tensor(np.array(values, np.int64))


def scalar(value: int) -> Tensor:
    """A tensor of no dimension: one 64-bit integer."""
    return array_tensor(np.array(value, np.int64))


@dataclass(frozen=True)
class EncodedItem:
    """Base64 text of one item, in pieces: megabytes that need not be put together before they are written."""

    pieces: tuple[bytes, ...]

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def text(self) -> str:
        """The whole text."""
        return b"".join(self.pieces).decode("ascii")


def encode_item(fields: Fields) -> EncodedItem:
    """Base64 of an item's msgpack; reads each tensor once."""
    return EncodedItem(tuple(_base64(_msgpack(fields))))


def _base64(parts: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        data = b"".join((rest, part)) if rest else part
        whole = len(data) - len(data) % 3
        rest = bytes(data[whole:])
        if whole:
            yield binascii.b2a_base64(memoryview(data)[:whole], newline=False)
    if rest:
        yield binascii.b2a_base64(rest, newline=False)


def metadata(fields: Fields) -> Fields:
    """The fields that a prefill needs when the embeddings come from elsewhere."""
    return {name: field for name, field in fields.items() if field.keep_on_cpu}


def _msgpack(fields: Fields) -> Iterator[bytes | memoryview]:
    yield bytes([0x80 | len(fields)])
    for name, field in fields.items():
        tensor = field.tensor
        size = _size(tensor)
        yield b"".join(
            (
                _encode(name),
                b"\x82",
                _encode("data"),
                b"\x93",
                _encode(tensor.dtype),
                _encode(list(tensor.shape)),
                _extension(size),
            )
        )
        for part in tensor.parts:
            yield np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
        yield _encode("field") + _encode(field.description())


def _size(tensor: Tensor) -> int:
    count = 1
    for length in tensor.shape:
        count *= length
    return count * _ITEM_SIZES[tensor.dtype]


_ITEM_SIZES = {"uint8": 1, "bfloat16": 2, "float16": 2, "float32": 4, "int64": 8}


def _extension(size: int) -> bytes:
    """The header of a msgpack extension of ``size`` bytes."""
    fixed = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}.get(size)
    if fixed is not None:
        return bytes((fixed, _RAW_VIEW))
    for code, width in ((0xC7, 1), (0xC8, 2), (0xC9, 4)):
        if size < 1 << (8 * width):
            return bytes((code,)) + size.to_bytes(width, "big") + bytes((_RAW_VIEW,))
    raise OverflowError("a tensor of 4 GB and more has no place in one message")
