"""The pictures that both sides are given: photographs that packages ship, the recorded files, and random sizes by the hundred.

The same seed makes the same files: Pillow is pinned, and its encoders with it.
"""

from __future__ import annotations

import base64
import io
import json
import math
import random
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from tests.images.recorded import DATA

_PACKAGES = {"skimage": "data", "matplotlib": "mpl-data/sample_data", "scipy": "datasets", "sklearn": "datasets/images"}
"""Packages that bring photographs, and the folder of each."""

_ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".tif", ".tiff", ".webp", ".bmp")
_LARGEST_FILE = 8 << 20
_SHORTEST, _LONGEST = 8, 1800
"""Sides of random pictures, in pixels."""
_LONGEST_SHAPE = 12
_MODES = ("RGB",) * 8 + ("L", "RGBA", "P", "LA")
_FIND = """
import importlib.util, json, sys
found = {}
for name in sys.argv[1:]:
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations:
        found[name] = list(spec.submodule_search_locations)[0]
print(json.dumps(found))
"""

SYNTHETIC, REAL, RANDOM = "synthetic", "real", "random sizes"


@dataclass(frozen=True)
class Picture:
    """A file, by a name that says what it is; ``kind`` is one of the three above."""

    name: str
    kind: str
    data: bytes

    def url(self) -> str:
        """A data URL. Neither side looks at its media type."""
        return f"data:image/png;base64,{base64.b64encode(self.data).decode()}"


def pictures(python: str, count: int, seed: int) -> list[Picture]:
    """All pictures of one comparison: those of the packages that ``python`` has, and ``count`` of random sizes.

    Random pictures are cut from the real ones, where there are any.
    """
    real = list(_shipped(python))
    synthetic = [Picture(path.name, SYNTHETIC, path.read_bytes()) for path in sorted((DATA / "files").iterdir())]
    return [*synthetic, *real, *_random_sizes(real or synthetic, count, random.Random(seed))]


def _shipped(python: str) -> Iterator[Picture]:
    command = [python, "-c", _FIND, *_PACKAGES]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    for package, folder in found.items():
        for path in sorted((Path(folder) / _PACKAGES[package]).glob("*")):
            if path.suffix.lower() in _ENDINGS and path.stat().st_size < _LARGEST_FILE:
                yield Picture(f"{package} {path.name}", REAL, path.read_bytes())


def _random_sizes(sources: Sequence[Picture], count: int, rng: random.Random) -> Iterator[Picture]:
    opened = [_rgb(source.data) for source in sources]
    usable = [image for image in opened if image is not None]
    for index in range(count):
        width, height = _size(rng)
        image = rng.choice(usable).resize((width, height), Image.Resampling.NEAREST)
        mode, kind = rng.choice(_MODES), rng.choice(("JPEG", "PNG", "PNG", "WEBP"))
        if kind == "JPEG" and mode != "L":
            mode = "RGB"
        out = io.BytesIO()
        image.convert(mode).save(out, kind, **({"quality": rng.randint(30, 98)} if kind != "PNG" else {}))
        yield Picture(f"{index}: {width}x{height} {kind} {mode}", RANDOM, out.getvalue())


def _rgb(data: bytes) -> Image.Image | None:
    try:
        with Image.open(io.BytesIO(data)) as image:
            return image.convert("RGB") if min(image.size) > 1 else None
    except (OSError, ValueError):
        return None  # pictures of 16 bits a channel and the like: sent as they are, not cut


def _size(rng: random.Random) -> tuple[int, int]:
    """Sides spread evenly over their logarithms; very long shapes are left to the recorded files."""
    while True:
        width, height = (round(math.exp(rng.uniform(math.log(_SHORTEST), math.log(_LONGEST)))) for _ in range(2))
        if max(width, height) <= _LONGEST_SHAPE * min(width, height):
            return width, height
