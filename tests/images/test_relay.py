"""Images through the relay, to an engine that reads them itself: as clients of each dialect send them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from handlers.server import server_app
from handlers.settings import Settings
from tests.engine.generation import Engine
from tests.engine.model import Model as EngineModel
from tests.engine.script import Script
from tests.engine.server import create_app as create_engine_app
from tests.images.recorded import data_url
from tests.support.serving import serving

NAME = "qwen2.5-vl"
PNG, JPEG = data_url("png_28x28"), data_url("jpg_exif3")
PAD = 151655
ANSWER = "A small picture, mostly grey."


@dataclass
class Relay:
    url: str
    engine: Engine


@pytest.fixture(scope="module")
def relay(image_models: Path) -> Iterator[Relay]:
    folder = image_models / NAME
    engine = Engine(EngineModel(folder), Script({"rules": [{"match": "", "answer": ANSWER}]}), [NAME])
    with serving(create_engine_app(engine)) as engine_url:
        settings = Settings(model=str(folder), served_model_name=(NAME,), engine_url=(engine_url,))
        with serving(server_app(settings)) as url:
            yield Relay(url, engine)


def parts(*urls: str) -> list[Any]:
    return [{"type": "text", "text": "What is it?"}, *({"type": "image_url", "image_url": {"url": u}} for u in urls)]


def check_last(engine: Engine, urls: list[str]) -> None:
    """The engine got the pictures as they came, and an id for each of them in the prompt."""
    seen = engine.seen[-1]
    assert seen["content_parts"] == [{"type": "image_url", "url": url} for url in urls]
    assert seen["token_ids"].count(PAD) == len(urls)
    assert not seen.get("features")


@pytest.mark.parametrize("streamed", [False, True])
def test_chat(relay: Relay, streamed: bool) -> None:
    client = openai.OpenAI(base_url=f"{relay.url}/v1", api_key="none", max_retries=0)
    messages: Any = [{"role": "user", "content": parts(PNG, JPEG)}]
    if streamed:
        options: Any = {"include_usage": True}
        chunks = list(
            client.chat.completions.create(model=NAME, messages=messages, stream=True, stream_options=options)
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        usage = chunks[-1].usage
    else:
        answer = client.chat.completions.create(model=NAME, messages=messages)
        text, usage = answer.choices[0].message.content or "", answer.usage
    assert text == ANSWER
    check_last(relay.engine, [PNG, JPEG])
    # The prompt counts with every token of its images, which only the engine writes.
    assert usage is not None
    assert usage.prompt_tokens > len(relay.engine.seen[-1]["token_ids"])


def test_messages(relay: Relay) -> None:
    client = anthropic.Anthropic(base_url=relay.url, api_key="none", max_retries=0)
    source: Any = {"type": "base64", "media_type": "image/png", "data": PNG.partition(",")[2]}
    content: Any = [{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}]
    answer = client.messages.create(model=NAME, max_tokens=50, messages=[{"role": "user", "content": content}])
    assert [block.text for block in answer.content if block.type == "text"] == [ANSWER]
    check_last(relay.engine, [PNG])


@pytest.mark.parametrize("streamed", [False, True])
def test_responses(relay: Relay, streamed: bool) -> None:
    """In the input, and in the output of a tool."""
    client = openai.OpenAI(base_url=f"{relay.url}/v1", api_key="none", max_retries=0)
    asked: Any = [
        {"role": "user", "content": [{"type": "input_text", "text": "What is it?"}, picture(PNG)]},
        {"type": "function_call", "call_id": "c", "name": "camera", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [picture(JPEG)]},
    ]
    if streamed:
        with client.responses.stream(model=NAME, input=asked) as stream:
            for _ in stream:
                pass
            answer: Any = stream.get_final_response()
    else:
        answer = client.responses.create(model=NAME, input=asked)
    assert answer.output_text == ANSWER
    check_last(relay.engine, [PNG, JPEG])
    assert answer.usage.input_tokens > len(relay.engine.seen[-1]["token_ids"])


def picture(url: str) -> Any:
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def test_pictures_in_the_history_and_in_tool_results(relay: Relay) -> None:
    client = openai.OpenAI(base_url=f"{relay.url}/v1", api_key="none", max_retries=0)
    call = {"id": "c", "type": "function", "function": {"name": "camera", "arguments": "{}"}}
    messages: Any = [
        {"role": "user", "content": parts(PNG)},
        {"role": "assistant", "content": "A picture.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": parts(JPEG)},
        {"role": "user", "content": "And now?"},
    ]
    client.chat.completions.create(model=NAME, messages=messages)
    check_last(relay.engine, [PNG, JPEG])


def test_what_is_no_picture_never_reaches_the_engine(relay: Relay) -> None:
    before = len(relay.engine.seen)
    client = openai.OpenAI(base_url=f"{relay.url}/v1", api_key="none", max_retries=0)
    messages: Any = [{"role": "user", "content": parts("data:image/png;base64,aGVsbG8=")}]
    with pytest.raises(openai.BadRequestError, match="cannot identify image file"):
        client.chat.completions.create(model=NAME, messages=messages)
    assert len(relay.engine.seen) == before
