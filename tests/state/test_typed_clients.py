"""A client that reads a state into vLLM's own model and sends back only its fields: right answers, or a 400."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.bundle.folder import FolderFiles
from core.derender.stream import derender_chat_stream, derender_completion_stream
from core.errors import InvalidState
from core.json import Json
from core.model import Model, load_model
from core.options import ModelOptions
from core.protocol.derender import VLLM_FIELDS, DerenderChatStreamRequest, DerenderCompletionStreamRequest

TEXT = "<think>\nHm, 漢字.\n</think>\n\nHello, world!"
REQUEST: Json = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture(scope="session")
def load(models_dir: Path) -> Callable[..., Model]:
    def load(stream_state: str = "checkpoint", reasoning: str | None = "qwen3") -> Model:
        options = ModelOptions(("m",), reasoning_parser=reasoning, stream_state=stream_state)
        return load_model(FolderFiles(models_dir / "qwen3"), options)

    return load


def typed(state: Json) -> Json:
    """What is left of a state in vLLM's ``DerenderStreamState``."""
    return {name: value for name, value in state.items() if name in VLLM_FIELDS}


def joined(model: Model) -> tuple[str, str]:
    state, content, reasoning = None, "", ""
    for token_id in model.tokenizer.encode(TEXT, add_special_tokens=False):
        chunk = {"request_id": "r", "choices": [{"index": 0, "token_ids": [token_id]}]}
        body = {
            "stream": True, "generate_chunk": chunk, "stream_state": state, "chat_request": REQUEST, "prompt_token_ids": [1, 2],
        }  # fmt: skip
        answer = derender_chat_stream(model, DerenderChatStreamRequest.model_validate(body))
        state = typed(answer["stream_state"])
        delta = answer["chunk"]["choices"][0]["delta"]
        content, reasoning = content + (delta["content"] or ""), reasoning + (delta["reasoning"] or "")
    return content.strip(), reasoning.strip()


def test_a_plain_stream_needs_no_field_of_ours(load: Callable[..., Model]) -> None:
    assert joined(load(reasoning=None))[0] == TEXT


def test_a_replayed_stream_needs_no_field_of_ours(load: Callable[..., Model]) -> None:
    assert joined(load("replay")) == ("Hello, world!", "Hm, 漢字.")


def test_a_checkpoint_that_was_lost_is_missed_and_the_setting_is_named(load: Callable[..., Model]) -> None:
    with pytest.raises(InvalidState, match="--stream-state") as caught:
        joined(load())
    assert caught.value.param == "stream_state.checkpoint"


def test_the_state_of_another_endpoint_is_not_taken_for_a_parsed_stream(load: Callable[..., Model]) -> None:
    chunk = {"request_id": "r", "choices": [{"index": 0, "token_ids": [9707, 11]}]}
    body: Json = {"stream": True, "generate_chunk": chunk}
    answer = derender_completion_stream(load(), DerenderCompletionStreamRequest.model_validate(body))
    body |= {"chat_request": REQUEST, "prompt_token_ids": [1], "stream_state": answer["stream_state"]}
    with pytest.raises(InvalidState, match="checkpoint"):
        derender_chat_stream(load(), DerenderChatStreamRequest.model_validate(body))
