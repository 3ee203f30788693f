"""How much memory the largest requests take: `python -m tests.fuzz.largest`, and a part of `make fuzz`.

Each kind of `tests.fuzz.growth` in a process of its own, at the size limit of the stack's template and then at ever smaller
sizes until one is answered. What counts is the most that the process held, as the system counts it, above what it held
idle: so the memory of a tokenizer's own code is in it, too.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from tests.fuzz.growth import Body, plain_bodies
from tests.golden.application import InProcess, make_app

ROOT = Path(__file__).parents[2]
# Bytes: a third of a function's memory, and a body, by the defaults of template.yaml.
MOST_BYTES = 1769 * 2**20 // 3
LARGEST_BODY = 32 * 2**20
# The longest context of which the table of docs/security.md speaks.
CONTEXT = 262_144
MODEL = "qwen3"
HEADERS = {"content-type": "application/json"}


def _status(name: str) -> int:
    """A size of this process out of `/proc/self/status`, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def long_model(models_dir: Path, folder: Path) -> Path:
    """A folder of models with one in it, whose context is `CONTEXT`."""
    shutil.copytree(models_dir / MODEL, folder / MODEL)
    config = folder / MODEL / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "max_position_embeddings": CONTEXT}))
    return folder


def _send(process: InProcess, body: Body, size: int) -> tuple[int, int]:
    """The status of an answer, and the bytes that were sent."""
    path, content = body(size)
    raw = orjson.dumps(content)  # its own memory is little
    del content
    if len(raw) > LARGEST_BODY:
        return 413, len(raw)
    return process.call_raw("POST", path, raw, HEADERS)[0], len(raw)


def measure(kind: str, models_dir: Path) -> dict[str, Any]:
    """Bytes of the largest body that was accepted, at its size, and of all that were sent, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        process = InProcess(make_app({"model": MODEL}, long_model(models_dir, Path(folder))))
        send = partial(_send, process, plain_bodies()[kind])
        send(64)
    idle = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the most begins anew
    each = send(4096)[1] / 4096
    size, status, sent = int(LARGEST_BODY / each), 0, 0
    while status != 200 and size > 64:
        status, sent = send(size)
        size = size * 3 // 4
    process.close()
    return {"kind": kind, "accepted": sent, "bytes": _status("VmHWM") - idle, "status": status}


def measured(kind: str) -> dict[str, Any]:
    """As :func:`measure`, in a process of its own.

    Raises:
        subprocess.CalledProcessError: it ended otherwise.
    """
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz.largest", "--kind", kind]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.largest", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kind", help="only this one, in this process, as JSON")
    options = parser.parse_args(arguments)
    if options.kind:
        print(json.dumps(measure(options.kind, ROOT / "build" / "models")))
        return 0
    status = 0
    for kind in plain_bodies():
        found = measured(kind)
        fault = found["bytes"] > MOST_BYTES or found["status"] != 200
        print(f"largest {kind}: accepted {found['accepted'] / 1e6:.2f} MB; at most {found['bytes'] / 1e6:.0f} MB of memory"
              f" of {MOST_BYTES / 1e6:.0f}{' FAULT' if fault else ''}", flush=True)  # fmt: skip
        status |= fault
    return status


if __name__ == "__main__":
    sys.exit(main())
