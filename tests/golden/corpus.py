"""The recorded corpus: requests with the exact answers of vLLM 0.33.0's own render server.

For reading the cases and choosing among them.  It must never change a case: what is recorded is the contract.
"""

import fnmatch
import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

Json = Any
"""Any JSON value."""
Case = dict[str, Json]
"""One recorded case; README.md in this folder describes the keys."""
Server = dict[str, Json]
"""A server configuration: `model`, optionally `env`, and command line options by name."""
Mode = Literal["checkpoint", "replay"]
"""How the service carries a parser between the chunks of a stream (`Settings.stream_state`)."""

DATA = Path(__file__).parent / "data"
ENGINE = DATA / "engine.jsonl.gz"
"""Recorded answers of a token engine: another format, not part of the cases."""
MODES: tuple[Mode, ...] = ("checkpoint", "replay")


def read_lines(path: Path) -> Iterator[Json]:
    """The JSON values of a .jsonl or .jsonl.gz file."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    return (json.loads(line) for line in text.split("\n") if line.strip())


def case_files() -> list[Path]:
    return sorted(path for path in DATA.glob("*.jsonl.gz") if path != ENGINE)


def load(paths: Iterable[Path] | None = None) -> list[Case]:
    """All cases of the files (default: of the whole corpus), in the recorded order."""
    return [case for path in (case_files() if paths is None else paths) for case in read_lines(path)]


def engine_recordings() -> list[Json]:
    """What a vLLM 0.32 engine answered to /inference/v1/generate: one-shot, SSE byte for byte, errors."""
    return list(read_lines(ENGINE))


def server_key(server: Server) -> str:
    """The same text for the same configuration, whatever the order of its keys."""
    return json.dumps(server, sort_keys=True, ensure_ascii=False)


def by_server(cases: Iterable[Case]) -> list[Case]:
    """The cases with those of one server configuration side by side; otherwise the order is kept."""
    return sorted(cases, key=lambda case: server_key(case["server"]))


def through_parser(case: Case) -> bool:
    """Whether the case streams chat through a parser, as a recorded stream or as one call of one."""
    server = case["server"]
    parsed = server.get("reasoning_parser") or (
        server.get("tool_call_parser") and server.get("enable_auto_tool_choice")
    )
    if not parsed or case["endpoint"] != "/v1/chat/completions/derender":
        return False
    return "stream" in case or bool(isinstance(case.get("request"), dict) and case["request"].get("stream"))


def modes_of(case: Case) -> tuple[Mode, ...]:
    """The state modes in which the case is worth running: both only where the mode can matter."""
    return MODES if through_parser(case) else MODES[:1]


def matches(pattern: str, case_id: str) -> bool:
    """Glob, or plain text where it holds no wildcard.  A `[` is taken literally: ids may hold one."""
    return fnmatch.fnmatchcase(case_id, pattern.replace("[", "[[]"))


def select(
    cases: Iterable[Case],
    *,
    groups: Iterable[str] = (),
    ids: Iterable[str] = (),
    server_filters: Iterable[str] = (),
    core: bool = False,
) -> list[Case]:
    """The cases that match every given filter.

    `groups` are names, `ids` globs, `server_filters` texts that must all occur in the configuration's JSON
    (`"model": "qwen3"`) or be equal to one of its values (`hermes`).
    """
    groups, ids, server_filters = list(groups), list(ids), list(server_filters)

    def wanted(case: Case) -> bool:
        server = case["server"]
        return (
            (not groups or case["group"] in groups)
            and (not ids or any(matches(pattern, case["id"]) for pattern in ids))
            and all(text in server.values() or text in server_key(server) for text in server_filters)
            and (not core or case["core"])
        )

    return [case for case in cases if wanted(case)]
