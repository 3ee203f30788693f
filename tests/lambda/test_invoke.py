"""``derender invoke``: what a newcomer types, and what its last line says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from infra.package.build import ROOT


def derender(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "handlers.commands", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("function", "event"), [("derender", "derender-chat"), ("render", "render-chat"), ("relay", "relay-chat")]
)
def test_the_last_line_is_the_answer(
    function: str, event: str, models_dir: Path, engine_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DERENDER_ENGINE_URL", engine_url)
    done = derender("invoke", function, f"events/{event}.json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["statusCode"] == 200
    assert json.loads(answer["body"])
    assert "the demo's qwen3" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_settings_are_the_environments(models_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DERENDER_MODEL", str(models_dir / "llama3"))
    monkeypatch.setenv("DERENDER_SERVED_MODEL_NAME", "mine")
    done = derender("invoke", "derender", "events/models.json")
    answer = json.loads(done.stdout.splitlines()[-1])
    assert json.loads(answer["body"])["data"][0]["id"] == "mine"


def test_what_cannot_be_invoked_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        "there are render, render-images, derender, relay" in derender("invoke", "other", "events/models.json").stderr
    )
    assert "cannot read" in derender("invoke", "render", str(tmp_path / "none.json")).stderr
    assert "needs DERENDER_ENGINE_URL" in derender("invoke", "relay", "events/relay-chat.json").stderr
    (tmp_path / "bad.json").write_text("{")
    assert "not JSON" in derender("invoke", "render", str(tmp_path / "bad.json")).stderr
    monkeypatch.setenv("DERENDER_MODEL", str(tmp_path / "nowhere"))
    done = derender("invoke", "derender", "events/models.json")
    assert done.returncode == 1
    assert "does not exist" in done.stdout.splitlines()[-1]
