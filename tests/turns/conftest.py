"""A small conversation to continue, and what a client would send of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from core.model import Model
from core.render.chat import render_chat
from tests.support.models import load, model_folders
from tests.turns.chats import TOOLS

Json = dict[str, Any]
KEYS = ("the key of these tests", "an older key of them")
ANSWER = '<think>\nhm\n</think>\n\nLook:\n\n<tool_call>\n{"name": "convert",  "arguments": {"city":"Rome"}}\n</tool_call><|im_end|>'
PARSERS: Json = {"tool_call_parser": "hermes", "reasoning_parser": "qwen3", "enable_auto_tool_choice": True}


@dataclass
class Chat:
    """A chat of one turn: its prompt, the sampled ids, and the messages that come after."""

    model: Model
    rendered: Json
    output: list[int]
    messages: list[Json]
    fields: Json = field(default_factory=dict)

    def body(self, policy: str = "exact", **changes: Any) -> Json:
        """The next request; ``changes`` are to ``continue_from``."""
        given = {
            "token_ids": self.rendered["token_ids"],
            "output_token_ids": self.output,
            "turn_state": self.rendered["turn_state"],
            "policy": policy,
            **changes,
        }
        return {
            "model": self.model.name,
            "tools": TOOLS,
            "messages": self.messages,
            "continue_from": given,
            **self.fields,
        }

    def render(self, policy: str = "exact", **changes: Any) -> Json:
        return render_chat(self.model, self.body(policy, **changes))


@pytest.fixture(scope="session")
def signing() -> Model:
    return load(model_folders() / "qwen3", state_keys=KEYS[:1], **PARSERS)


@pytest.fixture
def begin(signing: Model) -> Callable[..., Chat]:
    """A chat whose first answer calls a tool; ``said`` is what the client makes of it."""

    def make(model: Model = signing, answer: str = ANSWER, said: Json | None = None) -> Chat:
        first: list[Json] = [{"role": "user", "content": "Where?"}]
        body = {"model": model.name, "tools": TOOLS, "messages": first, "continue_from": {}}
        call = {"id": "call-1", "type": "function", "function": {"name": "convert", "arguments": '{"city": "Rome"}'}}
        message = {"role": "assistant", "content": "Look:", "reasoning": "hm", "tool_calls": [call]}
        after = {"role": "tool", "tool_call_id": "call-1", "content": "It is 5 o'clock."}
        output = model.tokenizer.encode(answer, add_special_tokens=False)
        return Chat(model, render_chat(model, body), output, [*first, said or message, after])

    return make
