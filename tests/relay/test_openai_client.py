"""The official OpenAI client against the relay, as it comes from the registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import openai
import pytest

from tests.engine.generation import Engine
from tests.relay.conftest import MODEL, PARSERS, Setup
from tests.support.waiting import wait_for

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def test_a_chat(plain: Setup) -> None:
    answer = plain.client.chat.completions.create(model=MODEL, messages=user("Hello there"))
    assert answer.id.startswith("chatcmpl-")
    assert answer.object == "chat.completion"
    assert answer.model == MODEL
    assert answer.system_fingerprint is None
    (choice,) = answer.choices
    assert choice.message.content == "Hello! How can I help you today?"
    assert choice.message.role == "assistant"
    assert choice.finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 10  # nine and the end of sequence
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 10


def test_a_streamed_chat_begins_with_the_role(plain: Setup) -> None:
    chunks = list(plain.client.chat.completions.create(model=MODEL, messages=user("Hello there"), stream=True))
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].id.startswith("chatcmpl-")
    first = chunks[0].choices[0].delta
    assert (first.role, first.content) == ("assistant", "")
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello! How can I help you today?"
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert all(chunk.choices[0].delta.role is None for chunk in chunks[1:])
    assert all(chunk.usage is None for chunk in chunks)
    # One chunk for each token of the engine, as it came: nothing is collected.
    assert len(chunks) == 11


def test_characters_that_are_split_over_tokens(plain: Setup) -> None:
    chunks = plain.client.chat.completions.create(model=MODEL, messages=user("emoji"), stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == "Ünïcödé 👩‍🚀 and 漢字 end"


def test_usage_in_a_stream(parsed: Setup) -> None:
    def ask(**options: Any) -> list[Any]:
        return list(
            parsed.client.chat.completions.create(
                model=MODEL, messages=user("Why is the sky blue?"), stream=True, stream_options=options
            )
        )

    whole = parsed.client.chat.completions.create(model=MODEL, messages=user("Why is the sky blue?"))
    *chunks, last = ask(include_usage=True)
    assert last.choices == []
    assert whole.usage is not None
    assert last.usage.model_dump(exclude_none=True) == whole.usage.model_dump(exclude_none=True)
    assert whole.usage.completion_tokens_details is not None
    assert whole.usage.completion_tokens_details.reasoning_tokens == 19
    assert all(chunk.usage is None for chunk in chunks)

    *chunks, last = ask(include_usage=True, continuous_usage_stats=True)
    counts = [chunk.usage.completion_tokens for chunk in chunks]
    assert counts[0] == 0
    assert counts == sorted(counts)
    assert counts[-1] == last.usage.completion_tokens == whole.usage.completion_tokens
    assert chunks[-1].usage.completion_tokens_details.reasoning_tokens == 19


def test_reasoning(parsed: Setup) -> None:
    answer = parsed.client.chat.completions.create(model=MODEL, messages=user("Why is the sky blue?"))
    message: Any = answer.choices[0].message
    assert "The user asks: Why is the sky blue?" in message.reasoning
    assert message.content.strip() == "I thought about it, and the answer is in the question."
    chunks = list(
        parsed.client.chat.completions.create(model=MODEL, messages=user("Why is the sky blue?"), stream=True)
    )
    deltas: list[Any] = [chunk.choices[0].delta for chunk in chunks]
    assert "".join(getattr(delta, "reasoning", None) or "" for delta in deltas) == message.reasoning
    assert "".join(delta.content or "" for delta in deltas) == message.content


def test_a_tool_call(parsed: Setup) -> None:
    answer = parsed.client.chat.completions.create(
        model=MODEL, messages=user("What is the weather in Paris?"), tools=[WEATHER]
    )
    (choice,) = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Paris"})

    # The tool's answer goes back, and the conversation goes on.
    messages = [
        *user("What is the weather in Paris?"),
        choice.message.model_dump(include={"role", "content", "tool_calls"}),
        {"role": "tool", "tool_call_id": call.id, "content": "14 degrees and rain"},
    ]
    answer = parsed.client.chat.completions.create(
        model=MODEL, messages=messages, tools=[WEATHER], extra_body=NO_THINKING
    )
    assert answer.choices[0].message.content == "The tool answered 14 degrees and rain, so take a light jacket."


@pytest.mark.parametrize("answers", ["vllm", "repaired"])
def test_a_streamed_tool_call(
    parsed: Setup, start: Callable[..., Setup], make_engine: Callable[..., Engine], answers: str
) -> None:
    setup = parsed if answers == "repaired" else start(make_engine(), answers=answers, **PARSERS)
    chunks = list(
        setup.client.chat.completions.create(
            model=MODEL, messages=user("What is the weather in Paris?"), tools=[WEATHER], stream=True
        )
    )
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    assert [call.index for call in calls] == [0] * len(calls)
    assert calls[0].id
    assert all(call.id is None for call in calls[1:])
    assert calls[0].function is not None
    assert calls[0].function.name == "get_weather"
    arguments = [call.function.arguments or "" for call in calls if call.function]
    assert json.loads("".join(arguments)) == {"city": "Paris"}
    # As vLLM's, the arguments come as they are written; repaired, a call comes whole.
    assert sum(map(bool, arguments)) > 2 if answers == "vllm" else len(arguments) == 1
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_the_clients_own_stream_helper(parsed: Setup) -> None:
    with parsed.client.chat.completions.stream(
        model=MODEL, messages=user("What is the weather in Paris?"), tools=[WEATHER]
    ) as stream:
        kinds = [event.type for event in stream]
        answer = stream.get_final_completion()
    assert "tool_calls.function.arguments.delta" in kinds
    assert "tool_calls.function.arguments.done" in kinds
    (call,) = answer.choices[0].message.tool_calls or ()
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Paris"}

    with parsed.client.chat.completions.stream(
        model=MODEL, messages=user("Hello"), extra_body=NO_THINKING, stream_options={"include_usage": True}
    ) as stream:
        text = "".join(event.delta for event in stream if event.type == "content.delta")
        answer = stream.get_final_completion()
    assert text == answer.choices[0].message.content == "Hello! How can I help you today?"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 10


def test_several_choices(plain: Setup) -> None:
    texts = ["The first answer.", "Another one, which is longer.", "Short."]
    answer = plain.client.chat.completions.create(model=MODEL, messages=user("differ"), n=3)
    assert [choice.message.content for choice in answer.choices] == texts
    assert [choice.index for choice in answer.choices] == [0, 1, 2]

    chunks = list(plain.client.chat.completions.create(model=MODEL, messages=user("differ"), n=3, stream=True))
    streamed = ["", "", ""]
    order = []
    for chunk in chunks:
        for choice in chunk.choices:
            order.append(choice.index)
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == texts
    assert order[:3] == [0, 1, 2]  # the roles
    assert order != sorted(order), "choices come as the engine sends them, not one after the other"
    finished = [chunk.choices[0].index for chunk in chunks if chunk.choices[0].finish_reason]
    assert sorted(finished) == [0, 1, 2]


def test_logprobs(plain: Setup) -> None:
    answer = plain.client.chat.completions.create(
        model=MODEL, messages=user("Hello there"), logprobs=True, top_logprobs=2
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert "".join(entry.token for entry in logprobs.content[:-1]) == "Hello! How can I help you today?"
    assert {len(entry.top_logprobs) for entry in logprobs.content} == {2}
    chunks = plain.client.chat.completions.create(
        model=MODEL, messages=user("Hello there"), logprobs=True, top_logprobs=2, stream=True
    )
    streamed = [
        entry
        for chunk in chunks
        if chunk.choices[0].logprobs is not None
        for entry in chunk.choices[0].logprobs.content or ()
    ]
    assert streamed == logprobs.content


@pytest.mark.parametrize("stop", ["help", ["zzz", "can I", "help"], "lo! How can", "?"])
def test_stop_strings(plain: Setup, stop: str | list[str]) -> None:
    answer = plain.client.chat.completions.create(model=MODEL, messages=user("Hello there"), stop=stop)
    choice: Any = answer.choices[0]
    text = "Hello! How can I help you today?"
    found = min((text.index(s) + len(s), s) for s in ([stop] if isinstance(stop, str) else stop) if s in text)[1]
    assert choice.message.content == text[: text.index(found)]
    assert (choice.finish_reason, choice.stop_reason) == ("stop", found)
    chunks = list(
        plain.client.chat.completions.create(
            model=MODEL,
            messages=user("Hello there"),
            stop=stop,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert streamed == choice.message.content
    last: Any = chunks[-2].choices[0]
    assert (last.finish_reason, last.stop_reason) == ("stop", found)
    assert chunks[-1].usage == answer.usage


def test_a_stop_string_ends_the_engines_work(plain: Setup) -> None:
    before = len(plain.engine.left)
    chunks = plain.client.chat.completions.create(
        model=MODEL, messages=user("never ends"), stop=["7, 8"], stream=True, max_tokens=5000
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "1, 2, 3, 4, 5, 6, "
    assert wait_for(lambda: len(plain.engine.left) == before + 1 and not plain.engine.running)
    assert wait_for(lambda: any(plain.engine.seen[-1]["request_id"] in one for one in plain.engine.aborted))
    assert plain.engine.seen[-1]["sampling_params"]["stop"] == []


def test_a_text_that_only_looks_like_a_stop_string_is_held_back_and_then_shown(plain: Setup) -> None:
    chunks = list(
        plain.client.chat.completions.create(
            model=MODEL, messages=user("Hello there"), stop=["can I sing", "today!"], stream=True
        )
    )
    texts = [chunk.choices[0].delta.content for chunk in chunks]
    assert "".join(text or "" for text in texts) == "Hello! How can I help you today?"
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_stop_strings_can_be_part_of_the_answer(plain: Setup) -> None:
    for stream in (False, True):
        answer: Any = plain.client.completions.create(
            model=MODEL, prompt="count", stop="4, 5", extra_body={"include_stop_str_in_output": True}, stream=stream
        )
        parts = answer if stream else [answer]
        assert "".join(part.choices[0].text for part in parts) == "1, 2, 3, 4, 5"


def test_completions(plain: Setup) -> None:
    answer = plain.client.completions.create(model=MODEL, prompt=["Hello", "count"], max_tokens=4, n=2)
    assert answer.id.startswith("cmpl-")
    assert answer.object == "text_completion"
    texts = ["Hello! How can", "Hello! How can", "1, 2", "1, 2"]
    assert [(choice.index, choice.text) for choice in answer.choices] == list(enumerate(texts))
    assert {choice.finish_reason for choice in answer.choices} == {"length"}
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16

    streamed = ["", "", "", ""]
    usage = None
    for chunk in plain.client.completions.create(
        model=MODEL,
        prompt=["Hello", "count"],
        max_tokens=4,
        n=2,
        stream=True,
        stream_options={"include_usage": True},
    ):
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
        usage = chunk.usage or usage
    assert streamed == texts
    assert usage == answer.usage


def test_completion_logprobs_and_ids(plain: Setup) -> None:
    answer = plain.client.completions.create(
        model=MODEL, prompt="Hello", max_tokens=4, logprobs=1, extra_body={"return_token_ids": True}
    )
    choice: Any = answer.choices[0]
    logprobs = choice.logprobs
    assert logprobs.tokens == ["Hello", "!", " How", " can"]
    assert logprobs.text_offset == [0, 5, 6, 10]
    assert choice.prompt_token_ids == [9707]
    chunks: list[Any] = list(
        plain.client.completions.create(
            model=MODEL,
            prompt="Hello",
            max_tokens=4,
            logprobs=1,
            extra_body={"return_token_ids": True},
            stream=True,
        )
    )
    assert [offset for chunk in chunks for offset in chunk.choices[0].logprobs.text_offset] == [0, 5, 6, 10]
    assert [i for chunk in chunks for i in chunk.choices[0].token_ids] == choice.token_ids
    assert [chunk.choices[0].prompt_token_ids for chunk in chunks] == [[9707], None, None, None]


def test_an_echo(plain: Setup) -> None:
    for stream in (False, True):
        for prompt, shown in (("Hello", "Hello"), ([9707], "Hello")):
            answer: Any = plain.client.completions.create(
                model=MODEL, prompt=prompt, max_tokens=2, echo=True, stream=stream
            )
            parts = list(answer) if stream else [answer]
            assert "".join(part.choices[0].text for part in parts) == shown + "Hello!"
        answer = plain.client.completions.create(model=MODEL, prompt="Hello", max_tokens=0, echo=True, stream=stream)
        parts = list(answer) if stream else [answer]
        assert "".join(part.choices[0].text for part in parts) == "Hello"


def test_an_echo_with_logprobs(plain: Setup) -> None:
    """What evaluations ask for: how likely is this text?"""
    for tokens in (0, 3):
        answer = plain.client.completions.create(
            model=MODEL, prompt=["Hello world 👩‍🚀", "count"], max_tokens=tokens, echo=True, logprobs=2, n=2
        )
        assert len(answer.choices) == 4
        for choice in answer.choices:
            logprobs: Any = choice.logprobs
            assert "".join(logprobs.tokens) == choice.text
            assert choice.text.startswith(("Hello world 👩‍🚀", "count"))
            assert logprobs.token_logprobs[0] is logprobs.top_logprobs[0] is None
            assert all(isinstance(value, float) for value in logprobs.token_logprobs[1:])
            ends = [offset + len(token) for offset, token in zip(logprobs.text_offset, logprobs.tokens, strict=True)]
            assert logprobs.text_offset == [0, *ends[:-1]]
            assert all(2 <= len(top) <= 3 for top in logprobs.top_logprobs[1:])
    with pytest.raises(openai.BadRequestError, match="echo with logprobs"):
        plain.client.completions.create(model=MODEL, prompt="Hello", echo=True, logprobs=1, stream=True)


def test_the_list_of_models(plain: Setup) -> None:
    assert [model.id for model in plain.client.models.list()] == [MODEL]


def test_sixteen_tokens_are_sixteen_tokens(plain: Setup) -> None:
    """vLLM's render leaves its default out; an engine that is not told puts in one of its own."""
    answer = plain.client.chat.completions.create(model=MODEL, messages=user("count"), max_tokens=16)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16


@pytest.mark.parametrize("stream", [False, True])
def test_errors_are_typed(plain: Setup, stream: bool) -> None:
    create: Any = plain.client.chat.completions.create
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        create(model="another", messages=user("Hi"), stream=stream)
    with pytest.raises(openai.BadRequestError, match="temperature") as refused:
        create(model=MODEL, messages=user("Hi"), temperature=-1, stream=stream)
    assert refused.value.param == "temperature"
    with pytest.raises(openai.BadRequestError, match="validation error"):
        create(model=MODEL, messages="Hi", stream=stream)
    # What only the engine refuses is its own words, with its own status.
    with pytest.raises(openai.BadRequestError, match="the script says that this fails"):
        create(model=MODEL, messages=user("answers 400"), stream=stream)


def test_a_client_that_leaves_ends_the_engines_work(plain: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the connection that closes: the abort, which may come first, is taken down here and has no effect."""
    monkeypatch.setattr(plain.engine, "abort", plain.engine.aborted.extend)
    before = len(plain.engine.left)
    stream = plain.client.chat.completions.create(
        model=MODEL, messages=user("never ends"), stream=True, max_tokens=30000
    )
    for _ in range(5):
        next(stream)
    assert len(plain.engine.running) == 1
    stream.close()
    assert wait_for(lambda: not plain.engine.running)
    assert wait_for(lambda: len(plain.engine.left) == before + 1)
    assert wait_for(lambda: any(plain.engine.seen[-1]["request_id"] in one for one in plain.engine.aborted))


def test_a_client_that_gives_up_on_an_unstreamed_answer(plain: Setup) -> None:
    with pytest.raises(openai.APITimeoutError):
        plain.client.with_options(timeout=0.3).chat.completions.create(
            model=MODEL, messages=user("is silent"), max_tokens=30000
        )
    assert wait_for(lambda: not plain.engine.running)


async def _first_chunks(client: openai.AsyncOpenAI) -> str:
    stream = await client.chat.completions.create(model=MODEL, messages=user("count"), max_tokens=8, stream=True)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


def test_the_asynchronous_client(plain: Setup) -> None:
    import asyncio

    async def run() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{plain.url}/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(_first_chunks(client) for _ in range(4)))

    assert asyncio.run(run()) == ["1, 2, 3,"] * 4
