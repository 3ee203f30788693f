"""Pixel values of families that send floats: each depends on one byte alone, so a table has them all.

Rounding is that of torch on the CPU: float32 arithmetic in the order of
transformers' ``rescale_and_normalize``, then round to nearest even into the
model's type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.images.tensors import Tensor, array_tensor

Floats = NDArray[np.float32]
# Bytes of a value in each type that a model can have.
ITEM_SIZES = {"bfloat16": 2, "float16": 2, "float32": 4}
_BYTES = np.arange(256, dtype=np.float32)


class Levels:
    """A table of 256 values a channel in a model's type ("bfloat16", "float16" or "float32")."""

    def __init__(self, values: Sequence[Floats], dtype: str) -> None:
        self.dtype = dtype
        self._tables = [_narrow(channel, dtype) for channel in values]

    def __call__(self, planes: NDArray[np.uint8]) -> Tensor:
        """The values of (..., 3, height, width) bytes, of the same shape."""
        out = np.empty(planes.shape, self._tables[0].dtype)
        for channel, table in enumerate(self._tables):
            np.take(table, planes[..., channel, :, :], out=out[..., channel, :, :])
        return array_tensor(out, self.dtype)

    def of(self, values: NDArray[np.uint8]) -> NDArray[Any]:
        """The values of bytes whose channels share one table."""
        return self._tables[0][values]


def normalized(mean: Sequence[float], std: Sequence[float], factor: float) -> list[Floats]:
    """Rescaled and normalized in one step, as transformers fuses it."""
    inverse = np.float32(1.0 / factor)
    return [(_BYTES - np.float32(m) * inverse) / (np.float32(s) * inverse) for m, s in zip(mean, std, strict=True)]


def only_normalized(mean: Sequence[float], std: Sequence[float]) -> list[Floats]:
    """Normalized without rescaling."""
    return [(_BYTES - np.float32(m)) / np.float32(s) for m, s in zip(mean, std, strict=True)]


def only_rescaled(factor: float) -> list[Floats]:
    """Rescaled without normalization."""
    return [_BYTES * np.float32(factor)] * 3


def standardized(mean: Sequence[float], std: Sequence[float]) -> list[Floats]:
    """torchvision's ``ToTensor`` and ``Normalize``: divided by 255 first."""
    values = _BYTES / np.float32(255)
    return [(values - np.float32(m)) / np.float32(s) for m, s in zip(mean, std, strict=True)]


def normalized_in_bfloat16(mean: Sequence[float], std: Sequence[float], factor: float) -> list[Floats]:
    """Rounded to bfloat16 after each of three steps, as Llama 4's processor computes."""
    values = _through_bfloat16(_BYTES * np.float32(factor))
    steps = []
    for m, s in zip(mean, std, strict=True):
        mean_and_std = _through_bfloat16(np.array([m, s], np.float32))
        steps.append(_through_bfloat16(_through_bfloat16(values - mean_and_std[0]) / mean_and_std[1]))
    return steps


def bfloat16(values: Floats) -> NDArray[np.uint16]:
    """The upper halves of float32 values, rounded to nearest even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16).astype(np.uint16)


def _through_bfloat16(values: Floats) -> Floats:
    return (bfloat16(values).astype(np.uint32) << 16).view(np.float32)


def _narrow(values: Floats, dtype: str) -> NDArray[Any]:
    if dtype == "bfloat16":
        return bfloat16(values)
    return values.astype({"float16": np.float16, "float32": np.float32}[dtype])
