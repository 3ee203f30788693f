"""Public reports of classes d and e: reasoning, streams and usage. docs/reports.md has the list.

Where an answer is wrong, it is vLLM 0.33.0's own answer, pinned, and the comment says so.
"""

import json

import pytest

from tests.golden.corpus import Json
from tests.reports.requests import NAMED, PARIS, WEATHER, auto, hermes, qwen3_prompt, xml
from tests.reports.service import CHAT, SIZES, Service, Services, joined, user

CLOSED = qwen3_prompt("<think>\n\n</think>\n\n")
USAGE_CHUNK = {
    "request_id": "r",
    "choices": [],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
}


@pytest.fixture
def plain(services: Services) -> Service:
    return services.get("qwen3")


@pytest.fixture
def thinking(services: Services) -> Service:
    return services.get("qwen3", None, "qwen3")


@pytest.fixture
def calling(services: Services) -> Service:
    return services.get("qwen3", "hermes")


@pytest.fixture
def both(services: Services) -> Service:
    return services.get("qwen3", "hermes", "qwen3")


def chunk(service: Service, index: int, text: str, finish: str | None = None) -> Json:
    return {"request_id": "r", "choices": [{"index": index, "token_ids": service.ids(text), "finish_reason": finish}]}


@pytest.mark.parametrize("include", [True, False])
def test_d01_a_prompt_that_closed_the_reasoning(thinking: Service, include: bool) -> None:
    """Right in a stream and where the engine's answer has the prompt. vLLM's own: one-shot, the request's prompt
    does not count; the answer is reasoning then, and gone where reasoning is hidden."""
    request, ids = user(include_reasoning=include), thinking.ids(CLOSED)
    for answer in thinking.streams("Paris.", request, prompt=CLOSED):
        assert (answer.reasoning, answer.content) == (None, "Paris.")
    answer = thinking.one("Paris.", request, response={"prompt_token_ids": ids})
    assert (answer.reasoning, answer.content) == (None, "Paris.")
    answer = thinking.one("Paris.", request, prompt_token_ids=ids)
    assert (answer.reasoning, answer.content) == ("Paris." if include else None, None)
    switched = thinking.one("Paris.", user(chat_template_kwargs={"enable_thinking": False}), prompt_token_ids=ids)
    assert switched.content == "Paris."


def test_d01_is_right_where_the_requests_prompt_counts(services: Services) -> None:
    """The setting: the request's prompt ids where the engine's answer has none, and only there."""
    service = services.get("qwen3", reasoning="qwen3", one_shot_prompt="request")
    closed, opened = service.ids(CLOSED), service.ids("<|im_start|>assistant\n")
    answer = service.one("Paris.", user(), prompt_token_ids=closed)
    assert (answer.reasoning, answer.content) == (None, "Paris.")
    answer = service.one("Paris.", user(), prompt_token_ids=opened)
    assert (answer.reasoning, answer.content) == ("Paris.", None)
    answer = service.one("Paris.", user(), prompt_token_ids=opened, response={"prompt_token_ids": closed})
    assert (answer.reasoning, answer.content) == (None, "Paris.")


@pytest.mark.parametrize("tail", ["", "\n</think>"])
def test_d02_a_call_inside_the_reasoning(services: Services, tail: str) -> None:
    text = "I need data.\n" + xml("<parameter=city>\nParis\n</parameter>") + tail
    service = services.get("qwen3.5", "qwen3_coder", "qwen3")
    for answer in service.every_way(text, auto(), prompt="<|im_start|>assistant\n<think>\n"):
        assert (answer.reasoning, answer.content) == ("I need data.\n", None)
        assert (answer.arguments(), answer.finish) == ([PARIS], "tool_calls")


@pytest.mark.parametrize("think", [True, False])
def test_d04_reasoning_that_is_cut(thinking: Service, think: bool) -> None:
    text = "Let me think about"
    request = user(**({} if think else {"chat_template_kwargs": {"enable_thinking": False}}))
    for answer in thinking.every_way(text, request, finish="length"):
        assert (answer.reasoning, answer.content) == ((text, None) if think else (None, text))
        assert answer.finish == "length"


@pytest.mark.parametrize(
    "text", ["BEGIN <think> AFTER END", "BEGIN </think> AFTER END", "BEGIN <think> x </think> END", "a `<think>` tag"]
)
def test_d05_tags_in_prose_where_thinking_is_off(thinking: Service, text: str) -> None:
    for answer in thinking.every_way(text, user(chat_template_kwargs={"enable_thinking": False})):
        assert (answer.reasoning, answer.content) == (None, text)


def test_d07_stop_strings_and_reasoning(thinking: Service, services: Services) -> None:
    """Right one-shot. vLLM's own: a stream with stop strings is refused, and deepseek_r1 shows the opening tag when
    it comes in one chunk with the text behind."""
    text, stop = "<think>\nhm\n</think>\n\nAnswer", ["✿RESULT✿"]
    for answer in [thinking.one(text, user(stop=stop)), *thinking.streams(text)]:
        assert (answer.reasoning, answer.content) == ("\nhm\n", "\n\nAnswer")
    body = {"stream": True, "chat_request": user(stop=stop), "prompt_token_ids": [1]}
    message = thinking.error(CHAT, {**body, "generate_chunk": chunk(thinking, 0, "x")})
    assert "stop strings are not supported" in message
    deepseek = services.get("qwen3", None, "deepseek_r1")
    for size in SIZES:
        answer = deepseek.stream(text, user(), size=size)
        assert answer.content == "\n\nAnswer"
        assert answer.reasoning == ("<think>\nhm\n" if size in (2, 3) else "\nhm\n")


def test_d07_no_tag_is_shown_where_chunks_are_read_token_by_token(services: Services) -> None:
    service = services.get("qwen3", None, "deepseek_r1", parser_step="token")
    for answer in service.streams("<think>\nhm\n</think>\n\nAnswer"):
        assert (answer.reasoning, answer.content) == ("\nhm\n", "\n\nAnswer")


def test_d08_text_in_the_chunk_that_ends_the_reasoning(both: Service) -> None:
    answer = both.stream(["<think>hm", "</think>Ap", "ologies"], auto())
    assert (answer.reasoning, answer.content) == ("hm", "Apologies")


def test_d09_hidden_reasoning_is_hidden_everywhere(thinking: Service) -> None:
    ids = thinking.ids("<think>\nsecret\n</think>\n\nHi")
    request = user(include_reasoning=False, logprobs=True, return_token_ids=True)
    content = [{"token_id": i, "logprob": -1.0, "rank": 1} for i in ids]
    answers = [thinking.one(ids, request, choice={"logprobs": {"content": content}})]
    assert answers[0].usage["completion_tokens"] == len(ids)
    answers += [thinking.stream(ids, request, size=size, logprobs=True) for size in SIZES]
    for answer in answers:
        assert (answer.reasoning, answer.content, answer.logprobs) == (None, "\n\nHi", [])
        assert "secret" not in json.dumps(answer.raw)
        assert all(choice["token_ids"] is None for one in answer.raw for choice in one["choices"])


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("choice", "plain"),
    [("required", '[{"name": "get_weather", "parameters": {"city": "Paris"}}]'), (NAMED, '{"city": "Paris"}')],
)
def test_d10_reasoning_before_a_forced_call(both: Service, choice: Json, plain: str, native: bool) -> None:
    """Reasoning is there every way. vLLM's own, as in c23: plain JSON is text."""
    text = hermes() if native else plain
    for answer in both.every_way("<think>\npick city\n</think>\n\n" + text, user(tools=WEATHER, tool_choice=choice)):
        assert answer.reasoning == "\npick city\n"
        assert (answer.content or "").strip() == ("" if native else plain)
        assert answer.arguments() == ([PARIS] if native else [])


@pytest.mark.parametrize(("text", "reasoning"), [("[THINK]Okay[/THINK]391", "Okay"), ("391", None)])
def test_d11_mistral_reasoning(services: Services, text: str, reasoning: str | None) -> None:
    for answer in services.get("families", "mistral", "mistral").every_way(text):
        assert (answer.reasoning, answer.content) == (reasoning, "391")


def test_e01_usage_in_every_chunk(plain: Service) -> None:
    chunks = plain.chunks(["Hel", "lo"], None, "stop")
    for count, one in enumerate(chunks, 1):
        one["usage"] = {"prompt_tokens": 7, "completion_tokens": count, "total_tokens": 7 + count}
    request = user(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True})
    answers = plain.call_each(CHAT, chunks, chat_request=request, prompt_tokens=7)
    counts = [(one["usage"]["prompt_tokens"], one["usage"]["completion_tokens"]) for one in answers]
    assert counts == [(7, 1), (7, 2)]


def test_e02_usage_at_the_end(plain: Service) -> None:
    chunks = [*plain.chunks(["Hi"], None, "stop"), USAGE_CHUNK]
    request = user(stream=True, stream_options={"include_usage": True})
    first, last = plain.call_each(CHAT, chunks, chat_request=request, prompt_tokens=5)
    assert first["usage"] is None
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 7)


@pytest.mark.parametrize("setup", [("qwen3",), ("qwen3", "hermes", "qwen3")])
def test_e03_a_chunk_without_choices(services: Services, setup: tuple[str, ...]) -> None:
    service = services.get(*setup)
    context = {"chat_request": user(), "prompt_token_ids": service.ids(CLOSED)}
    usage, text, last = service.call_each(CHAT, [USAGE_CHUNK, chunk(service, 0, "Hi", "stop"), USAGE_CHUNK], **context)
    for one in usage, last:
        assert (one["choices"], one["usage"]["completion_tokens"]) == ([], 2)
    assert text["choices"][0]["delta"]["role"] == "assistant"
    assert text["choices"][0]["delta"]["content"] == "Hi"
    body = {"stream": True, "generate_chunk": USAGE_CHUNK, **context}
    state = service.ok(CHAT, {**body, "generate_chunk": chunk(service, 0, "Hi")})["stream_state"]
    assert service.ok(CHAT, {**body, "stream_state": state})["stream_state"] == state


def test_e04_the_first_delta_has_the_role(calling: Service) -> None:
    answer = calling.stream(["<tool_call>", hermes()[len("<tool_call>") :]], auto())
    assert [one["choices"][0]["delta"]["role"] for one in answer.raw] == ["assistant", None]
    assert answer.arguments() == [PARIS]


def test_e06_choices_do_not_share_anything(calling: Service) -> None:
    chunks = [
        chunk(calling, 0, "<tool_call>"),
        chunk(calling, 1, "Hel"),
        chunk(calling, 0, hermes()[len("<tool_call>") :], "stop"),
        chunk(calling, 1, "lo", "stop"),
    ]
    context = {"chat_request": auto(n=2), "prompt_token_ids": []}
    answers = calling.call_each(CHAT, chunks, **context)
    assert [one["choices"][0]["delta"]["role"] for one in answers] == ["assistant", "assistant", None, None]
    assert joined(answers, 0).arguments() == [PARIS]
    assert joined(answers, 0).finish == "tool_calls"
    assert joined(answers, 1).seen() == ("Hello", [], "stop")
    body = {"stream": True, **context}
    state = calling.ok(CHAT, {**body, "generate_chunk": chunks[1]})["stream_state"]
    message = calling.error(CHAT, {**body, "generate_chunk": chunks[2], "stream_state": state})
    assert "belongs to choice 1" in message


@pytest.mark.parametrize(("text", "finish"), [(hermes(), "tool_calls"), ("<tool_call>\nno json\n</tool_call>", "stop")])
def test_e08_tool_calls_only_where_there_is_a_call(calling: Service, text: str, finish: str) -> None:
    chunks = [chunk(calling, 0, text), chunk(calling, 0, "", "stop")]
    answer = joined(calling.call_each(CHAT, chunks, chat_request=auto(), prompt_token_ids=[]))
    for one in [answer, *calling.every_way(text, auto())]:
        assert one.finish == finish
        assert bool(one.calls) == (finish == "tool_calls")


def test_e09_text_is_not_doubled(services: Services) -> None:
    service = services.get("qwen3.5", "qwen3_coder", "qwen3")
    chunks = ["<think>x</think>if limit", " <", " 2", ":\n    2"]
    for answer in [service.stream(chunks, user()), *service.every_way("".join(chunks), user())]:
        assert (answer.reasoning, answer.content, answer.calls) == ("x", "if limit < 2:\n    2", [])
