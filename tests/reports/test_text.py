"""Public reports of classes a, b and f: text, log probabilities, the wire. docs/reports.md has the list.

Where an answer is wrong, it is vLLM 0.33.0's own answer, pinned, and the comment says so.
"""

import pytest

from tests.golden.corpus import Json
from tests.reports.requests import WEATHER, auto, hermes
from tests.reports.service import CHAT, COMPLETIONS, RENDER_COMPLETIONS, SIZES, Service, Services, user

BYTES = {0x80: 222, 0xC2: 126, 0x20: 220}
"""Ids of single bytes, the same in qwen3 and llama3."""
TOO_LARGE = [4294967296, 9223372036854775808]


@pytest.fixture
def qwen(services: Services) -> Service:
    return services.get("qwen3")


@pytest.fixture
def hermes_qwen(services: Services) -> Service:
    return services.get("qwen3", "hermes")


@pytest.fixture
def llama(services: Services) -> Service:
    return services.get("llama3")


def one(ids: list[int], **choice: Json) -> Json:
    return {"request_id": "r", "choices": [{"index": 0, "token_ids": ids, "finish_reason": "stop", **choice}]}


def entry(token_id: int, *alternatives: Json) -> Json:
    return {"token_id": token_id, "logprob": -0.1, "rank": 1, "top_logprobs": list(alternatives)}


def test_a02_characters_split_over_tokens(qwen: Service) -> None:
    """Right in the text. vLLM's own: the log probability of the second token spells the rest of the character as
    U+FFFD, so that the bytes do not add up to the text's."""
    ids = [8508, 43720, 50292]
    streamed = qwen.stream(ids, user(logprobs=True), logprobs=True)
    assert [chunk["choices"][0]["delta"]["content"] for chunk in streamed.raw] == [None, "客单", "价"]
    content = [entry(i) for i in ids]
    whole = qwen.one(ids, user(logprobs=True), choice={"logprobs": {"content": content}})
    for answer in (whole, streamed):
        assert answer.content == "客单价"
        assert [one["token"] for one in answer.logprobs] == ["", "\ufffd单", "价"]
        assert answer.logprobs[1]["bytes"] == list("\ufffd单".encode())


def test_a04_no_spaces_around_added_tokens(qwen: Service) -> None:
    assert {answer.content for answer in qwen.every_way("<think>ok</think>1")} == {"<think>ok</think>1"}


@pytest.mark.parametrize("model", ["qwen3", "llama3"])
def test_a06_bytes_that_are_no_utf8(services: Services, model: str) -> None:
    service = services.get(model)
    ids = [BYTES[byte] for byte in (0x80, 0x80, 0xC2, 0x20)] + service.ids("valid text")
    assert {service.text(ids, size) for size in (0, *SIZES)} == {"\ufffd\ufffd\ufffd valid text"}
    assert {answer.content for answer in service.every_way(ids)} == {"\ufffd\ufffd\ufffd valid text"}


def test_a07_an_id_of_the_padding(services: Services) -> None:
    service = services.get("qwen3.5")
    ids = [*service.ids("Hello"), 248257, *service.ids(" world")]
    content = [entry(i) for i in ids]
    answer = service.one(ids, user(logprobs=True), finish="length", choice={"logprobs": {"content": content}})
    assert answer.seen() == ("Hello world", [], "length")
    assert [one["token"] for one in answer.logprobs] == ["Hello", "", " world"]
    for answer in service.streams(ids, user(), "length"):
        assert answer.seen() == ("Hello world", [], "length")


def test_a08_a_negative_id_is_a_400(qwen: Service) -> None:
    assert "must not contain negative values" in qwen.error(CHAT, {"generate_response": one([-1])})
    chunk = one([-1])
    assert "token ids between 0 and" in qwen.error(CHAT, {"stream": True, "generate_chunk": chunk})
    for logprob in (entry(-1), {"token": "token_id:-1", "logprob": -0.1, "top_logprobs": []}):
        body = {"generate_response": one([9707], logprobs={"content": [logprob]}), "chat_request": user(logprobs=True)}
        assert qwen.error(CHAT, body)
    assert qwen.one("next").content == "next"


@pytest.mark.parametrize("token_id", TOO_LARGE)
def test_a08_an_id_beyond_32_bits(qwen: Service, token_id: int) -> None:
    """A 400 in a stream and in log probabilities. vLLM's own: one-shot, it is text without characters."""
    assert "token ids between 0 and" in qwen.error(CHAT, {"stream": True, "generate_chunk": one([token_id])})
    for logprob in (entry(token_id), {"token": f"token_id:{token_id}", "logprob": -0.1, "top_logprobs": []}):
        body = {"generate_response": one([9707], logprobs={"content": [logprob]}), "chat_request": user(logprobs=True)}
        assert "too large" in qwen.error(CHAT, body)
    assert qwen.one([9707, token_id]).content == "Hello"


@pytest.mark.parametrize("stop", [{}, {"stop_token_ids": [128008]}])
def test_a09_the_token_that_stopped_is_not_shown(llama: Service, stop: Json) -> None:
    end = stop.get("stop_token_ids", [128009])
    ids = [*llama.ids("Paris."), *end]
    for answer in llama.every_way(ids, user(skip_special_tokens=False, **stop)):
        assert answer.content == "Paris."
    assert llama.one(ids, user(skip_special_tokens=False, **stop)).usage["completion_tokens"] == len(ids)


def test_a10_markers_reach_the_parser_though_special_tokens_are_skipped(services: Services) -> None:
    request = auto(skip_special_tokens=True)
    text = '[TOOL_CALLS]get_weather[ARGS]{"city":"Paris"}'
    harmony = '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city":"Paris"}<|call|>'
    for setup, output in (
        (("families", "mistral", "mistral"), text),
        (("gpt-oss", "openai", "openai_gptoss"), harmony),
    ):
        for answer in services.get(*setup).every_way(output, request):
            assert (answer.content, answer.arguments()) == (None, [("get_weather", {"city": "Paris"})])


@pytest.mark.parametrize("model", ["qwen3", "llama3", "mistral-spm"])
@pytest.mark.parametrize("text", ["שלום עולם 🫠", "naïve 🫠 客单价 é end"])
def test_a11_f04_every_split_gives_the_whole_text(services: Services, model: str, text: str) -> None:
    service = services.get(model)
    ids = service.ids(text)
    assert {service.text(ids, size) for size in (0, *SIZES)} == {text}
    for at in range(1, len(ids)):
        answers = service.call_each(COMPLETIONS, service.chunks([ids[:at], ids[at:]], None, "stop"))
        assert "".join(chunk["choices"][0]["text"] for chunk in answers) == text
    cut = {service.text(ids[:-1], size, "length") for size in (0, *SIZES)}
    assert len(cut) == 1, "a character cut by the end is left out by both"


def test_f04_the_state_does_not_grow(qwen: Service) -> None:
    state, sizes = None, []
    for token_id in qwen.ids("naïve 🫠 客单价 é end " * 20):
        body = {"stream": True, "generate_chunk": one([token_id], finish_reason=None), "stream_state": state}
        state = qwen.ok(COMPLETIONS, body)["stream_state"]
        sizes.append(len(state["prev_tokens"]))
    assert len(sizes) > 200
    assert max(sizes) <= 8


def test_b01_b06_both_wire_shapes_of_log_probabilities(qwen: Service) -> None:
    ids = [262, 257, 428]
    tops = [{"token_id": i, "logprob": -float(n), "rank": n} for n, i in enumerate(ids)]
    older = [{"token": f"token_id:{i}", "bytes": [116, 111], "logprob": -float(n)} for n, i in enumerate(ids)]
    answers = []
    for content in ([entry(262, *tops)], [{**older[0], "logprob": -0.1, "top_logprobs": older}]):
        body = {
            "generate_response": one([262], logprobs={"content": content}),
            "chat_request": user(logprobs=True, top_logprobs=3),
        }
        answers.append(qwen.ok(CHAT, body)["choices"][0]["logprobs"]["content"])
    assert answers[0] == answers[1]
    alternatives = answers[0][0]["top_logprobs"]
    assert [(one["token"], bytes(one["bytes"])) for one in alternatives] == [
        ("   ", b"   "),
        ("    ", b"    "),
        ('="', b'="'),
    ]


def test_b04_offsets_go_on_over_chunks(llama: Service) -> None:
    """They count the text that went out. vLLM's own: derender knows no echo, so the prompt is not in them."""
    request = {"prompt": "The sky is", "echo": True, "logprobs": 1, "stream": True}
    chunks = [
        one([i], finish_reason=end, logprobs={"content": [entry(i)]}) for i, end in ((6437, None), (3432, "stop"))
    ]
    answers = llama.call_each(COMPLETIONS, chunks, completion_request=request, prompt_token_ids=[791, 13180, 374])
    choices = [chunk["choices"][0] for chunk in answers]
    assert [choice["text"] for choice in choices] == [" blue", " today"]
    assert [choice["logprobs"]["text_offset"] for choice in choices] == [[0], [5]]


def test_b05_every_alternative_has_its_token_and_bytes(qwen: Service) -> None:
    tops = [{"token_id": i, "logprob": -0.5, "rank": 1} for i in (*qwen.ids("Okay"), 0, 1, 151645, 785)]
    request = user(logprobs=True, top_logprobs=5)
    choice = {"logprobs": {"content": [entry(qwen.ids("Okay")[0], *tops)]}}
    (found,) = qwen.one("Okay", request, choice=choice).logprobs
    assert found["bytes"] == [79, 107, 97, 121]
    assert [bytes(one["bytes"]).decode() for one in found["top_logprobs"]] == ["Okay", "!", '"', "<|im_end|>", "The"]


def test_b07_no_log_probability_is_lost_beside_a_parser(services: Services) -> None:
    chunks = [
        "<think>\nhm\n</think>\n\n",
        "<tool_call>",
        hermes()[len("<tool_call>") : -len("</tool_call>")],
        "</tool_call>",
    ]
    service = services.get("qwen3", "hermes", "qwen3")
    answer = service.stream(chunks, auto(logprobs=True), logprobs=True)
    assert len(answer.logprobs) == sum(len(service.ids(chunk)) for chunk in chunks)


def test_b09_zero_alternatives_are_not_none(qwen: Service) -> None:
    ids = qwen.ids(" ok")
    for logprobs, expected in (({"content": [entry(ids[0])]}, [" ok"]), (None, None)):
        body = {
            "generate_responses": [one(ids, logprobs=logprobs)],
            "completion_request": {"prompt": "x", "logprobs": 0},
        }
        found = qwen.ok(COMPLETIONS, body)["choices"][0]["logprobs"]
        assert (found and found["tokens"]) == expected


def test_f01_stop_strings(qwen: Service) -> None:
    """Cut one-shot; usage and log probabilities count all tokens. vLLM's own: a stream is refused."""
    text = "one, two, three"
    content = [entry(i) for i in qwen.ids(text)]
    answer = qwen.one(text, user(stop=["three"], logprobs=True), choice={"logprobs": {"content": content}})
    assert answer.content == "one, two, "
    assert answer.usage["completion_tokens"] == len(answer.logprobs) == 5
    assert qwen.one(text, user(stop=["three"], include_stop_str_in_output=True)).content == text
    body = {"stream": True, "chat_request": user(stop=["three"]), "generate_chunk": one([1])}
    assert "stop strings are not supported" in qwen.error(CHAT, body)


def test_f02_a_call_ends_with_tool_calls(hermes_qwen: Service) -> None:
    assert hermes_qwen.one(hermes(), auto()).finish == "tool_calls"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"stream_state": {"output_token_ids": [1, 2, 3], "output_chunk_lens": [1]}}, "output_chunk_lens must sum to"),
        ({"stream_state": {"prev_tokens": ["x"] * 2000}}, "at most 1024"),
        ({"stream_state": {"checkpoint": "AAAA"}}, "invalid stream_state: checkpoint: it is not packed data"),
        ({"stream_state": {"output_token_ids": [1] * 50000, "output_chunk_lens": [50000]}}, "exceeds max_model_len"),
        ({"generate_chunk": {"request_id": "r", "choices": one([1])["choices"] * 2}}, "at most one choice per chunk"),
        ({"chat_request": None}, "chat_request is required"),
        ({"prompt_token_ids": None}, "prompt_token_ids is required"),
        ({"prompt_token_ids": [1] * 50000}, "exceeds max_model_len"),
    ],
)
def test_f05_a_state_that_cannot_be(hermes_qwen: Service, fields: Json, words: str) -> None:
    body = {"stream": True, "chat_request": user(tools=WEATHER), "prompt_token_ids": [1], "generate_chunk": one([87])}
    message = hermes_qwen.error(CHAT, {**body, **fields})
    assert words in message
    assert message.count("invalid stream_state") <= 1


@pytest.mark.parametrize(
    "state",
    [{"prev_tokens": ["x"], "prefix_offset": 999, "read_offset": 1000}, {"last_tool_call_ids": ["call_other"] * 500}],
)
def test_f05_a_state_that_a_parser_does_not_read(hermes_qwen: Service, qwen: Service, state: Json) -> None:
    """A decode window is refused everywhere: no state of a parsed stream has one without a checkpoint."""
    body = {"stream": True, "chat_request": user(), "prompt_token_ids": [1], "generate_chunk": one([87])}
    if "prefix_offset" in state:
        assert "checkpoint is missing" in hermes_qwen.error(CHAT, {**body, "stream_state": state})
        assert "within prev_tokens" in qwen.error(CHAT, {**body, "stream_state": state})
        return
    answer = hermes_qwen.ok(CHAT, {**body, "stream_state": state})
    assert answer["chunk"]["choices"][0]["delta"]["content"] == "x"


@pytest.mark.parametrize("count", [-1, 2**64 - 1])
def test_f06_impossible_prompt_counts(qwen: Service, count: int) -> None:
    """A 400 in a stream. vLLM's own: one-shot counts with them, without wrapping or rounding."""
    chunk = {"request_id": "r", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
    message = qwen.error(CHAT, {"stream": True, "prompt_tokens": count, "generate_chunk": chunk})
    assert "prompt_tokens must be a token count" in message
    assert qwen.one("hi", user(), prompt_tokens=count).usage["total_tokens"] == count + 1


def test_f06_a_count_that_is_no_number(qwen: Service) -> None:
    assert "valid integer" in qwen.error(CHAT, {"prompt_tokens": "x", "generate_response": one([1])})
    assert qwen.one("hi", user(), prompt_tokens="5").usage["prompt_tokens"] == 5


def test_f07_prompt_log_probabilities(qwen: Service) -> None:
    """vLLM's own: completions drop them, a chat has them as the engine sent them."""
    logprobs = [None, {"1052": {"logprob": -1.5, "rank": 1}}]
    response = {**one(qwen.ids(" ok")), "prompt_logprobs": logprobs}
    body = {"generate_responses": [response], "completion_request": {"prompt": "Hi there", "prompt_logprobs": 1}}
    assert qwen.ok(COMPLETIONS, body)["choices"][0]["prompt_logprobs"] is None
    answer = qwen.ok(CHAT, {"generate_response": response, "chat_request": user(prompt_logprobs=1)})
    assert answer["prompt_logprobs"] == [None, {"1052": {"logprob": -1.5, "rank": 1, "decoded_token": None}}]


@pytest.mark.parametrize("side", ["left", "right"])
def test_f09_offsets_are_cut_with_the_prompt(llama: Service, side: str) -> None:
    prompt = "The quick brown fox jumps over the lazy dog."
    body = {"model": "m", "prompt": prompt, "return_token_offsets": True, "truncate_prompt_tokens": 4}
    (answer,) = llama.ok(RENDER_COMPLETIONS, {**body, "truncation_side": side})
    pieces = [prompt[start:end] for start, end in answer["token_offsets"]]
    assert pieces == ([" the", " lazy", " dog", "."] if side == "left" else ["The", " quick", " brown", " fox"])
    assert len(answer["token_ids"]) == 4


def test_f10_shapes_and_refusals(qwen: Service) -> None:
    def response(request_id: str, *texts: str, **fields: Json) -> Json:
        choices = [{"index": n, "token_ids": qwen.ids(text), "finish_reason": "stop"} for n, text in enumerate(texts)]
        return {"request_id": request_id, "choices": choices, **fields}

    first, second = response("x", "A", "B"), response("y", "C", "D")
    answer = qwen.ok(COMPLETIONS, {"generate_responses": [first, second], "prompt_tokens": [3, 4]})
    assert answer["id"] == "x"
    assert [(choice["index"], choice["text"]) for choice in answer["choices"]] == list(enumerate("ABCD"))
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (7, 4)
    assert "does not exist" in qwen.error(COMPLETIONS, {"model": "nope", "generate_responses": [first]}, 404)
    assert "must not be empty" in qwen.error(COMPLETIONS, {"generate_responses": []})
    assert "must equal" in qwen.error(COMPLETIONS, {"generate_responses": [first], "prompt_tokens": [1, 2]})
    assert "empty or null token_ids" in qwen.error(COMPLETIONS, {"generate_responses": [one([])]})
    for other, kept in ({"a": 1}, {"a": 1}), ({"a": 2}, None):
        responses = [{**first, "kv_transfer_params": {"a": 1}}, {**second, "kv_transfer_params": other}]
        assert qwen.ok(COMPLETIONS, {"generate_responses": responses})["kv_transfer_params"] == kept
