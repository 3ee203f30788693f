"""The special tokens that the packages leave out: names, order and ids of the published models.

Only names and numbers; what a tokenizer does with them is in the formats' modules.
"""

from collections.abc import Iterator
from pathlib import Path

AddedToken = tuple[int, str, bool]
"""(id, content, special)."""

# The order gives the ids, which follow those of the vocabulary.
QWEN3_SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
QWEN3_PLAIN = [
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
]
QWEN35_SPECIAL = [
    "<|audio_start|>",
    "<|audio_end|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
    "<tts_text_bos_single>",
    "<|audio_pad|>",
]

# Llama 3.0's file calls these reserved; 3.1, whose tool format needs them, names them.
LLAMA31_NAMES = {128004: "<|finetune_right_pad_id|>", 128008: "<|eom_id|>", 128010: "<|python_tag|>"}

HARMONY_NAMES = {
    199998: "<|startoftext|>",
    199999: "<|endoftext|>",
    200002: "<|return|>",
    200003: "<|constrain|>",
    200005: "<|channel|>",
    200006: "<|start|>",
    200007: "<|end|>",
    200008: "<|message|>",
    200012: "<|call|>",
}
HARMONY_IDS = range(199998, 201088)

_FAMILY_TOKENS = Path(__file__).parent / "family_tokens.txt"


def qwen3_tokens(first_id: int) -> list[AddedToken]:
    """Qwen3's added tokens, numbered from `first_id`: the tool and thinking marks are not special."""
    tokens = [(token, True) for token in QWEN3_SPECIAL] + [(token, False) for token in QWEN3_PLAIN]
    return [(first_id + i, token, special) for i, (token, special) in enumerate(tokens)]


def qwen35_tokens(first_id: int) -> list[AddedToken]:
    """Qwen3.5's added tokens: Qwen3's and those for audio."""
    shared = qwen3_tokens(first_id)
    return shared + [(first_id + len(shared) + i, token, True) for i, token in enumerate(QWEN35_SPECIAL)]


def family_tokens(first_id: int) -> Iterator[AddedToken]:
    """What the tool and reasoning parsers of the other model families look for, numbered from `first_id`.

    Each is special where it is so in most of these families.
    """
    for i, token in enumerate(_FAMILY_TOKENS.read_text(encoding="utf-8").split()):
        yield first_id + i, token, token.startswith(("<|", "<｜", "[")) and token != '<|"|>'


def harmony_tokens() -> Iterator[AddedToken]:
    """gpt-oss' special tokens; those without a name of their own are reserved."""
    for token_id in HARMONY_IDS:
        yield token_id, HARMONY_NAMES.get(token_id, f"<|reserved_{token_id}|>"), True
