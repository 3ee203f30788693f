"""Llama 4: tiles of a canvas that fits the image's shape, and the whole of it once more.

Sources: ``Llama4ImageProcessor`` and ``Llama4Processor`` of transformers 5.19.0; ``mllama4.py`` of vLLM 0.33.0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from core.errors import ConfigurationError
from core.images.families.family import HALF, Family, Ingredients
from core.images.families.llava import sides
from core.images.levels import ITEM_SIZES, Levels, normalized_in_bfloat16
from core.images.resize import resize
from core.images.tensors import Field, Fields, integers, scalar

_BILINEAR = 2
Canvas = tuple[int, int]


class Llama4(Family):
    """The placeholder's separators have no embedding."""

    dense = False
    placeholder = "<|image|>"

    def __init__(self, parts: Ingredients) -> None:
        vision = parts.section("vision_config")
        self._tile, width = sides(parts.setting("size", {"height": 336, "width": 336}))
        if self._tile != width or vision.get("image_size", 336) != width:
            raise ConfigurationError("tiles must be square and of the vision encoder's image_size")
        self._canvases = np.array(_canvases(parts.setting("max_patches", 16)), np.int64) * self._tile
        self._largest_canvas = parts.setting("resize_to_max_canvas", False)
        self._kernel = parts.kernel(_BILINEAR)
        self._levels = _levels(parts)
        shuffle = round(1.0 / vision.get("pixel_shuffle_ratio", 0.5) ** 2)
        patches = (self._tile // vision.get("patch_size", 14)) ** 2 // shuffle
        self._patches = [parts.id_of("<|patch|>")] * patches
        self._start, self._end = parts.id_of("<|image_start|>"), parts.id_of("<|image_end|>")
        self._across, self._down = parts.id_of("<|tile_x_separator|>"), parts.id_of("<|tile_y_separator|>")
        self.target = [parts.id_of(parts.processor.get("image_token", "<|image|>"))]
        self._whole = parts.id_of("<|image|>")

    def tokens(self, width: int, height: int) -> list[int]:
        rows, columns = self._tiles(width, height)
        tokens = [self._start]
        if rows * columns > 1:
            row = [*self._patches, *[self._across, *self._patches] * (columns - 1), self._down]
            tokens += row * rows
        return [*tokens, self._whole, *self._patches, self._end]

    def feature_bytes(self, width: int, height: int) -> int:
        return _pictures(*self._tiles(width, height)) * 3 * self._tile**2 * ITEM_SIZES[self._levels.dtype]

    def fields(self, image: Image.Image) -> Fields:
        tall, wide = self._canvas(image.width, image.height)
        rows, columns, tile = tall // self._tile, wide // self._tile, self._tile
        canvas = np.zeros((3, tall, wide), np.uint8)
        height, width = self._fitted(image.width, image.height, tall, wide)
        whole = image.copy() if rows * columns > 1 else None
        canvas[:, :height, :width] = resize(image, height, width, self._kernel)
        tiles = canvas.reshape(3, rows, tile, columns, tile).transpose(1, 3, 0, 2, 4).reshape(-1, 3, tile, tile)
        if whole is not None:
            tiles = np.concatenate([tiles, resize(whole, tile, tile, self._kernel)[None]])
        return {
            "pixel_values": Field(self._levels(tiles), "flat"),
            "patches_per_image": Field(scalar(len(tiles)), "batched", keep_on_cpu=True),
            "aspect_ratios": Field(integers(rows, columns), "batched", keep_on_cpu=True),
        }

    def _tiles(self, width: int, height: int) -> tuple[int, int]:
        tall, wide = self._canvas(width, height)
        return tall // self._tile, wide // self._tile

    def _canvas(self, width: int, height: int) -> Canvas:
        """Height and width of the canvas that an image fits best, in the float32 arithmetic of torch."""
        across = (self._canvases[:, 1] / width).astype(np.float32)
        down = (self._canvases[:, 0] / height).astype(np.float32)
        scales = np.where(down > across, across, down)
        growing = scales[scales >= 1]
        wanted = growing if len(growing) else scales
        scale = wanted.min() if len(growing) and not self._largest_canvas else wanted.max()
        fitting: NDArray[np.int64] = self._canvases[scales == scale]
        tall, wide = fitting[np.argmin(fitting[:, 0] * fitting[:, 1])]
        return int(tall), int(wide)

    def _fitted(self, width: int, height: int, tall: int, wide: int) -> tuple[int, int]:
        """Height and width of the picture on its canvas; small images grow to the size of a tile at most."""
        if not self._largest_canvas:
            tall, wide = min(max(height, self._tile), tall), min(max(width, self._tile), wide)
        across, down = wide / width, tall / height
        if across < down:
            tall = min(math.floor(height * across), tall)
        else:
            wide = min(math.floor(width * down), wide)
        return max(tall, 1), max(wide, 1)


def _pictures(rows: int, columns: int) -> int:
    return 1 if rows * columns == 1 else rows * columns + 1


def _canvases(most: int) -> list[Canvas]:
    """Rows and columns of every canvas of at most so many tiles, grouped by shape from the largest."""
    shapes: dict[float, list[Canvas]] = {}
    for tiles in range(most, 0, -1):
        for rows in range(1, tiles + 1):
            if tiles % rows == 0:
                shapes.setdefault(rows / (tiles // rows), []).append((rows, tiles // rows))
    return [canvas for canvases in shapes.values() for canvas in canvases]


def _levels(parts: Ingredients) -> Levels:
    if parts.setting("do_rescale", True) and parts.setting("do_normalize", True):
        mean, std = parts.setting("image_mean", HALF), parts.setting("image_std", HALF)
        return Levels(normalized_in_bfloat16(mean, std, parts.setting("rescale_factor", 1 / 255)), parts.dtype)
    raise ConfigurationError("an image processor that does not rescale and normalize is not supported")
