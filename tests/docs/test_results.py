"""The pages of results that machines write: their sums are those of their rows, and a page is what its command writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra.slice.versions import VERSIONS
from tests.docs.documents import ROOT, document
from tests.parity import images_page, page
from tests.parity.images import Row as PicturesRow
from tests.parity.parsers import compare
from tests.parity.servers import Tally

PARITY = document("docs/results/parity.md").text
IMAGES = document("docs/results/images.md").text
HEADLINE = re.compile(
    r"(?P<parsers>[\d,]+) parser cases, (?P<cases>[\d,]+) recorded cases with (?P<calls>[\d,]+) calls to each\n"
    r"server\. (?P<wrong>\d+) parser cases and (?P<broken>\d+) calls differ"
)
OLDER = re.compile(r"(?P<parsers>[\d,]+) parser cases\. (?P<wrong>\d+) differ\.")


def number(text: str) -> int:
    return int(text.replace(",", ""))


def rows(text: str, columns: int) -> list[list[str]]:
    """The cells of every table row with that many columns, without heads and rules."""
    found = [re.split(r" *\| *", line.strip().strip("|").strip()) for line in text.splitlines() if line.startswith("|")]
    return [cells for cells in found if len(cells) == columns and re.fullmatch(r"[\d,]+", cells[-1])]


def test_the_parity_pages_sums_are_those_of_its_rows() -> None:
    headline = HEADLINE.search(PARITY)
    assert headline
    servers = rows(PARITY, 6)
    ours = [cells for cells in servers if cells[1] == "ours"]
    for other in {cells[1] for cells in servers}:
        assert [cells[0] for cells in ours] == [cells[0] for cells in servers if cells[1] == other]
    assert len(ours) > 20
    assert number(headline["cases"]) == sum(number(cells[2]) for cells in ours)
    assert number(headline["calls"]) == sum(number(cells[3]) for cells in ours)
    assert f"says: {sum(number(cells[4]) for cells in ours)} cases" in " ".join(PARITY.split())
    assert number(headline["broken"]) == sum(number(cells[5]) for cells in servers) == 0
    parsers_agree_with(headline, PARITY)


OLDER_PAGES = sorted(path.stem.removeprefix("parity-") for path in page.FOLDER.glob("parity-*.md"))


def test_there_are_pages_of_older_versions() -> None:
    assert set(OLDER_PAGES) <= set(VERSIONS[1:])
    assert OLDER_PAGES


@pytest.mark.parametrize("version", OLDER_PAGES)
def test_so_are_those_of_older_versions(version: str) -> None:
    text = document(f"docs/results/parity-{version}.md").text
    headline = OLDER.search(text)
    assert headline
    assert f"vLLM {version}, Python" in text
    parsers_agree_with(headline, text)


def parsers_agree_with(headline: re.Match[str], text: str) -> None:
    by_parser = rows(text, 9)
    assert len(by_parser) > 100
    assert number(headline["parsers"]) == sum(number(cell) for cells in by_parser for cell in cells[1:7])
    assert number(headline["wrong"]) == sum(number(cells[8]) for cells in by_parser) == 0


def test_a_run_writes_a_page_of_that_form() -> None:
    tallies = [Tally("qwen3", 3, 1200, 2, direct=("x: another status",), broken=("vLLM: x",))]
    cases = {"compose hermes|None qwen3": ["x"], **{f"parse hermes|None qwen3 {n}": [n] for n in range(2)}}
    comparison = compare(cases, cases)
    written = page.text(VERSIONS[0], comparison, tallies)
    headline = HEADLINE.search(written)
    assert headline
    assert headline.groups() == ("3", "3", "1,200", "0", "2")
    assert rows(written, 6)[-3:] == [
        ["qwen3", "vLLM", "3", "1,200", "0", "1"],
        ["qwen3", "ours", "3", "1,200", "2", "0"],
        ["qwen3", "ours, with vLLM's", "3", "1,200", "2", "1"],
    ]
    assert rows(written, 9) == [["hermes", "1", "2", "0", "0", "0", "0", "0", "0"]]
    assert written.split("\n\n")[0] == PARITY.split("\n\n")[0]
    older = page.text(OLDER_PAGES[0], comparison, [])
    assert OLDER.search(older)
    assert older.split("\n\n")[:2] == document(f"docs/results/parity-{OLDER_PAGES[0]}.md").text.split("\n\n")[:2]
    assert rows(older, 9) == rows(written, 9)


def test_a_run_in_containers_writes_a_page_of_its_form(tmp_path: Path) -> None:
    from tests.docker.page import text

    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase name="test_an_image[render]" time="60"/>'
        '<testcase name="test_other" time="2.04"><failure message="x"/></testcase></testsuite></testsuites>'
    )
    written = text(report, {"serve": 174_100_000}, "20.10", "with stand-ins")
    assert "1 tests passed, 1 failed, in 1 minutes" in written
    assert "| serve | 174 |" in written
    assert "| an image: render | 60.0 |\n| other, failed | 2.0 |" in written
    recorded = document("docs/results/docker.md").text
    assert recorded.split("\n\n")[:2] == written.split("\n\n")[:2]


PICTURES = re.compile(
    r"(?P<requests>[\d,]+) chats with pictures,\n(?P<values>[\d,]+) values in their tensors: "
    r"(?P<wrong>[\d,]+) values and (?P<different>[\d,]+) answers differ"
)


def check_pictures(text: str) -> list[list[str]]:
    """The rows of a page of pictures, whose sums are those of its head."""
    headline = PICTURES.search(text)
    assert headline
    found = rows(text, 9)
    assert number(headline["requests"]) == sum(number(cell) for cells in found for cell in cells[1:5])
    for name, column in (("values", 6), ("wrong", 7), ("different", 8)):
        assert number(headline[name]) == sum(number(cells[column]) for cells in found)
    return found


def test_the_sums_of_the_page_of_pictures_are_those_of_its_rows() -> None:
    found = check_pictures(IMAGES)
    folders = {path.name for path in (ROOT / "tests" / "images" / "data" / "models").iterdir()}
    names = [cells[0] for cells in found]
    assert set(names) <= folders
    assert len(set(names)) == len(names) >= 9


def test_a_run_writes_a_page_of_pictures_of_that_form() -> None:
    row = PicturesRow("gemma3", refused=1, values=1_000_000, different_values=2, different=["a", "b"])
    row.requests.update({"synthetic": 2, "real": 3, "random sizes": 1200, "several": 4})
    written = images_page.text([row], "torch 1", 1)
    assert check_pictures(written) == [["gemma3", "2", "3", "1,200", "4", "1", "1,000,000", "2", "2"]]
    assert written.split("\n\n")[0] == IMAGES.split("\n\n")[0]
