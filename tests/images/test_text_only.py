"""Functions that take text only load nothing of what reads images, at their start and over a request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gateway import recorded_event

ROOT = Path(__file__).parents[2]
# What reads images, of ours and of others.
READS = ("core.images", "handlers.image", "handlers.media_fetch", "PIL", "numpy", "blake3")
ANSWER_AND_TELL = """
import importlib, json, sys
function, event = json.load(sys.stdin)
answer = importlib.import_module(f"handlers.{function}").handler(event, None)
assert answer["statusCode"] == 200, answer
print(json.dumps(sorted(sys.modules)))
"""


def loaded(function: str, event: str, model: Path, name: str) -> list[str]:
    """The modules of a process that started as a function and answered one event."""
    environ = {**os.environ, "DERENDER_MODEL": str(model), "DERENDER_SERVED_MODEL_NAME": name, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", ANSWER_AND_TELL],
        input=json.dumps([function, recorded_event(event)]),
        capture_output=True,
        text=True,
        env=environ,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def of_images(modules: list[str]) -> set[str]:
    return {name for name in modules if name.startswith(READS)}


@pytest.mark.parametrize(
    ("function", "event"), [("render", "render-chat"), ("derender", "derender-chat"), ("render", "tokenize-chat")]
)
def test_text_loads_no_images(function: str, event: str, models_dir: Path) -> None:
    assert of_images(loaded(function, event, models_dir / "qwen3", "qwen3")) == set()


def test_numpy_is_told_to_use_one_thread_before_it_is_loaded() -> None:
    """More of them wait for each other over the small products of a resize: three times the CPU time."""
    code = """
import os, sys
os.environ.pop("OPENBLAS_NUM_THREADS", None)
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy._core":  # looked for when numpy itself is loaded, and by nobody who asks whether it is there
            print("numpy", os.environ.get("OPENBLAS_NUM_THREADS"))
sys.meta_path.insert(0, Watch())
import handlers.server
handlers.server._render_router()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["numpy", "1"]


def test_what_reads_images_is_seen(image_models: Path) -> None:
    found = of_images(loaded("render_images", "render-images", image_models / "qwen2.5-vl", "qwen2.5-vl"))
    assert {"core.images.reader", "handlers.media_fetch", "PIL.Image", "numpy", "blake3"} <= found
