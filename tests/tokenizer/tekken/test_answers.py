"""Recorded answers of vLLM's server for tekken models, against the service in this process.

`answers.jsonl.gz` has the form of `tests/golden`.  It was recorded from the real vLLM 0.33.0 (its own render
application, `--tokenizer-mode mistral`, mistral-common 1.13.1) on the folders of `vocabularies.py`.  Cases with a
`mistral_common` key were recorded with that version: with 1.13.1 vLLM answers every request that needs a grammar with
an error, since the two disagree over an argument.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.golden import corpus
from tests.golden.application import InProcess, running
from tests.golden.corpus import Case, Mode, Server
from tests.golden.replay import run_case
from tests.golden.verdict import judge
from tests.tokenizer.tekken.deviations import DEVIATIONS

CASES: list[Case] = corpus.by_server(corpus.load([Path(__file__).parent / "answers.jsonl.gz"]))
PARAMS = [
    pytest.param(case, mode, id=f"{case['id']}-{mode}", marks=pytest.mark.xdist_group("tekken"))
    for mode in corpus.MODES
    for case in CASES
    if mode in corpus.modes_of(case)
]


class Applications:
    """The application in use; the one before it is stopped first, so that only one model is in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ""
        self._stack = ExitStack()
        self._current: InProcess | None = None

    def get(self, server: Server, mode: Mode) -> InProcess:
        key = f"{mode} {corpus.server_key(server)}"
        if self._current is None or key != self._key:
            self.close()
            self._current, self._key = self._stack.enter_context(running(server, self._folder, mode)), key
        return self._current

    def close(self) -> None:
        self._stack.close()
        self._current = None


@pytest.fixture(scope="module")
def applications(tekken_dir: Path) -> Iterator[Applications]:
    applications = Applications(tekken_dir)
    yield applications
    applications.close()


@pytest.mark.parametrize(("case", "mode"), PARAMS)
def test_case(case: Case, mode: Mode, applications: Applications) -> None:
    verdict = judge(case, run_case(case, applications.get(case["server"], mode).call), mode, DEVIATIONS)
    assert verdict.accepted, f"{case['id']} [{mode}]\n{verdict.report(10)}"


def test_tokenize_gives_the_ids_of_render(applications: Applications) -> None:
    """With tool calls, too, which vLLM refuses in /tokenize."""
    tokenize, render = (
        next(case for case in CASES if case["id"] == f"tekken.v13.{name}")
        for name in ("tokenize.chat_tool_turn", "render.tool_turn")
    )
    assert tokenize["request"]["messages"] == render["request"]["messages"]
    call = applications.get(tokenize["server"], "checkpoint").call
    assert run_case(tokenize, call)["body"]["tokens"] == render["response"]["body"]["token_ids"]


def test_every_deviation_covers_a_case() -> None:
    for deviation in DEVIATIONS:
        assert any(corpus.matches(deviation.pattern, case["id"]) for case in CASES), deviation.pattern
