"""Recorded cases played: asked of the service, and their outputs in chunks of any size."""

from __future__ import annotations

from typing import Any

from tests.dialects import recorded
from tests.dialects.recorded import Case, Json
from tests.golden.application import InProcess

CHUNK_ID = "1" * 32


def call(application: InProcess, case: Case) -> Json:
    body, headers = recorded.body_of(case), recorded.headers_of(case)
    return recorded.answer_of(*application.call(case.get("method", "POST"), case["endpoint"], body, headers))


def asked_otherwise(case: Case, asked: Any) -> str | None:
    """What the engine was asked for, where it is not the prompt that vLLM's engine got."""
    same = asked is not None and asked["token_ids"] == case["engine"][0]["prompt_token_ids"]
    return None if same else f"{case['id']}: the engine was asked {asked}"


def usage_of(case: Case) -> Json:
    return recorded.engine_chunks(case)[-1]["usage"]


def chunks_of(case: Case, size: int, prefix: str) -> list[Json]:
    """A recorded output in chunks of ``size`` tokens (0: in one), which bear an id with ``prefix``."""
    (engine_call,) = case["engine"]
    ids, last = engine_call["output_token_ids"], engine_call["chunks"][-1]
    step = size or max(len(ids), 1)
    parts = [{"index": 0, "token_ids": ids[start : start + step]} for start in range(0, max(len(ids), 1), step)]
    parts[-1] |= {name: last[name] for name in ("finish_reason", "stop_reason") if name in last}
    return [{"request_id": prefix + CHUNK_ID, "choices": [part]} for part in parts]


def choice_failed(case: Case) -> bool:
    return bool(case["engine"][0]["chunks"][-1].get("finish_reason") == "error")
