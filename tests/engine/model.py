"""The model: a tokenizer, and the few numbers of a configuration that an engine goes by."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from tests.engine.errors import EngineError


class Model:
    """A model folder, read once.  Raises SystemExit with a message where it cannot be used."""

    def __init__(self, folder: Path, max_model_len: int | None = None) -> None:
        def read(name: str) -> dict[str, Any]:
            path = folder / name
            return dict(json.loads(path.read_bytes())) if path.is_file() else {}

        if not (folder / "tokenizer.json").is_file():
            raise SystemExit(f"{folder} is not a model folder with a tokenizer.json")
        config, tokenizer_config = read("config.json"), read("tokenizer_config.json")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.vocab_size = max(self.tokenizer.get_vocab_size(), config.get("vocab_size", 0))
        self.max_model_len: int = max_model_len or config.get("max_position_embeddings", 4096)
        eos = tokenizer_config.get("eos_token")
        eos_text = eos["content"] if isinstance(eos, dict) else eos
        self.eos_id: int | None = self.tokenizer.token_to_id(eos_text) if eos_text else None
        listed = read("generation_config.json").get("eos_token_id") or []
        self.other_eos_ids = {listed} if isinstance(listed, int) else set(listed)
        self.other_eos_ids.discard(self.eos_id)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=False)
        return text

    def check_prompt(self, ids: Sequence[int]) -> None:
        """Raise EngineError for a prompt that vLLM refuses."""
        if max(ids) >= self.vocab_size:
            raise EngineError(f"Token id {max(ids)} is out of vocabulary")
        limit = self.max_model_len
        if len(ids) > limit:
            raise EngineError(
                f"The decoder prompt (length {len(ids)}) is longer than the maximum model length of {limit}. "
                "Make sure that `max_model_len` is no smaller than the number of text tokens."
            )
        if len(ids) == limit:
            raise EngineError(
                f"The decoder prompt (length {len(ids)}) plus the number of requested output tokens (at least 1) is "
                f"longer than the maximum model length of {limit}. Make sure that `max_model_len` is no smaller than "
                "the number of text tokens (prompt + requested output tokens)."
            )
