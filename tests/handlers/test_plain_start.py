"""What a plain start loads: nothing of the dialects that nobody has spoken yet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PLAIN = """
import json, sys
from fastapi.testclient import TestClient
from handlers.server import server_app
from handlers.settings import Settings
app = server_app(Settings(model={model!r}, engine_url=("http://127.0.0.1:9",), **{options!r}))
answer = {{"index": 0, "token_ids": [9707]}}
body = {{"generate_response": {{"choices": [answer]}}, "chat_request": {{"messages": [{{"role": "user", "content": "hi"}}]}}}}
assert TestClient(app).post("/v1/chat/completions/derender", json=body).status_code == 200
print(json.dumps([name for name in sys.modules if name.startswith(("core.", "vllm"))]))
"""
LATE = (
    "core.dialects.kept",
    "core.dialects.messages.",
    "core.dialects.responses.",
    "core.upstream.messages",
    "core.upstream.responses",
    "vllm.entrypoints.anthropic.serving",
    "vllm.entrypoints.openai.responses.",
)
PARSERS = {"tool_call_parser": "hermes", "reasoning_parser": "qwen3", "enable_auto_tool_choice": True}


@pytest.mark.parametrize("options", [{}, PARSERS], ids=["plain", "parsed"])
def test_a_dialect_is_loaded_by_its_first_request(models_dir: Path, options: dict[str, object]) -> None:
    code = PLAIN.format(model=str(models_dir / "qwen3"), options=options)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    unwanted = {name for name in loaded if name.startswith(LATE)}
    # The shape of its errors is part of a dialect's description.
    assert unwanted <= {"core.dialects.messages.errors"}
