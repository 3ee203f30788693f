"""Building the artefacts: collected, checked, compiled, and kept by a key of everything that went in."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from core.bundle.folder import FolderFiles
from core.bundle.manifest import MANIFEST_NAME
from infra.package.archive import unpack, write_archive
from infra.package.binaries import check_binary, check_libraries, is_binary
from infra.package.bytecode import bytecode_name, compile_all
from infra.package.dependencies import install, runtime_files, slice_files, wheel_files
from infra.package.errors import PackageError
from infra.package.functions import FAST_LOCK, SERVER, Function
from infra.package.interpreter import find_interpreter, interpreter_version
from infra.package.reach import PACKAGES, data_files, reachable
from infra.package.target import Target
from infra.slice.versions import VERSIONS, specification

ROOT = Path(__file__).resolve().parents[2]
# Where a packaged model is: relative to the task root, which is the working directory in Lambda.
MODEL_FOLDER = "model"
# Where the older versions' slices are (``handlers/slices.py``).
SLICES_FOLDER = "slices"
_SCRIPTS = Path(__file__).parent
_NOTICES = ("LICENSE", "THIRD_PARTY_NOTICES.md")


@dataclass(frozen=True)
class Artefact:
    """A built function: its zip. ``unzipped`` is in bytes."""

    function: Function
    target: Target
    archive: Path
    unzipped: int
    files: int
    has_model: bool

    @property
    def sha256(self) -> str:
        """Of the zip."""
        return hashlib.sha256(self.archive.read_bytes()).hexdigest()

    def unpacked(self) -> Path:
        """The folder beside the zip that holds its files, as Lambda would lay them out."""
        folder = self.archive.with_suffix("")
        if not folder.is_dir():
            unpack(self.archive, folder)
        return folder


class Workshop:
    """Builds artefacts of one source tree into one folder, and builds nothing twice.

    ``model`` is a model folder to be packaged with the functions, as a bundle. With ``fast`` what renders brings the
    fast encoder (``core.tokenizer.fast``).
    """

    def __init__(
        self, root: Path = ROOT, cache: Path | None = None, model: Path | None = None, fast: bool = False
    ) -> None:
        self._root = root
        self._cache = cache or root / "build" / "package"
        self._python = find_interpreter()
        self._slice = _slice_wheel(root)
        self._older = _older_slices(root)
        self._model = _model_files(model) if model else {}
        self._fast = fast
        self._bytecode: dict[tuple[str, bytes], bytes] = {}

    def build(self, function: Function, target: Target) -> Artefact:
        """The artefact of one function for one architecture.

        Raises:
            PackageError: it cannot be built here, or holds what the target cannot load.
        """
        prefix = f"{function.name}-{target.name}-"
        name = prefix + self._key(function, target)
        archive = self._cache / f"{name}.zip"
        with self._alone(f"{function.name}-{target.name}"):
            if not archive.is_file():
                for old in self._cache.glob(prefix + "*"):
                    shutil.rmtree(old) if old.is_dir() else old.unlink()
                write_archive(archive, self._contents(function, target))
        with zipfile.ZipFile(archive) as content:
            entries = content.infolist()
        has_model = any(entry.filename.startswith(f"{MODEL_FOLDER}/") for entry in entries)
        return Artefact(function, target, archive, sum(entry.file_size for entry in entries), len(entries), has_model)

    def _contents(self, function: Function, target: Target) -> dict[str, bytes]:
        files: dict[str, bytes] = {}
        for lock in self._locks(function):
            files.update(runtime_files(self._installed(lock, target), function))
        files.update(wheel_files(self._slice))
        for version, wheel in self._older.items():
            files.update(self._without_sources(slice_files(wheel, f"{SLICES_FOLDER}/{version}", target)))
        files.update(self._own(function))
        binaries = {name: data for name, data in files.items() if is_binary(data)}
        for name, data in binaries.items():
            check_binary(name, data, target)
        check_libraries(binaries)
        sources = {name: data for name, data in files.items() if name.endswith(".py")}
        files.update(self._compiled(sources))
        files.update({f"{MODEL_FOLDER}/{name}": data for name, data in self._model.items() if function.with_model})
        files.update({name: (self._root / name).read_bytes() for name in _NOTICES})
        if function.start:
            files[function.start] = (_SCRIPTS / function.start).read_bytes()
        return files

    def _without_sources(self, files: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
        """Files with the bytecode of each source in its place: half of the bytes, and a process uses one slice."""
        given = dict(files)
        sources = {name: data for name, data in given.items() if name.endswith(".py")}
        bytecode = self._compiled(sources)
        rest = {name: data for name, data in given.items() if name not in sources}
        return {**rest, **{f"{name}c": bytecode[bytecode_name(name)] for name in sources}}

    def _compiled(self, sources: Mapping[str, bytes]) -> dict[str, bytes]:
        """The bytecode of sources. The artefacts have nearly all of them in common, and each is compiled once."""
        new = {name: data for name, data in sources.items() if (name, data) not in self._bytecode}
        bytecode = compile_all(new, self._python)
        self._bytecode.update({(name, data): bytecode[bytecode_name(name)] for name, data in new.items()})
        return {bytecode_name(name): self._bytecode[name, data] for name, data in sources.items()}

    def _own(self, function: Function) -> Iterator[tuple[str, bytes]]:
        modules = reachable(function.module, self._root, function.doors)
        for path in [*modules.values(), *data_files(modules)]:
            yield path.relative_to(self._root).as_posix(), path.read_bytes()

    def _locks(self, function: Function) -> list[Path]:
        encodes = "render" in function.doors and function.lock != SERVER.lock  # the server's own lock has it
        names = [function.lock, *([FAST_LOCK] if self._fast and encodes else [])]
        return [self._root / "requirements" / name for name in names]

    def _installed(self, lock: Path, target: Target) -> Path:
        """A lock, installed for a target once for each state of the lock."""
        digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
        name = f"lock-{lock.stem}-{target.name}"
        folder = self._cache / f"{name}-{digest}"
        with self._alone(name):
            if not folder.is_dir():
                for old in self._cache.glob(f"{name}-*"):
                    shutil.rmtree(old)
                with tempfile.TemporaryDirectory(dir=self._cache) as partial:
                    install(lock, target, Path(partial, "files"))
                    Path(partial, "files").rename(folder)
        return folder

    def _key(self, function: Function, target: Target) -> str:
        """A digest of everything that the artefact is made of."""
        digest = hashlib.sha256(f"{function.name} {target} {interpreter_version(self._python)}".encode())
        trees = [self._root / package for package in (*PACKAGES, "infra/package")]
        sources = sorted(path for tree in trees for path in tree.rglob("*") if path.is_file() and path.suffix != ".pyc")
        scripts = [_SCRIPTS / function.start] if function.start else []
        notices = [self._root / name for name in _NOTICES]
        slices = [self._slice, *self._older.values()]
        for path in [*self._locks(function), *slices, *sources, *scripts, *notices]:
            digest.update(f"\0{path.relative_to(self._root)}\0".encode() + path.read_bytes())
        digest.update(self._model.get(MANIFEST_NAME, b"") if function.with_model else b"")
        return digest.hexdigest()[:16]

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """One builder of one thing at a time, over all processes."""
        self._cache.mkdir(parents=True, exist_ok=True)
        with open(self._cache / f".{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _slice_wheel(root: Path) -> Path:
    """The wheel of the slice that this environment has installed: the packages hold the slice that the tests used."""
    version = importlib.metadata.version("vllm")
    path = root / "build" / "slice" / f"vllm-{version}-py3-none-any.whl"
    if not path.is_file():
        raise PackageError(f"build/slice does not hold the vLLM slice {version}: run `make setup`")
    return path


def _older_slices(root: Path) -> dict[str, Path]:
    """The wheels of the older versions' slices, by version: each goes into a folder of its own."""
    found: dict[str, Path] = {}
    for version in VERSIONS[1:]:
        path = root / "build" / "slice" / f"vllm-{specification(version).slice_version}-py3-none-any.whl"
        if not path.is_file():
            raise PackageError(f"build/slice does not hold the vLLM slice of {version}: run `make slices`")
        found[version] = path
    return found


def _model_files(folder: Path) -> dict[str, bytes]:
    # Late: the first loads the tokenizer, the second imports vLLM, and only a package with a model pays for them.
    from core.bundle.contents import bundle_contents
    from core.render.template_check import check_folder

    files = FolderFiles(folder)
    check_folder(files, "auto")
    return bundle_contents(files)
