"""What a newcomer would run: the examples of docs/client.md, and the API page's own streaming client."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import ROOT

pytestmark = pytest.mark.xdist_group("client")

DOCUMENT = (ROOT / "docs" / "client.md").read_text()
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def on_test_ports(code: str, service: str, engine: str) -> str:
    changed = code.replace("http://localhost:8100", service).replace("http://localhost:8200", engine)
    assert changed != code
    return changed


def test_examples_of_the_document(service: str, engine: str) -> None:
    examples = EXAMPLE.findall(DOCUMENT)
    assert len(examples) == DOCUMENT.count("```python") == 7
    # One after the other, as they are read: later ones use names of earlier ones.
    names: dict[str, Any] = {}
    for code, expected in examples:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(on_test_ports(code, service, engine), "docs/client.md", "exec"), names)
        assert output.getvalue().rstrip("\n") == expected.rstrip("\n")


def test_the_document_names_every_method_and_option() -> None:
    from derender_client import DerenderClient
    from derender_client._session import Options

    for name in [*vars(DerenderClient), *Options.__annotations__]:
        if not name.startswith("_") and name != "close":
            assert f"`{name}" in DOCUMENT, name


def test_the_streaming_example_of_the_api_page(service: str, engine: str, tmp_path: Path) -> None:
    source = (ROOT / "examples" / "api_stream_example.py").read_text()
    script = tmp_path / "api_stream_example.py"
    script.write_text(on_test_ports(source, service, engine))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=True)
    text, usage = done.stdout.strip().split("\n")
    assert text == "2 + 2 = 4."
    # The page's own print of the usage chunk: a dict.
    assert "'completion_tokens': 17" in usage
    assert "'total_tokens'" in usage
