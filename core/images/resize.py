"""torch's antialiased resize of 8-bit images, value for value, as matrix products.

A pass is a banded matrix of integer weights. It is multiplied block by block
in floating point, which is exact as long as every sum fits the mantissa: the
weights are scaled by a power of two, and where 24 bits are too few for the
sums (strong reductions) 53 are taken. So the result does not depend on the
order of additions, the BLAS or the processor.

The horizontal pass comes first and each pass rounds to 8 bits, as in torch; a
dimension that keeps its size has no pass. Rows come out in strips, and what
they were made of is let go strip by strip: a large image is never there in
three forms at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from core.images.kernels import Taps, taps

Bytes = NDArray[np.uint8]

# Outputs of one block: few make many small products, many make products with mostly zeros.
_BLOCK = 32
# Values of a strip of the horizontal pass, as floats: about what a second-level cache holds.
_STRIP_VALUES = 1 << 18
_FLOAT32_LIMIT = 1 << 24


@dataclass(frozen=True)
class _Block:
    """Outputs ``start:stop`` of a pass come from inputs ``low:high`` times ``matrix`` (outputs, inputs)."""

    start: int
    stop: int
    low: int
    high: int
    matrix: NDArray[Any]


@dataclass(frozen=True)
class Window:
    """The part of a resized image that is wanted: rows and columns of it."""

    top: int
    left: int
    height: int
    width: int


def resize(image: Image.Image, height: int, width: int, kernel: str, window: Window | None = None) -> Bytes:
    """An RGB image at another size, or a window of it: (3, height, width) uint8. The image is closed."""
    window = window or Window(0, 0, height, width)
    out = np.empty((3, window.height, window.width), np.uint8)
    top = 0
    for strip in resized_strips(image, height, width, kernel, window.height, window):
        out[:, top : top + strip.shape[1]] = strip
        top += strip.shape[1]
    return out


def resized_strips(
    image: Image.Image, height: int, width: int, kernel: str, rows: int, window: Window | None = None
) -> Iterator[Bytes]:
    """The rows of a resized RGB image, from the top, ``rows`` at a time: (3, rows, width) uint8.

    Only the ``window`` is computed where one is given. The image is closed as
    soon as its pixels are read.
    """
    window = window or Window(0, 0, height, width)
    columns = taps(image.width, width, kernel) if width != image.width else None
    lines = taps(image.height, height, kernel) if height != image.height else None
    read = _Rows(_horizontal(image, columns, window))
    image.close()
    for start in range(window.top, window.top + window.height, rows):
        stop = min(start + rows, window.top + window.height)
        if lines is None:
            yield read.take(start, stop)
            continue
        strip = np.empty((3, stop - start, window.width), np.uint8)
        for block in _blocks(lines, read.height, start, stop):
            source = read.take(block.low, block.high).astype(block.matrix.dtype)
            _round(np.matmul(block.matrix, source), strip[:, block.start - start : block.stop - start])
        yield strip


class _Rows:
    """Rows of three planes, kept in pieces; reading further down lets go of the pieces above."""

    def __init__(self, pieces: list[Bytes]) -> None:
        self._pieces: list[Bytes | None] = list(pieces)
        self._tops = np.cumsum([0, *(piece.shape[1] for piece in pieces)]).tolist()

    @property
    def height(self) -> int:
        return int(self._tops[-1])

    def take(self, low: int, high: int) -> Bytes:
        """Rows ``low:high``; no later call asks for a row above ``low``."""
        found = []
        for index, piece in enumerate(self._pieces):
            top, bottom = self._tops[index], self._tops[index + 1]
            if bottom <= low:
                self._pieces[index] = None
            elif top < high and piece is not None:
                found.append(piece[:, max(low - top, 0) : high - top])
        return found[0] if len(found) == 1 else np.concatenate(found, axis=1)


def _horizontal(image: Image.Image, columns: Taps | None, window: Window) -> list[Bytes]:
    """The image's planes in pieces of rows, each row at its new width and cut to the window's columns."""
    left, right = window.left, window.left + window.width
    step = max(1, _STRIP_VALUES // max(image.width, window.width))
    blocks = [] if columns is None else _blocks(columns, image.width, left, right)
    tops = range(0, image.height, step)
    pieces = [np.empty((3, min(step, image.height - top), window.width), np.uint8) for top in tops]
    for channel in range(3):
        plane = np.asarray(image.getchannel(channel))
        for top, piece in zip(tops, pieces, strict=True):
            source = plane[top : top + piece.shape[1]]
            if not blocks:
                piece[channel] = source[:, left:right]
                continue
            values = source.astype(blocks[0].matrix.dtype)
            sums = np.empty((len(source), window.width), values.dtype)
            for block in blocks:
                out = sums[:, block.start - left : block.stop - left]
                np.matmul(values[:, block.low : block.high], block.matrix.T, out=out)
            _round(sums, piece[channel])
    return pieces


def _blocks(weights: Taps, n_in: int, start: int, stop: int) -> list[_Block]:
    """The pieces of a pass's matrix that make its outputs ``start:stop``."""
    return [_block(weights, n_in, low, min(low + _BLOCK, stop)) for low in range(start, stop, _BLOCK)]


def _block(weights: Taps, n_in: int, start: int, stop: int) -> _Block:
    dtype = np.float32 if weights.largest_sum < _FLOAT32_LIMIT else np.float64
    first = weights.first[start:stop]
    count = weights.weights.shape[1]
    low, high = int(first[0]), min(int(first[-1]) + count, n_in)
    matrix = np.zeros((stop - start, high - low + count), dtype)  # the taps beyond the input are zeros, cut off below
    places = (first - low)[:, None] + np.arange(count)
    np.put_along_axis(matrix, places, weights.weights[start:stop] * 2.0**-weights.precision, axis=1)
    return _Block(start, stop, low, high, np.ascontiguousarray(matrix[:, : high - low]))


def _round(sums: NDArray[Any], out: Bytes) -> None:
    """Round half up and clip to 8 bits; ``sums`` is used up."""
    sums += sums.dtype.type(0.5)
    np.clip(sums, 0, 255, out=sums)
    np.copyto(out, sums, casting="unsafe")
