"""What a parser or a template cannot read never reaches the log."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
from mangum import Mangum
from handlers.server import server_app
from handlers.settings import Settings
from tests.support.gateway import event
app = server_app(Settings(model=sys.argv[1], tool_call_parser="hermes", enable_auto_tool_choice=True))
handler = Mangum(app, lifespan="off")
from tokenizers import Tokenizer
ids = Tokenizer.from_file(sys.argv[1] + "/tokenizer.json").encode('<tool_call>\\n{"name": secret, }\\n</tool_call>').ids
request = {"messages": [{"role": "user", "content": "secret"}], "tools": [{"type": "function", "function": {"name": "f"}}]}
answer = {"request_id": "r", "choices": [{"index": 0, "token_ids": ids}]}
body = {"generate_response": answer, "chat_request": request}
assert handler(event("/v1/chat/completions/derender", body), None)["statusCode"] == 200
bad = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "secret"}}]}]}
assert handler(event("/v1/chat/completions/render", bad), None)["statusCode"] == 400
"""


def printed(model: Path, program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, str(model)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_nothing_of_a_request_is_printed(models_dir: Path) -> None:
    lines = printed(models_dir / "qwen3", PROGRAM).splitlines()
    # The audit says that a call was lost, and nothing of it.
    assert [json.loads(line)["message"] for line in lines] == ["audit"]
    assert "secret" not in lines[0]


def test_vllms_loggers_speak_when_asked(models_dir: Path) -> None:
    asked = PROGRAM.replace(
        "enable_auto_tool_choice=True", "enable_auto_tool_choice=True, environ={'VLLM_LOGGING_LEVEL': 'INFO'}"
    )
    assert "Error in extracting tool call" in printed(models_dir / "qwen3", asked)
