"""Data files of installed packages.

The tokenizers of published models are in registry packages as plain data.  It must never import such a package:
its code is not needed, and importing it may be slow or pull in more.
"""

import importlib.util
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple


class Package(NamedTuple):
    """A registry package: the name to install, the module that holds the data, the version that was checked."""

    distribution: str
    module: str
    version: str

    @property
    def requirement(self) -> str:
        return f"{self.distribution}=={self.version}"


class MissingPackageError(Exception):
    """The package that a model's tokenizer comes from is not installed."""


def require(package: Package, model: str) -> None:
    """Raise MissingPackageError, with what to install, unless the package is there."""
    try:
        version(package.distribution)
    except PackageNotFoundError:
        raise MissingPackageError(
            f"model {model!r} is made from the package {package.distribution}, which is not installed: "
            f"pip install {package.requirement}"
        ) from None


def read(package: Package, *parts: str) -> bytes:
    """The bytes of a data file, given as path parts below the package's module folder."""
    spec = importlib.util.find_spec(package.module)
    if spec is None or not spec.submodule_search_locations:
        raise MissingPackageError(f"the package {package.distribution} has no module {package.module}")
    return Path(next(iter(spec.submodule_search_locations)), *parts).read_bytes()
