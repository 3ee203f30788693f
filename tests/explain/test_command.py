"""``derender explain`` in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from core.explain.prompt import REQUEST

OUTPUT = '<think>\nhm\n</think>\n\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call><|im_end|>'
PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")


def explain(folder: Path, output: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "handlers.commands", "explain", str(folder), *arguments]
    return subprocess.run(command, input=output, capture_output=True, text=True, check=False)


def test_text_ids_and_a_request_of_ones_own(models_dir: Path, tmp_path: Path) -> None:
    told = explain(models_dir / "qwen3", OUTPUT, *PARSERS, "--chunk", "8", "--prompt")
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    assert '  name         2 tokens  "get_weather"' in lines
    assert '  reasoning    3 tokens  "\\nhm\\n"' in lines
    assert '  special       1 token  "<|im_start|>"' in lines
    assert any(line.startswith("     16-23    state") for line in lines)
    assert lines[-1] == "Audit: nothing found"
    path = tmp_path / "request.json"
    path.write_text(json.dumps({**REQUEST, "tools": REQUEST["tools"] * 2}))
    ids = explain(models_dir / "qwen3", "[151667, 198, 77, 151668, 13048, 151645]", *PARSERS, "--request", str(path))
    assert ids.returncode == 0, ids.stderr
    assert '  content       1 token  "Hi"' in ids.stdout


@pytest.mark.parametrize(
    ("output", "arguments", "reason"),
    [
        ("x", ("--tool-call-parser", "none_such"), "none_such"),
        ("x", ("--chunk", "0"), "--chunk must be at least 1"),
        ("", (), "there is no output"),
        ("[99999999]", (), "out of vocabulary"),
        ("x", ("--request", "/no/such/file"), "--request /no/such/file"),
        pytest.param("x" * 300_000, (), "more than 262144 bytes", id="long"),
    ],
)
def test_what_cannot_be_explained(models_dir: Path, output: str, arguments: tuple[str, ...], reason: str) -> None:
    told = explain(models_dir / "qwen3", output, *arguments)
    assert told.returncode == 1
    assert told.stderr.startswith("derender: ")
    assert len(told.stderr.splitlines()) == 1
    assert reason in told.stderr
