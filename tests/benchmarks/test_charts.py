"""The charts and tables of docs/performance.md: well-formed, with the numbers of the results, and all there.

Nothing is timed: the results are made up, or read out of the documents.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import charts, tables
from benchmarks.harness.svg import Bar, Line, bar_chart, line_chart, number

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"
PERFORMANCE = ROOT / "docs" / "performance.md"


def stream(setup: str, tokens: int, ours: float, vllm: float | None) -> dict[str, Any]:
    row: dict[str, Any] = {"setup": setup, "tokens": tokens, "at_64_ms": 1.0, "end_ms": ours, "growth": ours}
    row |= {"total_s": 0.5, "cpu_end_ms": 0.4, "request_kb": 10.0 * tokens, "response_kb": 5.0 * tokens}
    if vllm is not None:
        row |= {"vllm_end_ms": vllm, "vllm_request_kb": 1.0 * tokens**2, "vllm_response_kb": 1.0 * tokens**2}
        row |= {"last_ratio": vllm / ours, "bytes_ratio": 2.0}
    return row


RESULTS: dict[str, list[dict[str, Any]]] = {
    "stream_time": [
        stream("hermes + qwen3", 64, 1.25, 3.5),
        stream("hermes + qwen3", 4096, 1.5, 290.0),
        stream("llama3_json", 64, 1.125, None),
        stream("llama3_json", 4096, 4.75, None),
    ],
    "start_to_answer": [
        {"setup": "plain", "seconds": 0.34, "bare_seconds": 0.28, "ratio": 1.2, "peak_mb": 66.0},
        {"setup": "hermes & qwen3 <x>", "seconds": 0.53, "bare_seconds": 0.28, "ratio": 1.9, "peak_mb": 85.0},
    ],
    "server_memory": [
        {
            "server": "ours", "ready_s": 0.5, "first_render_s": 0.25, "idle_mb": 93.0, "after_render_mb": 200.0,
            "peak_render_mb": 239.0, "after_stream_mb": 200.0, "peak_stream_mb": 240.0,
        },
        {
            "server": "vllm-rs", "ready_s": 1.0, "first_render_s": 0.5, "idle_mb": 250.0, "after_render_mb": 250.0,
            "peak_render_mb": 255.0, "after_stream_mb": "", "peak_stream_mb": "",
        },
    ],
    "render_time": [
        {"chat": "short", "texts": "fresh", "tokens": 24, "ours_ms": 9.0},
        {
            "chat": "815 tokens", "texts": "fresh", "tokens": 815, "ours_ms": 4.5, "handler_ms": 3.75, "floor_ms": 2.0,
            "bare_ms": 0.75, "vllm_ms": 4.625, "rs_ms": 0.875,
        },
    ],
}  # fmt: skip


def points(drawn: ET.Element, series: str) -> list[tuple[float, float]]:
    circles = [one for one in drawn.iter(f"{SVG}circle") if one.get("data-series") == series]
    return [(float(one.attrib["data-x"]), float(one.attrib["data-y"])) for one in circles]


def bars(drawn: ET.Element) -> list[tuple[str, float]]:
    marked = [one for one in drawn.iter() if "data-value" in one.attrib]
    return [(one.attrib["data-label"], float(one.attrib["data-value"])) for one in marked]


def place(circle: ET.Element) -> tuple[float, float]:
    return float(circle.attrib["cx"]), float(circle.attrib["cy"])


def test_the_lines_are_those_of_the_results() -> None:
    drawn = ET.fromstring(charts.chunk_time(RESULTS))
    assert points(drawn, "ours, hermes + qwen3") == [(64, 1.25), (4096, 1.5)]
    assert points(drawn, "vLLM, hermes + qwen3") == [(64, 3.5), (4096, 290)]
    assert points(drawn, "ours, llama3_json") == [(64, 1.125), (4096, 4.75)]
    assert points(drawn, "vLLM, llama3_json") == []  # never measured, so never drawn


def test_bytes_are_those_of_both_ways_in_megabytes() -> None:
    drawn = ET.fromstring(charts.stream_bytes(RESULTS))
    assert points(drawn, "ours") == [(64, 15 * 64 / 1e3), (4096, 15 * 4096 / 1e3)]
    assert points(drawn, "vLLM") == [(64, 2 * 64**2 / 1e3), (4096, 2 * 4096**2 / 1e3)]


def test_bars_are_those_of_the_results() -> None:
    cold = bars(ET.fromstring(charts.cold_start(RESULTS)))
    assert cold[:3] == [
        ("bare import fastapi, mangum", 0.28),
        ("Lambda, plain", 0.34),
        ("Lambda, hermes & qwen3 <x>", 0.53),
    ]
    assert cold[3:] == [("derender serve", 0.75), ("vllm-rs render", 1.5)]  # ready, and the first chat
    memory = bars(ET.fromstring(charts.memory(RESULTS)))
    assert memory[2:] == [("derender serve", 93), ("", 240), ("vllm-rs render", 250), ("", 255)]
    assert [value for _, value in bars(ET.fromstring(charts.render(RESULTS)))] == [4.625, 4.5, 3.75, 0.875, 2.0, 0.75]


def test_points_are_where_a_logarithmic_axis_has_them() -> None:
    line = Line("one", [(10, 1), (100, 10), (1000, 100)], "#000000")
    drawn = ET.fromstring(line_chart("t", "s", [line], "x", "y", [10, 1000]))
    (x1, y1), (x2, y2), (x3, y3) = (place(one) for one in drawn.iter(f"{SVG}circle"))
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)
    assert y1 - y2 == pytest.approx(y2 - y3, abs=0.2)
    assert x1 < x3
    assert y1 > y3  # up is more


def test_bars_are_as_long_as_their_values() -> None:
    drawn = ET.fromstring(bar_chart("t", "s", [Bar("a", 50, "#000000"), Bar("b", 100, "#000000")], "ms"))
    first, second = (float(one.attrib["width"]) for one in drawn.iter(f"{SVG}rect") if "data-value" in one.attrib)
    assert second == pytest.approx(2 * first, abs=0.2)


def test_labels_at_the_end_of_lines_do_not_lie_on_each_other() -> None:
    lines = [Line(f"line {i}", [(1, 9), (10, 1 + i / 100)], "#000000") for i in range(6)]
    drawn = ET.fromstring(line_chart("t", "s", lines, "x", "y", [1, 10]))
    heights = sorted(float(one.attrib["y"]) for one in drawn.iter(f"{SVG}text") if (one.text or "").startswith("line "))
    axis = max(float(one.attrib["y"]) for one in drawn.iter(f"{SVG}text") if one.text in ("1", "10"))
    assert len(heights) == 6
    assert heights[-1] < axis - 8  # above the numbers of the axis
    assert all(below - above >= 12 for above, below in pairwise(heights))


def test_nothing_leaves_the_picture() -> None:
    for _, _, draw in charts.ALL:
        drawn = ET.fromstring(draw(RESULTS))
        _, _, width, height = (float(value) for value in drawn.attrib["viewBox"].split())
        for one in drawn.iter():
            for name, bound in (("x", width), ("cx", width), ("x2", width), ("y", height), ("cy", height)):
                assert 0 <= float(one.get(name, 0)) <= bound, (draw.__name__, one.attrib)
            if one.tag == f"{SVG}text" and "text-anchor" not in one.attrib:
                # A letter is little more than half as wide as it is high.
                end = float(one.attrib["x"]) + 0.56 * float(one.attrib["font-size"]) * len(one.text or "")
                assert end <= width, (draw.__name__, one.text)


def test_a_chart_without_points_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        line_chart("t", "s", [Line("a", [(1, 0)], "#000000")], "x", "y", [1, 10])
    with pytest.raises(ValueError, match="nothing"):
        bar_chart("t", "s", [], "ms")


def test_only_charts_with_results_are_written(tmp_path: Path) -> None:
    (tmp_path / "memory.svg").write_text("of an earlier run")
    written = charts.write_charts({"render_time": RESULTS["render_time"]}, tmp_path)
    assert [path.name for path in written] == ["render.svg"]
    assert (tmp_path / "memory.svg").read_text() == "of an earlier run"
    assert {path.name for path in charts.write_charts(RESULTS, tmp_path)} == {
        f"{name}.svg" for name, _, _ in charts.ALL
    }


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.28, "0.28"), (1.005, "1"), (26.14, "26.1"), (1156.3, "1,156"), (4096, "4,096")]
)
def test_numbers_as_people_write_them(value: float, text: str) -> None:
    assert number(value) == text


def test_tables_stand_between_their_markers(tmp_path: Path) -> None:
    document = tmp_path / "d.md"
    document.write_text(
        "before\n<!-- table start_to_answer -->\nold\n<!-- end -->\nafter <!-- table server_memory -->\nkept<!-- end -->\n"
    )
    measured = {
        "rows": RESULTS["start_to_answer"],
        "date": "2026-01-02",
        "cpu": "c",
        "cores": 2,
        "python": "3",
        "others": 0.0,
    }
    assert tables.write_tables({"start_to_answer": measured}, (document,)) == ["start_to_answer"]
    text = document.read_text()
    assert "| plain | 0.34 | 0.28 | 1.20 | 66.0 |\n" in text
    assert "\nold\n" not in text
    assert text.startswith("before\n<!-- table start_to_answer -->\n| setup |")
    assert text.endswith("<!-- end -->\nafter <!-- table server_memory -->\nkept<!-- end -->\n")


def test_columns_and_cells_without_a_result_are_empty() -> None:
    text = tables.markdown(tables.STREAMING, RESULTS["stream_time"])
    head, rule, *rows = text.splitlines()
    assert "vLLM total" not in head  # measured in no row
    assert rule.count("---") == head.count("|") - 1
    assert rows[1].endswith("| 290 | 33,554 | 193× | 2.00× |")
    assert rows[2].endswith("|  |  |  |  |")


@pytest.mark.parametrize("document", tables.DOCUMENTS, ids=lambda path: path.name)
def test_every_marked_table_of_the_documents_is_filled(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    marked = re.findall(r"<!-- table (\w+) -->\n(.*?)<!-- end -->", text, re.DOTALL)
    assert len(marked) == text.count("<!-- table ") > 0
    for name, content in marked:
        assert name.removeprefix("when_") in tables.TABLES
        assert content.strip(), name


def test_the_documents_charts_exist_and_are_well_formed() -> None:
    shown = re.findall(r"!\[[^\]]+\]\((charts/[\w-]+\.svg)\)", PERFORMANCE.read_text(encoding="utf-8"))
    assert {f"charts/{name}.svg" for name, _, _ in charts.ALL} == set(shown)
    for path in shown:
        drawn = ET.parse(PERFORMANCE.parent / path).getroot()
        assert drawn.tag == f"{SVG}svg"
        assert [one for one in drawn.iter() if "data-value" in one.attrib or "data-y" in one.attrib], path
        assert not list(drawn.iter(f"{SVG}script"))
