"""Bodies that are nothing but brackets are refused before anything is built; honest ones pass."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest

from core.errors import PayloadTooLarge, SchemaError
from core.protocol import density
from core.protocol.body import decode_request
from core.protocol.density import BYTES_A_CONTAINER, FREE_CONTAINERS, check_density
from core.protocol.derender import (
    DerenderChatRequest,
    DerenderChatStreamRequest,
    DerenderCompletionRequest,
    DerenderCompletionStreamRequest,
    parse_derender,
)
from core.protocol.lists import MAX_CHOICES
from core.upstream.requests import validate_chat

SIZE = 1_500_000


def repeated(unit: str, size: int = SIZE) -> str:
    """``unit`` again and again, between commas."""
    return ",".join([unit] * (size // (len(unit) + 1)))


@pytest.mark.parametrize("unit", ["{}", "[]", "[1]", '{"index":0}', '{"a":1}', "[[[[]]]]"])
def test_brackets_are_refused_by_their_number(unit: str) -> None:
    with pytest.raises(PayloadTooLarge, match="lists and objects"):
        check_density(f'{{"x":[{repeated(unit)}]}}'.encode())


HONEST = {
    "logprobs": '{"token_id":5,"logprob":-1.25,"rank":1}',
    "prompt logprobs": '{"1234":{"logprob":-1.2345678806304932,"rank":1}}',
    "ids": "151643",
    "brackets in texts": json.dumps("{}[]" * 100),
    "brackets after quotes in texts": json.dumps('[1],{"a":"\\"}{' * 1000),
    "brackets after backslashes": json.dumps("\\" * 1001 + '"' + "{" * 10_000),
}


@pytest.mark.parametrize("name", HONEST)
def test_log_probabilities_ids_and_brackets_in_text_pass(name: str) -> None:
    check_density(f'{{"x":[{repeated(HONEST[name])}]}}'.encode())


def test_small_bodies_may_be_dense() -> None:
    check_density(("[" + repeated("{}", 3 * (FREE_CONTAINERS - 10)) + "]").encode())
    assert 3 * FREE_CONTAINERS // BYTES_A_CONTAINER < FREE_CONTAINERS


PART = '{"type":"text","text":"hi"}'


def chat(**fields: Any) -> str:
    return json.dumps({"generate_response": {"choices": [{"index": 0, "token_ids": [1]}]}, **fields})


def choice(field: str, unit: str) -> str:
    return '{"generate_response":{"choices":[{"index":0,"token_ids":[1],%s:%s}]}}' % (  # noqa: UP031
        json.dumps(field),
        unit.replace("@", repeated("@")),
    )


def content(unit: str) -> str:
    return f'{{"generate_response":{{"choices":[{{"index":0,"logprobs":{{"content":[{repeated(unit)}]}}}}]}}}}'


BODIES = {
    "small ids": f'{{"generate_response":{{"choices":[{{"index":0,"token_ids":[{repeated("1")}]}}]}}}}',
    "ids": f'{{"generate_response":{{"choices":[{{"index":0,"token_ids":[{repeated("151643")}]}}]}}}}',
    "prompt ids": f'{{"generate_response":{{"choices":[]}},"prompt_token_ids":[{repeated("300")}]}}',
    "wrong ids": f'{{"generate_response":{{"choices":[]}},"prompt_token_ids":[{repeated("-1")}]}}',
    "texts for ids": f'{{"generate_response":{{"choices":[{{"index":0,"token_ids":[{repeated(chr(34) + "x" + chr(34))}]}}]}}}}',
    "logprobs": content('{"token_id":1234,"logprob":-1.25,"rank":3}'),
    "short logprobs": content('{"token_id":5,"logprob":-1.5}'),
    "wrong logprobs": content('{"token_id":5,"logprob":"x","r":1}'),
    "choices": f'{{"generate_response":{{"choices":[{repeated(chr(123) + chr(34) + "index" + chr(34) + ":0,          " + chr(125))}]}}}}',
    "tools": f'{{"generate_response":{{"choices":[]}},"chat_request":{{"tools":[{repeated(chr(123) + " " * 18 + chr(125))}]}}}}',
    "one text": chat(chat_request={"x": "hello world " * (SIZE // 12)}),
}


@pytest.mark.parametrize("name", BODIES)
def test_memory_is_twelve_times_the_body_at_most(name: str) -> None:
    body = BODIES[name].encode()
    check_density(body)
    tracemalloc.start()
    try:
        with suppress(SchemaError):
            parse_derender(body, DerenderChatRequest, DerenderChatStreamRequest)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 * len(body) + 1_000_000


MESSAGE = '{"role":"user","content":"hello"}'
TOOLS = repeated('{"type":"function","function":{"name":"f","parameters":{}}}')
RENDERED = {
    "one text": json.dumps({"messages": [{"role": "user", "content": "hello world " * (SIZE // 12)}]}),
    "messages": f'{{"messages":[{repeated(MESSAGE)}]}}',
    "spaced messages": f'{{"messages":[{repeated(MESSAGE + " " * 31)}]}}',
    "content parts": f'{{"messages":[{{"role":"user","content":[{repeated(PART)}]}}]}}',
    "spaced content parts": f'{{"messages":[{{"role":"user","content":[{repeated(PART + " " * 39)}]}}]}}',
    "tools": f'{{"messages":[{MESSAGE}],"tools":[{TOOLS}]}}',
}


@pytest.mark.parametrize("name", RENDERED)
def test_memory_of_a_request_is_twelve_times_the_body_at_most(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that would take more are refused by what they hold; small bodies may hold it, so here none is small."""
    monkeypatch.setattr(density, "FREE_CONTAINERS", 0)
    body = RENDERED[name].encode()
    with suppress(SchemaError, PayloadTooLarge):
        validate_chat(decode_request(body))  # loads what it needs
    tracemalloc.start()
    try:
        with suppress(SchemaError, PayloadTooLarge):
            validate_chat(decode_request(body))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 * len(body) + 1_000_000
    refused = name in ("messages", "content parts", "tools")
    assert (peak < len(body)) == refused


def test_choices_are_counted_over_all_answers_before_one_is_built() -> None:
    one = {"choices": [{"index": 0, "token_ids": [1]}] * 1000}
    many = MAX_CHOICES // 1000 + 1
    body = json.dumps({"generate_responses": [one] * many}).encode()
    with pytest.raises(SchemaError, match=f"at most {MAX_CHOICES} choices together"):
        parse_derender(body, DerenderCompletionRequest, DerenderCompletionStreamRequest)
    body = json.dumps({"stream": True, "generate_chunks": [one] * many}).encode()
    with pytest.raises(SchemaError, match=f"at most {MAX_CHOICES} choices together"):
        parse_derender(body, DerenderChatRequest, DerenderChatStreamRequest)
