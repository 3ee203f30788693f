"""Writing and checking model folders.

A folder that is already complete is left alone; one that is not is made whole.  It must never leave a half-written
file under its final name.
"""

import hashlib
import os
from importlib.metadata import version
from pathlib import Path

from infra.models.catalogue import MODELS, Model
from infra.models.package_data import require


class UnknownModelError(ValueError):
    """No model of that name can be built."""


class WrongSumError(Exception):
    """The tokenizer that was made is not the expected one."""


def model_named(name: str) -> Model:
    """The catalogue's entry.  Raises UnknownModelError."""
    try:
        return MODELS[name]
    except KeyError:
        raise UnknownModelError(f"no model {name!r}; there are: {', '.join(MODELS)}") from None


def faults(name: str, out_dir: Path) -> list[str]:
    """What is wrong with the folder `out_dir / name`, file by file; empty when it is complete and exact."""
    model = model_named(name)
    folder = out_dir / name
    found = []
    for file, content in model.small_files().items():
        path = folder / file
        if not path.is_file():
            found.append(f"{file} is missing")
        elif path.read_bytes() != content:
            found.append(f"{file} differs")
    path = folder / model.tokenizer_file
    if not path.is_file():
        found.append(f"{path.name} is missing")
    elif _sha256(path.read_bytes()) != model.sha256:
        found.append(f"{path.name} has another SHA-256 than expected")
    expected = {*model.small_files(), model.tokenizer_file}
    if folder.is_dir():
        found += [f"{path.name} does not belong there" for path in folder.iterdir() if path.name not in expected]
    return found


def build(name: str, out_dir: Path) -> Path:
    """Make the folder `out_dir / name` and return it; quick when it is there already.

    Raises UnknownModelError, MissingPackageError (says what to install), or WrongSumError where the installed
    package holds other data.  Files of another kind in the folder are left alone.
    """
    model = model_named(name)
    folder = out_dir / name
    tokenizer = folder / model.tokenizer_file
    if not tokenizer.is_file() or _sha256(tokenizer.read_bytes()) != model.sha256:
        require(model.package, name)
        content = model.make()
        if _sha256(content) != model.sha256:
            raise WrongSumError(
                f"model {name!r}: the {model.tokenizer_file} made from {model.package.distribution} "
                f"{version(model.package.distribution)} is not the expected one; "
                f"it was checked with {model.package.requirement}"
            )
        _write(tokenizer, content)
    for file, content in model.small_files().items():
        path = folder / file
        if not path.is_file() or path.read_bytes() != content:
            _write(path, content)
    return folder


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)
