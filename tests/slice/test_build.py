"""The build: the same bytes every time, nothing unnoticed, and a clear end when upstream has changed."""

import dataclasses
import hashlib
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from infra.slice import build as build_module
from infra.slice.__main__ import main
from infra.slice.assemble import assemble
from infra.slice.build import build
from infra.slice.errors import MissingDefinition, MissingModule, SliceError, SourceError, UnboundName
from infra.slice.sources import InstalledArchive, ModuleSource, Sources, WheelArchive
from infra.slice.spec import Cut, Specification
from infra.slice.vllm_0_33 import SLICE_VERSION, SPECIFICATION
from infra.slice.wheel import write_wheel


class _Memory(Sources):
    """Upstream modules given as text."""

    def __init__(self, modules: dict[str, str]) -> None:
        super().__init__([])
        self.modules = modules

    def find(self, module: str) -> ModuleSource | None:
        text = self.modules.get(module)
        is_package = any(name.startswith(module + ".") for name in self.modules)
        path = module.replace(".", "/") + ("/__init__.py" if is_package else ".py")
        return None if text is None else ModuleSource(module, path, is_package, text)


def _spec(*roots: str, **fields: object) -> Specification:
    empty = {"hand": frozenset(), "cut": {}, "defer": {}, "lazy": frozenset(), "redirects": {}, "data": ()}
    return dataclasses.replace(
        SPECIFICATION, roots=roots, **{**empty, "denied": frozenset(), "absent": frozenset(), **fields}
    )


def test_reachable_modules_are_copied_unmodified() -> None:
    modules = {
        "vllm": "",
        "vllm.a": "from vllm.b import x\ndef f():\n    from .c import y\n    return y\n",
        "vllm.b": "# kept\nx = 1\n",
        "vllm.c": "y = 2\n",
        "vllm.d": "z = 3\n",
    }
    built = assemble(_spec("vllm.a:f"), _Memory(modules))
    assert {name: each.text for name, each in built.modules.items()} == {
        name: text for name, text in modules.items() if name != "vllm.d"
    }


@pytest.mark.parametrize(
    ("modules", "names"),
    [
        ({"vllm.a": "from vllm.b import gone\n", "vllm.b": "x = 1\n"}, ("vllm.b", "gone")),
        ({"vllm.a": "def f():\n    from vllm.b import gone\n", "vllm.b": "x = 1\n"}, ("vllm.b", "gone")),
        ({"vllm.a": "f = 1\n"}, ("vllm.a", "g")),
    ],
)
def test_missing_definition_names_module_and_name(modules: dict[str, str], names: tuple[str, str]) -> None:
    with pytest.raises(MissingDefinition) as caught:
        assemble(_spec("vllm.a:g" if names[1] == "g" else "vllm.a"), _Memory({"vllm": "", **modules}))
    assert (caught.value.module, caught.value.name) == names


def test_a_slice_that_lost_a_definition_stops() -> None:
    modules = {"vllm": "", "vllm.a": "from vllm.heavy import kept\n", "vllm.heavy": "def renamed(): ...\n"}
    with pytest.raises(MissingDefinition, match="'kept'"):
        assemble(_spec("vllm.a", cut={"vllm.heavy": Cut(("kept",))}), _Memory(modules))


def test_a_name_that_the_slice_does_not_hold_stops() -> None:
    modules = {"vllm": "", "vllm.a": "from vllm.heavy import new\n", "vllm.heavy": "def kept(): ...\ndef new(): ...\n"}
    with pytest.raises(MissingDefinition, match="'new'"):
        assemble(_spec("vllm.a", cut={"vllm.heavy": Cut(("kept",))}), _Memory(modules))


def test_missing_module_stops() -> None:
    with pytest.raises(MissingModule, match=r"vllm\.gone"):
        assemble(_spec("vllm.a"), _Memory({"vllm": "", "vllm.a": "import vllm.gone\n"}))


def test_denied_module_at_import_time_stops_and_later_does_not() -> None:
    modules = {"vllm": "", "vllm.a": "from vllm.heavy.part import x\n", "vllm.heavy": "", "vllm.heavy.part": "x = 1\n"}
    spec = _spec("vllm.a", denied=frozenset({"vllm.heavy"}))
    with pytest.raises(SliceError, match=r"vllm\.a.*'vllm\.heavy\.part'.*denied"):
        assemble(spec, _Memory(modules))
    modules["vllm.a"] = "def f():\n    from vllm.heavy.part import x\n"
    built = assemble(spec, _Memory(modules))
    assert set(built.modules) == {"vllm", "vllm.a"}
    assert built.denied == {"vllm.heavy": "vllm/heavy/__init__.py"}


def test_unbound_global_stops() -> None:
    with pytest.raises(UnboundName, match="nowhere"):
        assemble(_spec("vllm.a"), _Memory({"vllm": "", "vllm.a": "def f():\n    return nowhere\n"}))


def test_two_builds_give_the_same_bytes(published_wheel: Path, tmp_path: Path) -> None:
    first = build(published_wheel, tmp_path / "one", [])
    # In another process, with another order of hashing.
    command = [sys.executable, "-m", "infra.slice", "build", "--wheel", str(published_wheel)]
    root = Path(build_module.__file__).parents[2]
    environment = {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "PATH": ""}
    subprocess.run([*command, "--out", str(tmp_path / "two")], check=True, cwd=root, env=environment)
    second = tmp_path / "two" / first.wheel.name
    assert first.wheel.read_bytes() == second.read_bytes()
    assert first.wheel.name == f"vllm-{SLICE_VERSION}-py3-none-any.whl"


@pytest.fixture(scope="module")
def slice_wheel(published_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build(published_wheel, tmp_path_factory.mktemp("slice"), []).wheel)


def test_wheel_is_complete(slice_wheel: zipfile.ZipFile) -> None:
    names = set(slice_wheel.namelist())
    info = f"vllm-{SLICE_VERSION}.dist-info"
    assert f"{info}/licenses/vllm/LICENSE" in names
    assert f"{info}/licenses/openai/LICENSE" in names
    assert f"{info}/licenses/xgrammar/LICENSE" in names
    assert "Apache License" in slice_wheel.read(f"{info}/licenses/vllm/LICENSE").decode()
    assert not [name for name in names if name.endswith((".so", ".pyc"))]
    assert {name.split("/")[0] for name in names} == {"vllm", info}
    record = slice_wheel.read(f"{info}/RECORD").decode()
    for line in record.splitlines():
        path, digest, size = line.rsplit(",", 2)
        if path != f"{info}/RECORD":
            data = slice_wheel.read(path)
            expected = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={expected}", str(len(data)))
    assert {line.rsplit(",", 2)[0] for line in record.splitlines()} == names


def test_installed_slice_is_this_build(slice_wheel: zipfile.ZipFile) -> None:
    """The other tests run what is installed: it must be what the sources here build."""
    installed = InstalledArchive("vllm")
    assert installed.version == SLICE_VERSION
    for name in slice_wheel.namelist():
        if name.startswith("vllm/"):
            assert installed.read(name) == slice_wheel.read(name), f"{name}: reinstall the slice"


def test_copied_modules_equal_upstream(slice_wheel: zipfile.ZipFile, published_wheel: Path) -> None:
    import json

    upstream = WheelArchive(published_wheel)
    contents = json.loads(slice_wheel.read("vllm/_slice/contents.json"))
    copied = [name for name, kind in contents["modules"].items() if kind == "copy" and "._slice" not in name]
    assert len(copied) > 100
    for name in copied:
        path = name.replace(".", "/")
        data = upstream.read(f"{path}.py") or upstream.read(f"{path}/__init__.py")
        target = f"{path}.py" if f"{path}.py" in slice_wheel.namelist() else f"{path}/__init__.py"
        assert slice_wheel.read(target) == data


def _wheel(folder: Path, version: str, files: dict[str, bytes]) -> Path:
    return write_wheel(folder, "vllm", version, "Metadata-Version: 2.4\nName: vllm\n", files)


def test_other_version_is_refused(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, "0.34.0", {"vllm/__init__.py": b""})
    with pytest.raises(SourceError, match=r"0\.33\.0"):
        build(wheel, tmp_path / "out", [])


def test_altered_wheel_is_refused(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, "0.33.0", {"vllm/__init__.py": b"a = 1\n", "vllm/a.py": b""})
    data = wheel.read_bytes()
    wheel.write_bytes(data.replace(b"a = 1", b"a = 2"))
    with pytest.raises((SourceError, zipfile.BadZipFile)):
        WheelArchive(wheel).read("vllm/__init__.py")


def test_command_tells_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "--wheel", str(tmp_path / "none.whl"), "--out", str(tmp_path)]) == 1
    assert "none.whl" in capsys.readouterr().err
    changed = _wheel(tmp_path, "0.33.0", {"vllm/__init__.py": b"", "vllm/tool_parsers/__init__.py": b"x = 1\n"})
    assert main(["build", "--wheel", str(changed), "--out", str(tmp_path)]) == 1
    assert "_TOOL_PARSERS_TO_REGISTER" in capsys.readouterr().err
