"""A stream's state is taken only by its own endpoint, deployment and model, whole or cut to vLLM's fields."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.derender.stream import derender_chat_stream, derender_completion_stream
from core.errors import InvalidState
from core.model import Model
from core.protocol.derender import (
    VLLM_FIELDS,
    DerenderChatStreamRequest,
    DerenderCompletionStreamRequest,
    StreamState,
)
from tests.support.models import load

Json = dict[str, Any]
KEY = "k" * 32
CHAT, COMPLETIONS = "chat", "completions"
REQUEST: Json = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture(scope="session")
def model(models_dir: Path) -> Callable[..., Model]:
    def make(name: str = "qwen3", *keys: str, **options: Any) -> Model:
        return load(models_dir / name, state_keys=keys, **options)

    return make


def step(model: Model, endpoint: str, ids: list[int], state: Json | None, **fields: Any) -> Json:
    """The state after a chunk."""
    chunk = {"request_id": "r", "choices": [{"index": 0, "token_ids": ids, **fields}]}
    body: Json = {"stream": True, "generate_chunk": chunk, "stream_state": state}
    if endpoint == COMPLETIONS:
        answer = derender_completion_stream(model, DerenderCompletionStreamRequest.model_validate(body))
    else:
        body |= {"chat_request": REQUEST, "prompt_token_ids": [1, 2]}
        answer = derender_chat_stream(model, DerenderChatStreamRequest.model_validate(body))
    state = answer["stream_state"]
    assert state is not None
    return state


def begun(model: Model, endpoint: str, text: str = "Hello, new world") -> Json:
    state = None
    for token_id in model.tokenizer.encode(text, add_special_tokens=False):
        state = step(model, endpoint, [token_id], state)
    assert state is not None
    return state


def cut(state: Json) -> Json:
    """What is left of a state in vLLM's ``DerenderStreamState``."""
    return {name: value for name, value in state.items() if name in VLLM_FIELDS}


@pytest.mark.parametrize("endpoint", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("keys", [(), (KEY,)])
def test_every_plain_state_says_whose_it_is(model: Callable[..., Model], endpoint: str, keys: tuple[str, ...]) -> None:
    state = begun(model("qwen3", *keys), endpoint)
    other = COMPLETIONS if endpoint == CHAT else CHAT
    for name, place in (("llama3", endpoint), ("qwen3", other)):
        with pytest.raises(InvalidState, match="config does not match") as caught:
            step(model(name, *keys), place, [9], state)
        assert caught.value.param == "stream_state.config"
    assert step(model("qwen3", *keys), endpoint, [9], state)


def test_a_parser_beside_it_changes_no_stream_of_completions(model: Callable[..., Model]) -> None:
    state = begun(model(), COMPLETIONS)
    assert step(model(reasoning_parser="qwen3"), COMPLETIONS, [9], state)
    with pytest.raises(InvalidState, match="checkpoint is missing"):
        step(model(reasoning_parser="qwen3"), CHAT, [9], begun(model(), CHAT))


def test_a_signed_state_has_its_config(model: Callable[..., Model]) -> None:
    signs = model("qwen3", KEY)
    assert signs.signer is not None
    state = {name: value for name, value in begun(signs, CHAT).items() if name != "config"}
    state["signature"] = signs.signer.sign(StreamState.model_validate(state).model_dump(exclude_defaults=True))
    with pytest.raises(InvalidState, match="config is missing"):
        step(signs, CHAT, [9], state)


@pytest.mark.parametrize("name", ["llama3", "mistral-spm", "mistral-tekken", "deepseek"])
@pytest.mark.parametrize("endpoint", [CHAT, COMPLETIONS])
def test_a_state_cut_to_vllms_fields_is_not_taken_from_another_model(
    model: Callable[..., Model], endpoint: str, name: str
) -> None:
    for one, other in (("qwen3", name), (name, "qwen3")):
        state = cut(begun(model(one), endpoint))
        assert step(model(one), endpoint, [9], state)
        with pytest.raises(InvalidState, match="prev_tokens"):
            step(model(other), endpoint, [9], state)


def test_a_state_cut_to_vllms_fields_is_not_taken_from_another_endpoint(model: Callable[..., Model]) -> None:
    plain = model()
    with pytest.raises(InvalidState, match="role_sent"):
        step(plain, COMPLETIONS, [9], cut(begun(plain, CHAT)))
    for deployment in (plain, model(reasoning_parser="qwen3", stream_state="replay")):
        with pytest.raises(InvalidState, match=r"logprob_text_offset|role_sent|checkpoint is missing"):
            step(deployment, CHAT, [9], cut(begun(plain, COMPLETIONS)))


def test_a_state_cut_to_vllms_fields_is_not_taken_from_another_deployment(model: Callable[..., Model]) -> None:
    replays = model(reasoning_parser="qwen3", stream_state="replay")
    with pytest.raises(InvalidState, match="output_token_ids"):
        step(model(), CHAT, [9], cut(begun(replays, CHAT)))
    with pytest.raises(InvalidState, match="checkpoint is missing"):
        step(replays, CHAT, [9], cut(begun(model(), CHAT)))


@pytest.mark.parametrize("name", ["qwen3", "llama3", "mistral-spm", "mistral-tekken", "deepseek"])
@pytest.mark.parametrize("endpoint", [CHAT, COMPLETIONS])
def test_no_state_of_ours_is_refused(model: Callable[..., Model], endpoint: str, name: str) -> None:
    """Whole and cut: after special and unfinished tokens, ids of no vocabulary, empty chunks and ends."""
    served = model(name)
    size = len(served.tokenizer)
    special = sorted(served.tokenizer.special_ids)
    rng = random.Random(f"{name} {endpoint}")
    unfinished = 94 if name == "qwen3" else 3
    for _ in range(25):
        whole, short = None, None
        for _ in range(8):
            ids = [
                rng.choice([rng.randrange(size), rng.choice(special), size + rng.randrange(9), unfinished])
                for _ in range(rng.choice([0, 1, 1, 3, 40]))
            ]
            if rng.random() < 0.1:
                ids += [unfinished] * 1100
            end = rng.choice([{}, {}, {}, {"finish_reason": "length"}])
            whole = step(served, endpoint, ids, whole, **end)
            short = cut(step(served, endpoint, ids, short, **end))
            assert cut(whole) == short
        eos = served.eos.primary
        last = step(served, endpoint, [9, eos] if eos is not None else [9], short, finish_reason="stop")
        assert step(served, endpoint, [], cut(last))
