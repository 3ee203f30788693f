"""What the engine generates: the script's answers, and where they end."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.engine.model import Model
from tests.engine.script import DEFAULT_SCRIPT, Script, last_user_message

Ask = Callable[..., dict[str, Any]]
MakeClient = Callable[..., TestClient]
EOS, ENDOFTEXT = 151645, 151643


def test_the_built_in_script(make_client: MakeClient, ask: Ask) -> None:
    client = make_client()
    assert ask(client, "Hi there")["text"] == "Hello! How can I help you today?<|im_end|>"
    assert ask(client, "Tell me about rivers")["text"] == "You said: Tell me about rivers<|im_end|>"
    reasoned = ask(client, "Why is the sky blue?")["text"]
    assert reasoned.startswith("<think>\nThe user asks: Why is the sky blue?\n")
    assert "\n</think>\n\nI thought about it" in reasoned
    # Without a tool of that name in the prompt, there is no call.
    assert "tool_call" not in ask(client, "What is the weather in Paris?")["text"]
    with_tool = "get_weather<|im_end|>\n<|im_start|>user\nWhat is the weather in São Paulo?"
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "São Paulo"}}\n</tool_call><|im_end|>'
    assert ask(client, with_tool)["text"] == call
    result = ask(client, "get_weather<tool_response>\n14 degrees\n</tool_response>")["text"]
    assert result == "The tool answered 14 degrees, so take a light jacket.<|im_end|>"


def test_an_answer_goes_on_where_the_prompt_ends(make_client: MakeClient, ask: Ask) -> None:
    client = make_client("<think>\nhm\n</think>\n\nyes")
    assert ask(client, "x", suffix="<think>\n")["text"] == "hm\n</think>\n\nyes<|im_end|>"
    assert ask(client, "x", suffix="<think>\n\n</think>\n\n")["text"] == "yes<|im_end|>"
    assert ask(client, "x")["text"].startswith("<think>\nhm")


@pytest.mark.parametrize(
    "prompt",
    [
        "<|im_start|>user\nfirst<|im_end|>\n<|im_start|>assistant\nx<|im_end|>\n<|im_start|>user\nlast<|im_end|>\n",
        "<|start_header_id|>user<|end_header_id|>\n\nfirst<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
        "last<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        "<|start|>user<|message|>first<|end|><|start|>user<|message|>last<|end|><|start|>assistant",
        "<｜User｜>first<｜Assistant｜>x<｜end▁of▁sentence｜><｜User｜>last<｜Assistant｜></think>",
        "<s>[INST] first[/INST] x</s>[INST] last[/INST]",
        "last",
        "<s>last",
    ],
)
def test_the_last_user_message_is_found_in_every_family(prompt: str) -> None:
    assert last_user_message(prompt) == "last"


def test_choices_take_the_answers_in_turn(make_client: MakeClient, model: Model) -> None:
    request = {"token_ids": [1], "sampling_params": {"n": 3}}
    choices = make_client(["red", "green"]).post("/inference/v1/generate", json=request).json()["choices"]
    assert [model.decode(c["token_ids"]) for c in choices] == [f"{x}<|im_end|>" for x in ("red", "green", "red")]


@pytest.mark.parametrize(
    ("params", "text", "finish_reason", "stop_reason"),
    [
        ({}, "one two three<|im_end|>", "stop", None),
        ({"max_tokens": 2}, "one two", "length", None),
        ({"ignore_eos": True, "max_tokens": 6}, "one two three<|im_end|>one two", "length", None),
        ({"min_tokens": 5}, "one two threeone two three<|im_end|>", "stop", None),
        ({"stop": "wo th"}, "one two three", "stop", "wo th"),
        ({"stop": ["zzz", "two", "wo"]}, "one two", "stop", "two"),
        ({"stop": "two", "min_tokens": 2}, "one two three<|im_end|>", "stop", None),
        ({"stop": "<|im_end|>"}, "one two three<|im_end|>", "stop", None),
        ({"stop": "e", "max_tokens": 1}, "one", "stop", "e"),
    ],
)
def test_where_an_answer_ends(
    params: dict[str, Any], text: str, finish_reason: str, stop_reason: Any, make_client: MakeClient, ask: Ask
) -> None:
    client = make_client("one two three")
    answer = ask(client, "x", **params)
    assert (answer["text"], answer["finish_reason"], answer["stop_reason"]) == (text, finish_reason, stop_reason)


def test_stop_tokens(make_client: MakeClient, ask: Ask, model: Model) -> None:
    (two,) = model.encode(" two")
    answer = ask(make_client("one two three"), "x", stop_token_ids=[two])
    assert (answer["text"], answer["stop_reason"]) == ("one two", two)
    # The other ends of sequence of generation_config.json are stop tokens, unless they are ignored.
    answer = ask(make_client("one<|endoftext|>two"), "x")
    assert (answer["text"], answer["finish_reason"], answer["stop_reason"]) == ("one<|endoftext|>", "stop", ENDOFTEXT)
    answer = ask(make_client("one<|endoftext|>two"), "x", ignore_eos=True, max_tokens=3)
    assert (answer["text"], answer["finish_reason"]) == ("one<|endoftext|>two", "length")
    # With nothing but stop tokens in the script, something else is sampled until min_tokens.
    ends = [*model.encode("one two"), EOS]
    answer = ask(make_client("one two"), "x", stop_token_ids=ends, min_tokens=3)
    assert (len(answer["token_ids"]), answer["stop_reason"]) == (4, ends[0])
    assert not set(ends) & set(answer["token_ids"][:3])
    answer = ask(make_client("one two"), "x", stop_token_ids=list(range(151936)), min_tokens=3)
    assert answer["stop_reason"] == ends[0]


def test_the_model_length_ends_an_answer(make_client: MakeClient) -> None:
    request = {"token_ids": [1] * 4093, "sampling_params": {"ignore_eos": True, "max_tokens": 100}}
    (choice,) = make_client("one two").post("/inference/v1/generate", json=request).json()["choices"]
    assert (len(choice["token_ids"]), choice["finish_reason"]) == (3, "length")


def test_a_stop_string_may_span_characters_of_several_tokens(make_client: MakeClient, ask: Ask) -> None:
    client = make_client("so 👩‍👩‍👧 and 日本 after")
    assert ask(client, "x", stop="👧 and")["stop_reason"] == "👧 and"
    assert ask(client, "x", stop="本 a")["text"].endswith("日本 after")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "a script is"),
        ({"rules": {}}, "a script is"),
        ({"rules": [{"match": "x", "answer": "y"}, {"match": "("}]}, "rule 1"),
        ({"rules": [{"match": "(", "answer": "y"}]}, "rule 0"),
        ({"rules": [{"match": "x", "answer": ""}]}, "none empty"),
        ({"rules": [{"match": "x", "answer": []}]}, "none empty"),
        ({"rules": ["x"]}, "rule 0"),
    ],
)
def test_what_is_not_a_script(source: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Script(source)


def test_rules_are_tried_in_order_and_braces_kept() -> None:
    script = Script(
        {
            "rules": [
                {"match": "a(b)?", "prompt": "only here", "answer": "first"},
                {"match": "a(b)?", "answer": '{"x": {1}, "y": {unknown}}'},
            ]
        }
    )
    assert script.answers("ab only here") == ["first"]
    assert script.answers("AB") == ['{"x": B, "y": {unknown}}']
    assert script.answers("a") == ['{"x": , "y": {unknown}}']
    assert script.answers("zzz") == ["The script has no answer to this."]
    assert Script(DEFAULT_SCRIPT).answers("") == ["You said: ", "I heard: "]
