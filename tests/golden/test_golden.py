"""Every recorded case against the service, called in this process.

Cases of one server configuration run side by side and share one application.  With pytest-xdist use
`--dist loadgroup`, which keeps them together.  `--golden-mode checkpoint|replay|both` (default both) chooses how
streams through a parser carry their state.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.golden import corpus
from tests.golden.application import InProcess, running
from tests.golden.corpus import Case, Mode, Server
from tests.golden.deviations import DEVIATIONS
from tests.golden.replay import run_case
from tests.golden.verdict import judge

pytestmark = pytest.mark.golden


class Applications:
    """The application in use; the one before it is stopped first, so that only one model is in memory."""

    def __init__(self, models_dir: Path) -> None:
        self._models_dir = models_dir
        self._key: tuple[str, Mode] | None = None
        self._stack = ExitStack()
        self._current: InProcess | None = None

    def get(self, server: Server, mode: Mode) -> InProcess:
        key = (corpus.server_key(server), mode)
        if self._current is None or key != self._key:
            self.close()
            self._current = self._stack.enter_context(running(server, self._models_dir, mode))
            self._key = key
        return self._current

    def close(self) -> None:
        self._current = None
        self._stack.close()


@pytest.fixture(scope="module")
def applications(models_dir: Path) -> Iterator[Applications]:
    applications = Applications(models_dir)
    yield applications
    applications.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" not in metafunc.fixturenames:
        return
    asked = metafunc.config.getoption("golden_mode")
    cases = corpus.by_server(corpus.select(corpus.load(), core=metafunc.config.getoption("golden_core")))
    params = []
    for mode in corpus.MODES if asked == "both" else (asked,):
        for case in cases:
            if asked == "both" and mode not in corpus.modes_of(case):
                continue
            group = f"{mode} {corpus.server_key(case['server'])}"
            suffix = f"-{mode}" if corpus.through_parser(case) else ""
            params.append(pytest.param(case, mode, id=case["id"] + suffix, marks=pytest.mark.xdist_group(group)))
    metafunc.parametrize(("case", "mode"), params)


def test_case(case: Case, mode: Mode, applications: Applications) -> None:
    application = applications.get(case["server"], mode)
    verdict = judge(case, run_case(case, application.call), mode)
    if not verdict.accepted:
        pytest.fail(f"{case['id']} [{mode}] {corpus.server_key(case['server'])}\n{verdict.report(10)}", pytrace=False)


def test_every_deviation_has_a_reason_and_covers_a_case() -> None:
    ids = [case["id"] for case in corpus.load()]
    for deviation in DEVIATIONS:
        assert deviation.reason.strip(), deviation.pattern
        assert any(corpus.matches(deviation.pattern, case_id) for case_id in ids), deviation.pattern
