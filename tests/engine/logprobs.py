"""Made-up log probabilities, the same for the same token at the same place."""

import zlib
from collections.abc import Sequence
from typing import Any

from tests.engine.model import Model


def top_candidates(token: int, position: int, count: int, vocab_size: int) -> list[dict[str, Any]]:
    """The sampled token, then the `count` best in rank order without it: `count` + 1 where it is not among them."""
    noise = zlib.crc32(f"{position}:{token}".encode())
    rank = 1 if noise % 4 else 2 + noise // 4 % 4

    def entry(token_id: int, its_rank: int) -> dict[str, Any]:
        logprob = -0.03125 - 0.75 * (its_rank - 1) - noise % 64 / 1024
        return {"token_id": token_id, "logprob": logprob, "rank": its_rank}

    others = (r for r in range(1, min(count, vocab_size - 1) + 1) if r != rank)
    return [entry(token, rank), *(entry((token + r) % vocab_size, r) for r in others)]


def logprobs_of(tokens: Sequence[int], first: int, count: int | None, vocab_size: int) -> dict[str, Any] | None:
    """The `logprobs` of a choice: integer token ids, no text."""
    if count is None:
        return None
    tops = [top_candidates(token, first + i, count, vocab_size) for i, token in enumerate(tokens)]
    return {"content": [{**top[0], "top_logprobs": top} for top in tops]}


def prompt_logprobs_of(model: Model, tokens: Sequence[int], count: int) -> list[dict[str, Any] | None]:
    """One entry a prompt token, by token id; null for the first."""
    rows: list[dict[str, Any] | None] = [None]
    for position, token in enumerate(tokens[1:], 1):
        top = top_candidates(token, position, count, model.vocab_size)
        rows.append(
            {
                str(one["token_id"]): {
                    "logprob": one["logprob"],
                    "rank": one["rank"],
                    "decoded_token": model.decode([one["token_id"]]),
                }
                for one in top
            }
        )
    return rows
