"""``return_turn_state``: derender binds the state of a prompt to the ids that answered it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from core.derender.chat import derender_chat
from core.derender.stream import derender_chat_stream
from core.dialects.messages import derender as messages_derender
from core.dialects.messages import render as messages_render
from core.dialects.responses import derender as responses_derender
from core.dialects.responses import render as responses_render
from core.errors import RequestError
from core.model import Model
from core.protocol.derender import DerenderChatRequest, DerenderChatStreamRequest
from tests.support.models import load, model_folders
from tests.turns.chats import TOOLS
from tests.turns.conftest import Chat

Json = dict[str, Any]
Begin = Callable[..., Chat]


def request_of(chat: Chat) -> Json:
    return {"model": chat.model.name, "tools": TOOLS, "messages": chat.messages[:1]}


def derendered(chat: Chat, **fields: Any) -> Json:
    body: Json = {
        "generate_response": {"choices": [{"index": 0, "token_ids": chat.output, "finish_reason": "stop"}]},
        "prompt_token_ids": chat.rendered["token_ids"],
        "chat_request": request_of(chat),
        "return_turn_state": True,
        "turn_state": chat.rendered["turn_state"],
        **fields,
    }
    return derender_chat(chat.model, DerenderChatRequest.model_validate(body))


def streamed(chat: Chat, size: int) -> list[Json]:
    """The answers of a stream, ``size`` tokens a call."""
    answers: list[Json] = []
    state = None
    pieces = [chat.output[at : at + size] for at in range(0, len(chat.output), size)]
    for number, piece in enumerate(pieces):
        reason = "stop" if number == len(pieces) - 1 else None
        body: Json = {
            "stream": True,
            "generate_chunk": {"choices": [{"index": 0, "token_ids": piece, "finish_reason": reason}]},
            "stream_state": state,
            "prompt_token_ids": chat.rendered["token_ids"],
            "chat_request": request_of(chat),
        }
        if number == 0:
            body |= {"return_turn_state": True, "turn_state": chat.rendered["turn_state"]}
        answers.append(derender_chat_stream(chat.model, DerenderChatStreamRequest.model_validate(body)))
        state = answers[-1]["stream_state"]
    return answers


def test_nothing_unless_asked(begin: Begin) -> None:
    chat = begin()
    (choice,) = derendered(chat, return_turn_state=False)["choices"]
    assert "turn_state" not in choice


def test_whole_and_streamed_are_one(begin: Begin) -> None:
    """However the engine cuts its answer, the state is the same, and goes into the next render."""
    chat = begin()
    (choice,) = derendered(chat)["choices"]
    for size in (1, 3, 7, 1000):
        *earlier, last = streamed(chat, size)
        assert last["turn_state"] == choice["turn_state"]
        assert not any("turn_state" in answer for answer in earlier)
    assert chat.render("append", turn_state=choice["turn_state"])["continuation"]["mode"] == "append"


def test_other_ids_are_refused(begin: Begin) -> None:
    """Of another choice, or another conversation."""
    chat = begin()
    (choice,) = derendered(chat)["choices"]
    with pytest.raises(RequestError) as caught:
        chat.render("append", turn_state=choice["turn_state"], output_token_ids=chat.output[:-3])
    assert caught.value.param == "body.continue_from.output_token_ids"


@pytest.mark.parametrize(
    "fields",
    [
        {"turn_state": None},
        {"turn_state": {}},
        {"prompt_token_ids": [1, 2, 3]},
        {"turn_state": {"chars": "many"}},
    ],
)
def test_what_does_not_match(begin: Begin, fields: Json) -> None:
    with pytest.raises(RequestError) as caught:
        derendered(begin(), **fields)
    assert caught.value.status == 400
    assert "turn_state" in caught.value.message + (caught.value.param or "")


def test_a_stream_state_that_was_altered(begin: Begin) -> None:
    chat = begin()
    state = streamed(chat, 1000)[-1]["stream_state"]
    body: Json = {
        "stream": True,
        "generate_chunk": {"choices": [{"index": 0, "token_ids": [1]}]},
        "stream_state": {**state, "turn": {"state": 1}},
        "prompt_token_ids": chat.rendered["token_ids"],
        "chat_request": request_of(chat),
    }
    with pytest.raises(RequestError) as caught:
        derender_chat_stream(chat.model, DerenderChatStreamRequest.model_validate(body))
    assert caught.value.status == 400


def test_messages(signing: Model, begin: Begin) -> None:
    """Anthropic's dialect has both fields, too."""
    chat = begin(answer="<think>\nhm\n</think>\n\nWell.<|im_end|>")
    asked: Json = {"model": "qwen3", "max_tokens": 50, "messages": [{"role": "user", "content": "Where?"}]}
    rendered = messages_render.render(signing, {**asked, "continue_from": {}})
    body = {
        "generate_response": {"choices": [{"index": 0, "token_ids": chat.output, "finish_reason": "stop"}]},
        "prompt_token_ids": rendered["token_ids"],
        "messages_request": asked,
        "return_turn_state": True,
        "turn_state": rendered["turn_state"],
    }
    once, chunk = messages_derender.bodies()
    answer = messages_derender.derender(signing, once.model_validate(body))
    assert answer["content"][-1] == {"type": "text", "text": "\n\nWell."}
    streamed_body = {name: value for name, value in body.items() if name != "generate_response"}
    streamed_body |= {"stream": True, "generate_chunk": body["generate_response"]}
    assert (
        messages_derender.derender_stream(signing, chunk.model_validate(streamed_body))["turn_state"]
        == (answer["turn_state"])
    )
    following = [
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": "And then?"},
    ]
    given = {
        "policy": "append",
        "token_ids": rendered["token_ids"],
        "output_token_ids": chat.output,
        "turn_state": answer["turn_state"],
    }
    after = messages_render.render(
        signing, {**asked, "messages": [*asked["messages"], *following], "continue_from": given}
    )
    assert after["continuation"]["mode"] in ("full", "append")
    before = [*rendered["token_ids"], *chat.output]
    assert after["token_ids"][: len(before)] == before


def test_responses(signing: Model, begin: Begin) -> None:
    """OpenAI's other dialect: the items of an answer are one turn."""
    chat = begin()
    tool = {"type": "function", **TOOLS[0]["function"]}
    asked: Json = {"model": "qwen3", "tools": [tool], "input": [{"role": "user", "content": "Where?"}]}
    rendered = responses_render.render(signing, {**asked, "continue_from": {}})
    assert rendered["continuation"]["mode"] == "plain"
    body = {
        "generate_response": {"choices": [{"index": 0, "token_ids": chat.output, "finish_reason": "stop"}]},
        "prompt_token_ids": rendered["token_ids"],
        "responses_request": asked,
        "return_turn_state": True,
        "turn_state": rendered["turn_state"],
    }
    once, chunk = responses_derender.bodies()
    answer = responses_derender.derender(signing, once.model_validate(body))
    assert [item["type"] for item in answer["output"]] == ["reasoning", "message", "function_call"]
    of_stream = {name: value for name, value in body.items() if name != "generate_response"}
    of_stream |= {"stream": True, "generate_chunk": body["generate_response"]}
    streamed_answer = responses_derender.derender_stream(signing, chunk.model_validate(of_stream))
    assert streamed_answer["turn_state"] == answer["turn_state"]
    result = {"type": "function_call_output", "call_id": answer["output"][-1]["call_id"], "output": "It is 5 o'clock."}
    following = {**asked, "input": [*asked["input"], *answer["output"], result]}
    given = {
        "token_ids": rendered["token_ids"],
        "output_token_ids": chat.output,
        "turn_state": answer["turn_state"],
        "policy": "append",
    }
    after = responses_render.render(signing, {**following, "continue_from": given})
    assert after["continuation"]["mode"] == "append"
    before = [*rendered["token_ids"], *chat.output]
    assert after["token_ids"][: len(before)] == before
    plain = responses_render.render(signing, following)
    exact = responses_render.render(signing, {**following, "continue_from": {**given, "policy": "exact"}})
    assert exact["continuation"]["mode"] == "part"
    assert signing.tokenizer.decode(exact["token_ids"]) == signing.tokenizer.decode(plain["token_ids"])
    edited = [{**item, "arguments": "{}"} if item["type"] == "function_call" else item for item in answer["output"]]
    changed = {**asked, "input": [*asked["input"], *edited, result]}
    told = responses_render.render(signing, {**changed, "continue_from": given})["continuation"]
    assert (told["mode"], told["reason"]) == ("part", "the last answer is not the one that was sampled")


def llama_that_adds(folder: Path, form: str) -> Model:
    """A Llama whose tokenizer puts its first token into every text, as ``form`` says."""
    folder /= "llama3"
    shutil.copytree(model_folders() / "llama3", folder)
    path = str(folder / "tokenizer.json")
    tokenizer = Tokenizer.from_file(path)
    first = "<|begin_of_text|>"
    tokenizer.post_processor = TemplateProcessing(
        single=form.replace("FIRST", first), special_tokens=[(first, tokenizer.token_to_id(first))]
    )
    tokenizer.save(path)
    return load(folder, state_keys=("a key of the tests, long enough",))


def test_responses_where_the_tokenizer_ends_every_prompt(tmp_path: Path) -> None:
    model = llama_that_adds(tmp_path, "$A FIRST")
    asked: Json = {"model": "llama3", "input": [{"role": "user", "content": "Where?"}], "continue_from": {}}
    rendered = responses_render.render(model, asked)
    assert rendered["continuation"]["reason"] == "special tokens are added to the prompt"
    assert rendered["turn_state"] is None


def test_responses_where_the_tokenizer_begins_every_prompt(tmp_path: Path) -> None:
    """vLLM lets it add its token to the prompt of a response, whose template wrote one already: it stays the first id."""
    model = llama_that_adds(tmp_path, "FIRST $A")
    asked: Json = {"model": "llama3", "input": [{"role": "user", "content": "Where?"}]}
    rendered = responses_render.render(model, {**asked, "continue_from": {}})
    assert rendered["token_ids"][:2] == model.tokenizer.encode("", add_special_tokens=True) * 2
    output = model.tokenizer.encode("In  Rome.<|eot_id|>", add_special_tokens=False)
    answer = {"type": "message", "role": "assistant", "content": "In  Rome."}
    given = {"token_ids": rendered["token_ids"], "output_token_ids": output, "turn_state": rendered["turn_state"]}
    following = {**asked, "input": [*asked["input"], answer, {"role": "user", "content": "And then?"}]}
    after = responses_render.render(model, {**following, "continue_from": given})
    before = [*rendered["token_ids"], *output]
    assert after["continuation"]["mode"] == "full"
    assert after["continuation"]["kept"] == len(before)
    assert after["continuation"]["sampled_spans"] == [[len(rendered["token_ids"]), len(before)]]
    assert after["token_ids"][: len(before)] == before
    assert after["token_ids"] == responses_render.render(model, following)["token_ids"]
