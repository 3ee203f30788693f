"""The charts of ``docs/performance.md``, made from ``benchmarks/results/*.json``.

A chart without results stays unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.setups import ROOT
from benchmarks.harness.svg import Bar, Line, bar_chart, line_chart

CHARTS = ROOT / "docs" / "charts"
OURS, VLLM, RUST, PALE, GREY = "#0969da", "#bc4c00", "#1a7f37", "#9ec5f4", "#8c959f"
# What is drawn as the main line; the other setups are thin ones beside it.
MAIN = "hermes + qwen3"
Rows = list[dict[str, Any]]


def chunk_time(results: Mapping[str, Rows]) -> str:
    """Milliseconds of the last chunk against the length of the stream."""
    rows = results["stream_time"]
    lines = []
    for column, colour, who in (("end_ms", OURS, "ours"), ("vllm_end_ms", VLLM, "vLLM")):
        for setup in dict.fromkeys(row["setup"] for row in rows):
            points = [(float(row["tokens"]), row[column]) for row in rows if row["setup"] == setup and row.get(column)]
            if points:
                lines.append(Line(_line_label(who, setup), points, colour, thin=setup != MAIN))
    lengths = sorted({row["tokens"] for row in rows})
    return line_chart(
        "What one more token of a stream costs",
        "One token a chunk, over HTTP on loopback. Median of the last 20 chunks; both axes logarithmic.",
        sorted(lines, key=lambda line: not line.thin),
        "tokens in the stream so far",
        "milliseconds a chunk",
        lengths,
    )


def _line_label(who: str, setup: str) -> str:
    return f"{who}, {setup}" if setup == MAIN else f"{who}, {setup.split(' + ')[0]}"


def stream_bytes(results: Mapping[str, Rows]) -> str:
    """Megabytes both ways of a whole stream against its length."""
    rows = [row for row in results["stream_time"] if row["setup"] == MAIN]
    kinds = (
        ("ours", OURS, "request_kb", "response_kb"),
        ("vLLM", VLLM, "vllm_request_kb", "vllm_response_kb"),
    )
    lines = []
    for label, colour, sent, received in kinds:
        points = [(float(row["tokens"]), (row[sent] + row[received]) / 1e3) for row in rows if row.get(sent)]
        if points:
            lines.append(Line(label, points, colour))
    return line_chart(
        "Bytes of a whole stream",
        f"{MAIN}, one token a chunk: bodies of all requests and all answers. Both axes logarithmic.",
        lines,
        "tokens of the stream",
        "megabytes, both ways",
        [row["tokens"] for row in rows],
    )


def cold_start(results: Mapping[str, Rows]) -> str:
    """Seconds from the start of a process to its first answer."""
    bars = [Bar("bare import fastapi, mangum", results["start_to_answer"][0]["bare_seconds"], GREY)]
    bars += [Bar(f"Lambda, {row['setup']}", row["seconds"], OURS) for row in results["start_to_answer"]]
    bars += [
        Bar(_server(row), row["ready_s"] + row["first_render_s"], _colour(row))
        for row in results.get("server_memory", [])
    ]
    return bar_chart(
        "From process start to the first answer",
        "Qwen3 on local disk. Lambda: derender, one event. Servers: ready, and a chat rendered. Logarithmic axis.",
        bars,
        "seconds",
        logarithmic_from=0.1,
    )


def memory(results: Mapping[str, Rows]) -> str:
    """Resident memory: idle, and at its highest after work."""
    bars = [Bar(f"Lambda, {row['setup']}", row["peak_mb"], OURS) for row in results.get("start_to_answer", [])]
    for row in results["server_memory"]:
        peak = row["peak_stream_mb"] or row["peak_render_mb"]
        bars += [Bar(_server(row), row["idle_mb"], PALE), Bar("", peak, _colour(row))]
    return bar_chart(
        "Resident memory",
        "After 60 different chats of 815 tokens and a stream of 400 chunks; a Lambda function after its first answer.",
        bars,
        "megabytes",
        legend=(
            (PALE, "idle"),
            (OURS, "ours, highest"),
            (VLLM, "vLLM, highest"),
            (RUST, "vllm-rs, highest (render only)"),
        ),
    )


def render(results: Mapping[str, Rows]) -> str:
    """Milliseconds of one render of 815 tokens."""
    row = next(row for row in results["render_time"] if row["chat"] == "815 tokens" and row["texts"] == "fresh")
    kinds = (
        ("vLLM's Python server", "vllm_ms", VLLM),
        ("ours, HTTP", "ours_ms", OURS),
        ("ours, handler call", "handler_ms", OURS),
        ("vllm-rs", "rs_ms", RUST),
        ("floor: parse, encode, write", "floor_ms", GREY),
        ("empty Starlette on uvicorn", "bare_ms", GREY),
    )
    return bar_chart(
        f"Render of a chat of {row['tokens']} tokens",
        "Median; another text each time, the same for all, in turns, over HTTP on loopback but for the handler call.",
        [Bar(label, row[column], colour) for label, column, colour in kinds if column in row],
        "milliseconds",
    )


def _server(row: dict[str, Any]) -> str:
    return {"ours": "derender serve", "vLLM": "vllm launch render"}.get(row["server"], f"{row['server']} render")


def _colour(row: dict[str, Any]) -> str:
    return {"ours": OURS, "vLLM": VLLM}.get(row["server"], RUST)


# File name, what it is made from, and how.
ALL: tuple[tuple[str, str, Callable[[Mapping[str, Rows]], str]], ...] = (
    ("chunk-time", "stream_time", chunk_time),
    ("stream-bytes", "stream_time", stream_bytes),
    ("cold-start", "start_to_answer", cold_start),
    ("memory", "server_memory", memory),
    ("render", "render_time", render),
)


def write_charts(results: Mapping[str, Rows], folder: Path = CHARTS) -> list[Path]:
    """Write every chart whose results are there; the files that were written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, needs, draw in ALL:
        if results.get(needs):
            path = folder / f"{name}.svg"
            path.write_text(draw(results), encoding="utf-8")
            written.append(path)
    return written
