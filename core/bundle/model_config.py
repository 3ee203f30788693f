"""The JSON files of a model folder, read once and checked for form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from core.bundle.folder import ModelFiles
from core.errors import ConfigurationError


@dataclass(frozen=True)
class ModelConfig:
    """``config.json``, ``generation_config.json`` and the tokenizer's JSON files; absent ones are empty."""

    config: Mapping[str, Any]
    generation_config: Mapping[str, Any]
    tokenizer_config: Mapping[str, Any]
    special_tokens_map: Mapping[str, Any]
    added_tokens: Mapping[str, Any]

    @cached_property
    def model_type(self) -> str:
        return str(self._text_config.get("model_type") or self.config.get("model_type") or "")

    @cached_property
    def is_harmony(self) -> bool:
        """Whether the model speaks harmony (gpt-oss), which no chat template writes and one parser reads."""
        return self.model_type == "gpt_oss"

    @property
    def architecture(self) -> str | None:
        """The first of the model's architectures."""
        names = self.config.get("architectures")
        return str(names[0]) if isinstance(names, list) and names else None

    @cached_property
    def _text_config(self) -> Mapping[str, Any]:
        # Multimodal configurations keep the language model's numbers one level down, by either name.
        for name in ("text_config", "llm_config"):
            nested = self.config.get(name)
            if isinstance(nested, Mapping):
                return nested
        return self.config

    @property
    def vocab_size(self) -> int | None:
        """The engine's vocabulary (rows of the embedding), often padded beyond the tokenizer's."""
        size = self._text_config.get("vocab_size")
        return size if isinstance(size, int) else None

    @property
    def max_model_len(self) -> int | None:
        """The context length the model declares, None when it declares none."""
        config = self._text_config
        keys = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length")
        lengths = [v for k in keys if isinstance(v := config.get(k), int) and v > 0]
        return min(lengths, default=None)


def read_model_config(files: ModelFiles) -> ModelConfig:
    """Read the JSON files of a model.

    Raises:
        ConfigurationError: a file is not a JSON object.
    """
    present = set(files.names())

    def load(name: str) -> Mapping[str, Any]:
        if name not in present:
            return {}
        try:
            value = orjson.loads(files.read(name))
        except orjson.JSONDecodeError as exc:
            raise ConfigurationError(f"{files.origin}: {name} is not JSON: {exc}") from exc
        if not isinstance(value, dict):
            raise ConfigurationError(f"{files.origin}: {name} is not a JSON object")
        return value

    return ModelConfig(
        config=load("config.json"),
        generation_config=load("generation_config.json"),
        tokenizer_config=load("tokenizer_config.json"),
        special_tokens_map=load("special_tokens_map.json"),
        added_tokens=load("added_tokens.json"),
    )
