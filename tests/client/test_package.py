"""What the package shows, and what it must never import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import client

PACKAGE = Path(client.__file__).parent


def test_public_names() -> None:
    assert client.__all__ == [
        "AsyncDerenderClient",
        "ClientError",
        "ConnectionFailed",
        "DerenderClient",
        "Derendered",
        "ErrorAnswer",
        "RequestFailed",
        "StreamFailed",
        "UnexpectedAnswer",
    ]
    for name in client.__all__:
        assert getattr(client, name).__doc__


def test_everything_else_is_private() -> None:
    modules = {path.name for path in PACKAGE.glob("*.py")}
    assert all(name.startswith("_") for name in modules)
    assert (PACKAGE / "py.typed").exists()


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert methods(client.AsyncDerenderClient) - {"aclose"} == methods(client.DerenderClient) - {"close"}


def test_it_stands_alone() -> None:
    code = "import client, sys; print(sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, timeout=60, check=True
    )
    assert "'httpx'" in done.stdout
    for name in ("core", "handlers", "infra", "vllm", "pydantic", "tokenizers", "fastapi"):
        assert f"'{name}'" not in done.stdout
