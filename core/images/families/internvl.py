"""InternVL in its own chat format (``InternVLChatModel``): tiles of an image, and a small copy of the whole.

Sources: ``model_executor/models/internvl.py`` and ``transformers_utils/processors/internvl.py`` of vLLM 0.33.0. The
resize is Pillow's own here, and the settings are those of ``config.json``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from core.images.families.family import Family, Ingredients
from core.images.levels import ITEM_SIZES, Levels, standardized
from core.images.tensors import Field, Fields, scalar

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_CONTEXT = "<IMG_CONTEXT>"


class InternVL(Family):
    """The placeholder has a first and a last token without an embedding."""

    dense = False
    placeholder = "<image>"

    def __init__(self, parts: Ingredients) -> None:
        config, vision = parts.config, parts.section("vision_config")
        self._side: int = vision.get("image_size", 448)
        dynamic = config.get("dynamic_image_size", True)
        least, most = config.get("min_dynamic_patch", 1), config.get("max_dynamic_patch", 6)
        self._shapes = _shapes(least, most) if dynamic else [(1, 1)]
        self._thumbnail = config.get("use_thumbnail", True)
        ratio = config.get("downsample_ratio", 0.5)
        self._per_tile = int((self._side // vision.get("patch_size", 14)) ** 2 * ratio**2)
        self._levels = Levels(standardized(_MEAN, _STD), parts.dtype)
        self._context = parts.id_of(_CONTEXT)
        self._begin, self._end = parts.id_of("<img>"), parts.id_of("</img>")
        self.target = parts.vocabulary.encode("<image>")

    def tokens(self, width: int, height: int) -> list[int]:
        return [self._begin, *[self._context] * (self._per_tile * self._tiles(width, height)), self._end]

    def feature_bytes(self, width: int, height: int) -> int:
        return self._tiles(width, height) * 3 * self._side**2 * ITEM_SIZES[self._levels.dtype]

    def fields(self, image: Image.Image) -> Fields:
        columns, rows = self._shape(image.width, image.height)
        side = self._side
        whole = np.asarray(image.resize((side * columns, side * rows)))
        tiles = whole.reshape(rows, side, columns, side, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, side, side)
        if self._thumbnail and len(tiles) > 1:
            tiles = np.concatenate([tiles, _planes(image.resize((side, side)))[None]])
        return {
            "pixel_values_flat": Field(self._levels(tiles), "flat"),
            "image_num_patches": Field(scalar(len(tiles)), "batched", keep_on_cpu=True),
            "image_token_id": Field(scalar(self._context), "shared", keep_on_cpu=True),
        }

    def _tiles(self, width: int, height: int) -> int:
        columns, rows = self._shape(width, height)
        count = columns * rows
        return count + (self._thumbnail and count > 1)

    def _shape(self, width: int, height: int) -> tuple[int, int]:
        """Columns and rows of the nearest shape; of two as near, the later one if the image fills half of it."""
        best, least = (1, 1), float("inf")
        for shape in self._shapes:
            difference = abs(width / height - shape[0] / shape[1])
            filled = width * height > 0.5 * self._side**2 * shape[0] * shape[1]
            if difference < least or (difference == least and filled):
                best, least = shape, difference
        return best


def _planes(image: Image.Image) -> NDArray[np.uint8]:
    return np.asarray(image).transpose(2, 0, 1)


def _shapes(least: int, most: int) -> list[tuple[int, int]]:
    """Columns and rows of every arrangement of tiles.

    By number of tiles, and within that in the order of a set of pairs filled
    as vLLM fills it: where two shapes are as near, that order decides.
    """
    found = {
        (columns, rows)
        for tiles in range(least, most + 1)
        for columns in range(1, tiles + 1)
        for rows in range(1, tiles + 1)
        if least <= columns * rows <= most
    }
    return sorted(found, key=lambda shape: shape[0] * shape[1])
