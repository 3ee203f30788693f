"""Requests in a row to a vLLM server with a store, and what a server that keeps nothing answers: each step of each case.

What needs no store is answered as recorded. What does is answered as vLLM's
own server answers it without ``VLLM_ENABLE_RESPONSES_API_STORE``.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.dialects import recorded
from tests.dialects.conftest import Services
from tests.dialects.recorded import Json, Names
from tests.golden.difference import answer_differences
from tests.relay.replaying import ReplayingEngine

# What a step comes to.
SAME, MISSING, NO_BACKGROUND = "as recorded", "404: there is no such response", "400: there is no store to wait in"
STEPS: dict[str, tuple[str, ...]] = {
    "qwen3-details.details.cached-responses": (SAME, SAME, SAME),
    "qwen3-store.store.not-stored": (SAME, SAME, SAME),
    "qwen3-store.previous.instructions": (SAME, MISSING),
    "qwen3-store.previous.fork": (SAME, MISSING, MISSING),
    "qwen3-store.previous.tool": (SAME, MISSING),
    "qwen3-store.previous.tool-stream": (SAME, MISSING),
    "qwen3-store.previous.render": (SAME, SAME),
    "qwen3-store.background.poll": (NO_BACKGROUND, MISSING, MISSING),
    "qwen3-store.background.stream": (NO_BACKGROUND, MISSING, MISSING),
    "qwen3-store.background.no-store": (SAME,),
    "gpt-oss-store.store.get": (SAME, MISSING, MISSING),
    "gpt-oss-store.store.get-stream": (SAME, MISSING, MISSING),
    "gpt-oss-store.previous.two": (SAME, MISSING, MISSING),
    "gpt-oss-store.previous.fork": (SAME, MISSING, MISSING),
    "gpt-oss-store.previous.tool-wrong-id": (SAME, MISSING),
    "gpt-oss-store.previous.render": (SAME, SAME),
    "gpt-oss-store.background.poll": (NO_BACKGROUND, MISSING, MISSING),
    "gpt-oss-store.background.stream": (NO_BACKGROUND, MISSING, MISSING),
    "gpt-oss-store.background.length": (NO_BACKGROUND, MISSING),
}
CASES = {case["id"].removeprefix("responses-steps."): case for case in recorded.cases("steps")}
# Stands for the id of a response that was refused.
NEVER = "resp_" + "0" * 32
_PLACE = re.compile(r"\{\{(\d+)(\.call)?\}\}")


def test_every_case_is_accounted_for() -> None:
    assert {name: len(case["steps"]) for name, case in CASES.items()} == {
        name: len(steps) for name, steps in STEPS.items()
    }


@pytest.mark.xdist_group("responses-steps")
@pytest.mark.parametrize("name", STEPS)
def test_a_server_that_keeps_nothing(name: str, services: Services, engine: tuple[ReplayingEngine, str]) -> None:
    case = CASES[name]
    application = services.get(json.dumps(case["server"], sort_keys=True))
    names, answers = Names(), []
    for step, expected in zip(case["steps"], STEPS[name], strict=True):
        calls = step["engine"]
        engine[0].chunks = recorded.engine_chunks({**step, "server": case["server"]}) if calls else []
        engine[0].asked = None
        endpoint = _filled(step["endpoint"], answers)
        body = _filled(recorded.body_of(step).decode(), answers).encode()
        status, answer = application.call(step.get("method", "POST"), endpoint, body, recorded.JSON_HEADERS)
        answers.append(_decoded(answer))
        got = _as_recorded(status, answer, names)
        if expected == SAME:
            assert not answer_differences(step["response"], got), step
            assert not calls or engine[0].asked["token_ids"] == calls[0]["prompt_token_ids"]
            continue
        # Nothing was generated for a request that is refused.
        assert engine[0].asked is None
        error = answers[-1]["error"]
        if expected == MISSING:
            (wanted,) = {_id(answers[int(match[1])]) for match in _PLACE.finditer(_asked_for(step))}
            assert (status, error) == (404, _missing(wanted))
        else:
            assert (status, error["type"], error["param"]) == (400, "invalid_request_error", "background")
            assert (
                "does not support `store=True` and therefore does not support the background mode" in error["message"]
            )


def _asked_for(step: Json) -> str:
    """Where a step says which response it wants."""
    return str((step.get("request") or {}).get("previous_response_id") or step["endpoint"])


def _missing(response_id: str) -> Json:
    return {
        "message": f"Response with id '{response_id}' not found.",
        "type": "invalid_request_error",
        "param": "response_id",
        "code": 404,
    }


def _filled(text: str, answers: list[Json]) -> str:
    """A text with the ids of earlier answers in their places."""
    return _PLACE.sub(lambda match: _id(answers[int(match[1])], call=match[2] is not None), text)


def _id(answer: Json, *, call: bool = False) -> str:
    response = answer[-1]["response"] if isinstance(answer, list) else answer
    if call:
        return str(next(item["call_id"] for item in response["output"] if item["type"] == "function_call"))
    return str(response.get("id", NEVER))


def _decoded(answer: Any) -> Json:
    """An answer's JSON, or the data of its events."""
    return [event["data"] for event in recorded.events_of(answer)] if isinstance(answer, str) else answer


def _as_recorded(status: int, answer: Any, names: Names) -> Json:
    if isinstance(answer, str):
        return {"status": status, "events": names.normal(list(recorded.events_of(answer)))}
    return {"status": status, "body": names.normal(answer)}
