"""The flags and routes of vLLM's render server, read from its published source: ``python -m tests.parity.surface``.

They are recorded in ``tests/handlers/data``; ``tests/handlers/test_surface.py``
holds ours against them. Nothing of vLLM runs: its modules are read as text.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections.abc import Iterator
from pathlib import Path

from infra.slice.fetch import published
from infra.slice.versions import NEWEST

DATA = Path(__file__).parents[1] / "handlers" / "data"
_ARGUMENTS = ("vllm/entrypoints/common/cli_args.py", "vllm/engine/arg_utils.py")
_FRONTEND = ("BaseFrontendArgs", "FrontendArgs")
# What ``register_api_routers`` attaches for ``vllm launch render``: always, or by a flag or variable of its own.
_ROUTERS = (
    "vllm/entrypoints/serve/instrumentator/basic.py",
    "vllm/entrypoints/serve/instrumentator/health.py",
    "vllm/entrypoints/serve/instrumentator/metrics.py",
    "vllm/entrypoints/serve/instrumentator/offline_docs.py",
    "vllm/entrypoints/serve/tokenize/api_router.py",
    "vllm/entrypoints/serve/lora/api_router.py",
    "vllm/entrypoints/serve/profile/api_router.py",
    "vllm/entrypoints/openai/models/api_router.py",
    "vllm/entrypoints/generate/structured_decisions/api_router.py",
    "vllm/entrypoints/openai/decisions/api_router.py",
    "vllm/entrypoints/serve/sagemaker/api_router.py",
    "vllm/entrypoints/scale_out/render/api_router.py",
    "vllm/entrypoints/scale_out/derender/api_router.py",
)
# FastAPI's own, which vLLM leaves switched on.
_FASTAPI = ("GET /openapi.json", "GET /docs", "GET /docs/oauth2-redirect", "GET /redoc")


def flags(source: str) -> Iterator[str]:
    """The flags that a module declares: the fields of the front end's classes, and those of its parsers."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and node.name in _FRONTEND:
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    yield "--" + field.target.id.replace("_", "-")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            for argument in node.args:
                if isinstance(argument, ast.Constant) and str(argument.value).startswith("--"):
                    yield str(argument.value)


def routes(source: str) -> Iterator[str]:
    """The routes that a module declares, as ``METHOD /path``."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        path = node.args[0].value
        if not isinstance(path, str) or not path.startswith("/"):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in ("get", "post", "put", "delete"):
            yield f"{name.upper()} {path}"
        elif name == "Mount":
            yield f"GET {path}"


def main() -> None:
    """Write the record of a version."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.surface", description=__doc__)
    parser.add_argument("--version", default=NEWEST, help=f"vLLM's version (default: {NEWEST})")
    version: str = parser.parse_args().version
    wheel = published(version)

    def text(path: str) -> str:
        content = wheel.read(path)
        assert content is not None, f"vLLM {version} has no {path}"
        return content.decode("utf-8")

    found = {
        "version": version,
        "flags": sorted({flag for path in _ARGUMENTS for flag in flags(text(path))}),
        "routes": sorted({*_FASTAPI, *(route for path in _ROUTERS for route in routes(text(path)))}),
    }
    DATA.mkdir(exist_ok=True)
    target = DATA / f"surface-{version}.json"
    target.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{target}: {len(found['flags'])} flags, {len(found['routes'])} routes")


if __name__ == "__main__":
    main()
