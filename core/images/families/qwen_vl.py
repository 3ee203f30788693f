"""Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3.5 (dense and mixtures of experts).

Sources: ``Qwen2VLImageProcessor`` of transformers 5.19.0; ``model_executor/models/qwen2_vl.py`` and ``qwen3_vl.py`` of
vLLM 0.33.0. vLLM normalizes on the device by default, so the pixels stay bytes.
"""

from __future__ import annotations

import math

from PIL import Image

from core.errors import ConfigurationError
from core.images.families.family import Family, Ingredients, check_aspect_ratio
from core.images.patches import PatchGrid
from core.images.tensors import Field, Fields, integers

_BICUBIC = 3
_MIN_PIXELS, _MAX_PIXELS = 56 * 56, 28 * 28 * 1280


class QwenVL(Family):
    """Patches of a size that follows the image's, merged two by two into tokens."""

    placeholder = "<|vision_start|><|image_pad|><|vision_end|>"
    _image_token = "<|image_pad|>"
    _limits = (_MIN_PIXELS, _MAX_PIXELS)

    def __init__(self, parts: Ingredients) -> None:
        self._grid = PatchGrid(
            parts.setting("patch_size", 14), parts.setting("merge_size", 2), parts.setting("temporal_patch_size", 2)
        )
        self._least, self._most = self._area(parts)
        self._kernel = parts.kernel(_BICUBIC)
        self._pad = parts.id_of(parts.special_tokens.get("image_token", self._image_token))
        self.target = [self._pad]

    def tokens(self, width: int, height: int) -> list[int]:
        patches, _ = self._grid.shape(*self._size(width, height))
        return [self._pad] * (patches // self._grid.merge**2)

    def feature_bytes(self, width: int, height: int) -> int:
        patches, values = self._grid.shape(*self._size(width, height))
        return patches * values

    def fields(self, image: Image.Image) -> Fields:
        height, width = self._size(image.width, image.height)
        patch = self._grid.patch
        return {
            "pixel_values": Field(self._grid.tensor(image, height, width, self._kernel, None), "flat"),
            "image_grid_thw": Field(integers(1, height // patch, width // patch), "batched", keep_on_cpu=True),
        }

    def _area(self, parts: Ingredients) -> tuple[int, int]:
        """The fewest and most pixels that an image is resized to."""
        size = parts.setting("size", dict(zip(("shortest_edge", "longest_edge"), self._limits, strict=True)))
        least = parts.setting("min_pixels", size.get("shortest_edge"))
        most = parts.setting("max_pixels", size.get("longest_edge"))
        if not least or not most:
            raise ConfigurationError("the image processor's size must have a shortest_edge and a longest_edge")
        return least, most

    def _size(self, width: int, height: int) -> tuple[int, int]:
        """Height and width that an image is resized to."""
        check_aspect_ratio(width, height)
        return fit_area(width, height, self._grid.factor, self._least, self._most)


def fit_area(width: int, height: int, factor: int, least: float, most: float, frames: int = 1) -> tuple[int, int]:
    """Height and width in multiples of ``factor`` with between ``least`` and ``most`` pixels in all ``frames``."""
    tall, wide = round(height / factor) * factor, round(width / factor) * factor
    if frames * tall * wide > most:
        shrink = math.sqrt((frames * height * width) / most)
        return tuple(max(factor, math.floor(side / shrink / factor) * factor) for side in (height, width))  # type: ignore[return-value]
    if frames * tall * wide < least:
        grow = math.sqrt(least / (frames * height * width))
        return tuple(math.ceil(side * grow / factor) * factor for side in (height, width))  # type: ignore[return-value]
    return tall, wide
