"""A model whose tokenizer is read from elsewhere: vLLM's ``--tokenizer``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from core.bundle.folder import ModelFiles
from core.tokenizer.decode_table import MERGES_NAME, PACKED_NAME

# What vLLM reads from the tokenizer's folder; by the weights of Mistral's own it chooses between two tokenizers.
_TOKENIZERS = re.compile(
    r"tokenizer\.json|tekken\.json|tokenizer_config\.json|special_tokens_map\.json|added_tokens\.json"
    rf"|chat_template\.jinja|(additional_)?chat_templates/.*|consolidated.*\.safetensors|{re.escape(PACKED_NAME)}|{re.escape(MERGES_NAME)}"
)


class OtherTokenizer:
    """The files of a model, those of its tokenizer and chat templates from another folder or bundle.

    Is a :class:`~core.bundle.folder.ModelFiles`.
    """

    def __init__(self, model: ModelFiles, tokenizer: ModelFiles) -> None:
        self._model = model
        self._tokenizer = tokenizer

    @property
    def origin(self) -> str:
        return f"{self._model.origin} with the tokenizer of {self._tokenizer.origin}"

    def names(self) -> list[str]:
        own = [name for name in self._model.names() if not _TOKENIZERS.fullmatch(name)]
        return sorted(own + [name for name in self._tokenizer.names() if _TOKENIZERS.fullmatch(name)])

    def read(self, name: str) -> bytes:
        return self._of(name).read(name)

    def digest(self, name: str) -> str:
        return self._of(name).digest(name)

    @property
    def encoder_proof(self) -> Mapping[str, Any] | None:
        return self._tokenizer.encoder_proof

    def _of(self, name: str) -> ModelFiles:
        return self._tokenizer if _TOKENIZERS.fullmatch(name) else self._model
