"""The request for the engine against vLLM's own ``GenerateRequest``: the same fields, read and written alike."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from vllm.entrypoints.scale_out.token_in_token_out.protocol import GenerateRequest, ParseContext

from core.render.chat import render_chat
from core.render.completions import render_completion
from tests.render.conftest import HARMONY, HERMES, WEATHER, ModelOf, chat

BODIES: list[dict[str, Any]] = [
    chat(),
    chat(tools=[{**WEATHER, "x": 1}], tool_choice={"type": "function", "function": {"name": "get_weather"}, "y": 2}),
    chat(stream=True, stream_options={"include_usage": True, "more": 1}, return_token_offsets=True),
    chat(logit_bias={"5": 1.5}, stop=["a"], bad_words=["b"], seed=3, n=2, temperature=0.7, vllm_xargs={"a": [1, "b"]}),
    chat(response_format={"type": "json_object"}, repetition_detection={"max_pattern_size": 3, "min_count": 2}),
    chat(structured_outputs={"choice": ["a", "b"]}, include_reasoning=False, cache_salt="s", priority=-4),
]


def assert_as_vllm_writes_it(ours: dict[str, Any]) -> None:
    wire = orjson.loads(orjson.dumps(ours))
    theirs = GenerateRequest.model_validate(wire)
    assert list(wire) == list(GenerateRequest.model_fields)
    # The parameters that vLLM fills in while it reads are the ones that it leaves out when it writes; but for the limit.
    written = orjson.loads(orjson.dumps(theirs.model_dump(), option=orjson.OPT_NON_STR_KEYS))
    assert written["sampling_params"].pop("max_tokens", 16) == wire["sampling_params"].pop("max_tokens")
    assert written == wire


# A named tool needs a parser.
CHATS = [(body, parser) for body in BODIES for parser in (True, False) if parser or "tools" not in body]


@pytest.mark.parametrize(("body", "parser"), CHATS)
def test_chat(model_of: ModelOf, body: dict[str, Any], parser: bool) -> None:
    ours = render_chat(model_of("qwen3", **(HERMES if parser else {})), body)
    assert_as_vllm_writes_it(ours)
    assert set(ours["parse_context"]) == set(ParseContext.model_fields)


def test_harmony(model_of: ModelOf) -> None:
    ours = render_chat(model_of("gpt-oss", **HARMONY), chat(tools=[WEATHER]))
    assert_as_vllm_writes_it(ours)
    assert ours["parse_context"]["chat_template_kwargs"] == {}


def test_completions(model_of: ModelOf) -> None:
    for ours in render_completion(model_of("qwen3"), {"prompt": ["a", "b"], "return_token_offsets": True, "n": 2}):
        assert_as_vllm_writes_it(ours)
        assert ours["parse_context"] is None
