"""The relay as its function runs it: uvicorn on `handlers.relay:app`, settings from the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx

from tests.engine.generation import Engine
from tests.engine.server import create_app as create_engine_app
from tests.relay.conftest import MODEL, client_of
from tests.support.servers import free_port, running
from tests.support.serving import serving

ROOT = Path(__file__).parents[2]


def command(port: int) -> list[str]:
    return [sys.executable, "-m", "uvicorn", "handlers.relay:app", "--port", str(port), "--log-level", "warning"]


def environment(models_dir: Path, **settings: str) -> dict[str, str]:
    given = {"MODEL": str(models_dir / MODEL), "SERVED_MODEL_NAME": MODEL, **settings}
    return {**os.environ, **{f"DERENDER_{name}": value for name, value in given.items()}}


def test_the_function_streams(models_dir: Path, make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    with serving(create_engine_app(make_engine())) as engine_url:
        environ = environment(models_dir, ENGINE_URL=engine_url)
        with running(command(port), port, environ=environ, log=log) as process:
            url = f"http://127.0.0.1:{port}"
            stream = client_of(url).chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": "Hello"}], stream=True
            )
            text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
            # Only the relay is there: the other functions have their own.
            assert httpx.post(f"{url}/v1/chat/completions/render", json={}).status_code == 404
    assert text == "Hello! How can I help you today?"
    assert '"endpoint":"/v1/chat/completions"' in log.read_text(), "each request has its line in the log"
    assert process.returncode in (0, -15), "it ends in order, connections and all"


def test_it_does_not_start_without_an_engine(models_dir: Path) -> None:
    done = subprocess.run(
        command(0), cwd=ROOT, env=environment(models_dir), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert "DERENDER_ENGINE_URL must name at least one engine" in done.stderr
