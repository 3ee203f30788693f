"""Reading a plain request directly never says anything that vLLM's own request types would not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import RequestError
from core.protocol.output_options import (
    chat_options,
    completion_options,
    plain_chat_options,
    plain_completion_options,
)
from core.upstream.requests import validate_chat, validate_completion

VALUES = st.one_of(
    st.booleans(), st.none(), st.integers(-3, 40), st.floats(-1, 3), st.text(max_size=3), st.just(2**40),
    st.lists(st.integers(-1, 9), max_size=3), st.lists(st.text(max_size=2), max_size=3), st.just({}),
)  # fmt: skip
FIELDS = st.dictionaries(
    st.sampled_from(
        ["max_tokens", "temperature", "n", "seed", "user", "stream", "stop", "stop_token_ids", "ignore_eos",
         "min_tokens", "include_stop_str_in_output", "skip_special_tokens", "spaces_between_special_tokens",
         "return_token_ids", "model", "include_reasoning", "max_completion_tokens", "top_p", "logprobs", "unheard_of"]
    ),
    VALUES,
    max_size=5,
)  # fmt: skip
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant", "system", "tool", "", 3]),
            "content": st.sampled_from(["x", "", None, []]),
        }
    ),
    max_size=2,
)


@given(fields=FIELDS, messages=MESSAGES)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_chat(fields: dict[str, Any], messages: list[Any]) -> None:
    request = {**fields, "messages": messages}
    plain = plain_chat_options(request)
    if plain is not None:
        assert plain == chat_options(validate_chat(request))


@given(fields=FIELDS, prompt=st.one_of(st.text(max_size=3), st.none(), st.lists(st.integers(0, 3))))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_completion(fields: dict[str, Any], prompt: Any) -> None:
    request = {**fields, "prompt": prompt}
    plain = plain_completion_options(request)
    if plain is not None:
        assert plain == completion_options(validate_completion(request))


def test_usual_requests_are_plain() -> None:
    message = {"role": "user", "content": "Hi"}
    assert plain_chat_options({"model": "m", "messages": [message], "max_tokens": 32}) is not None
    assert plain_completion_options({"model": "m", "prompt": "Hi", "temperature": 0.5}) is not None
    # These change what the output says, or may be refused: vLLM judges.
    assert plain_chat_options({"messages": [message], "logprobs": True}) is None
    assert plain_chat_options({"messages": [message], "tools": []}) is None


def test_vllm_refuses_in_its_own_words() -> None:
    with pytest.raises(RequestError, match="`tools` must not be an empty array") as caught:
        validate_chat({"messages": [], "tools": []})
    assert (caught.value.status, caught.value.type, caught.value.param) == (400, "BadRequestError", "tools")
    with pytest.raises(RequestError, match="Field required") as caught:
        validate_chat({"model": "m"}, "body.chat_request")
    assert (caught.value.type, caught.value.param) == ("Bad Request", "body.chat_request.messages")


@pytest.mark.parametrize(
    "fields",
    [{"tools": [{}], "tool_choice": {"type": "function", "function": {"name": "f"}}}, {"structured_outputs": []},
     {"tools": [None], "tool_choice": "auto"}, {"tool_choice": {"function": 7}, "tools": [{"a": 1}]}],
)  # fmt: skip
def test_what_trips_vllms_validators_is_a_bad_request(fields: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as caught:
        validate_chat({"messages": [], **fields})
    assert caught.value.status == 400
