"""Ids that the engine has no embedding for never reach it.

An engine without a tokenizer (``--tokens-only``) does not check what it is
sent: one id beyond the vocabulary reads outside the embedding and ends a real
vLLM engine for all its users (recorded in ``tests/golden``, ``bad_id``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.errors import BadRequest
from core.model import Model

# Sampling parameters that name ids of the vocabulary.
_ID_LISTS = ("stop_token_ids", "allowed_token_ids", "logprob_token_ids")


def vocabulary_size(model: Model) -> int:
    """How many ids the engine knows: the rows of its embedding, or where none are declared the tokenizer's."""
    return model.config.vocab_size or model.tokenizer.max_token_id + 1


def check_vocabulary(request: Mapping[str, Any], size: int) -> None:
    """Refuse a request for the engine that names an id outside ``0 <= id < size``.

    Raises:
        BadRequest: names the id and the field.
    """
    _check(request["token_ids"], size, "prompt")
    params = request["sampling_params"]
    for name in _ID_LISTS:
        _check(params.get(name), size, name)
    for ids in params.get("prompt_logprob_token_ids") or ():
        _check(ids, size, "prompt_logprob_token_ids")
    # The keys are written as JSON writes keys.
    _check([int(key) for key in params.get("logit_bias") or ()], size, "logit_bias")


def _check(ids: Sequence[int] | None, size: int, param: str) -> None:
    if not ids:
        return
    for token_id in (min(ids), max(ids)):
        if not 0 <= token_id < size:
            raise BadRequest(f"Token id {token_id} is out of vocabulary", param)
