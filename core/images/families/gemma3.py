"""Gemma 3: one square picture, 256 tokens between line feeds.

Sources: ``Gemma3ImageProcessor`` and ``Gemma3Processor`` of transformers 5.19.0; ``gemma3_mm.py`` of vLLM 0.33.0. Crops
of long images ("pan and scan") are off whatever the model's files say: the processor's own default wins there, and
only ``--mm-processor-kwargs`` could turn them on.
"""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

from core.errors import ConfigurationError
from core.images.families.family import HALF, Family, Ingredients
from core.images.families.llava import sides
from core.images.levels import ITEM_SIZES, Levels
from core.images.placeholders import Expanded, Vocabulary, expand, expand_text, find_all, replace_all
from core.images.resize import resize
from core.images.tensors import Field, Fields, scalar

_BILINEAR = 2


class Gemma3(Family):
    """The placeholder's tokens include ones without an embedding, which vLLM 0.33's engine takes for pixels."""

    dense = False
    placeholder = "<start_of_image>"

    def __init__(self, parts: Ingredients) -> None:
        names = parts.special_tokens
        begin, end = names.get("boi_token", "<start_of_image>"), names.get("eoi_token", "<end_of_image>")
        soft = names.get("image_token", "<image_soft_token>") * parts.processor.get("image_seq_length", 256)
        self._sequence = f"\n\n{begin}{soft}{end}\n\n"
        self._encode = parts.vocabulary.encode
        self.target = [parts.id_of(begin)]
        self._lines = [parts.id_of("\n" * count) for count in (1, 2, 3, 4)]
        self._size = sides(parts.setting("size", {"height": 224, "width": 224}))
        self._kernel = parts.kernel(_BILINEAR)
        levels = parts.levels(HALF, HALF)
        if levels is None:
            raise ConfigurationError("an image processor that neither rescales nor normalizes is not supported")
        self._levels: Levels = levels

    def tokens(self, width: int, height: int) -> list[int]:
        return self._encode(self._sequence)

    def feature_bytes(self, width: int, height: int) -> int:
        return 3 * self._size[0] * self._size[1] * ITEM_SIZES[self._levels.dtype]

    def fields(self, image: Image.Image) -> Fields:
        pixels = resize(image, *self._size, self._kernel)
        return {
            "pixel_values": Field(self._levels(pixels[None]), "flat"),
            "num_patches": Field(scalar(1), "batched", keep_on_cpu=True),
        }

    def expand(self, token_ids: list[int], contents: Sequence[list[int]], vocabulary: Vocabulary) -> Expanded:
        found = expand(token_ids, self.target, contents)
        if found is None:
            found = expand_text(token_ids, self.target, contents, vocabulary)
            return self._found(found.token_ids, contents)
        # Line feeds that came to stand next to each other are one token, as the tokenizer would have it.
        one, two, three, four = self._lines
        ids = replace_all(found.token_ids, [one, two], [three])
        ids = replace_all(ids, [two, one], [three])
        return self._found(replace_all(ids, [two, two], [four]), contents)

    def _found(self, token_ids: list[int], contents: Sequence[list[int]]) -> Expanded:
        one, two, three, four = self._lines
        apart = {three: [one, two], four: [two, two]}
        single: list[int] = []
        origins: list[int] = []
        for index, token in enumerate(token_ids):
            pieces = apart.get(token, [token])
            single += pieces
            origins += [index] * len(pieces)
        return Expanded(token_ids, [(origins[start], length) for start, length in find_all(single, contents)])
