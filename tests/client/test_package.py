"""What the package shows, and what it must never import."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import derender_client

PACKAGE = Path(derender_client.__file__).parent


def test_public_names() -> None:
    assert derender_client.__all__ == [
        "AsyncConversation",
        "AsyncDerenderClient",
        "Break",
        "ClientError",
        "ConnectionFailed",
        "Conversation",
        "DerenderClient",
        "Derendered",
        "ErrorAnswer",
        "RequestFailed",
        "Sample",
        "StreamFailed",
        "Turn",
        "UnexpectedAnswer",
    ]
    for name in derender_client.__all__:
        assert getattr(derender_client, name).__doc__


def test_everything_else_is_private() -> None:
    modules = {path.name for path in PACKAGE.glob("*.py")}
    assert all(name.startswith("_") for name in modules)
    assert (PACKAGE / "py.typed").exists()


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, list[inspect.Parameter]]:
        found = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
        return {name: list(inspect.signature(value).parameters.values()) for name, value in found.items()}

    sync, asynchronous = methods(derender_client.DerenderClient), methods(derender_client.AsyncDerenderClient)
    assert sync.pop("close") == asynchronous.pop("aclose")
    assert sync == asynchronous


def test_it_stands_alone() -> None:
    code = "import derender_client, sys; print(sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, timeout=60, check=True
    )
    assert "'httpx'" in done.stdout
    for name in ("core", "handlers", "infra", "vllm", "pydantic", "tokenizers", "fastapi"):
        assert f"'{name}'" not in done.stdout
