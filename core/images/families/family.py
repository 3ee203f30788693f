"""What every family answers, and what it is built from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from core.errors import BadRequest, ConfigurationError
from core.images.kernels import RESAMPLE
from core.images.levels import Floats, Levels, normalized, only_normalized, only_rescaled
from core.images.placeholders import Expanded, Vocabulary, expand, expand_text
from core.images.tensors import Fields

CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
HALF = (0.5, 0.5, 0.5)
_RESCALE = 1 / 255


@dataclass(frozen=True)
class Ingredients:
    """A model's files and tokenizer as far as images are concerned.

    Parameters
    ----------
    config:
        ``config.json``.
    image_processor:
        The image processor's settings: ``image_processor`` in ``processor_config.json``, else
        ``preprocessor_config.json``.
    processor:
        ``processor_config.json``.
    special_tokens:
        Named tokens of ``tokenizer_config.json`` ("image_token", "boi_token").
    dtype:
        The model's type, by torch's name.
    token_id:
        The id of a token; None when the vocabulary lacks it.
    """

    config: Mapping[str, Any]
    image_processor: Mapping[str, Any]
    processor: Mapping[str, Any]
    special_tokens: Mapping[str, str]
    dtype: str
    token_id: Callable[[str], int | None]
    vocabulary: Vocabulary

    def id_of(self, token: str) -> int:
        """The id of a token that the family cannot do without.

        Raises:
            ConfigurationError: the vocabulary lacks it.
        """
        found = self.token_id(token)
        if found is None:
            raise ConfigurationError(f"the tokenizer has no token {token!r}, which images of this model need")
        return found

    def section(self, name: str) -> Mapping[str, Any]:
        """An object of ``config.json``; empty when absent."""
        value = self.config.get(name)
        return value if isinstance(value, Mapping) else {}

    def setting(self, name: str, default: Any) -> Any:
        """A setting of the image processor; absent and null are the same, as in transformers."""
        value = self.image_processor.get(name)
        return default if value is None else value

    def kernel(self, default: int) -> str:
        """The resampling kernel, given as Pillow's number.

        Raises:
            ConfigurationError: it is one that is not known here.
        """
        number = self.setting("resample", default)
        if number not in RESAMPLE:
            raise ConfigurationError(f"resample must be one of {sorted(RESAMPLE)}, not {number!r}")
        return RESAMPLE[number]

    def levels(self, mean: Sequence[float], std: Sequence[float], *, normalize: bool = True) -> Levels | None:
        """The values of bytes by the processor's settings; None when it leaves them as they are."""
        values = self._values(mean, std, normalize)
        return None if values is None else Levels(values, self.dtype)

    def _values(self, mean: Sequence[float], std: Sequence[float], normalize: bool) -> list[Floats] | None:
        mean, std = self.setting("image_mean", mean), self.setting("image_std", std)
        factor = self.setting("rescale_factor", _RESCALE)
        rescales, normalizes = self.setting("do_rescale", True), self.setting("do_normalize", normalize)
        if normalizes:
            return normalized(mean, std, factor) if rescales else only_normalized(mean, std)
        return only_rescaled(factor) if rescales else None


class Family(ABC):
    """What a model of a family makes of an image.

    ``known`` families have tokens and features here. ``dense`` ones need no
    mask on their placeholders; vLLM 0.33's engine cannot use the features of
    the others. ``placeholder`` stands for an image in chats whose template
    takes plain text; None when the family has none. ``target`` is what the
    chat template writes for an image, as token ids.
    """

    known = True
    dense = True
    placeholder: str | None = None
    target: list[int]

    @abstractmethod
    def tokens(self, width: int, height: int) -> list[int]:
        """The token ids of an image of a size in pixels.

        Raises:
            BadRequest: images of that size cannot be taken.
        """

    @abstractmethod
    def feature_bytes(self, width: int, height: int) -> int:
        """The size of an image's tensors."""

    @abstractmethod
    def fields(self, image: Image.Image) -> Fields:
        """The tensors of an upright RGB image, which is used up; some may be made as they are read."""

    def expand(self, token_ids: list[int], contents: Sequence[list[int]], vocabulary: Vocabulary) -> Expanded:
        """A prompt with the tokens of its images in it.

        Raises:
            BadRequest: the prompt has too few places for them.
        """
        found = expand(token_ids, self.target, contents)
        return expand_text(token_ids, self.target, contents, vocabulary) if found is None else found


def check_aspect_ratio(width: int, height: int, largest: int = 200) -> None:
    """Refuse images that are much longer than wide, as the processors of transformers do.

    Raises:
        BadRequest: it is.
    """
    ratio = max(height, width) / min(height, width)
    if ratio > largest:
        raise BadRequest(f"absolute aspect ratio must be smaller than {largest}, got {ratio}")
