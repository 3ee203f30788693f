"""What ``--answers repaired`` makes of the public reports and faults about answers, one-shot and in every chunking.

Each value is the right one, by the report's own word; docs/reports.md has the table.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from tests.golden.corpus import Json
from tests.reports.requests import BOTH, CET, NAMED, PARIS, auto, hermes, qwen3_prompt, tool, xml
from tests.reports.service import CHAT, Service, Services, user

SIZES = (1, 2, 3, 5, 7, None)
CITY_CALL = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
KIMI = "<|tool_calls_section_begin|><|tool_call_begin|>{}<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
WEATHER_AND_FILES = [tool(), tool("list_files", path={"type": "string"})]
TODO = tool("todowrite", todos={"type": "array", "items": {"type": "object"}})
LOCATED = tool(location={"type": "string"}, ids={"type": "array"})
WRITE = tool("write", id={"type": "integer"})


class Case(NamedTuple):
    """An output with its setup and request, and what must be said of it; ``calls`` with arguments as values."""

    setup: tuple[str, ...]
    text: str
    request: Json
    content: str | None = None
    calls: Sequence[tuple[str, Any]] = ()
    reasoning: str | None = None
    finish: str = "stop"
    engine: str = "stop"
    prompt: str = ""


QWEN = ("qwen3", "hermes")
THINKING = ("qwen3", "hermes", "qwen3")
LLAMA = ("llama3", "llama3_json")
CALLED = "tool_calls"
OFF = "Use this: <tool_call>{}</tool_call> ok?"
MINIMAX = '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Oslo</parameter>\n</invoke>\n</minimax:tool_call>'

CASES = {
    "c01": Case(
        QWEN,
        hermes(arguments='{"city": "explain the </tool_call> tag"}'),
        auto(),
        calls=[("get_weather", {"city": "explain the </tool_call> tag"})],
        finish=CALLED,
    ),
    "c03": Case(
        QWEN,
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Par',
        auto(),
        content='<tool_call>\n{"name": "get_weather", "arguments": {"city": "Par',
        finish="length",
        engine="length",
    ),
    **{
        f"c04 {name}": Case(
            LLAMA,
            separator.join(
                [
                    '{"name": "get_weather", "parameters": {"city": "Paris"}}',
                    '{"name": "get_time", "parameters": {"tz": "CET"}}',
                ]
            ),
            auto(*BOTH),
            calls=[PARIS, CET],
            finish=CALLED,
        )
        for name, separator in {"a": ";", "b": "; ", "c": ";\n", "d": "\n"}.items()
    },
    "c11 an object": Case(LLAMA, '{"answer": 42}', auto(), content='{"answer": 42}'),
    "c11 an unknown tool": Case(
        LLAMA, '{"name": "delete_all", "parameters": {}}', auto(), content='{"name": "delete_all", "parameters": {}}'
    ),
    "c14": Case(
        ("deepseek", "deepseek_v31"),
        f'<｜tool▁calls▁begin｜>{CITY_CALL}{{"city": "Paris"}}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        auto(),
        calls=[PARIS],
        finish=CALLED,
    ),
    "c15": Case(QWEN, "plain <tool_ca", auto(), content="plain <tool_ca"),
    "c16": Case(
        QWEN, f"{hermes()}\nI will report back.", auto(), content="\nI will report back.", calls=[PARIS], finish=CALLED
    ),
    "c17": Case(
        THINKING,
        f"<think>\nHm.\n</think>\n\n{hermes()}",
        auto(),
        reasoning="\nHm.\n",
        calls=[PARIS],
        finish=CALLED,
    ),
    "c25": Case(
        QWEN,
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}</tool_call>',
        auto(),
        calls=[PARIS],
        finish=CALLED,
    ),
    "i06": Case(
        ("qwen3", "", "qwen3"),
        '{"answer": 42}',
        user(include_reasoning=False, response_format={"type": "json_object"}),
        content='{"answer": 42}',
        prompt=qwen3_prompt(),
    ),
    "i07": Case(
        ("families", "gemma4", "gemma4"),
        'thought\n<|channel>thought\nhm<channel|>{"a":1}',
        user(chat_template_kwargs={"enable_thinking": True}),
        reasoning="thought\nhm",
        content='{"a":1}',
    ),
    "i09": Case(
        ("families", "gemma4"),
        '<|tool_call>call:todowrite{todos:[{"content":"Say \\"hi\\"","status":"done"}]}<tool_call|>',
        auto(TODO),
        calls=[("todowrite", {"todos": [{"content": 'Say "hi"', "status": "done"}]})],
        finish=CALLED,
    ),
    **{
        f"i16 {name}": Case(
            ("families", "kimi_k2", "kimi_k2"),
            "ok</think>" + KIMI.format(name, '{"city": "Tokyo"}'),
            auto(*WEATHER_AND_FILES),
            reasoning="ok",
            calls=[("get_weather", {"city": "Tokyo"})],
            finish=CALLED,
            prompt="<think>",
        )
        for name in (
            "functionsget_weather5",
            "functions.get_weather5",
            "functions_get_weather_1",
            "call00003",
            "call_abc123",
            "0",
            "functions.get_weather",
        )
    },
    "i20": Case(
        ("llama3", "llama4_json"),
        '{"type": "function", "name": "get_weather", "parameters": {"city": "Paris"}}',
        auto(),
        calls=[PARIS],
        finish=CALLED,
    ),
    "i26": Case(
        ("deepseek", "deepseek_v31"),
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>todowrite<｜tool▁sep｜>{"todos": [{"content": "a"}]}<｜tool▁call▁end｜>',
        auto(TODO),
        calls=[("todowrite", {"todos": [{"content": "a"}]})],
        finish=CALLED,
    ),
    "i21": Case(
        ("llama3", "llama4_pythonic"),
        '[get_weather(location="Dublin", ids=[1, 2])',
        auto(LOCATED),
        calls=[("get_weather", {"location": "Dublin", "ids": [1, 2]})],
        finish=CALLED,
    ),
    "i52": Case(
        ("qwen3", "", "qwen3"),
        "<think>\na\n</think>\n\nfirst\n<think>\nb\n</think>\n\nsecond",
        user(),
        reasoning="\na\n",
        content="\n\nfirst\n<think>\nb\n</think>\n\nsecond",
    ),
    "c21": Case(
        ("gpt-oss", "openai", "openai_gptoss"),
        "<|channel|>commentary?commentary?<|message|>hi<|return|>",
        user(),
        content="hi",
    ),
    "c21 behind reasoning": Case(
        ("gpt-oss", "openai", "openai_gptoss"),
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|message|>The answer.<|return|>",
        user(),
        reasoning="hm",
        content="The answer.",
    ),
    **{
        f"fault 4, none: {tools}": Case(
            ("families", tools),
            f"Use this: {text} ok?",
            auto() | {"tool_choice": "none"},
            content=f"Use this: {text} ok?",
        )
        for tools, text in {
            "minimax_m2": MINIMAX,
            "seed_oss": "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Oslo</parameter>\n</function>\n</seed:tool_call>",
            "glm47": "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>",
            "kimi_k2": KIMI.format("functions.get_weather:0", '{"city": "Oslo"}'),
        }.items()
    },
    "fault 6, arguments first": Case(
        QWEN,
        '<tool_call>\n{"arguments": {"id": 42}, "name": "write"}\n</tool_call>',
        auto(WRITE),
        calls=[("write", {"id": 42})],
        finish=CALLED,
    ),
    "fault 6, no arguments": Case(
        QWEN, '<tool_call>\n{"name": "write"}\n</tool_call>', auto(WRITE), calls=[("write", {})], finish=CALLED
    ),
    "fault 6, another quote": Case(
        QWEN,
        "<tool_call>\n{'name': 'write', 'arguments': {'id': 42}}\n</tool_call>",
        auto(WRITE),
        calls=[("write", {"id": 42})],
        finish=CALLED,
    ),
    "named, in plain JSON": Case(
        QWEN, '{"city": "Paris"}', auto() | {"tool_choice": NAMED}, calls=[PARIS], finish="stop"
    ),
    "types of the schema": Case(
        ("qwen3.5", "qwen3_coder"),
        xml("<parameter=city>\nParis\n</parameter>"),
        auto(),
        calls=[PARIS],
        finish=CALLED,
    ),
}

INVOKES = (
    '<invoke name="bash">\n<parameter name="command">one</parameter>\n</invoke>\n<invoke name="bash">\n'
    '<parameter name="command">two</parameter>\n</invoke>\n<invoke name="noop">\n</invoke>'
)
SQL = (
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="run_sql">\n<｜DSML｜parameter name="sql" string="true">SELECT 1'
    '</｜DSML｜parameter>\n<｜DSML｜parameter name="limit" string="false">10</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
    "</｜DSML｜function_calls>"
)
GREP = tool("grep", n={"type": "integer"}, opts={"type": "object"}, u={"type": ["string", "null"]})
# These vLLM answers rightly, too.
RIGHT = {
    "i21": Case(
        ("llama3", "llama4_pythonic"),
        '[get_weather(location="Dublin", ids=[[1, 2], [3]])]',
        auto(LOCATED),
        calls=[("get_weather", {"location": "Dublin", "ids": [[1, 2], [3]]})],
        finish=CALLED,
    ),
    "i10": Case(
        ("families", "gemma4"),
        '<|tool_call>call:todowrite{todos:[{content:<|"|>Say "hi"\n<|"|>,status:<|"|>in_progress<|"|>}]}<tool_call|>',
        auto(TODO),
        calls=[("todowrite", {"todos": [{"content": 'Say "hi"\n', "status": "in_progress"}]})],
        finish=CALLED,
    ),
    "i11": Case(
        ("families", "glm47", "glm47"),
        "<think>x</think><tool_call>noop</tool_call>",
        auto(tool("noop", city={"type": "string"})),
        reasoning="x",
        calls=[("noop", {})],
        finish=CALLED,
    ),
    "i14": Case(
        ("families", "minimax_m2", "minimax_m2"),
        f"x</think><minimax:tool_call>\n{INVOKES}\n</minimax:tool_call>",
        auto(tool("bash", command={"type": "string"}), tool("noop")),
        reasoning="x",
        calls=[("bash", {"command": "one"}), ("bash", {"command": "two"}), ("noop", {})],
        finish=CALLED,
        prompt="<think>\n",
    ),
    "i15": Case(
        ("families", "kimi_k2", "kimi_k2"),
        "I will call." + KIMI.format("functions.get_weather:0", '{"city": "Tokyo"}'),
        auto(),
        reasoning="I will call.",
        calls=[("get_weather", {"city": "Tokyo"})],
        finish=CALLED,
        prompt="<think>",
    ),
    "i17": Case(QWEN, hermes("write", '{"id": 42}'), auto(WRITE), calls=[("write", {"id": 42})], finish=CALLED),
    "i19": Case(
        QWEN,
        hermes("write", '{"id": 1}') + "\n" + hermes("write", '{"id": 2}'),
        auto(WRITE),
        calls=[("write", {"id": 1}), ("write", {"id": 2})],
        finish=CALLED,
    ),
    "i23": Case(
        ("qwen3.5", "qwen3_coder"),
        xml(
            '<parameter=n>\n3\n</parameter>\n<parameter=opts>\n{"a": [1, true]}\n</parameter>\n<parameter=u>\n42\n</parameter>',
            "grep",
        ),
        auto(GREP),
        calls=[("grep", {"n": 3, "opts": {"a": [1, True]}, "u": "42"})],
        finish=CALLED,
    ),
    "i25": Case(
        ("deepseek", "deepseek_v32", "deepseek_v3"),
        f"I will query.\n\n{SQL}",
        auto(tool("run_sql", sql={"type": "string"}, limit={"type": "integer"})),
        content="I will query.",
        calls=[("run_sql", {"sql": "SELECT 1", "limit": 10})],
        finish=CALLED,
    ),
}


def repaired(services: Services, setup: tuple[str, ...]) -> Service:
    return services.get(*setup, answers="repaired")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_right_answer_in_every_chunking(services: Services, case: Case) -> None:
    service = repaired(services, case.setup)
    response = {"prompt_token_ids": service.ids(case.prompt)}
    whole = service.one(case.text, case.request, finish=case.engine, response=response)
    expected = (case.content, case.reasoning, list(case.calls), case.finish)
    assert (whole.content, whole.reasoning, whole.arguments(), whole.finish) == expected
    if not case.prompt:  # an engine tells of no prompt unless it is asked
        bare = service.one(case.text, case.request, finish=case.engine)
        assert (bare.content, bare.reasoning, bare.arguments(), bare.finish) == expected
    for size in SIZES:
        stream = service.stream(case.text, case.request, size=size, finish=case.engine, prompt=case.prompt)
        assert (stream.content, stream.reasoning, stream.calls, stream.finish) == (
            whole.content,
            whole.reasoning,
            whole.calls,
            whole.finish,
        ), size


# What the audit says of vLLM's own answers to these outputs, over all ways; nothing where they are right, or
# where what is wrong does not show in the answer itself.
AUDITED: dict[str, set[str]] = {
    "c01": {"markup", "arguments"},
    "c03": {"markup"},
    "c04 a": {"vanished"},
    "c04 b": {"vanished"},
    "c04 c": {"vanished"},
    "c04 d": {"vanished"},
    "c11 an object": {"vanished"},
    "c11 an unknown tool": {"vanished", "arguments", "unknown_tool"},
    "c14": {"vanished", "arguments", "unknown_tool"},
    "c15": {"held"},
    "c21": {"vanished"},
    "c21 behind reasoning": {"held"},
    "c25": {"markup", "arguments"},
    "i06": {"vanished"},
    "i07": {"held"},
    **{name: {"held"} for name in CASES if name.startswith("i16")},
    "i20": {"vanished"},
    "i26": {"vanished", "arguments"},
    "i52": {"markup"},
    "fault 4, none: kimi_k2": {"held"},
    "fault 6, arguments first": {"arguments"},
    "fault 6, no arguments": {"markup", "arguments"},
    "fault 6, another quote": {"vanished", "markup"},
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_audit_says_of_vllms_answers(services: Services, name: str) -> None:
    case = CASES[name]
    service = services.get(*case.setup, answers="vllm", audit="response")
    response = {"prompt_token_ids": service.ids(case.prompt)}
    given = [service.one(case.text, case.request, finish=case.engine, response=response)]
    given += [
        service.stream(case.text, case.request, size=size, finish=case.engine, prompt=case.prompt) for size in SIZES
    ]
    found = {kind for answer in given for kind in answer.raw[-1]["choices"][0]["audit"]}
    assert found == AUDITED.get(name, set())


@pytest.mark.parametrize("answers", ["vllm", "repaired"])
@pytest.mark.parametrize("case", RIGHT.values(), ids=RIGHT)
def test_what_is_right_in_both_settings(services: Services, case: Case, answers: str) -> None:
    service = services.get(*case.setup, answers=answers)
    response = {"prompt_token_ids": service.ids(case.prompt)}
    given = [service.one(case.text, case.request, finish=case.engine, response=response)]
    given += [service.stream(case.text, case.request, size=size, prompt=case.prompt) for size in SIZES]
    for answer in given:
        said = (answer.content or "").strip() or None
        assert (said, answer.reasoning, answer.arguments(), answer.finish) == (
            case.content,
            case.reasoning,
            list(case.calls),
            case.finish,
        )


def test_one_entry_for_each_call_and_delta(services: Services) -> None:
    """c12, fault 3: however chunks are cut, a call comes whole, and its delta has one entry of its index."""
    service = repaired(services, QWEN)
    text = f"{hermes()}\n{hermes('get_time', json.dumps(CET[1]))}"
    for size in SIZES:
        chunks = service.call_each(
            CHAT, service.chunks(text, size, "stop"), chat_request=auto(*BOTH), prompt_token_ids=[1]
        )
        entries = [
            [(part["index"], part["function"]["name"], json.loads(part["function"]["arguments"])) for part in delta]
            for chunk in chunks
            if (delta := chunk["choices"][0]["delta"].get("tool_calls"))
        ]
        assert [entry for delta in entries for entry in delta] == [(0, *PARIS), (1, *CET)]
        assert all(len({index for index, *_ in delta}) == len(delta) for delta in entries)
        assert not any((chunk["choices"][0]["delta"].get("content") or "x").isspace() for chunk in chunks)
