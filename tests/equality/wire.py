"""A case as both sides get it, and the bodies that are sent for it: the same for our functions and for full vLLM's.

Runs in full vLLM's environment too, so it needs nothing but the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One output of a model, the request that it answers, and the ways to cut it.

    ``parsers`` are (tool, reasoning). ``ids`` is the output, ``prompt`` the
    prompt's ids, ``finish`` the engine's finish reason. ``chunkings`` gives by
    name the number of tokens of every chunk.
    """

    parsers: tuple[str | None, str | None]
    folder: str
    model_type: str
    name: str
    request: Json
    prompt: list[int]
    ids: list[int]
    finish: str
    chunkings: dict[str, list[int]]

    @property
    def title(self) -> str:
        """The parsers in the words of the tables."""
        tool, reasoning = self.parsers
        if tool is None and reasoning is None:
            return "(no parser)"
        if tool is None:
            return f"(reasoning) {reasoning}"
        return tool if reasoning is None else f"{tool} + {reasoning}"

    @classmethod
    def from_json(cls, fields: Json) -> Case:
        return cls(**{**fields, "parsers": tuple(fields["parsers"])})


def one_shot_body(case: Case) -> Json:
    """The body of a one-shot derender call: the engine tells the prompt's ids, as with ``return_token_ids``."""
    choice = {"index": 0, "token_ids": case.ids, "finish_reason": case.finish}
    return {
        "model": "m",
        "generate_response": {"request_id": "r", "choices": [choice], "prompt_token_ids": case.prompt},
        "chat_request": case.request,
        "prompt_token_ids": case.prompt,
        "prompt_tokens": len(case.prompt),
    }


def stream_body(case: Case) -> Json:
    """What every streaming call of a case has beside its chunk and its state."""
    return {
        "model": "m",
        "stream": True,
        "chat_request": case.request,
        "prompt_token_ids": case.prompt,
        "prompt_tokens": len(case.prompt),
    }


def engine_chunks(case: Case, lengths: list[int]) -> list[Json]:
    """The engine's chunks: the last one finishes, and one with the usage follows, as engines send it."""
    chunks: list[Json] = []
    start = 0
    for length in lengths:
        choice: Json = {"index": 0, "token_ids": case.ids[start : start + length]}
        start += length
        chunks.append({"request_id": "r", "choices": [choice]})
    chunks[-1]["choices"][0]["finish_reason"] = case.finish
    counts = {"prompt_tokens": len(case.prompt), "completion_tokens": len(case.ids)}
    usage = {**counts, "total_tokens": sum(counts.values())}
    return [*chunks, {"request_id": "r", "choices": [], "usage": usage}]
