"""Public reports of class c: tool calls. docs/reports.md has the list.

Where an answer is wrong, it is vLLM 0.33.0's own answer, pinned, and the comment says so.
"""

import json

import pytest

from tests.reports.requests import BOTH, CET, NAMED, PARIS, auto, hermes, tool, xml
from tests.reports.service import CHAT, Service, Services, joined, user

DSML = "｜DSML｜"


@pytest.fixture
def qwen(services: Services) -> Service:
    return services.get("qwen3", "hermes")


@pytest.fixture
def thinking(services: Services) -> Service:
    return services.get("qwen3", "hermes", "qwen3")


@pytest.fixture
def llama(services: Services) -> Service:
    return services.get("llama3", "llama3_json")


def test_c01_an_end_tag_inside_an_argument(qwen: Service) -> None:
    """vLLM's own: the call ends at the tag. Nothing is lost one-shot; a stream has a call that is no JSON."""
    text = hermes(arguments='{"city": "explain the </tool_call> tag"}')
    assert qwen.one(text, auto()).seen() == (text, [], "stop")
    for answer in qwen.streams(text, auto()):
        assert answer.seen() == (None, [("get_weather", '{"city": "explain the')], "tool_calls")


def test_c03_a_call_that_is_cut_ends_with_length(qwen: Service, services: Services) -> None:
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Par'
    assert qwen.one(text, auto(max_tokens=16), finish="length").seen() == (text, [], "length")
    for answer in qwen.streams(text, auto(max_tokens=16), "length"):
        assert answer.seen() == (None, [("get_weather", '{"city": "Par')], "length")
    for setup, cut in (
        (("qwen3.5", "qwen3_coder"), "<tool_call>\n<function=get_weather>\n<parameter=city>\nPar"),
        (
            ("gpt-oss", "openai", "openai_gptoss"),
            '<|channel|>commentary to=functions.get_weather <|message|>{"city": "Par',
        ),
    ):
        for answer in services.get(*setup).every_way(cut, auto(), finish="length"):
            assert answer.finish == "length"


@pytest.mark.parametrize("separator", [";", "; ", ";\n", "\n"])
def test_c04_llama_calls_side_by_side(llama: Service, separator: str) -> None:
    """One-shot is right; the rest is vLLM's own: a stream may lose the second call, one chunk loses all, and braces
    in the prose behind make text of the calls."""
    calls = [
        '{"name": "get_weather", "parameters": {"city": "Paris"}}',
        '{"name": "get_time", "parameters": {"tz": "CET"}}',
    ]
    text, request = separator.join(calls), auto(*BOTH)
    assert llama.one(text, request).arguments() == [PARIS, CET]
    both = separator in ("; ", ";\n")
    for answer in llama.streams(text, request, sizes=(1, 2, 3, 5)):
        assert (answer.arguments(), answer.finish) == ([PARIS, CET] if both else [PARIS], "tool_calls")
    assert llama.stream(text, request, size=None).seen() == (None, [], "stop")
    prose = text + " I used {searchTool} for this"
    assert llama.one(prose, request).seen() == (prose, [], "stop")
    for answer in llama.streams(prose, request, sizes=(1, 2, 3, 5)):
        assert answer.calls[0] == ("get_weather", '{"city": "Paris"}')


@pytest.mark.parametrize("setup", [("qwen3.5", "qwen3_coder", "qwen3"), ("qwen3.5", "qwen3_xml")])
def test_c05_an_array_of_objects_keeps_its_values(services: Services, setup: tuple[str, ...]) -> None:
    text = xml('<parameter=todos>\n[{"t": "a", "done": false, "due": null}]\n</parameter>', "todo")
    todo = tool("todo", todos={"type": "array", "items": {"type": "object"}})
    for answer in services.get(*setup).every_way(text, auto(todo)):
        assert answer.arguments() == [("todo", {"todos": [{"t": "a", "done": False, "due": None}]})]


@pytest.mark.parametrize("prose", ["", "Let me see. "])
@pytest.mark.parametrize(
    ("setup", "name"),
    [(("deepseek", "deepseek_v4", "deepseek_v4"), "tool_calls"), (("deepseek", "deepseek_v32"), "function_calls")],
)
def test_c07_dsml_tags_cut_anywhere(services: Services, setup: tuple[str, ...], name: str, prose: str) -> None:
    text = (
        f'<{DSML}{name}>\n<{DSML}invoke name="get_weather">\n<{DSML}parameter name="city" string="true">Paris'
        f"</{DSML}parameter>\n</{DSML}invoke>\n</{DSML}{name}>"
    )
    service = services.get(*setup)
    text = ("</think>" if len(setup) == 3 and prose else "") + prose + text
    answers = service.every_way(text, auto())
    ids = service.ids(text)
    answers += [service.stream([ids[:at], ids[at:]], auto()) for at in range(1, len(ids), 1 if not prose else 5)]
    for answer in answers:
        assert (answer.content or "", answer.arguments(), answer.finish) == (prose, [PARIS], "tool_calls")
        assert "DSML" not in json.dumps(answer.raw, ensure_ascii=False)


def test_c10_json_is_text_where_there_are_no_tools(llama: Service) -> None:
    text = '{"name": "Ada", "parameters": {"age": 36}}'
    for answer in llama.every_way(text, user(response_format={"type": "json_object"})):
        assert answer.seen() == (text, [], "stop")


def test_c11_what_looks_like_a_call_and_is_none(llama: Service, qwen: Service) -> None:
    """Right one-shot. In a stream, vLLM's own: JSON without a name is lost, and empty arguments are an empty text."""
    nameless = '{"answer": 42}'
    assert llama.one(nameless, auto()).seen() == (nameless, [], "stop")
    assert {answer.content for answer in llama.streams(nameless, auto())} == {None}
    nameless = f"<tool_call>\n{nameless}\n</tool_call>"
    assert qwen.one(nameless, auto()).seen() == (nameless, [], "stop")
    assert {answer.content for answer in qwen.streams(nameless, auto())} == {None}
    undeclared = '{"name": "delete_all", "parameters": {}}'
    assert llama.one(undeclared, auto()).calls == [("delete_all", "{}")]
    for answer in llama.streams(undeclared, auto(), sizes=(1, 2, 3, 5)):
        assert answer.calls == [("delete_all", "")]
    for answer in qwen.every_way(hermes("delete_all", "{}"), auto()):
        assert answer.calls == [("delete_all", "{}")]


def test_c12_one_delta_may_hold_two_entries_of_an_index(qwen: Service) -> None:
    """vLLM's own: name and arguments are two entries when they come in one chunk. At one token a chunk there is one."""
    text = hermes() + "\n" + hermes("get_time", '{"tz": "CET"}')
    whole = qwen.stream(text, auto(*BOTH), size=None)
    (chunk,) = whole.raw
    entries = chunk["choices"][0]["delta"]["tool_calls"]
    assert [entry["index"] for entry in entries] == [0, 0, 1, 1]
    assert [bool(entry["id"]) for entry in entries] == [True, False, True, False]
    assert whole.arguments() == [PARIS, CET]
    single = qwen.stream(text, auto(*BOTH), size=1)
    assert single.arguments() == [PARIS, CET]
    for chunk in single.raw:
        assert len(chunk["choices"][0]["delta"].get("tool_calls") or []) <= 1


def test_c12_one_entry_of_an_index_where_chunks_are_read_token_by_token(services: Services) -> None:
    """The setting: whatever the chunks, and one delta has at most one entry of a call, with its id and name."""
    service = services.get("qwen3", "hermes", parser_step="token")
    text = hermes() + "\n" + hermes("get_time", '{"tz": "CET"}')
    for answer in service.streams(text, auto(*BOTH)):
        assert answer.arguments() == [PARIS, CET]
        for chunk in answer.raw:
            indices = [entry["index"] for entry in chunk["choices"][0]["delta"].get("tool_calls") or []]
            assert len(set(indices)) == len(indices)


def test_c13_mistral_calls_of_both_formats(services: Services) -> None:
    create = tool("create_file", filePath={"type": "string"}, content={"type": "string"})
    arguments = {"filePath": "/w/a.txt", "content": 'say "hi" {x}'}
    service = services.get("families", "mistral", "mistral")
    for separator in ("", "[ARGS]"):
        text = f"[TOOL_CALLS]create_file{separator}{json.dumps(arguments)}"
        answers = service.every_way(text, auto(create))
        for answer in answers:
            assert answer.arguments() == [("create_file", arguments)]
        call_id = answers[0].raw[0]["choices"][0]["message"]["tool_calls"][0]["id"]
        assert len(call_id) == 9
        assert call_id.isalnum()
    # The list is the format of vocabularies before v11, and is read there.
    old = services.get("mistral-tekken", "mistral")
    ids = [9, *old.ids(' [{"name": "count", "arguments": {"n": 3}}]')]  # 9: [TOOL_CALLS], which text cannot spell
    for answer in old.every_way(ids, auto(tool("count", n={"type": "integer"}))):
        assert answer.arguments() == [("count", {"n": 3})]


def test_c14_the_parser_of_another_deepseek(services: Services) -> None:
    """Right with the right parser. vLLM's own: the wrong one calls a function "function"; one chunk loses the call."""
    text = (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"city": "Tokyo"}\n```'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    )
    right = services.get("deepseek", "deepseek_v3")
    for answer in [right.one(text, auto()), *right.streams(text, auto(), sizes=(1, 2, 3, 5))]:
        assert answer.arguments() == [("get_weather", {"city": "Tokyo"})]
    wrong = services.get("deepseek", "deepseek_v31")
    assert wrong.one(text, auto()).calls == [("function", 'get_weather\n```json\n{"city": "Tokyo"}\n```')]
    for service in (right, wrong):
        assert service.stream(text, auto(), size=None).seen() == (None, [], "stop")


def test_c04_and_c14_no_call_is_lost_where_chunks_are_read_token_by_token(services: Services) -> None:
    """The setting: what one chunk loses is there, in chunks of any size."""
    deepseek = services.get("deepseek", "deepseek_v3", parser_step="token")
    text = (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"city": "Tokyo"}\n```'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    )
    llama = services.get("llama3", "llama3_json", parser_step="token")
    call = '{"name": "get_weather", "parameters": {"city": "Tokyo"}}'
    for answer in [*deepseek.streams(text, auto()), *llama.streams(call, auto())]:
        assert answer.arguments() == [("get_weather", {"city": "Tokyo"})]
        assert answer.finish == "tool_calls"


@pytest.mark.parametrize(("text", "shown"), [("plain <tool_ca", "plain "), ("a <", "a ")])
def test_c15_the_beginning_of_a_tag_at_the_end(qwen: Service, thinking: Service, text: str, shown: str) -> None:
    """Right one-shot and inside reasoning. vLLM's own: a stream through hermes never shows what it held back."""
    assert qwen.one(text, auto()).content == text
    for answer in qwen.streams(text, auto()):
        assert answer.seen() == (shown, [], "stop")
    chunks = qwen.chunks(text, 1, "stop")
    chunks[-1]["choices"][0]["finish_reason"] = None
    chunks.append({"request_id": "r", "choices": [{"index": 0, "token_ids": [], "finish_reason": "stop"}]})
    assert joined(qwen.call_each(CHAT, chunks, chat_request=auto(), prompt_token_ids=[])).content == shown
    for answer in thinking.every_way("<think>hm </thi", auto()):
        assert (answer.reasoning, answer.content) == ("hm </thi", None)


def test_c16_text_behind_a_call(thinking: Service, services: Services) -> None:
    """vLLM's own: hermes drops it both ways; qwen3_coder drops it one-shot and streams it."""
    tail = "\nI will report back."
    for answer in thinking.every_way("<think>x</think>" + hermes() + tail, auto()):
        assert (answer.content, answer.arguments()) == (None, [PARIS])
    coder = services.get("qwen3.5", "qwen3_coder", "qwen3")
    text = "</think>" + xml("<parameter=city>\nParis\n</parameter>") + tail
    assert coder.one(text, auto()).content is None
    for answer in coder.streams(text, auto()):
        assert (answer.content or "").strip() in ("", tail.strip())
        assert answer.arguments() == [PARIS]


def test_c17_white_space_beside_a_call(thinking: Service) -> None:
    """vLLM's own: a stream shows the blank lines before the call."""
    text = "<think>\nhm\n</think>\n\n" + hermes() + " done."
    assert thinking.one(text, auto()).content is None
    for answer in thinking.streams(text, auto()):
        assert (answer.reasoning, answer.content, answer.arguments()) == ("\nhm\n", "\n\n", [PARIS])


@pytest.mark.parametrize("city", ["Z\\u00fcrich \\ud83d\\ude00 \\\\n", "Zürich 😀 \\\\n"])
def test_c18_escapes_cut_anywhere(qwen: Service, llama: Service, city: str) -> None:
    """The same value every way. vLLM's own: one-shot spells it anew, a stream keeps the model's spelling."""
    arguments = f'{{"city": "{city}"}}'
    expected = [("get_weather", {"city": "Zürich 😀 \\n"})]
    text = hermes(arguments=arguments)
    ids = qwen.ids(text)
    answers = qwen.streams(text, auto()) + [qwen.stream([ids[:at], ids[at:]], auto()) for at in range(1, len(ids))]
    for answer in answers:
        assert answer.calls == [("get_weather", arguments)]
    for answer in [qwen.one(text, auto()), *answers]:
        assert answer.arguments() == expected
    text = f'{{"name": "get_weather", "parameters": {arguments}}}'
    for answer in [llama.one(text, auto()), *llama.streams(text, auto(), sizes=(1, 2, 3, 5))]:
        assert answer.arguments() == expected


@pytest.mark.parametrize("tail", ["\\ud83", "\\ud83d", '\\ud83d"}}\n</tool_call>', '\\ud83d"}}'])
def test_c18_half_a_character_is_no_crash(qwen: Service, llama: Service, tail: str) -> None:
    begin = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "'
    assert {answer.finish for answer in qwen.every_way(begin + tail, auto(), finish="length")} == {"length"}
    begin = '{"name": "get_weather", "parameters": {"city": "'
    assert {answer.finish for answer in llama.every_way(begin + tail, auto(), finish="length")} == {"length"}


def test_c19_control_tokens_in_a_name(services: Services) -> None:
    text = (
        "<|channel|>commentary to=functions.query_dataset<|channel|>commentary <|constrain|>json<|message|>{}<|call|>"
    )
    for answer in services.get("gpt-oss", "openai", "openai_gptoss").every_way(text, auto(tool("query_dataset"))):
        assert answer.seen() == (None, [("query_dataset", "{}")], "tool_calls")


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("<|channel|>analysis<|message|>hm<|end|><|return|>", "hm", None),
        (
            "<|channel|>analysis<|message|>hm<|end|>x<|start|>assistant<|channel|>final<|message|>Hi<|return|>",
            "hm",
            "Hi",
        ),
        # vLLM's own: a message whose header cannot be read is not shown.
        ("<|channel|>commentary?commentary?<|message|>hi", None, None),
        ("<|message|><|message|><|start|>", None, None),
    ],
)
def test_c21_harmony_out_of_order(services: Services, text: str, reasoning: str | None, content: str | None) -> None:
    for answer in services.get("gpt-oss", "openai", "openai_gptoss").every_way(text, user()):
        assert (answer.reasoning, answer.content, answer.finish) == (reasoning, content, "stop")


def test_c22_one_call_where_parallel_calls_are_off(qwen: Service, llama: Service) -> None:
    request = auto(*BOTH, parallel_tool_calls=False)
    for answer in qwen.every_way(hermes() + "\n" + hermes("get_time", '{"tz": "CET"}'), request):
        assert (answer.arguments(), answer.finish) == ([PARIS], "tool_calls")
    text = '{"name": "get_weather", "parameters": {"city": "Paris"}};{"name": "get_time", "parameters": {"tz": "CET"}}'
    for answer in [llama.one(text, request), *llama.streams(text, request, sizes=(1, 2, 3, 5))]:
        assert (answer.arguments(), answer.finish) == ([PARIS], "tool_calls")


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("choice", "plain", "finish"),
    [
        ("required", '[{"name": "get_weather", "parameters": {"city": "Paris"}}]', "tool_calls"),
        (NAMED, '{"city": "Paris"}', "stop"),
    ],
)
def test_c23_a_forced_call(qwen: Service, choice: object, plain: str, finish: str, native: bool) -> None:
    """Right in the model's own form. vLLM's own: with a parser, plain JSON is text even where a call was forced."""
    text = hermes() if native else plain
    for answer in qwen.every_way(text, user(tools=[tool()], tool_choice=choice)):
        if native:
            assert (answer.content or "", answer.arguments(), answer.finish) == ("", [PARIS], finish)
        else:
            assert answer.seen() == (plain, [], "stop")


@pytest.mark.parametrize("choice", [NAMED, "required"])
@pytest.mark.parametrize(("text", "finish"), [("<think>\nhm\n</think>", "stop"), ("<think>\nhm\n", "length")])
def test_c24_a_forced_call_that_never_came(thinking: Service, choice: object, text: str, finish: str) -> None:
    """No crash. vLLM's own: an empty content, and no call."""
    for answer in thinking.every_way(text, user(tools=[tool()], tool_choice=choice), finish=finish):
        assert (answer.reasoning, answer.content or "", answer.calls, answer.finish) == ("\nhm\n", "", [], finish)


def test_c25_a_brace_that_is_missing(qwen: Service) -> None:
    """Nothing is lost one-shot. vLLM's own: a stream has the call, repaired or not as the chunks fall."""
    text = '<tool_call>{"name": "bash", "arguments": {"command": "ls -la"}</tool_call>'
    request = auto(tool("bash", command={"type": "string"}))
    assert qwen.one(text, request).seen() == (text, [], "stop")
    for answer, arguments in zip(
        qwen.streams(text, request, sizes=(1, 2, 3, 5)),
        ['{"command": "ls -la"}'] * 3 + ['{"command": "ls -la"'],
        strict=True,
    ):
        assert answer.seen() == (None, [("bash", arguments)], "tool_calls")
