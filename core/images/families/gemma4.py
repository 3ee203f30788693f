"""Gemma 4: patches of an image that keeps its shape, padded to a fixed number, and their positions.

Sources: ``Gemma4ImageProcessor`` of transformers 5.19.0; ``model_executor/models/gemma4_mm.py`` of vLLM 0.33.0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from core.errors import BadRequest, ConfigurationError
from core.images.families.family import Family, Ingredients
from core.images.levels import ITEM_SIZES, Levels
from core.images.resize import resize
from core.images.tensors import Field, Fields, array_tensor

_BICUBIC = 3
_ZEROS, _ONES = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
_POSITION_BYTES = 2 * 8


class Gemma4(Family):
    """The placeholder has a first and a last token without an embedding."""

    dense = False
    placeholder = "<|image|>"

    def __init__(self, parts: Ingredients) -> None:
        self._patch: int = parts.setting("patch_size", 16)
        self._pool = parts.setting("pooling_kernel_size", 3)
        self._patches: int = parts.setting("max_soft_tokens", 280) * self._pool**2
        self._kernel = parts.kernel(_BICUBIC)
        vision = parts.section("vision_config")
        self._counted = (
            vision.get("patch_size", 16),
            vision.get("pooling_kernel_size", 3),
            vision.get("default_output_length", 280),
        )
        image = parts.id_of(parts.special_tokens.get("image_token", "<|image|>"))
        self.target = [image]
        self._begin, self._end = parts.config.get("boi_token_id", 255999), parts.config.get("eoi_token_id", 258882)
        levels = parts.levels(_ZEROS, _ONES, normalize=False)
        if levels is None:
            raise ConfigurationError("an image processor that neither rescales nor normalizes is not supported")
        self._levels: Levels = levels

    def tokens(self, width: int, height: int) -> list[int]:
        self._resized(width, height)  # what cannot be resized is refused here already
        return [self._begin, *self.target * self._count(width, height), self._end]

    def feature_bytes(self, width: int, height: int) -> int:
        return self._patches * (3 * self._patch**2 * ITEM_SIZES[self._levels.dtype] + _POSITION_BYTES)

    def fields(self, image: Image.Image) -> Fields:
        tall, wide = self._resized(image.width, image.height)
        rows, columns, side = tall // self._patch, wide // self._patch, self._patch
        pixels = resize(image, tall, wide, self._kernel).reshape(3, rows, side, columns, side)
        patches = np.ascontiguousarray(pixels.transpose(1, 3, 2, 4, 0)).reshape(rows * columns, -1)
        values = self._levels.of(patches)
        padded = np.zeros((self._patches, values.shape[1]), values.dtype)
        padded[: len(values)] = values
        return {
            "pixel_values": Field(array_tensor(padded, self._levels.dtype), "batched"),
            "pixel_position_ids": Field(array_tensor(self._positions(rows, columns)), "batched"),
        }

    def _positions(self, rows: int, columns: int) -> NDArray[np.int64]:
        """Column and row of each patch; -1 for padding."""
        positions = np.full((self._patches, 2), -1, np.int64)
        places = np.arange(rows * columns)
        positions[: len(places), 0] = places % columns
        positions[: len(places), 1] = places // columns
        return positions

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        unit, area = self._pool * self._patch, self._patches * self._patch**2
        scale = math.sqrt(area / (height * width))
        tall = math.floor(scale * height / unit) * unit
        wide = math.floor(scale * width / unit) * unit
        if not tall and not wide:
            raise BadRequest(f"Attempting to resize to a 0 x 0 image. Resized height should be divisible by {unit}.")
        longest = self._patches // self._pool**2 * unit
        if not tall:
            tall, wide = unit, min(math.floor(width / height) * unit, longest)
        elif not wide:
            tall, wide = min(math.floor(height / width) * unit, longest), unit
        if tall * wide > area:
            raise BadRequest(f"Resizing [{height}x{width}] to [{tall}x{wide}] but this exceeds {self._patches} patches")
        return tall, wide

    def _count(self, width: int, height: int) -> int:
        """Tokens by vLLM's own arithmetic, from the model's configuration: not always what the patches make."""
        patch, pool, most = self._counted
        unit = patch * pool
        scale = math.sqrt(most * pool**2 / ((height / patch) * (width / patch)))
        tall = max(unit, math.floor(height * scale / unit) * unit)
        wide = max(unit, math.floor(width * scale / unit) * unit)
        return int(min((tall // patch) * (wide // patch) // pool**2, most))
