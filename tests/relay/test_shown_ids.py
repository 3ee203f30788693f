"""What an answer repeats of its prompts is bounded, and never in one block."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.bounds import MAX_SHOWN_IDS, check_shown_ids
from core.bundle.folder import FolderFiles
from core.dialects.chat import CHAT
from core.dialects.chat.relay import open_request
from core.dialects.completions.derender import derender
from core.dialects.completions.relay import open_request as open_completion
from core.errors import BadRequest
from core.model import Model, load_model
from core.options import ModelOptions
from core.protocol.derender import DerenderCompletionRequest
from core.protocol.engine import GenerateChunk
from handlers.relay_endpoints import _BLOCK_BYTES, stream_answer
from handlers.sse import StreamForm


@pytest.fixture(scope="module")
def model(models_dir: Path) -> Model:
    return load_model(FolderFiles(models_dir / "qwen3"), ModelOptions(served_names=("m",)))


def test_the_bound() -> None:
    check_shown_ids(MAX_SHOWN_IDS)
    with pytest.raises(BadRequest, match="return_token_ids") as refused:
        check_shown_ids(MAX_SHOWN_IDS + 1)
    assert refused.value.param == "return_token_ids"


@pytest.mark.parametrize("shown", [True, False])
def test_the_relay_refuses_before_it_asks_an_engine(model: Model, shown: bool) -> None:
    """4,000 choices of a prompt of 20,000 tokens: 60 KB of request, 458 MB of answer."""
    chat = {"messages": [{"role": "user", "content": "hi" * 20_000}], "n": 4000, "return_token_ids": shown}
    completion = {"prompt": [1] * 20_000, "n": 4000, "return_token_ids": shown}
    for opened, body in ((open_request, chat), (open_completion, completion)):
        if shown:
            with pytest.raises(BadRequest, match="return_token_ids"):
                opened(model, body)
        else:
            assert opened(model, body).n == 4000


def test_derender_refuses_before_it_reads_a_choice(model: Model) -> None:
    choice = {"index": 0, "token_ids": [1], "finish_reason": "stop"}
    response: dict[str, Any] = {"request_id": "r", "prompt_token_ids": [1] * 20_000, "choices": [choice] * 300}
    body = {"generate_responses": [response], "completion_request": {"prompt": "x", "return_token_ids": True}}
    with pytest.raises(BadRequest, match="return_token_ids"):
        derender(model, DerenderCompletionRequest.model_validate(body), lambda *_: None)
    response["choices"] = [choice]
    derender(model, DerenderCompletionRequest.model_validate(body), lambda *_: None)


def test_a_block_does_not_grow_with_the_choices(model: Model) -> None:
    """Before, all first events of all choices were one block."""
    prompt, n = 2_000, 400
    body = {"messages": [{"role": "user", "content": "hi" * prompt}], "n": n, "return_token_ids": True, "stream": True}
    request = open_request(model, body)

    class Engines:
        async def stream(self, prompt: Any) -> Any:
            choices = [{"index": index, "token_ids": [1], "finish_reason": "stop"} for index in range(n)]
            yield [GenerateChunk.model_validate({"request_id": "r", "choices": choices})]

    http: Any = SimpleNamespace(state=SimpleNamespace())
    engines: Any = Engines()

    async def blocks() -> list[bytes]:
        writer = CHAT.relaying().writer(request)
        form = StreamForm(CHAT.named_events, writer.fail)
        return [block async for block in stream_answer(engines, writer, request, form, http)]

    found = asyncio.run(blocks())
    event = len(found[0].split(b"\n\n")[0]) + 2
    assert sum(map(len, found)) > 10 * _BLOCK_BYTES
    assert max(map(len, found)) <= _BLOCK_BYTES + event
    assert found[-1].endswith(b"data: [DONE]\n\n")
