"""Pixels as the rows of patches that vision encoders of the Qwen kind take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from core.images.levels import Levels
from core.images.resize import resized_strips
from core.images.tensors import Tensor

Bytes = NDArray[np.uint8]
# Rows of pixels that are resized and cut at once.
_STRIP_ROWS = 64


@dataclass(frozen=True)
class PatchGrid:
    """How an image is cut: patches of ``patch`` pixels a side, ``merge`` by ``merge`` of them next to each other,
    each written ``frames`` times in place of a video's frames."""

    patch: int
    merge: int
    frames: int

    @property
    def factor(self) -> int:
        """What both sides of an image are multiples of."""
        return self.patch * self.merge

    def shape(self, height: int, width: int) -> tuple[int, int]:
        """Rows (patches) and columns (values of a patch) of an image's tensor."""
        return (height // self.patch) * (width // self.patch), 3 * self.frames * self.patch**2

    def tensor(self, image: Image.Image, height: int, width: int, kernel: str, levels: Levels | None) -> Tensor:
        """The patches of an image at a size, which is made when the tensor is read.

        Without ``levels`` the values are the bytes themselves.
        """
        dtype = "uint8" if levels is None else levels.dtype
        return Tensor(dtype, self.shape(height, width), self._rows(image, height, width, kernel, levels))

    def _rows(
        self, image: Image.Image, height: int, width: int, kernel: str, levels: Levels | None
    ) -> Iterator[NDArray[np.generic]]:
        rows = self.factor * max(1, _STRIP_ROWS // self.factor)
        for strip in resized_strips(image, height, width, kernel, rows):
            if levels is None:
                yield self._cut(strip)
            else:
                (values,) = levels(strip).parts
                yield self._cut(values)

    def _cut(self, strip: NDArray[np.generic]) -> NDArray[np.generic]:
        channels, height, width = strip.shape
        patch, merge = self.patch, self.merge
        # A line of a patch is one value here: a copy moves it at once.
        line = np.ascontiguousarray(strip).view(np.dtype((np.void, patch * strip.itemsize)))
        cut = line.reshape(channels, height // self.factor, merge, patch, width // self.factor, merge)
        patches = np.ascontiguousarray(cut.transpose(1, 4, 2, 5, 0, 3)).view(strip.dtype)
        patches = patches.reshape(-1, channels, 1, patch * patch)
        return np.repeat(patches, self.frames, axis=2)
