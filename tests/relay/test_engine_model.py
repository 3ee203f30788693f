"""The model's name at the engine, where it is another than the one that clients give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openai
import pytest

from tests.engine.generation import Engine
from tests.engine.model import Model
from tests.engine.script import Script
from tests.engine.server import create_app as create_engine_app
from tests.relay.conftest import MODEL, SCRIPT, client_of
from tests.support.serving import serving

MESSAGES: Any = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def other_engine(engine_model: Model) -> Engine:
    return Engine(engine_model, Script(SCRIPT), ["elsewhere"], tokens_only=True)


@pytest.mark.parametrize("stream", [False, True])
def test_the_engine_gets_its_own_name(make_relay: Callable[..., Any], other_engine: Engine, stream: bool) -> None:
    with (
        serving(create_engine_app(other_engine)) as engine_url,
        serving(make_relay(engine_url, engine_model="elsewhere")) as url,
    ):
        client = client_of(url)
        if stream:
            chunks = list(client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True))
            assert chunks[-1].model == MODEL
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        else:
            # What a stream cannot carry is asked for in one piece: the other way to the engine.
            answer = client.completions.create(model=MODEL, prompt="Hello", extra_body={"prompt_logprobs": 1})
            assert (answer.model, len(answer.choices)) == (MODEL, 1)
            whole = client.chat.completions.create(model=MODEL, messages=MESSAGES)
            assert whole.model == MODEL
            text = whole.choices[0].message.content or ""
    assert text == "Hello! How can I help you today?"


def test_without_it_the_engine_gets_the_clients(make_relay: Callable[..., Any], other_engine: Engine) -> None:
    with (
        serving(create_engine_app(other_engine)) as engine_url,
        serving(make_relay(engine_url)) as url,
        pytest.raises(openai.NotFoundError, match=f"The model `{MODEL}` does not exist"),
    ):
        client_of(url).chat.completions.create(model=MODEL, messages=MESSAGES)
