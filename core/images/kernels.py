"""Resampling kernels as torch's uint8 antialiased resize weighs them: integers, at a precision of its own.

Source: ``aten/src/ATen/native/cpu/UpSampleKernel.cpp`` of PyTorch 2.13
(``HelperInterpBase::_compute_index_ranges_int16_weights``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

BICUBIC, BILINEAR, LANCZOS = "bicubic", "bilinear", "lanczos"
# Pillow's numbers, which preprocessor configurations use.
RESAMPLE = {1: LANCZOS, 2: BILINEAR, 3: BICUBIC}
# Interpolation size of each kernel: twice the reach of its support at scale 1, in pixels.
_SIZES = {BILINEAR: 2, BICUBIC: 4, LANCZOS: 6}
_MAX_PRECISION = 22
_INT16 = 1 << 15
_CUBIC_A = -0.5

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Taps:
    """The weights of one dimension.

    ``first`` (n_out,) is the first input of each output; ``weights`` (n_out,
    taps) are integers that stand for themselves divided by ``2**precision``;
    taps beyond the input are 0.
    """

    first: NDArray[np.int64]
    weights: NDArray[np.int64]
    precision: int

    @property
    def largest_sum(self) -> int:
        """The largest absolute value that an accumulator of 8-bit inputs can reach, rounding included."""
        return 255 * int(np.abs(self.weights).sum(axis=1).max()) + (1 << (self.precision - 1))


@lru_cache(maxsize=32)
def taps(n_in: int, n_out: int, kernel: str) -> Taps:
    """The weights that take ``n_in`` pixels to ``n_out``; both are positive."""
    size = _SIZES[kernel]
    scale = n_in / n_out
    support = size * 0.5 * max(scale, 1.0)
    count = math.ceil(support) * 2 + 1
    center = scale * (np.arange(n_out) + 0.5)
    first = np.maximum((center - support + 0.5).astype(np.int64), 0)
    lengths = np.clip(np.minimum((center + support + 0.5).astype(np.int64), n_in) - first, 0, count)
    index = np.arange(count)
    inverse = 1.0 / scale if scale >= 1.0 else 1.0
    values = _FUNCTIONS[kernel]((index[None] + first[:, None] - center[:, None] + 0.5) * inverse)
    values = np.where(index[None] < lengths[:, None], values, 0.0)
    total = np.zeros(n_out)
    for tap in range(count):  # one after another, as in C: the order of a sum of doubles is part of its value
        total += values[:, tap]
    np.divide(values, total[:, None], out=values, where=total[:, None] != 0)
    precision = _precision(float(values.max(initial=0.0)))
    scaled = values * (1 << precision)
    return Taps(first, np.where(scaled < 0, scaled - 0.5, scaled + 0.5).astype(np.int64), precision)


def _precision(largest: float) -> int:
    """The bits that weights are scaled by: as many as keep the largest within 16 bits."""
    precision = 0
    while precision < _MAX_PRECISION and int(0.5 + largest * (1 << (precision + 1))) < _INT16:
        precision += 1
    return precision


def _linear(x: Floats) -> Floats:
    x = np.abs(x)
    return np.where(x < 1.0, 1.0 - x, 0.0)


def _cubic(x: Floats) -> Floats:
    x, a = np.abs(x), _CUBIC_A
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    far = ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))


def _lanczos(x: Floats) -> Floats:
    return np.where((x >= -3.0) & (x < 3.0), _sinc(x) * _sinc(x / 3.0), 0.0)


def _sinc(x: Floats) -> Floats:
    x = x * math.pi
    return np.where(x == 0.0, 1.0, np.sin(x) / np.where(x == 0.0, 1.0, x))


_FUNCTIONS = {BILINEAR: _linear, BICUBIC: _cubic, LANCZOS: _lanczos}
