"""A model's configuration as vLLM's code sees it: what its parsers and its rendering read of a ``ModelConfig``.

Imports no vLLM: the view is data, with attributes of the same names and meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.bundle.model_config import ModelConfig

_MEDIA_KEYS = ("vision_config", "audio_config")


@dataclass(frozen=True, eq=False, repr=False)
class HfConfig:
    """The part of ``config.json`` that chooses a fallback chat template and the form of tool-call ids."""

    model_type: str


@dataclass(frozen=True, eq=False, repr=False)
class MediaView:
    """What a deployment reads besides text: images. ``others`` are the modalities that its model takes beyond them.

    ``image_placeholder`` stands for an image where a chat template takes plain text.
    """

    image_placeholder: str | None
    max_images: int
    others: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class ModelView:
    """A model as vLLM's parsers and rendering code see it.

    ``media`` is None where only text is read. ``multimodal_config`` and
    ``enable_prompt_embeds`` are fixed.
    """

    model: str
    tokenizer: str
    served_model_name: str
    max_model_len: int
    vocab_size: int
    architecture: str | None
    hf_config: HfConfig
    hf_text_config: HfConfig
    is_multimodal_model: bool
    media: MediaView | None = None
    hf_overrides: Any = None
    multimodal_config: None = None
    enable_prompt_embeds: bool = False
    revision: None = None
    tokenizer_revision: None = None
    code_revision: None = None
    trust_remote_code: bool = False


def view_model(config: ModelConfig, served_name: str, origin: str, max_model_len: int) -> ModelView:
    """The view of a model that is served as ``served_name``; ``origin`` is its folder."""
    hf_config = HfConfig(config.model_type)
    return ModelView(
        model=origin,
        tokenizer=origin,
        served_model_name=served_name,
        max_model_len=max_model_len,
        vocab_size=config.vocab_size or 0,
        architecture=config.architecture,
        hf_config=hf_config,
        hf_text_config=hf_config,
        is_multimodal_model=_takes_media(config.config),
    )


def _takes_media(config: Mapping[str, Any]) -> bool:
    return any(isinstance(config.get(key), Mapping) for key in _MEDIA_KEYS)
