"""Building what reads the images of a model, from the model's files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from core.bundle.folder import ModelFiles
from core.bundle.model_config import ModelConfig
from core.errors import ConfigurationError
from core.images.bounds import ImageLimits
from core.images.families.family import Family, Ingredients
from core.images.families.table import build_family, find_entry
from core.images.families.unknown import Unknown
from core.images.placeholders import Vocabulary
from core.images.reader import ASKED, NEVER, ImageReader
from core.tokenizer import Tokenizer
from core.upstream.model_view import MediaView

PROCESSOR, PREPROCESSOR = "processor_config.json", "preprocessor_config.json"
# Types that vLLM runs these models in, whatever their files say.
_NOT_IN_FLOAT16 = frozenset(("gemma2", "gemma3", "gemma3_text", "glm4"))
_DTYPES = frozenset(("bfloat16", "float16"))
_DEFAULT_DTYPE = "bfloat16"


@dataclass(frozen=True)
class ImageOptions:
    """How a deployment reads images; see :class:`~core.images.reader.ImageReader`."""

    model_id: str
    limits: ImageLimits = field(default_factory=ImageLimits)
    client_uuids: bool = True
    content_parts: str = ASKED


def build_reader(
    files: ModelFiles, config: ModelConfig, tokenizer: Tokenizer, options: ImageOptions
) -> ImageReader | None:
    """What reads the images of a model; None when it takes none, or its folder has no image settings.

    Images of a family that is not known can be passed on, where that is allowed.

    Raises:
        ConfigurationError: the files are there and do not fit.
    """
    entry = find_entry(config.config)
    vocabulary = Vocabulary(lambda text: tokenizer.encode(text, add_special_tokens=False), tokenizer.decode)
    if entry is None:
        sees = isinstance(config.config.get("vision_config"), Mapping)
        return _reader(Unknown(), (), vocabulary, options) if sees and options.content_parts != NEVER else None
    processor = _read(files, PROCESSOR)
    nested = processor.get("image_processor")
    image_processor = nested if isinstance(nested, Mapping) else _read(files, PREPROCESSOR)
    if entry.processors and not image_processor:
        return None
    ids = tokenizer.get_vocab()
    parts = Ingredients(
        config=config.config,
        image_processor=image_processor,
        processor=processor,
        special_tokens=_special_tokens(config.tokenizer_config),
        dtype=_dtype(config.config),
        token_id=ids.get,
        vocabulary=vocabulary,
    )
    return _reader(build_family(entry, parts), entry.others, vocabulary, options)


def _reader(family: Family, others: tuple[str, ...], vocabulary: Vocabulary, options: ImageOptions) -> ImageReader:
    view = MediaView(family.placeholder, options.limits.max_images, others)
    return ImageReader(
        family, options.model_id, vocabulary, options.limits, view, options.client_uuids, options.content_parts
    )


def _read(files: ModelFiles, name: str) -> Mapping[str, Any]:
    if name not in files.names():
        return {}
    try:
        value = orjson.loads(files.read(name))
    except orjson.JSONDecodeError as exc:
        raise ConfigurationError(f"{files.origin}: {name} is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise ConfigurationError(f"{files.origin}: {name} is not a JSON object")
    return value


def _special_tokens(tokenizer_config: Mapping[str, Any]) -> dict[str, str]:
    """The named tokens of a tokenizer's configuration; an entry is text, or an object with it."""
    extra = tokenizer_config.get("extra_special_tokens")
    named = {**tokenizer_config, **(extra if isinstance(extra, Mapping) else {})}
    found = {}
    for name, value in named.items():
        text = value.get("content") if isinstance(value, Mapping) else value
        if name.endswith("_token") and isinstance(text, str):
            found[name] = text
    return found


def _dtype(config: Mapping[str, Any]) -> str:
    """The type that vLLM runs a model in by default: its own, if it is one of 16 bits."""
    for section in (config, config.get("text_config"), config.get("vision_config")):
        if isinstance(section, Mapping):
            named = section.get("dtype") or section.get("torch_dtype")
            if isinstance(named, str):
                name = named.removeprefix("torch.")
                refused = name == "float16" and config.get("model_type") in _NOT_IN_FLOAT16
                return name if name in _DTYPES and not refused else _DEFAULT_DTYPE
    return _DEFAULT_DTYPE
