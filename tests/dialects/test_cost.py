"""What a chunk of a dialect costs beside one of a chat, counted in calls of functions: the same on every machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from core.choice.output import unreported
from core.dialects import DIALECTS
from core.kept import Kept
from core.model import Model
from core.protocol.derender import parse_derender
from tests.support.models import load

PROMPT = [151644, 872, 198, 13048, 151645, 198, 151644, 77091, 198]
PARSERS = {"tool_call_parser": "hermes", "reasoning_parser": "qwen3", "enable_auto_tool_choice": True}
MOST = 1.3
DOORS = {dialect.name: dialect for dialect in DIALECTS}


def functions(count: int) -> list[dict[str, Any]]:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return [
        {"name": f"tool_{number}", "description": "Does things.", "parameters": parameters} for number in range(count)
    ]


def request(dialect: str, tools: int) -> dict[str, Any]:
    user = [{"role": "user", "content": "Hi"}]
    if dialect == "chat":
        body: dict[str, Any] = {"messages": user}
        found = [{"type": "function", "function": tool} for tool in functions(tools)]
    elif dialect == "messages":
        body = {"messages": user, "max_tokens": 100, "model": "m"}
        found = [
            {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
            for tool in functions(tools)
        ]
    else:
        body = {"input": user}
        found = [{"type": "function", "strict": False, **tool} for tool in functions(tools)]
    return {**body, "tools": found} if tools else body


@pytest.fixture(scope="module")
def model(models_dir: Path) -> Model:
    return load(models_dir / "qwen3", served_names=("m",), **PARSERS)


class Stream:
    """The calls of one stream, a chunk each, which send the request every time."""

    def __init__(self, model: Model, dialect: str, tools: int) -> None:
        self._model = model
        self._door = DOORS[dialect].derendering()
        self._fixed = {"stream": True, "prompt_token_ids": PROMPT, _FIELDS[dialect]: request(dialect, tools)}
        self.state: Any = None

    def body(self, ids: list[int]) -> bytes:
        chunk = {"request_id": "r", "choices": [{"index": 0, "token_ids": ids}]}
        return json.dumps({**self._fixed, "generate_chunk": chunk, "stream_state": self.state}).encode()

    def call(self, body: bytes) -> Any:
        return self._door.derender_stream(self._model, parse_derender(body, *self._door.bodies()), unreported)

    def advance(self, ids: list[int]) -> None:
        self.state = self.call(self.body(ids))["stream_state"]

    def cost(self) -> int:
        """The functions that a call of one more token calls."""
        body = self.body([11613])
        count = 0

        def seen(frame: Any, event: str, argument: Any) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(seen)
        try:
            self.call(body)
        finally:
            sys.setprofile(None)
        return count


_FIELDS = {"chat": "chat_request", "messages": "messages_request", "responses": "responses_request"}


def opened(model: Model, dialect: str, tools: int) -> Stream:
    stream = Stream(model, dialect, tools)
    stream.advance([151667, 198])
    stream.advance([11613, 323])
    return stream


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "restored"])
@pytest.mark.parametrize("tools", [0, 30])
@pytest.mark.parametrize("dialect", ["messages", "responses"])
def test_a_chunk_costs_hardly_more_than_a_chats(
    model: Model, dialect: str, tools: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the parser waits for its next chunk, and where it comes back from its checkpoint."""
    if not kept:
        monkeypatch.setattr(model.chat_parser, "waiting", Kept(0))
    chat, other = opened(model, "chat", tools).cost(), opened(model, dialect, tools).cost()
    assert other <= MOST * chat, f"{other} calls, and {chat} of a chat's"


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
def test_a_chunk_costs_the_same_at_the_end_of_a_stream(model: Model, dialect: str) -> None:
    stream = opened(model, dialect, 0)
    before = stream.cost()
    for _ in range(20):
        stream.advance([11613, 323] * 50)
    assert stream.cost() <= 1.05 * before
