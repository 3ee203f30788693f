"""The rules about what is carried: each on its own, and on outputs made to break them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.parsing.checkpoint import pack, unpack
from core.parsing.checkpoint.id_runs import fewer_ids
from core.parsing.checkpoint.open_string import middle_of_open_string
from tests.checkpoint import formats
from tests.checkpoint.carrying import restore, snapshot
from tests.checkpoint.equality import LIMITS, checkpointed, uninterrupted
from tests.checkpoint.formats import Call
from tests.checkpoint.setups import TOOL_PARSERS, Deployments, Pair
from tests.checkpoint.streams import chunks, mutate

# -- open strings ---------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        "word ",
        '"',
        "\\",
        '\\"',
        "\\\\",
        "\\n",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\q",
        "\n",
        "{",
        "}",
        "[",
        "]",
        ",",
        ": ",
        "é🌦",
    ]
    + ["lorem ipsum dolor sit amet, consectetur adipiscing elit "] * 6
)
JSON_LIKE = st.lists(PIECES, max_size=40).map("".join)


def structure(text: str) -> tuple[bool, int, bool]:
    """Whether a string is open at the end of ``text``, the nesting outside of strings, and whether it is valid JSON."""
    inside = escaped = False
    depth = 0
    for character in text:
        if escaped:
            escaped = False
        elif inside and character == "\\":
            escaped = True
        elif character == '"':
            inside = not inside
        elif not inside:
            depth += (character in "{[") - (character in "}]")
    try:
        json.loads(text)
    except ValueError:
        return inside, depth, False
    return inside, depth, True


@given(JSON_LIKE, st.lists(PIECES, max_size=6).map("".join))
@example('{"a": "' + "x" * 400, '"}')
@example('{"a": "' + "\\n" * 200, '"}')
@example('{"a": "' + "\\u00e9" * 80, '"}')
@example('{"a": 1 \\" "' + "x" * 400, '"}')
@settings(derandomize=True, deadline=None, max_examples=400)
def test_what_is_left_out_leaves_no_trace(text: str, more: str) -> None:
    middle = middle_of_open_string(text)
    if middle is None:
        return
    start, end = middle
    cut = text[:start] + text[end:]
    assert structure(text)[0], "only within an open string"
    for suffix in ("", more, '"', '"}', '"}}]', "\\", 'u1234"}'):
        assert structure(cut + suffix) == structure(text + suffix)
    # Nothing lies between the opening quote and the part but the string itself.
    assert json.loads(f'"{text[start:end]}"') is not None


def test_a_long_open_string_is_cut_and_a_closed_one_is_not() -> None:
    text = '{"path": "a", "content": "' + "word " * 200
    start, end = middle_of_open_string(text) or (0, 0)
    assert end - start > 800
    assert middle_of_open_string(text + '"') is None
    assert middle_of_open_string('{"n": [' + "1, " * 400) is None


# -- ids ------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 6), max_size=60))
@settings(derandomize=True, deadline=None)
def test_fewer_ids_answer_the_same_questions(ids: list[int]) -> None:
    markers = {5, 6}
    fewer = fewer_ids(ids, markers)
    assert len(fewer) <= len(ids)
    assert bool(fewer) == bool(ids)
    assert fewer[-8:] == ids[-8:]
    for marker in markers:
        assert fewer.count(marker) == ids.count(marker)
    assert [i for i in fewer if i in markers] == [i for i in ids if i in markers]
    # What stands next to a marker, as far as markers go.
    neighbours = [(a in markers and a, b in markers and b) for a, b in pairwise(ids)]
    kept = [(a in markers and a, b in markers and b) for a, b in pairwise(fewer)]
    assert {pair for pair in neighbours if pair != (False, False)} == {pair for pair in kept if pair != (False, False)}
    assert all(i == 0 for i in fewer) == all(i == 0 for i in ids) or 0 not in markers


# -- outputs with long and odd arguments ----------------------------------------------------------

ODD = (
    "the quick brown fox ",
    "lorem ipsum dolor sit amet consectetur ",
    "abcdefghij" * 5,
    " " * 40,
    "\\n    ",
    '\\"quoted\\"',
    "\\\\",
    "\\u00e9",
    "\\ud83d\\ude00",
    "\\ud800",
    "日本語",
    "😀",
    "</tool_call>",
    "<tool_call>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "</parameter>",
    "<parameter=content>",
    "\n",
    '"',
    "{",
    "}]",
    "\\",
    "\\u12",
    '"arguments": ',
    '"name": "x"',
    '", "content": "',
)
WEIGHTS = (
    12,
    10,
    6,
    2,
    6,
    3,
    2,
    2,
    1,
    0.3,
    1,
    2,
    0.2,
    0.2,
    0.2,
    0.2,
    0.3,
    0.3,
    0.5,
    0.5,
    1,
    1,
    0.4,
    0.2,
    0.3,
    0.3,
    0.4,
)


def odd_text(rng: random.Random) -> str:
    return "".join(rng.choices(ODD, WEIGHTS, k=rng.randint(5, 90)))


def odd_arguments(rng: random.Random) -> str:
    """JSON arguments, more or less: long strings, repeated keys, numbers that JSON does not bound, cut ends."""
    values = (
        lambda: f'"{odd_text(rng)}"',
        lambda: f'"{odd_text(rng)}"',
        lambda: '"' + "the same text once more. " * 20 + '"',
        lambda: f'{{"deep": ["{odd_text(rng)}", null]}}',
        lambda: rng.choice(("1e999", "123456789012345678901234567890", "-0.5", '[1, 2, "x"]')),
    )
    keys = [rng.choice(("content", "path", "text", "content")) for _ in range(rng.randint(1, 3))]
    separator, colon = rng.choice((", ", ",", ",\n  ")), rng.choice((": ", ":"))
    return (
        "{"
        + separator.join(f'"{key}"{colon}{rng.choice(values)()}' for key in keys)
        + rng.choice(("}", "}", "}", "} ", ""))
    )


def deepseek(arguments: str) -> str:
    return f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>write_file<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>"


CALLS: dict[Pair, Callable[[str], str]] = {
    ("hermes", None): lambda a: f'<tool_call>\n{{"name": "write_file", "arguments": {a}}}\n</tool_call>',
    ("hermes", "qwen3"): lambda a: f'<tool_call>{{"arguments": {a}, "name": "write_file"}}</tool_call>',
    ("longcat", None): lambda a: f'<longcat_tool_call>{{"name": "write_file", "arguments": {a}}}</longcat_tool_call>',
    ("deepseek_v31", None): deepseek,
    ("deepseek_v3", None): lambda a: (
        deepseek(a)
        .replace("write_file<｜tool▁sep｜>", "function<｜tool▁sep｜>write_file\n```json\n", 1)
        .replace("<｜tool▁call▁end｜>", "\n```<｜tool▁call▁end｜>")
    ),
    ("llama3_json", None): lambda a: f'{{"name": "write_file", "parameters": {a}}}; ',
    ("jamba", None): lambda a: f'<tool_calls>[{{"name": "write_file", "arguments": {a}}}]</tool_calls>',
    ("mistral", "mistral"): lambda a: f"[TOOL_CALLS]write_file[ARGS]{a}",
    ("kimi_k2", None): lambda a: formats.kimi_k2([Call("write_file", {})]).replace("{}", a),
    ("plamo3", None): lambda a: formats.plamo3([Call("write_file", {})]).replace("{}", a),
    ("granite", "granite"): lambda a: f'<|tool_call|>[{{"name": "write_file", "arguments": {a}}}]',
    ("xlam", None): lambda a: f'[{{"name": "write_file", "arguments": {a}}}]',
    ("qwen3_coder", "qwen3"): lambda a: formats.qwen_xml([Call("write_file", {"content": a})]),
    ("hy_v3", "hy_v3"): lambda a: formats.hy([Call("write_file", {"content": a})]),
    ("openai", "openai_gptoss"): lambda a: (
        f"<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>{a}<|call|><|start|>assistant"
    ),
}


@pytest.mark.parametrize("pair", [pair for pair in CALLS if pair[0] in TOOL_PARSERS])
def test_odd_arguments(deployments: Deployments, pair: Pair, runs: Callable[[int], int]) -> None:
    for seed in range(runs(6)):
        rng = random.Random(f"{pair} {seed}")
        setup = deployments.setup(pair, chat_template_kwargs={"reasoning_effort": "high"})
        tokenizer = setup.tokenizer
        text = "".join(CALLS[pair](odd_arguments(rng)) for _ in range(rng.randint(1, 3)))
        ids = tokenizer.encode(text, add_special_tokens=False)
        if rng.random() < 0.3:
            ids = mutate(ids, list(tokenizer.get_added_vocab().values()), rng) or ids
        stream = list(chunks(tokenizer, [], ids, rng.choice((2, 5, rng, 60))))
        assert checkpointed(setup, stream, [])[0] == uninterrupted(setup, stream, []), f"seed {seed}"


@pytest.mark.parametrize("seed", range(6))
def test_required_calls_with_odd_arguments(deployments: Deployments, seed: int) -> None:
    rng = random.Random(seed)
    setup = deployments.setup(("functiongemma", None), tool_choice="required")
    calls = [f'{{"name": "write_file", "parameters": {odd_arguments(rng)}}}' for _ in range(rng.randint(1, 3))]
    ids = setup.tokenizer.encode(f"[{', '.join(calls)}]", add_special_tokens=False)
    stream = list(chunks(setup.tokenizer, [], ids, rng.choice((1, 3, rng))))
    assert checkpointed(setup, stream, [])[0] == uninterrupted(setup, stream, [])


# -- size -----------------------------------------------------------------------------------------

TEXT = "".join(
    f"Line {i * 7919 % 10007}: {chr(97 + i % 26) * (i % 7)} the value is {i * 104729 % 99991}.\n" for i in range(400)
)


def packed_size(deployments: Deployments, pair: Pair, text: str, tokens: int, **fields: Any) -> int:
    """The size of the checkpoint after so many tokens of ``text``, carried in chunks of 16."""
    setup = deployments.setup(pair, **fields)
    ids = setup.tokenizer.encode(text, add_special_tokens=False)
    assert len(ids) > tokens
    packed = ""
    for chunk in chunks(setup.tokenizer, [], ids[:tokens], 16, None):
        processor = setup.processor()
        if packed:
            restore(processor, unpack(packed, LIMITS))
        processor.step(chunk.text, list(chunk.ids), None, [])
        packed = pack(snapshot(processor))
    return len(packed)


FLAT: list[tuple[Pair, str, int]] = [
    # Reasoning that nobody reads again.
    (("hermes", "qwen3"), "<think>" + TEXT, 150),
    (("qwen3_coder", "qwen3"), "<think>" + TEXT, 180),
    (("deepseek_v31", "deepseek_r1"), "<think>" + TEXT, 120),
    (("openai", "openai_gptoss"), "<|channel|>analysis<|message|>" + TEXT, 150),
    # Content.
    (("hermes", None), TEXT, 130),
    (("llama3_json", None), TEXT, 150),
    (("qwen3_coder", None), TEXT, 150),
    # A long argument.
    (("hermes", None), formats.hermes([Call("write_file", {"content": TEXT})]), 500),
    (("deepseek_v31", None), formats.deepseek_v31([Call("write_file", {"content": TEXT})]), 500),
    (("kimi_k2", None), formats.kimi_k2([Call("write_file", {"content": TEXT})]), 200),
    (("openai", "openai_gptoss"), formats.harmony([Call("write_file", {"content": TEXT})])[18:], 180),
    # Many calls.
    (("hermes", None), formats.hermes([Call("get_weather", {"city": f"c{i}"}) for i in range(300)]), 700),
    (("qwen3_coder", None), formats.qwen_xml([Call("get_weather", {"city": f"c{i}"}) for i in range(300)]), 500),
]


@pytest.mark.parametrize(("pair", "text", "most"), FLAT)
def test_the_size_does_not_grow(deployments: Deployments, pair: Pair, text: str, most: int) -> None:
    early = packed_size(deployments, pair, text, 400)
    late = packed_size(deployments, pair, text, 3000)
    assert late <= most
    assert late <= early * 1.5 + 60


def test_what_is_read_is_written_once(deployments: Deployments) -> None:
    text = formats.qwen_xml([Call("write_file", {"content": TEXT})])
    size = packed_size(deployments, ("qwen3_coder", None), text, 3000)
    plain = pack([text[: len(text) * 3000 // len(deployments.tokenizer(("hermes", None)).encode(text))]])
    assert size < len(plain) + 400
