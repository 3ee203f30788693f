"""Families whose rules are not known here: their images can go to the engine as they came, and no other way."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

from core.errors import BadRequest
from core.images.families.family import Family
from core.images.placeholders import Expanded, Vocabulary
from core.images.tensors import Fields

_PASSED_ON = 'this server can only pass on images of this model: ask with mm_payload "content_parts"'


class Unknown(Family):
    """The engine reads, counts and expands the images. The chat template says where they are.

    A prompt counts without their tokens, so its length is the engine's to check.
    """

    known = False

    def __init__(self) -> None:
        self.target = []

    def tokens(self, width: int, height: int) -> list[int]:
        return []

    def feature_bytes(self, width: int, height: int) -> int:
        raise refused()

    def fields(self, image: Image.Image) -> Fields:
        raise refused()

    def expand(self, token_ids: list[int], contents: Sequence[list[int]], vocabulary: Vocabulary) -> Expanded:
        return Expanded(token_ids, [(0, 0)] * len(contents))


def refused() -> BadRequest:
    """The answer to a request for features of such a model."""
    return BadRequest(_PASSED_ON, "mm_payload")
