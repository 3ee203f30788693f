"""The tables of the documents as Markdown, put between markers: ``<!-- table NAME -->`` and ``<!-- end -->``.

A table without results stays unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.setups import ROOT

DOCUMENTS = tuple(ROOT / "docs" / "results" / name for name in ("benchmarks.md", "fastokens.md"))
_MARKED = re.compile(r"(<!-- table ([a-z_]+) -->\n).*?(<!-- end -->)", re.DOTALL)
Result = dict[str, Any]
Rows = list[dict[str, Any]]
# A column: its head, and the key or what makes its cell of a row.
Column = tuple[str, str | Callable[[dict[str, Any]], Any]]


def write_tables(results: Mapping[str, Result], documents: tuple[Path, ...] = DOCUMENTS) -> list[str]:
    """Put every table whose results are there into the documents; the names of those that were.

    Raises:
        KeyError: a document asks for a table that does not exist.
    """
    written: list[str] = []

    def table(match: re.Match[str]) -> str:
        name = match[2]
        benchmark = name.removeprefix("when_")
        make = TABLES[benchmark] if name == benchmark else _when
        if not results.get(benchmark, {}).get("rows"):
            return match[0]
        written.append(name)
        return match[1] + make(results[benchmark]) + match[3]

    for document in documents:
        document.write_text(_MARKED.sub(table, document.read_text(encoding="utf-8")), encoding="utf-8")
    return written


def markdown(columns: tuple[Column, ...], rows: Rows) -> str:
    """A table; a column with nothing in any row is left out, a cell with nothing is empty."""
    cells = [[_cell(row, key) for _, key in columns] for row in rows]
    kept = [at for at in range(len(columns)) if any(line[at] for line in cells)]
    lines = [[columns[at][0] for at in kept], ["---"] * len(kept), *([line[at] for at in kept] for line in cells)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(row: dict[str, Any], key: str | Callable[[dict[str, Any]], Any]) -> str:
    try:
        value = row.get(key) if isinstance(key, str) else key(row)
    except KeyError:
        return ""
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:,}" if isinstance(value, int) else short(value)


def short(value: float) -> str:
    """Three digits that count, and no more than two behind the point."""
    size = abs(value)
    return f"{value:,.{0 if size >= 100 else 1 if size >= 10 else 2}f}"


def _times(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: f"{short(row[key]) if row[key] < 10 else f'{row[key]:,.0f}'}×"


def _percent(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: f"{row[key]:.0%}" if row[key] != "" else ""


def _mb(sent: str, received: str) -> Callable[[dict[str, Any]], float]:
    return lambda row: (row[sent] + row[received]) / 1e3


DIALECTS: tuple[Column, ...] = (
    ("setup", "setup"),
    ("in", "in"),
    ("parser", "parser"),
    ("a chat's call, CPU ms", "call_ms"),
    ("Messages", _times("call_messages")),
    ("Responses", _times("call_responses")),
    ("of it the core, CPU ms", "core_ms"),
    ("Messages ", _times("core_messages")),
    ("Responses ", _times("core_responses")),
)
STREAMING: tuple[Column, ...] = (
    ("setup", "setup"),
    ("tokens", "tokens"),
    ("at token 64, ms", "at_64_ms"),
    ("at the end, ms", "end_ms"),
    ("growth", "growth"),
    ("total, s", "total_s"),
    ("handler CPU, ms", "cpu_end_ms"),
    ("both ways, MB", _mb("request_kb", "response_kb")),
    ("vLLM at the end, ms", "vllm_end_ms"),
    ("vLLM total, s", "vllm_total_s"),
    ("vLLM both ways, MB", _mb("vllm_request_kb", "vllm_response_kb")),
    ("last chunk", _times("last_ratio")),
    ("total", _times("total_ratio")),
    ("bytes", _times("bytes_ratio")),
)
RENDER: tuple[Column, ...] = (
    ("chat", "chat"),
    ("texts", "texts"),
    ("tokens", "tokens"),
    ("ours, ms", "ours_ms"),
    ("vLLM, ms", "vllm_ms"),
    ("to ours", _times("vllm_ratio")),
    ("vllm-rs, ms", "rs_ms"),
    ("to ours ", _times("rs_ratio")),
    ("handler, ms", "handler_ms"),
    ("floor, ms", "floor_ms"),
    ("of it encode, ms", "encode_ms"),
    ("handler to floor", _times("to_floor")),
    ("empty server, ms", "bare_ms"),
    ("equal ids", lambda row: f"{row['equal']} of {row['requests']}"),
)
ONE_SHOT: tuple[Column, ...] = (
    ("setup", "setup"), ("ours, ms", "ours_ms"), ("floor, ms", "floor_ms"), ("ratio", "ratio"),
)  # fmt: skip
COLD_START: tuple[Column, ...] = (
    ("setup", "setup"),
    ("seconds", "seconds"),
    ("bare, s", "bare_seconds"),
    ("ratio", "ratio"),
    ("peak memory, MB", "peak_mb"),
)
MEMORY: tuple[Column, ...] = (
    ("server", "server"),
    ("ready after, s", "ready_s"),
    ("first chat, s", "first_render_s"),
    ("idle, MB", "idle_mb"),
    ("after 60 chats, MB", "after_render_mb"),
    ("after a stream, MB", "after_stream_mb"),
    ("at its highest, MB", lambda row: row["peak_stream_mb"] or row["peak_render_mb"]),
)
AUDIT: tuple[Column, ...] = (
    ("call", "call"),
    ("without the audit, thousand instructions", "off_k"),
    ("with it", "audited_k"),
    ("added", lambda row: f"{max(row['added'], 0):.1%}"),
)
PROFILE: tuple[Column, ...] = (("part", "part"), ("CPU, ms", "cpu_ms"), ("share", _percent("share")))
FASTOKENS: tuple[Column, ...] = (
    ("model", "model"),
    ("tokenizers, ms", "fresh_815_ms"),
    ("fastokens, ms", "fast_fresh_815_ms"),
    ("", lambda row: _times("times")(row)),
    ("8k: tokenizers, ms", "fresh_8k_ms"),
    ("8k: fastokens, ms", "fast_fresh_8k_ms"),
    (" ", lambda row: _times("times_8k")(row)),
    ("load: tokenizers, ms", "load_ms"),
    ("load: fastokens, ms", "fast_load_ms"),
    ("memory: tokenizers, MB", "load_mb"),
    ("memory: fastokens, MB", "fast_load_mb"),
    ("strings", lambda row: row["strings"] or ""),
    ("other ids", lambda row: row["refused"] if "refused" in row else row["different"]),
    ("but for ſ", lambda row: row["different"] - row["long_s"] if row["different"] else ""),
    ("other text", "decoded_otherwise"),
)
LAMBDA_COLD_START: tuple[Column, ...] = (
    ("function", "function"),
    ("unzipped", lambda row: f"{row['unzipped_mb']:.1f} MB"),
    ("first answer", lambda row: f"{row['seconds']:.2f} s"),
    ("to the bare function", "ratio"),
    ("first request after a snapshot", lambda row: f"{row['prepared_ms']:.1f} ms" if row["prepared_ms"] else ""),
)
LAMBDA_WARM: tuple[Column, ...] = (
    ("call", "call"),
    ("event, KB", "event_kb"),
    ("round trip, ms", "round_trip_ms"),
    ("bare, ms", "bare_ms"),
    ("ratio", "ratio"),
)

# Dollars for 1,000 streams: tiny amounts keep one significant digit.
LAMBDA_COST: tuple[Column, ...] = (
    ("tokens a call", "tokens"),
    ("calls", "calls"),
    ("ms in all", lambda row: short(row["ms"])),
    ("computing", lambda row: _dollars(row["compute"])),
    ("requests", lambda row: _dollars(row["requests"])),
    ("logs", lambda row: _dollars(row["logs"])),
    ("together", lambda row: f"**{_dollars(row['total'])}**"),
    ("an always-on server costs as much as, streams a month", lambda row: f"{_two_digits(row['even']):,.0f}"),
)
RELAY: tuple[Column, ...] = (
    ("setup", "setup"),
    ("streams at once", "streams"),
    ("relay, tokens/s", "relay_tokens_per_s"),
    ("proxy, tokens/s", "proxy_tokens_per_s"),
    ("relay to proxy", "ratio"),
    ("added, µs a token", "added_us"),
    ("relay's CPU, µs a token", "cpu_us"),
)
CAPACITY: tuple[Column, ...] = (
    ("work", "work"),
    ("CPU, ms", "cpu_ms"),
    ("a second, at 60% of one CPU", lambda row: short(row["per_second"])),
    ("streams at 50 tokens a second", lambda row: row["streams"] or ""),
)


IMAGES: tuple[Column, ...] = (
    ("picture", "file"),
    ("Pillow's decode, CPU ms", "decode_ms"),
    ("render, CPU ms", "render_ms"),
    ("render to decode", _times("ratio")),
    ("layout only, CPU ms", "layout_ms"),
    ("content parts, CPU ms", "parts_ms"),
    ("server, CPU ms", "ours_cpu_ms"),
    ("by the clock", "ours_ms"),
    ("vLLM's server, CPU ms", "vLLM_cpu_ms"),
    ("by the clock ", "vLLM_ms"),
    ("vLLM's CPU to ours", _times("vllm_ratio")),
    ("peak above idle, MB", "ours_peak_mb"),
    ("bytes a pixel", "ours_bytes_a_pixel"),
    ("vLLM's peak, MB", "vLLM_peak_mb"),
    ("vLLM's bytes a pixel", "vLLM_bytes_a_pixel"),
)


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


def _dollars(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.1g}"


def _plain(columns: tuple[Column, ...]) -> Callable[[Result], str]:
    return lambda result: markdown(columns, result["rows"])


def _profile(result: Result) -> str:
    """One table for each kind of call."""
    calls = dict.fromkeys(row["call"] for row in result["rows"])
    tables = []
    for call in calls:
        rows = [row for row in result["rows"] if row["call"] == call]
        whole = next(row for row in rows if row["part"] == "all")
        rows = [row for row in rows if row["part"] != "all"]
        tables.append(f"**{call}**: {short(whole['cpu_ms'])} ms of CPU\n\n{markdown(PROFILE, rows)}")
    return "\n".join(tables)


# By the benchmark's name, which is the marker's: what makes the text.
TABLES: dict[str, Callable[[Result], str]] = {
    "stream_time": _plain(STREAMING),
    "dialect_chunk_time": _plain(DIALECTS),
    "render_time": _plain(RENDER),
    "one_shot_time": _plain(ONE_SHOT),
    "picture_time": _plain(IMAGES),
    "start_to_answer": _plain(COLD_START),
    "server_memory": _plain(MEMORY),
    "audit_cost": _plain(AUDIT),
    "time_by_part": _profile,
    "encoder_speed": _plain(FASTOKENS),
    "function_start": _plain(LAMBDA_COLD_START),
    "function_call": _plain(LAMBDA_WARM),
    "stream_price": _plain(LAMBDA_COST),
    "relay_overhead": _plain(RELAY),
    "streams_per_cpu": _plain(CAPACITY),
}


def _when(result: Result) -> str:
    return f"{machine_line(result)}\n"


def machine_line(result: Result) -> str:
    """When and on what it was measured, and how busy that was."""
    others = f"others used {short(result['others'])} of them meanwhile" if "others" in result else "others were busy"
    return f"*{result['date']}: {result['cpu']}, {result['cores']} cores, {others}; Python {result['python']}.*"
