"""Bodies that are not what they should be, in vLLM's words."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import BadRequest, SchemaError
from core.protocol.body import decode_body
from core.upstream.refusals import refusal_of, refusals
from core.upstream.requests import validate_chat, validate_completion


@pytest.mark.parametrize(
    ("raw", "param", "text"),
    [
        (b"", "body", "Field required"),
        (b"{", "body.1", "Expecting property name enclosed in double quotes"),
        (b"{'a': 1}", "body.1", "Expecting property name enclosed in double quotes"),
        (b"[1,]", "body.3", "Expecting value"),
        (b'{"a": 1} x', "body.9", "Extra data"),
        (b'"\xff"', "body.0", "invalid unicode code point"),
        (b'{"a": "\\ud800"}', "body.0", "unexpected end of hex escape"),
        (b"[" * 300 + b"]" * 300, "body.0", "recursion limit exceeded"),
        (b"[" * 100_000, "body.0", "recursion limit exceeded"),
        (b"1" * 5000, "body.0", "number out of range"),
    ],
)
def test_what_is_not_json(raw: bytes, param: str, text: str) -> None:
    with pytest.raises(SchemaError) as caught:
        decode_body(raw)
    assert caught.value.param == param
    assert text in caught.value.message
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        (
            None,
            "1 validation error:\n  {'type': 'missing', 'loc': 'body', 'msg': 'Field required', 'input': 'None'}",
            "body",
        ),
        (
            [],
            "1 validation error:\n  {'type': 'model_attributes_type', 'loc': 'body', 'msg': 'Input should be a valid "
            "dictionary or object to extract fields from', 'input': '<list of 0 items>'}",
            "body",
        ),
        (
            {"model": 1, "messages": []},
            "1 validation error:\n  {'type': 'string_type', 'loc': 'body.model', 'msg': 'Input should be a valid "
            "string', 'input': '1'}",
            "body.model",
        ),
        (
            {"messages": [], "truncate_prompt_tokens": -5},
            "1 validation error:\n  {'type': 'greater_than_equal', 'loc': 'body.truncate_prompt_tokens', 'msg': 'Input "
            "should be greater than or equal to -1', 'input': '-5', 'ctx': {'ge': -1}}",
            "body.truncate_prompt_tokens",
        ),
    ],
)
def test_schema_errors(body: Any, message: str, param: str) -> None:
    with pytest.raises(SchemaError) as caught:
        validate_chat(body)
    assert (caught.value.message, caught.value.param) == (message, param)


def test_branches_of_a_union_are_no_part_of_a_fields_name() -> None:
    with pytest.raises(SchemaError) as caught:
        validate_completion({"prompt": [-1]})
    assert caught.value.param == "body.prompt.0"
    assert "constrained" not in caught.value.message


def test_an_error_does_not_grow_with_the_request() -> None:
    bad = {"role": "x" * 10_000, "content": 5}
    with pytest.raises(SchemaError) as caught:
        validate_chat({"messages": [bad] * 50})
    assert len(caught.value.message) < 12_000
    assert "...and " in caught.value.message
    with pytest.raises(SchemaError, match=r"^\d+ validation errors: too many to list$"):
        validate_chat({"messages": [bad] * 500})


def test_validators_that_fail_are_answered() -> None:
    # vLLM's validators take for granted what a hostile body need not have.
    choice = {"type": "function", "function": {"name": "x"}}
    with pytest.raises(BadRequest, match="The request cannot be processed: KeyError"):
        validate_chat({"messages": [], "tools": [{}], "tool_choice": choice})


def test_every_exception_becomes_an_answer() -> None:
    assert refusal_of(ValueError("bad")).message == "bad"
    assert refusal_of(KeyError("k")).message == "The request cannot be processed: KeyError: 'k'"
    assert refusal_of(ValueError("")).message == "The request cannot be processed: ValueError"
    assert len(refusal_of(ValueError("x" * 10**6)).message) <= 16_000
    with pytest.raises(BadRequest, match="RecursionError"), refusals():
        raise RecursionError
    with pytest.raises(KeyboardInterrupt), refusals():
        raise KeyboardInterrupt
