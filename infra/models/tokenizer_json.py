"""The tokenizer.json format of the Hugging Face `tokenizers` library, as far as the builders share it.

Files are written directly, so that their bytes do not depend on the installed version of that library.
"""

import json
from typing import Any

TokenizerJson = dict[str, Any]
"""The content of a tokenizer.json."""


def added_token(token_id: int, content: str, special: bool) -> dict[str, Any]:
    """An entry of `added_tokens`: matched literally in text, never split."""
    return {
        "id": token_id,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": special,
    }


def dump(tokenizer: TokenizerJson) -> bytes:
    """The file's bytes: compact, without a final newline, keys in the order in which they were made."""
    return json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
