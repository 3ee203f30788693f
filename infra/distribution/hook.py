"""What hatchling asks when it builds ``derender``: which files go into the wheel beside those of pyproject.toml.

A wheel without the parsers is built all the same where they cannot be had: its
``derender serve`` says what to do. For development (an editable installation)
nothing is laid out, the tree is used as it is.
"""

from __future__ import annotations

import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class DistributionHook(BuildHookInterface):  # type: ignore[type-arg]
    """Lays the slice and xgrammar's library into a wheel, and the slice into an sdist."""

    def dependencies(self) -> list[str]:
        """For a build in an environment of its own: what fetches the parts."""
        return ["pip", "httpx"] if self.target_name == "wheel" else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the files are collected."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)  # hatchling loads this file by its path
        from infra.distribution import parts
        from infra.slice.versions import NEWEST

        if self.target_name == "sdist":
            wheel = parts.slice_wheel()
            if wheel is not None:
                build_data["force_include"][str(wheel)] = f"build/slice/{wheel.name}"
            return
        self._scratch = tempfile.TemporaryDirectory()
        folder = Path(self._scratch.name)
        if self._lay(parts.lay_slice, folder, "parsers: its `derender serve` will refuse to start"):
            if self._lay(parts.lay_library, folder, "a library: it will refuse structural tags"):
                build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
                build_data["pure_python"] = False
            build_data["force_include"][str(folder)] = f"derender/_slices/{NEWEST}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the file is written."""
        scratch = getattr(self, "_scratch", None)
        if scratch is not None:
            scratch.cleanup()

    def _lay(self, lay: Callable[[Path], None], folder: Path, without: str) -> bool:
        from infra.distribution.parts import PartMissing

        try:
            lay(folder)
        except PartMissing as exc:
            self.app.display_warning(f"derender is built without {without} ({exc})")
            return False
        return True
