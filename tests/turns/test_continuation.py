"""Continuing from the last turn: what stays under each policy, what is said of it, and what is noticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from core.model import Model
from core.render.chat import render_chat
from core.turns.packing import pack_ids
from tests.support.models import load, model_folders
from tests.turns.chats import TOOLS, Style
from tests.turns.conftest import KEYS, PARSERS, Chat
from tests.turns.conversation import PLAIN, Tally, run_chat
from tests.turns.families import OWN, Family

Json = dict[str, Any]
Begin = Callable[..., Chat]
CANONICAL = '<think>\nhm\n</think>\n\nLook:\n<tool_call>\n{"name": "convert", "arguments": {"city": "Rome"}}\n</tool_call><|im_end|>'


def test_nothing_is_said_unless_it_is_asked_for(begin: Begin, signing: Model) -> None:
    """vLLM's wire stays as it is; asked, a first prompt is plain and says so."""
    chat = begin()
    bare = render_chat(signing, {"model": "qwen3", "messages": chat.messages})
    assert not {"continuation", "turn_state"} & bare.keys()
    told = chat.rendered["continuation"]
    assert told == {"mode": "plain", "kept": 0, "reason": "nothing to continue from", "sampled_spans": []}
    assert len(json.dumps(chat.rendered["turn_state"])) < 300


@pytest.mark.parametrize("policy", ["exact", "template", "append"])
def test_a_template_that_writes_what_was_sampled(begin: Begin, policy: str) -> None:
    """The text is the plain one, so all ids stay; other segments of the same text, too."""
    chat = begin(answer=CANONICAL)
    split = chat.output.index(chat.model.tokenizer.encode("Look", add_special_tokens=False)[0])
    parts = [chat.model.tokenizer.encode(part, add_special_tokens=False) for part in ("Lo", "ok")]
    chat.output[split : split + 1] = [one for part in parts for one in part]
    rendered = chat.render(policy)
    before = [*chat.rendered["token_ids"], *chat.output]
    told = rendered["continuation"]
    assert told["mode"] == "full"
    assert told["kept"] == len(before)
    assert told["reason"] is None
    assert told["sampled_spans"] == [[len(chat.rendered["token_ids"]), len(before)]]
    assert rendered["token_ids"][: len(before)] == before
    plain = render_chat(chat.model, {**chat.body(), "continue_from": None})
    assert chat.model.tokenizer.decode(plain["token_ids"]) == chat.model.tokenizer.decode(rendered["token_ids"])
    assert plain["token_ids"] != rendered["token_ids"]


def test_exact_never_changes_the_text(begin: Begin) -> None:
    chat = begin()
    rendered = chat.render()
    told = rendered["continuation"]
    assert told["mode"] == "part"
    assert told["reason"] == "the text of the last answer is another one"
    plain = render_chat(chat.model, {**chat.body(), "continue_from": None})
    assert rendered["token_ids"] == plain["token_ids"]


@pytest.mark.parametrize("policy", ["template", "append"])
def test_append_keeps_what_was_sampled(begin: Begin, policy: str) -> None:
    chat = begin()
    rendered = chat.render(policy)
    before = [*chat.rendered["token_ids"], *chat.output]
    assert rendered["continuation"]["mode"] == "append"
    assert rendered["token_ids"][: len(before)] == before
    tail = chat.model.tokenizer.decode(rendered["token_ids"][len(before) :])
    assert tail == (
        "\n<|im_start|>user\n<tool_response>\nIt is 5 o'clock.\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_packed_ids_are_ids(begin: Begin) -> None:
    chat = begin()
    packed = {
        "token_ids": pack_ids(chat.rendered["token_ids"]),
        "output_token_ids": pack_ids(chat.output),
    }
    assert chat.render("append", **packed)["token_ids"] == chat.render("append")["token_ids"]


@pytest.mark.parametrize("policy", ["exact", "template", "append"])
@pytest.mark.parametrize(
    "change",
    [
        {"content": "Look there:"},
        {"reasoning": "something else"},
        {"tool_calls": []},
        {
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "other", "arguments": '{"city": "Rome"}'}}
            ]
        },
        {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "convert", "arguments": "{}"}}]},
    ],
)
def test_an_edited_answer_is_noticed(begin: Begin, policy: str, change: Json) -> None:
    """Nothing of the answer's ids stays; the prompt before it does, since its text is the same."""
    chat = begin()
    chat.messages[1] = {**chat.messages[1], **change}
    rendered = chat.render(policy)
    assert rendered["continuation"]["reason"] == "the last answer is not the one that was sampled"
    assert rendered["continuation"]["kept"] == len(chat.rendered["token_ids"])
    assert rendered["continuation"]["sampled_spans"] == []


@pytest.mark.parametrize(
    "change",
    [
        {"content": "  Look:\n"},
        {"reasoning": None},
        {"content": [{"type": "text", "text": "Look:"}]},
        {
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "convert", "arguments": '{"city":"Rome"}'}}
            ]
        },
    ],
)
def test_clients_may_trim_and_respell(begin: Begin, change: Json) -> None:
    chat = begin()
    chat.messages[1] = {**chat.messages[1], **change}
    assert chat.render("append")["continuation"]["mode"] == "append"


def test_an_earlier_message_that_changed(begin: Begin) -> None:
    chat = begin()
    chat.messages[0] = {"role": "user", "content": "Whereabouts?"}
    told = chat.render("append")["continuation"]
    assert told["mode"] == "part"
    assert told["reason"].startswith("the messages before the last answer, or the tools")
    assert told["kept"] < len(chat.rendered["token_ids"])


def test_other_tools(begin: Begin) -> None:
    chat = begin()
    chat.fields = {"tools": TOOLS[:1]}
    told = chat.render("append")["continuation"]
    assert told["mode"] != "append"
    assert told["reason"].startswith("the messages before the last answer, or the tools")


def test_cut_off_by_its_length(begin: Begin) -> None:
    """The template's end of the turn follows what was sampled."""
    answer = "<think>\nhm\n</think>\n\nLook at this"
    chat = begin(answer=answer, said={"role": "assistant", "content": "Look at this"})
    chat.messages[2] = {"role": "user", "content": "Go on."}
    rendered = chat.render("append")
    before = [*chat.rendered["token_ids"], *chat.output]
    assert rendered["continuation"]["kept"] == len(before)
    assert chat.model.tokenizer.decode(rendered["token_ids"][len(before) :]).startswith("<|im_end|>\n<|im_start|>user")


def test_cut_off_inside_reasoning(begin: Begin) -> None:
    """An end of the thinking would be missing: the turn is not kept, unless the template writes just that."""
    answer = "<think>\nhm and"
    chat = begin(answer=answer, said={"role": "assistant", "content": ""})
    chat.messages[2] = {"role": "user", "content": "Go on."}
    told = chat.render("append")["continuation"]
    assert (told["mode"], told["kept"]) == ("part", len(chat.rendered["token_ids"]))
    assert told["reason"] == "the last answer has no content: it was cut off inside reasoning"
    chat.messages[1]["reasoning"] = "hm and"
    rendered = chat.render("append")
    assert rendered["continuation"]["mode"] == "full"
    assert chat.model.tokenizer.decode(rendered["token_ids"]).count("</think>") == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"truncate_prompt_tokens": 5},
        {"return_token_offsets": True},
        {"add_generation_prompt": False},
    ],
)
def test_requests_that_take_no_ids(begin: Begin, fields: Json) -> None:
    chat = begin()
    chat.fields = fields
    rendered = chat.render("append")
    assert rendered["continuation"]["mode"] == "plain"
    assert rendered["continuation"]["reason"]
    assert rendered["turn_state"] is None
    bare = render_chat(chat.model, {**chat.body(), "continue_from": None})
    assert rendered["token_ids"] == bare["token_ids"]


@pytest.mark.parametrize("folder", ["gpt-oss", "mistral-tekken"])
def test_prompts_that_are_no_text(folder: str) -> None:
    model = load(model_folders() / folder)
    body = {"messages": [{"role": "user", "content": "Hi"}], "continue_from": {"policy": "append"}}
    rendered = render_chat(model, body)
    assert rendered["continuation"]["reason"] == "prompts of this model are written as ids, not as text"
    assert rendered["turn_state"] is None


def test_a_deployment_without_keys_signs_nothing(begin: Begin) -> None:
    chat = begin(load(model_folders() / "qwen3", **PARSERS))
    assert "signature" not in chat.rendered["turn_state"]
    assert chat.render("append")["continuation"]["mode"] == "append"


def test_keys_can_be_replaced(begin: Begin) -> None:
    old = begin(load(model_folders() / "qwen3", state_keys=KEYS[1:], **PARSERS))
    both = load(model_folders() / "qwen3", state_keys=KEYS, **PARSERS)
    rendered = render_chat(both, old.body("append"))
    assert rendered["continuation"]["mode"] == "append"


@pytest.fixture(scope="module", params=OWN, ids=lambda family: family.name)
def family(request: pytest.FixtureRequest) -> Family:
    found: Family = request.param
    return found


@pytest.fixture(scope="module")
def deployed(family: Family, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return family.load(tmp_path_factory.mktemp("family"))


@pytest.mark.parametrize("policy", [PLAIN, "exact", "template", "append"])
def test_generated_chats(deployed: Model, family: Family, policy: str) -> None:
    """Chats of every family: equal texts, true spans, edits noticed; ``append`` keeps every turn."""
    tally = Tally()
    for style in (Style(False, False, True), Style(True, True, False)):
        tally.add(run_chat(deployed, family, policy, style, seed=1, turns=8))
    assert tally.turns == 16
    assert (tally.wrong_text, tally.wrong_spans, tally.wrong_edits) == (0, 0, 0), tally.examples
    if policy == "append":
        assert tally.whole == tally.turns
    if policy == PLAIN:
        assert tally.modes == {"plain": 16}
