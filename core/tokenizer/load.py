"""Building the tokenizer of a model from its files."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from core.bundle.chat_templates import find_chat_templates
from core.bundle.folder import ModelFiles
from core.bundle.model_config import ModelConfig, read_model_config
from core.errors import ConfigurationError
from core.tokenizer.adapter import FastTokenizer
from core.tokenizer.decode_table import MERGES_NAME, PACKED_NAME, DecodeTable, read_table, unpack_table
from core.tokenizer.interface import Tokenizer
from core.tokenizer.special_tokens import SpecialTokens, resolve_special_tokens

MODES = ("auto", "hf", "mistral")
"""vLLM's ``--tokenizer-mode``, as far as it concerns what file a tokenizer is read from."""

_FILES = {"hf": "tokenizer.json", "mistral": "tekken.json"}
_MISTRALS_WEIGHTS = re.compile(r"consolidated.*\.safetensors")


def load_tokenizer(
    files: ModelFiles, config: ModelConfig | None = None, name: str = "", mode: str = "auto", cache_bytes: int = 0
) -> Tokenizer:
    """The tokenizer of a model folder or bundle; ``mode`` is one of ``MODES``.

    ``cache_bytes`` bounds what it keeps of the texts that it encoded.

    Raises:
        ConfigurationError: there is no such tokenizer, or it is damaged.
    """
    config = config or read_model_config(files)
    present = set(files.names())
    source = tokenizer_file(present, mode)
    if source not in present:
        found = ", ".join(sorted(present)) or "nothing"
        other = " (and no tekken.json)" if mode == "auto" else f", which tokenizer_mode {mode} needs"
        raise ConfigurationError(f"{files.origin} has no {source}{other}: found {found}")
    if source == _FILES["mistral"]:
        from core.tokenizer.mistral import load_tekken  # few deployments have such a model

        return load_tekken(lambda: files.read("tekken.json"), name or files.origin)
    special = resolve_special_tokens(config.tokenizer_config, config.special_tokens_map)
    extra = _extra_tokens(config, special)
    return FastTokenizer(
        _table(files, present, extra),
        special,
        lambda: files.read("tokenizer.json"),
        source_digest=lambda: files.digest("tokenizer.json"),
        read_merges=(lambda: files.read(MERGES_NAME)) if MERGES_NAME in present else None,
        extra_tokens=extra,
        init_kwargs=config.tokenizer_config,
        chat_template=find_chat_templates(files, config.tokenizer_config),
        name=name or files.origin,
        cache_bytes=cache_bytes,
    )


def tokenizer_file(names: Collection[str], mode: str = "auto") -> str:
    """The file that the tokenizer is read from, in a folder with these files.

    vLLM takes Mistral's own one where Mistral's own weights are beside it. A
    folder without any weights does not tell: then ``tokenizer.json`` is taken
    where there is one.

    Raises:
        ConfigurationError: there is no such mode.
    """
    if mode not in MODES:
        raise ConfigurationError(f"tokenizer_mode must be one of {', '.join(MODES)}, not {mode!r}")
    if mode != "auto":
        return _FILES[mode]
    has_tekken = _FILES["mistral"] in names
    is_mistrals = any(_MISTRALS_WEIGHTS.fullmatch(name) for name in names)
    return _FILES["mistral" if has_tekken and (is_mistrals or _FILES["hf"] not in names) else "hf"]


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
