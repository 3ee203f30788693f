"""One event through a built function under the Lambda emulator, without Docker: what ``derender invoke`` does.

Settings are the environment's, as in Lambda. Without ``DERENDER_MODEL`` the
packaged model is served, and without that the demo's, so that the recorded
events can be tried at once.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.errors import ConfigurationError
from handlers.settings import PREFIX
from infra.emulator import Emulator, InvokeError, prepare_runtime
from infra.package.build import MODEL_FOLDER, ROOT, Artefact, Workshop
from infra.package.functions import FUNCTIONS, Function, find_function

# What the recorded events are recorded with; an unsigned state is part of one.
DEMO_MODEL = "qwen3"
DEMO_SETTINGS: Mapping[str, str] = {
    f"{PREFIX}SERVED_MODEL_NAME": DEMO_MODEL,
    f"{PREFIX}TOOL_CALL_PARSER": "hermes",
    f"{PREFIX}REASONING_PARSER": "qwen3",
    f"{PREFIX}ENABLE_AUTO_TOOL_CHOICE": "true",
}
_PASSED_ON = (PREFIX, "VLLM_", "AWS_")


def invoke_function(name: str, event: Path, model: Path | None = None) -> int:
    """Build the function where that is needed, invoke it, and print its answer as the last line.

    The exit status is 0 for any answer of the function, 1 for a function error.

    Raises:
        ConfigurationError: no such function, no event, or a part of the emulator is missing.
    """
    function = find_function(name)
    if function is None:
        names = ", ".join(function.name for function in FUNCTIONS)
        raise ConfigurationError(f"there is no function {name!r}; there are {names}")
    content = _read(event)
    if function.start and not os.environ.get(f"{PREFIX}ENGINE_URL"):
        raise ConfigurationError(
            f"{name} needs {PREFIX}ENGINE_URL; examples/scripted_engine.py is an engine to try it with"
        )
    runtime = prepare_runtime()
    artefact = Workshop(model=model).build(function, runtime.target)
    settings = _settings(artefact)
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder)
        with Emulator(runtime, artefact.unpacked(), function.handler, settings, temporary, log=sys.stderr) as emulator:
            try:
                answer = json.dumps(emulator.invoke(content))
            except InvokeError as exc:
                status, answer = 1, str(exc)
    # Last of all: whatever the function logs comes before.
    print(answer, flush=True)
    return status


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as exc:
        raise ConfigurationError(f"cannot read {path}: {exc.strerror}") from exc
    except ValueError as exc:
        raise ConfigurationError(f"{path} is not JSON: {exc}") from exc


def _settings(artefact: Artefact) -> dict[str, str]:
    settings = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
    given = settings.get(f"{PREFIX}MODEL")
    if given:
        # The function's working directory is its own folder; a path is meant from here.
        settings[f"{PREFIX}MODEL"] = given if "://" in given else str(Path(given).absolute())
    elif artefact.has_model:
        settings[f"{PREFIX}MODEL"] = MODEL_FOLDER
    else:
        settings = {**DEMO_SETTINGS, **settings, f"{PREFIX}MODEL": str(_demo_model(artefact.function))}
    return settings


def _demo_model(function: Function) -> Path:
    from infra.models import build  # only for a first try

    print(f"no {PREFIX}MODEL and none in the package: {function.name} serves the demo's {DEMO_MODEL}", file=sys.stderr)
    return build(DEMO_MODEL, ROOT / "build" / "models")
