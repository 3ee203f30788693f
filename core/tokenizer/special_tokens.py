"""Which tokens a model folder calls special, by transformers' conventions.

The order and the sources follow transformers 5: the named tokens (bos, eos,
unk, sep, pad, cls, mask), then ``extra_special_tokens`` (formerly
``additional_special_tokens``). A token that ``tokenizer.json`` flags special but
that no configuration names is *not* in this list: vLLM's
``skip_special_tokens`` keeps it, and so do we (``tests/golden``, group special).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

_END_OF_TEXT = "<|endoftext|>"
# Defaults of the tokenizer classes that published chat models name: used when
# a folder's tokenizer_config.json does not mention the key at all (a null in the
# file is an answer, and wins). Read off transformers 5.19's constructors.
_QWEN = {"unk_token": _END_OF_TEXT, "eos_token": _END_OF_TEXT, "pad_token": _END_OF_TEXT}
_LLAMA = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
_GPT2 = {"unk_token": _END_OF_TEXT, "bos_token": _END_OF_TEXT, "eos_token": _END_OF_TEXT}
_GEMMA = {
    "unk_token": "<unk>",
    "bos_token": "<bos>",
    "eos_token": "<eos>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}
_COHERE = {
    "unk_token": "<UNK>",
    "bos_token": "<BOS_TOKEN>",
    "eos_token": "<|END_OF_TURN_TOKEN|>",
    "pad_token": "<PAD>",
    "cls_token": "<CLS>",
    "sep_token": "<SEP>",
    "mask_token": "<MASK_TOKEN>",
}
CLASS_DEFAULTS: dict[str, dict[str, str]] = {
    "Qwen2Tokenizer": _QWEN,
    "Qwen3_5Tokenizer": _QWEN,
    "LlamaTokenizer": _LLAMA,
    "CodeLlamaTokenizer": _LLAMA,
    "GPT2Tokenizer": _GPT2,
    "GPTNeoXTokenizer": {**_GPT2, "pad_token": "<|padding|>"},
    "GemmaTokenizer": _GEMMA,
    "CohereTokenizer": _COHERE,
}


@dataclass(frozen=True)
class SpecialTokens:
    """The special tokens of a model, as text.

    ``named`` maps e.g. ``"eos_token"`` to its text; ``every`` lists all of
    them once, in transformers' order.
    """

    named: Mapping[str, str] = field(default_factory=dict)
    every: tuple[str, ...] = ()


def text_of(token: Any) -> str | None:
    """The text of a token entry: a plain string, or an ``AddedToken`` written as an object."""
    if isinstance(token, str):
        return token
    if isinstance(token, Mapping) and isinstance(token.get("content"), str):
        return str(token["content"])
    return None


def resolve_special_tokens(
    tokenizer_config: Mapping[str, Any], special_tokens_map: Mapping[str, Any] | None = None
) -> SpecialTokens:
    """Collect the special tokens of ``tokenizer_config.json`` and ``special_tokens_map.json``.

    The map is the older convention: it is read only when the configuration
    has no ``added_tokens_decoder``, and then overrides it.
    """
    config = dict(tokenizer_config)
    extra = config.get("extra_special_tokens") or config.get("additional_special_tokens") or []
    if "added_tokens_decoder" not in config and special_tokens_map:
        for key, value in special_tokens_map.items():
            if key in ("extra_special_tokens", "additional_special_tokens"):
                extra = [*extra, *value] if isinstance(value, list) and isinstance(extra, list) else extra or value
            else:
                config[key] = value
    defaults = CLASS_DEFAULTS.get(str(config.get("tokenizer_class") or "").removesuffix("Fast"), {})
    named: dict[str, str] = {}
    for name in NAMES:
        token = text_of(config[name]) if name in config else defaults.get(name)
        if token is not None:
            named[name] = token
    # Model-specific names (image_token, ...) are special tokens too.
    specific = {k: t for k, v in config.items() if k.endswith("_token") and k not in NAMES and (t := text_of(v))}
    if isinstance(extra, Mapping):
        specific.update({k: t for k, v in extra.items() if (t := text_of(v))})
        extra = []
    named_all = {**named, **specific}
    every = dict.fromkeys([*named_all.values(), *(t for entry in extra if (t := text_of(entry)) is not None)])
    return SpecialTokens(named=named_all, every=tuple(every))
