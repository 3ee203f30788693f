"""Streamed equals one-shot, for every parser and chunking, but where full vLLM's own answers differ in the same way.

The recorded answers are full vLLM's (`record.py`).  Here every output is answered one-shot, streamed once for each
different stream that vLLM makes of it, and in one more chunking; `python -m tests.equality.record --check` runs all.
"""

from __future__ import annotations

import pytest

from core.bundle.folder import FolderFiles
from core.errors import ConfigurationError
from core.model import load_model
from tests.checkpoint.setups import REASONING_PARSERS, TOOL_PARSERS, WITHOUT_PACKAGE
from tests.equality import document, joined, ours, recorded
from tests.equality.cases import Models, cases, pairs
from tests.equality.outputs import Pair
from tests.equality.recorded import Answer
from tests.equality.wire import Case

ANSWERS = recorded.load()
PAIRS = pairs()
# This parser leaves the reasoning in the content.
KEEPS_REASONING = frozenset({"minimax_m2_append_think"})
# Neighbours share a model folder; a group is a few seconds.
GROUP = 13


def title(pair: Pair) -> str:
    return Case(pair, "", "", "", {}, [], [], "", {}).title


def sampled(case: Case, answer: Answer, number: int) -> list[str]:
    """One chunking for each different stream, and one in rotation."""
    chunkings = list(case.chunkings)
    chosen = {one.chunkings[number % len(one.chunkings)] for one in answer.different}
    return sorted({*chosen, chunkings[number % len(chunkings)]})


@pytest.mark.parametrize(
    ("pair", "folder"),
    [
        pytest.param(*one, id=title(one[0]).replace(" ", ""), marks=pytest.mark.xdist_group(f"equality-{i // GROUP}"))
        for i, one in enumerate(PAIRS)
    ],
)
def test_streams_equal_the_one_shot_answer_or_differ_as_in_vllm(deployed: Models, pair: Pair, folder: str) -> None:
    model = deployed.deployment(pair, folder)
    answers = ANSWERS[title(pair)]
    names = []
    found: set[str] = set()
    for number, case in enumerate(cases(model, pair, folder)):
        names.append(case.name)
        answer = answers[case.name]
        one_shot = ours.one_shot(model, case)
        assert joined.digest(one_shot) == answer.digest, f"{case.name}: one-shot is not vLLM's: {one_shot}"
        found |= {field for field in ("reasoning", "calls") if one_shot.get(field)}
        for chunking in sampled(case, answer, number):
            stream = ours.streamed(model, case, chunking)
            digest, kinds = answer.expected(chunking)
            where = f"{case.name}, {chunking}:\none-shot {one_shot}\nstream   {stream}\n"
            # A new difference, or a listed one that is gone.
            assert joined.kinds(one_shot, stream) == list(kinds), where
            assert joined.digest(stream) == digest, f"not vLLM's stream: {where}"
    assert sorted(names) == sorted(answers)
    # Otherwise the outputs would be in no form that the parsers read, and nothing would be compared.
    assert "calls" in found or pair[0] is None
    assert "reasoning" in found or pair[1] is None or pair[1] in KEEPS_REASONING


def test_every_parser_is_compared() -> None:
    assert sorted(ANSWERS) == sorted(title(pair) for pair, _ in PAIRS)
    tools, reasonings = ({pair[side] for pair, _ in PAIRS} - {None} for side in (0, 1))
    assert tools == set(TOOL_PARSERS) - WITHOUT_PACKAGE
    assert reasonings == set(REASONING_PARSERS) - WITHOUT_PACKAGE
    alone = {pair for pair, _ in PAIRS if None in pair}
    assert alone >= {(tool, None) for tool in tools} | {(None, reasoning) for reasoning in reasonings}


@pytest.mark.parametrize("pair", [*((name, None) for name in sorted(WITHOUT_PACKAGE)), (None, "cohere_command3")])
def test_what_is_left_out_cannot_be_loaded(deployed: Models, pair: Pair) -> None:
    with pytest.raises(ConfigurationError):
        deployed.deployment(pair, "families")


def test_a_deployment_is_what_loading_the_model_gives(deployed: Models) -> None:
    # Each has the tokenizer of its folder's other pairs, which is why it is not simply loaded.
    model = deployed.deployment(("hermes", "qwen3"), "qwen3")
    loaded = load_model(FolderFiles(deployed.folder("qwen3")), model.options)
    parsers = [one.chat_parser.parser_cls for one in (model, loaded) if one.chat_parser]
    assert [(cls.reasoning_parser_cls, cls.tool_parser_cls) for cls in parsers[:1]] == [
        (cls.reasoning_parser_cls, cls.tool_parser_cls) for cls in parsers[1:]
    ]
    assert (model.stream_config, model.eos, model.limits) == (loaded.stream_config, loaded.eos, loaded.limits)


def test_the_pages_say_what_is_recorded() -> None:
    assert document.CONCLUSIONS.read_text(encoding="utf-8") == document.conclusions(ANSWERS)
    assert document.numbers(ANSWERS) in document.CONCLUSIONS.read_text(encoding="utf-8")
    assert document.RESULTS.read_text(encoding="utf-8") == document.results(ANSWERS)
    assert recorded.loads(recorded.dumps(ANSWERS)) == ANSWERS
