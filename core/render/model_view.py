"""What vLLM's rendering code reads of its ``ModelConfig``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.bundle.model_config import ModelConfig
from core.model import ModelOptions

_MEDIA_KEYS = ("vision_config", "audio_config")


@dataclass(frozen=True)
class HfConfig:
    """The part of ``config.json`` that chooses a fallback chat template."""

    model_type: str


@dataclass(frozen=True)
class ModelView:
    """A model as vLLM's rendering code sees it: attributes of the same names and meaning.

    ``multimodal_config`` and ``enable_prompt_embeds`` are fixed: this project
    renders text only.
    """

    model: str
    tokenizer: str
    served_model_name: str
    max_model_len: int
    vocab_size: int
    hf_config: HfConfig
    is_multimodal_model: bool
    multimodal_config: None = None
    enable_prompt_embeds: bool = False
    revision: None = None
    tokenizer_revision: None = None
    code_revision: None = None
    trust_remote_code: bool = False


def view_model(config: ModelConfig, options: ModelOptions, origin: str, max_model_len: int) -> ModelView:
    """The view of a loaded model; ``origin`` is its folder."""
    return ModelView(
        model=origin,
        tokenizer=origin,
        served_model_name=options.served_names[0],
        max_model_len=max_model_len,
        vocab_size=config.vocab_size or 0,
        hf_config=HfConfig(config.model_type),
        is_multimodal_model=_takes_media(config.config),
    )


def _takes_media(config: Mapping[str, Any]) -> bool:
    return any(isinstance(config.get(key), Mapping) for key in _MEDIA_KEYS)
