"""Faults that were found by use and that no other test covers. docs/reports.md has the list, by number."""

from __future__ import annotations

from typing import Any

import pytest
from vllm.entrypoints.generate.base.protocol import PerRequestMetrics
from vllm.logprobs import Logprob

from tests.checkpoint.formats import TOOL_WRITERS
from tests.checkpoint.streams import Call
from tests.golden.corpus import Json
from tests.reports.requests import PARIS, WEATHER
from tests.reports.service import CHAT, COMPLETIONS, Service, Services, user

SPECULATIVE = {
    "mean_acceptance_length": 1.5,
    "draft_acceptance_rate": 0.5,
    "acceptance_histogram": [1, 1],
    "num_spec_steps": 2,
    "num_accepted_draft_tokens": 1,
    "num_draft_tokens": 2,
    "num_spec_tokens": 1,
}


@pytest.fixture
def plain(services: Services) -> Service:
    return services.get("qwen3")


@pytest.mark.parametrize(
    "metrics",
    [
        {},
        {"queue_time_ms": 2},
        {"speculative_decoding": SPECULATIVE},
        {"speculative_decoding": {**SPECULATIVE, "per_step_accepted": [1, 0], "of_a_later_version": {"a": 1}}},
    ],
)
def test_11_metrics_have_the_fields_of_vllms_model(plain: Service, metrics: Json) -> None:
    expected: Any = PerRequestMetrics.model_validate(metrics).model_dump()
    answer = {"request_id": "r", "choices": [{"index": 0, "token_ids": [9707]}], "metrics": metrics}
    assert plain.ok(CHAT, {"generate_response": answer, "chat_request": user()})["metrics"] == expected
    assert plain.ok(COMPLETIONS, {"generate_responses": [answer]})["metrics"] == expected


def test_11_prompt_log_probabilities_have_the_fields_of_vllms_type(plain: Service) -> None:
    answer = {
        "request_id": "r",
        "choices": [{"index": 0, "token_ids": [9707]}],
        "prompt_logprobs": [None, {"9707": {"logprob": -0.5}}],
    }
    shown = plain.ok(CHAT, {"generate_response": answer, "chat_request": user()})["prompt_logprobs"]
    filled = Logprob(logprob=-0.5)
    assert shown == [
        None,
        {"9707": {"logprob": filled.logprob, "rank": filled.rank, "decoded_token": filled.decoded_token}},
    ]


@pytest.mark.parametrize("parser", ["deepseek_v3", "deepseek_v31", "deepseek_v32", "deepseek_v4", "deepseek_v41"])
def test_12_the_outputs_that_are_compared_have_the_models_own_form(services: Services, parser: str) -> None:
    """A form that a parser does not read proves nothing: it is text, alike on both sides."""
    text = TOOL_WRITERS[parser]([Call(PARIS[0], PARIS[1])])
    answer = services.get("deepseek", parser).one(text, user(tools=WEATHER, tool_choice="auto"))
    assert (answer.arguments(), answer.finish) == ([PARIS], "tool_calls")
