"""The slice that a process runs with, and the engines' versions: chosen at start, told in answers and in refusals."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigurationError, InvalidState
from core.state.fingerprint import check_fingerprint, with_slice
from core.upstream.version import slice_version, vllm_version
from handlers.engine_version import check_engines
from handlers.settings import Settings
from handlers.slices import available, choose
from infra.slice.versions import NEWEST, VERSIONS, specification
from tests.golden.replay import JSON_HEADERS, http_call
from tests.slice.parity.inputs import MESSAGES, OUTPUTS, TOOLS
from tests.support.models import tokenizer_in
from tests.support.servers import free_port, running
from tests.support.streams import join

ROOT = Path(__file__).parents[2]
ASKED = {"messages": MESSAGES, "tools": TOOLS}


def test_every_version_has_a_slice_here() -> None:
    assert list(available()) == list(VERSIONS)
    assert vllm_version() == NEWEST


def run(code: str, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_process_runs_with_the_slice_that_was_chosen(version: str) -> None:
    code = """
import json, sys
from handlers.slices import choose
choose(sys.argv[1])
from core.upstream.version import slice_version, vllm_version
from handlers.server import server_app
from vllm.version import __version__
from vllm.parser import ParserManager
print(json.dumps([slice_version(), vllm_version(), __version__]))
"""
    assert run(code, version) == [specification(version).slice_version, version, version]


def test_a_version_that_is_not_here_stops_the_start() -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"must be one of {', '.join(VERSIONS)}, not '0.12.0'")):
        choose("0.12.0")


def test_a_choice_that_comes_too_late_stops_the_start() -> None:
    import vllm  # noqa: F401 - it is loaded

    with pytest.raises(ConfigurationError, match="loaded already"):
        choose(VERSIONS[-1])
    with pytest.raises(ConfigurationError, match=f"runs with the slice of {NEWEST}"):
        Settings("model", vllm_version=VERSIONS[-1])


def test_a_state_of_another_slice_is_refused_by_name() -> None:
    ours = with_slice("0" * 16, slice_version())
    check_fingerprint(ours, ours)
    with pytest.raises(InvalidState, match=rf"parsers of vLLM 0\.31\.0\+slice\.1, and this server has .*{NEWEST}"):
        check_fingerprint(with_slice("0" * 16, "0.31.0+slice.1"), ours)
    for other in ("1" * 16, with_slice("1" * 16, slice_version()), with_slice("0" * 16, "<script>"), ""):
        with pytest.raises(InvalidState, match="another tokenizer, parser") as caught:
            check_fingerprint(other, ours)
        assert "script" not in str(caught.value)


class _Engine(BaseHTTPRequestHandler):
    body = b""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/version" else 404)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def engine() -> Iterator[tuple[type[_Engine], str]]:
    kind = type("Engine", (_Engine,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield kind, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def required(url: str) -> Settings:
    return Settings("model", engine_url=(url,), require_engine_version=True)


@pytest.mark.parametrize("told", [NEWEST, f"{NEWEST}+cpu", f"{NEWEST}rc1.dev3"])
def test_an_engine_of_the_same_version_is_taken(engine: tuple[type[_Engine], str], told: str) -> None:
    engine[0].body = json.dumps({"version": told}).encode()
    check_engines(required(engine[1]))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"version": "0.32.0"}', "engine 1 runs vLLM 0.32.0, .* those of 0.33.0: --vllm-version 0.32.0"),
        (b'{"version": "0.12.3"}', "runs vLLM 0.12.3, .*no slice of it is here, only 0.33.0, "),
        (b'{"version": 3}', "does not tell its version"),
        (b"[]", "does not tell its version"),
        (b"\xff", "does not tell its version"),
        (b'{"version": "' + b"9" * 100_000, "does not tell its version"),
    ],
)
def test_an_engine_of_another_version_stops_a_start_that_requires_it(
    engine: tuple[type[_Engine], str], body: bytes, reason: str
) -> None:
    engine[0].body = body
    with pytest.raises(ConfigurationError, match=reason):
        check_engines(required(engine[1]))


def test_without_the_requirement_it_is_told_in_the_log(
    engine: tuple[type[_Engine], str], capsys: pytest.CaptureFixture[str]
) -> None:
    engine[0].body = b'{"version": "0.31.0"}'
    check_engines(Settings("model", engine_url=(engine[1],)))
    for thread in threading.enumerate():
        if thread.name == "engine versions":
            thread.join()
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["level"] == "WARNING"
    assert "--vllm-version 0.31.0" in json.loads(line)["reason"]
    assert engine[1] not in line


def test_the_requirement_wants_an_engine() -> None:
    with pytest.raises(ConfigurationError, match="--engine-url"):
        Settings("model", require_engine_version=True)


@pytest.mark.parametrize(
    ("version", "parser", "reason"),
    [
        ("0.31.0", "minimax_m3", "the minimax_m3 tool parser keeps its state in compiled code"),
        ("0.31.0", "step3p5", "the step3p5 tool parser keeps its state in an XML parser, which cannot be read"),
        ("0.33.0", "minimax_m3", None),
    ],
)
def test_a_parser_that_no_checkpoint_carries_is_known_at_the_start(
    models_dir: Path, version: str, parser: str, reason: str | None
) -> None:
    code = """
import json, sys
from handlers.slices import choose
choose(sys.argv[1])
from pathlib import Path
from core.bundle.folder import FolderFiles
from core.model import load_model
from core.options import ModelOptions
options = ModelOptions(("m",), tool_call_parser=sys.argv[3], enable_auto_tool_choice=True)
print(json.dumps(load_model(FolderFiles(Path(sys.argv[2])), options).chat_parser.why_replayed()))
"""
    assert run(code, version, str(models_dir / "families"), parser) == reason


def test_a_parser_in_compiled_code_is_named_at_the_start_and_served_by_replay(models_dir: Path, tmp_path: Path) -> None:
    """minimax_m3 of 0.31.0 parses in machine code: its states hold vLLM's fields, and the calls come all the same."""
    folder, log, port = models_dir / "families", tmp_path / "log", free_port()
    parsers = ["--tool-call-parser", "minimax_m3", "--reasoning-parser", "minimax_m3", "--enable-auto-tool-choice"]
    command = [sys.executable, "-m", "handlers.commands", "serve", str(folder), "--vllm-version", "0.31.0", *parsers]
    output = OUTPUTS["families|minimax_m3|minimax_m3"][0]
    ids = list(tokenizer_in(folder).encode(output, add_special_tokens=False))
    body = {"prompt_token_ids": [1], "chat_request": ASKED}
    with running([*command, "--port", str(port)], port, log=log):
        call = http_call(f"http://127.0.0.1:{port}")

        def derendered(**fields: Any) -> Any:
            raw = json.dumps({**body, **fields}).encode()
            status, answer = call("POST", "/v1/chat/completions/derender", raw, JSON_HEADERS)
            assert status == 200, answer
            return answer

        whole = derendered(generate_response={"request_id": "r", "choices": [chosen(ids, "stop")]})
        chunks, state = [], None
        for start in range(0, len(ids), 9):
            piece = ids[start : start + 9]
            chunk = {"request_id": "r", "choices": [chosen(piece, "stop" if start + 9 >= len(ids) else None)]}
            answer = derendered(stream=True, generate_chunk=chunk, stream_state=state)
            state = answer["stream_state"]
            chunks.append(answer["chunk"])
            assert "checkpoint" not in state
            assert state["output_token_ids"] == ids[: start + 9]
    assert re.search(
        r"streams are replayed, .*: the minimax_m3 tool parser keeps its state in compiled", log.read_text()
    )
    (choice,) = join(chunks).choices.values()
    message = whole["choices"][0]["message"]
    told = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message["tool_calls"]]
    assert [(call.name, json.loads(call.arguments)) for call in choice.calls.values()] == told
    assert [name for name, _ in told] == ["get_weather", "search"]
    assert choice.reasoning == message["reasoning"]


def chosen(ids: list[int], finish_reason: str | None) -> dict[str, Any]:
    return {"index": 0, "token_ids": ids, "finish_reason": finish_reason}
