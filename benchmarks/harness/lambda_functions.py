"""What the Lambda benchmarks run: the built artefacts, and a bare Mangum + FastAPI function built the same way.

The bare function is the yardstick: its time is what the runtime, the emulator
and the web framework cost with nothing to do.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.peers import running
from benchmarks.harness.setups import QWEN_TOOL_CHAT, ROOT, model_folder
from handlers.commands.bundle import write_bundle
from infra.emulator import Emulator, Runtime, prepare_runtime
from infra.package.build import Workshop
from infra.package.bytecode import compile_all
from infra.package.dependencies import install, runtime_files
from infra.package.functions import FUNCTIONS, Function

_BARE_SOURCE = b"""\
from fastapi import FastAPI, Request
from mangum import Mangum

app = FastAPI()


@app.post("/{path:path}")
async def echo(request: Request, path: str):
    body = await request.body()
    return {"bytes": len(body)}


handler = Mangum(app, lifespan="off")
"""
_BARE_KEEPS = frozenset(
    {
        "fastapi", "mangum", "starlette", "pydantic", "pydantic-core", "anyio", "idna", "typing-extensions",
        "typing-inspection", "annotated-types", "annotated-doc",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Built:
    """A function that can be started: its folder, handler and settings. ``unzipped`` is in bytes.

    ``is_server`` says that it is behind an adapter, and not called by Lambda's own runtime.
    """

    name: str
    folder: Path
    handler: str
    settings: Mapping[str, str]
    unzipped: int
    is_server: bool = False


@contextmanager
def built_functions(with_relay: bool = False) -> Iterator[tuple[Runtime, list[Built]]]:
    """The bare function first, then render and derender, all of them serving one bundle.

    With ``with_relay`` the relay comes last, and a scripted engine runs for it.
    """
    runtime = prepare_runtime()
    workshop = Workshop()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        bundle = Path(folder) / "model"
        with open(os.devnull, "w") as quiet, redirect_stdout(quiet):
            write_bundle(model_folder("qwen3"), str(bundle))
        settings = {"DERENDER_MODEL": str(bundle), "DERENDER_SERVED_MODEL_NAME": "m"}
        settings |= {f"DERENDER_{name.upper()}": str(value).lower() for name, value in QWEN_TOOL_CHAT.items()}
        found = [_bare(Path(folder), runtime)]
        if with_relay:
            command = [sys.executable, "examples/scripted_engine.py", "--tokens-only", "--model", str(bundle)]
            engine = stack.enter_context(running("engine", command))
            settings["DERENDER_ENGINE_URL"] = f"http://127.0.0.1:{engine.port}"
        for function in FUNCTIONS:
            if function.start is None or with_relay:
                artefact = workshop.build(function, runtime.target)
                place, is_server = artefact.unpacked(), function.start is not None
                found.append(Built(function.name, place, function.handler, settings, artefact.unzipped, is_server))
        yield runtime, found


@contextmanager
def started(runtime: Runtime, built: Built) -> Iterator[Emulator]:
    """A function under the emulator, with its log thrown away."""
    with (
        tempfile.TemporaryDirectory() as temporary,
        open(os.devnull, "w") as log,
        Emulator(runtime, built.folder, built.handler, built.settings, Path(temporary), log=log) as emulator,
    ):
        yield emulator


def _bare(folder: Path, runtime: Runtime) -> Built:
    lock, place = folder / "lock", folder / "bare"
    install(ROOT / "requirements" / "runtime.txt", runtime.target, lock)
    files = {
        name: data for name, data in runtime_files(lock, Function("bare")) if _distribution_of(name) in _BARE_KEEPS
    }
    files["bare.py"] = _BARE_SOURCE
    sources = {name: data for name, data in files.items() if name.endswith(".py")}
    files |= compile_all(sources, runtime.python)
    for name, data in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
    return Built("bare Mangum + FastAPI", place, "bare.handler", {}, sum(map(len, files.values())))


def _distribution_of(name: str) -> str:
    top = name.split("/", 1)[0]
    return top.split("-", 1)[0].removesuffix(".py").replace("_", "-")
