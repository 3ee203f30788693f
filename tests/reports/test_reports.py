"""docs/reports.md accounts for every public report, and the tests that it names exist. Reports of class h that no
other test covers are here."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mangum import Mangum

from handlers.app import create_app
from handlers.derender_endpoints import DERENDER
from handlers.settings import Settings
from tests.reports.test_repaired import AUDITED, CASES
from tests.support.gateway import event

ROOT = Path(__file__).parents[2]
IDS = """
a02 a04 a06 a07 a08 a09 a10 a11 b01 b04 b05 b06 b07 b09 c01 c03 c04 c05 c07 c10 c11 c12 c13 c14 c15 c16 c17 c18 c19 c21
c22 c23 c24 c25 d01 d02 d04 d05 d07 d08 d09 d10 d11 e01 e02 e03 e04 e06 e08 e09 f01 f02 f04 f05 f06 f07 f09 f10 g01 g02
g03 g05 g06 g08 g09 g10 g11 h01 h02 h03 h04 h05 h07 h08
"""
SECOND = """
i01 i02 i03 i04 i05 i06 i07 i09 i10 i11 i14 i15 i16 i17 i19 i20 i21 i23 i25 i26 i27 i28 i29 i30 i31 i32 i34 i35 i36 i37
i38 i40 i41 i42 i43 i45 i48 i50 i51 i52 i53 i54 i56
"""
FAULTS = [str(number) for number in range(1, 25)]
VERDICTS = {"right", "fixed", "vLLM's own"}
ROW = re.compile(r"^\| \[(\w+)\]\(https://[^)]+\) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
# Of the second round: number, what is so by default, what a setting makes of it, tests.
NUMBERED = re.compile(
    r"^\| (?:\[(i\d\d)\]\(https://[^)]+\)|fault (\d+)) \| [^|]+ \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE
)
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")


def rows() -> list[tuple[str, str, str, str]]:
    return ROW.findall((ROOT / "docs" / "reports.md").read_text())


def numbered() -> list[tuple[str, str, str, str]]:
    text = (ROOT / "docs" / "reports.md").read_text()
    return [(report or f"fault {fault}", *row) for report, fault, *row in NUMBERED.findall(text)]  # type: ignore[misc]


def test_every_report_is_accounted_for() -> None:
    assert [row[0] for row in rows()] == IDS.split()
    assert {row[2] for row in rows()} == VERDICTS


def test_every_number_of_the_second_round_has_a_row() -> None:
    assert [row[0] for row in numbered()] == [*SECOND.split(), *(f"fault {number}" for number in FAULTS)]
    for number, default, by_setting, _ in numbered():
        assert default.startswith(("right", "vLLM's own")), number
        assert by_setting, number


def test_the_audit_is_said_to_find_what_it_finds() -> None:
    """In vLLM's answers to the reports' own outputs."""
    for number, default, _, _ in numbered():
        found = [AUDITED.get(name, set()) for name in CASES if name.split(",")[0].split(" ")[0] == number]
        if found:
            told = re.findall(r"audited \(([^)]+)\)", default)
            assert set(re.findall(r"`(\w+)`", " ".join(told))) == set().union(*found), number


@pytest.mark.parametrize("row", [*rows(), *numbered()], ids=lambda row: row[0])
def test_the_tests_of_a_report_exist(row: tuple[str, str, str, str]) -> None:
    tests = TEST.findall(row[-1])
    assert tests
    for path, name in tests:
        assert f"def {name}(" in (ROOT / path).read_text(), (path, name)


@pytest.fixture(scope="module")
def handler(models_dir: Path) -> Mangum:
    settings = Settings(model=str(models_dir / "qwen3"), served_model_name=("qwen3",))
    return Mangum(create_app(settings, DERENDER), lifespan="off")


@pytest.mark.parametrize("accepted", ["gzip", "identity"])
@pytest.mark.parametrize("tokens", [1, 5000])
def test_h01_an_answer_is_json_text_whatever_the_client_accepts(handler: Mangum, accepted: str, tokens: int) -> None:
    choice = {"index": 0, "token_ids": [9707] * tokens, "finish_reason": "stop"}
    body = json.dumps({"generate_response": {"request_id": "r", "choices": [choice]}})
    path = "/v1/chat/completions/derender"
    answer: Any = handler(event(path, body.encode(), headers={"accept-encoding": accepted}), None)  # type: ignore[arg-type]
    assert (answer["statusCode"], answer["isBase64Encoded"]) == (200, False)
    assert "content-encoding" not in answer["headers"]
    assert json.loads(answer["body"])["choices"][0]["message"]["content"] == "Hello" * tokens


def test_h04_one_process_answers_again_and_again(handler: Mangum) -> None:
    """No event loop is there before, between or after the calls; the model is loaded once."""
    for _ in range(3):
        answer: Any = handler(event("/v1/models", method="GET"), None)  # type: ignore[arg-type]
        assert answer["statusCode"] == 200
