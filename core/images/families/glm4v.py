"""GLM-4.1V, GLM-4.5V and GLM-4.6V.

Sources: ``Glm4vImageProcessor`` and ``Glm46VImageProcessor`` of transformers 5.19.0 (the same in all but name);
``model_executor/models/glm4_1v.py`` of vLLM 0.33.0. As Qwen's, with other
bounds: an image counts as the frames of a patch.
"""

from __future__ import annotations

from core.images.families.family import check_aspect_ratio
from core.images.families.qwen_vl import QwenVL, fit_area


class Glm4V(QwenVL):
    """Qwen's patches; sides below one patch grow first."""

    placeholder = "<|begin_of_image|><|image|><|end_of_image|>"
    _image_token = "<|image|>"
    _limits = (112 * 112, 28 * 28 * 15000)

    def _size(self, width: int, height: int) -> tuple[int, int]:
        factor = self._grid.factor
        if height < factor or width < factor:
            scale = max(factor / height, factor / width)
            height, width = int(height * scale), int(width * scale)
        check_aspect_ratio(width, height)
        return fit_area(width, height, factor, self._least, self._most, self._grid.frames)
