"""The service as a recorded server was configured, in this process, in front of an engine that plays back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.options import PASSABLE
from handlers.server import server_app
from handlers.settings import Settings
from tests.golden.application import InProcess

# Options of vLLM's server that ours has under no name: what they switch on is always there.
_ALWAYS_ON = ("enable_request_id_headers", "enable_prompt_tokens_details")
_LISTS = ("api_key",)


@contextmanager
def service(server: dict[str, Any], models_dir: Path, engine_url: str, scratch: Path) -> Iterator[InProcess]:
    """The application, started. ``scratch`` is a folder for what it needs besides the model."""
    options = {name: value for name, value in server.items() if name not in ("model", "env", *_ALWAYS_ON)}
    overridden = options.pop("override_generation_config", None)
    if overridden is not None:
        options["generation_config"] = str(_generation_config(models_dir / server["model"], overridden, scratch))
    options |= {name: [options[name]] for name in _LISTS if name in options}
    settings = Settings(
        model=str(models_dir / server["model"]),
        served_model_name=[server["model"]],
        environ=dict(server.get("env", {})),
        engine_params=PASSABLE,
        engine_url=(engine_url,),
        answers="vllm",  # the recordings are vLLM's
        prompts="vllm",
        parser_family="any",
        **options,
    )
    application = InProcess(server_app(settings))
    try:
        yield application
    finally:
        application.close()


def _generation_config(model: Path, overridden: dict[str, Any], scratch: Path) -> Path:
    """A folder with the model's generation configuration, changed."""
    folder = scratch / "generation_config"
    folder.mkdir()
    shutil.copy(model / "config.json", folder)
    own = json.loads((model / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**own, **overridden}))
    return folder
