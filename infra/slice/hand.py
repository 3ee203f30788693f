"""HAND: modules of our own, under the name of the upstream module that they replace, or under a new one.

`hand/<version>/` comes before `hand/`: there a version has what differs. A module that replaces an upstream file says
in its last lines what it was written against, a line for each text of upstream's file, with the first version that was
seen to have it:

    # replaces vllm 0.33.0: sha256:...

The lines are not part of the slice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from infra.slice.errors import OriginalChanged
from infra.slice.sources import ModuleSource, Sources

FOLDER = Path(__file__).parent / "hand"

_LINE = re.compile(r"^# replaces (\S+ \S+): sha256:([0-9a-f]{64})\n?", re.MULTILINE)
_VERSION = re.compile(r"\d+\.\d+\.\d+")


def _shown(path: Path) -> str:
    root = FOLDER.parents[2]
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


class HandModules:
    """The hand-written modules of one version."""

    def __init__(self, version: str, folder: Path = FOLDER) -> None:
        self._folders = (folder / version, folder)

    def find(self, module: str) -> ModuleSource | None:
        """The module's source, without the lines that say what it replaces."""
        for folder, path in self._candidates(module):
            text = _LINE.sub("", path.read_text(encoding="utf-8")).rstrip("\n")
            return ModuleSource(
                module, path.relative_to(folder).as_posix(), path.name == "__init__.py", text + "\n" if text else ""
            )
        return None

    def path(self, module: str) -> Path | None:
        """The module's file, or None when it is not written by hand."""
        return next((path for _, path in self._candidates(module)), None)

    def is_own(self, module: str) -> bool:
        """Whether the module is the version's own, not one that all versions have."""
        path = self.path(module)
        return path is not None and path.is_relative_to(self._folders[0])

    def _candidates(self, module: str) -> Iterator[tuple[Path, Path]]:
        for folder in self._folders:
            base = folder / module.replace(".", "/")
            for path in (base / "__init__.py", base.with_suffix(".py")):
                if path.is_file():
                    yield folder, path

    def all(self) -> set[str]:
        """The names of all modules that this version could use."""
        found: set[str] = set()
        for folder in self._folders:
            for path in sorted(folder.rglob("*.py")):
                parts = path.relative_to(folder).with_suffix("").parts
                if not _VERSION.fullmatch(parts[0]):
                    found.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        return found

    def changed(self, module: str, sources: Sources) -> OriginalChanged | None:
        """What is wrong when the upstream file is not one that the module says to replace."""
        upstream, path = sources.find(module), self.path(module)
        if upstream is None or path is None:
            return None
        digest = hashlib.sha256(upstream.text.encode()).hexdigest()
        origin = sources.origin(module)
        # The same text in another version is the same file.
        if digest in {known for _, known in _LINE.findall(path.read_text(encoding="utf-8"))}:
            return None
        return OriginalChanged(module, _shown(path), origin, digest)

    def accept(self, error: OriginalChanged, origin: str) -> None:
        """Write down that a module was looked at beside its original."""
        path = self.path(error.module)
        assert path is not None
        text = path.read_text(encoding="utf-8")
        lines = dict(_LINE.findall(text)) | {origin: error.digest}
        kept = _LINE.sub("", text).rstrip("\n")
        marks = "".join(f"# replaces {name}: sha256:{digest}\n" for name, digest in sorted(lines.items()))
        path.write_text(f"{kept}\n\n{marks}" if kept else marks, encoding="utf-8")
