"""Building the tokenizer of a model from its files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.bundle.chat_templates import find_chat_templates
from core.bundle.folder import ModelFiles
from core.bundle.model_config import ModelConfig, read_model_config
from core.errors import ConfigurationError
from core.tokenizer.adapter import FastTokenizer
from core.tokenizer.decode_table import PACKED_NAME, DecodeTable, read_table, unpack_table
from core.tokenizer.interface import Tokenizer
from core.tokenizer.special_tokens import SpecialTokens, resolve_special_tokens


def load_tokenizer(files: ModelFiles, config: ModelConfig | None = None, name: str = "") -> Tokenizer:
    """The tokenizer of a model folder or bundle.

    Raises:
        ConfigurationError: there is no tokenizer, or it is damaged.
    """
    config = config or read_model_config(files)
    present = set(files.names())
    if "tokenizer.json" not in present:
        if "tekken.json" in present:
            from core.tokenizer.mistral import load_tekken  # few deployments have such a model

            return load_tekken(lambda: files.read("tekken.json"), name or files.origin)
        found = ", ".join(sorted(present)) or "nothing"
        raise ConfigurationError(f"{files.origin} has no tokenizer.json (and no tekken.json): found {found}")
    special = resolve_special_tokens(config.tokenizer_config, config.special_tokens_map)
    extra = _extra_tokens(config, special)
    return FastTokenizer(
        _table(files, present, extra),
        special,
        lambda: files.read("tokenizer.json"),
        extra_tokens=extra,
        init_kwargs=config.tokenizer_config,
        chat_template=find_chat_templates(files, config.tokenizer_config),
        name=name or files.origin,
    )


def _table(files: ModelFiles, present: set[str], extra: list[Mapping[str, Any]]) -> DecodeTable:
    if PACKED_NAME in present:
        return unpack_table(files.read(PACKED_NAME))
    return read_table(files.read("tokenizer.json"), extra)


def _extra_tokens(config: ModelConfig, special: SpecialTokens) -> list[Mapping[str, Any]]:
    """Tokens that the configuration adds to ``tokenizer.json``, in the order that gives them their ids."""
    decoder = config.tokenizer_config.get("added_tokens_decoder") or {}
    extra: list[Mapping[str, Any]] = []
    try:
        for _, token in sorted(decoder.items(), key=lambda item: int(item[0])):
            extra.append(dict(token, content=str(token["content"])))
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise ConfigurationError(f"tokenizer_config.json: added_tokens_decoder is malformed: {exc!r}") from exc
    known = {str(token["content"]) for token in extra}
    for content, _ in sorted(config.added_tokens.items(), key=lambda item: int(item[1])):
        if content not in known:
            extra.append({"content": content, "special": content in special.every})
    # Last, as transformers does: every token with a special name exists and is flagged special.
    extra += [{"content": content, "special": True, "normalized": False} for content in special.every]
    return extra
