"""The build: the same bytes every time, nothing unnoticed, and a clear end when upstream has changed."""

import dataclasses
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.slice.__main__ import main
from infra.slice.assemble import Slice, assemble, survey
from infra.slice.build import Upstream, build, collect, upstream
from infra.slice.errors import (
    MissingDefinition,
    MissingModule,
    OriginalChanged,
    SliceError,
    SourceError,
    Stopped,
    UnboundName,
)
from infra.slice.fetch import MACHINES
from infra.slice.hand import HandModules
from infra.slice.sources import InstalledArchive, ModuleSource, Sources, WheelArchive
from infra.slice.spec import Borrow, Cut, Specification
from infra.slice.versions import NEWEST, VERSIONS, specification
from infra.slice.wheel import write_wheel

ROOT = Path(__file__).parents[2]
SLICE_VERSION = specification(NEWEST).slice_version


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
    empty: dict[str, object] = {"cut": {}, "slow": frozenset(), "opaque": {}, "memoize": {}, "lazy": frozenset()}
    empty |= {"redirects": {}, "data": (), "denied": frozenset(), "absent": frozenset()}
    return dataclasses.replace(specification(NEWEST), roots=roots, **{**empty, **fields})


def _survey(spec: Specification, modules: dict[str, str], folder: Path, **others: dict[str, str]) -> Slice:
    """The slice of modules given as text; `others` are those of other versions, `v1` for version 1."""
    return survey(
        spec, _Memory({"vllm": "", **modules}), HandModules(spec.version, folder), lambda v: _Memory(others[v])
    )


def _stops(spec: Specification, modules: dict[str, str], folder: Path) -> list[SliceError]:
    return _survey(spec, modules, folder).stops


def test_reachable_modules_are_copied_unmodified(tmp_path: Path) -> None:
    modules = {
        "vllm": "",
        "vllm.a": "from vllm.b import x\ndef f():\n    from .c import y\n    return y\n",
        "vllm.b": "# kept\nx = 1\n",
        "vllm.c": "y = 2\n",
        "vllm.d": "z = 3\n",
    }
    built = _survey(_spec("vllm.a:f"), modules, tmp_path)
    assert not built.stops
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
def test_missing_definition_names_module_and_name(
    modules: dict[str, str], names: tuple[str, str], tmp_path: Path
) -> None:
    (stop,) = _stops(_spec("vllm.a:g" if names[1] == "g" else "vllm.a"), modules, tmp_path)
    assert isinstance(stop, MissingDefinition)
    assert (stop.module, stop.name) == names


def test_all_that_is_wrong_is_told_and_each_thing_once(tmp_path: Path) -> None:
    modules = {
        "vllm.a": "from vllm.b import gone\nfrom vllm.c import x\nimport vllm.lost\n",
        "vllm.b": "",
        "vllm.c": "from vllm.b import gone\nx = nowhere\n",
    }
    stops = _stops(_spec("vllm.a"), modules, tmp_path)
    assert [(type(stop), stop.module, stop.name) for stop in stops] == [
        (MissingDefinition, "vllm.b", "gone"),
        (UnboundName, "vllm.c", "nowhere"),
        (MissingModule, "vllm.lost", ""),
    ]
    assert stops[0].needed_by_more == ["vllm.c:1"]
    with pytest.raises(Stopped, match=r"gone.*\n.*nowhere.*\n.*lost"):
        assemble(_spec("vllm.a"), _Memory({"vllm": "", **modules}), HandModules("1", tmp_path), _Memory({}).find)


def test_a_cut_module_keeps_what_others_import_and_stops_for_what_it_lost(tmp_path: Path) -> None:
    modules = {
        "vllm.a": "from vllm.heavy import kept\ndef f():\n    from vllm.heavy import late\n",
        "vllm.heavy": "import torch\ndef kept(): ...\ndef late(): return helper()\ndef helper(): ...\nbig = torch.big\n",
    }
    spec = _spec("vllm.a", cut={"vllm.heavy": Cut()})
    built = _survey(spec, modules, tmp_path)
    assert not built.stops
    text = built.modules["vllm.heavy"].text
    assert all(f"def {name}(" in text for name in ("kept", "late", "helper"))
    assert "torch" not in text
    modules["vllm.heavy"] = "def renamed(): ...\ndef late(): ...\n"
    (stop,) = _stops(spec, modules, tmp_path)
    assert (stop.module, stop.name) == ("vllm.heavy", "kept")


def test_missing_module_stops(tmp_path: Path) -> None:
    (stop,) = _stops(_spec("vllm.a"), {"vllm.a": "import vllm.gone\n"}, tmp_path)
    assert isinstance(stop, MissingModule)
    assert stop.module == "vllm.gone"


def test_denied_module_at_import_time_stops_and_later_does_not(tmp_path: Path) -> None:
    modules = {"vllm.a": "from vllm.heavy.part import x\n", "vllm.heavy": "", "vllm.heavy.part": "x = 1\n"}
    spec = _spec("vllm.a", denied=frozenset({"vllm.heavy"}))
    (stop,) = _stops(spec, modules, tmp_path)
    assert re.search(r"vllm\.a.*'vllm\.heavy\.part'.*denied", str(stop))
    modules["vllm.a"] = "def f():\n    from vllm.heavy.part import x\n"
    built = _survey(spec, modules, tmp_path)
    assert set(built.modules) == {"vllm", "vllm.a"}
    assert built.denied == {"vllm.heavy": "vllm/heavy/__init__.py"}


def test_unbound_global_stops(tmp_path: Path) -> None:
    (stop,) = _stops(_spec("vllm.a"), {"vllm.a": "def f():\n    return nowhere\n"}, tmp_path)
    assert isinstance(stop, UnboundName)
    assert stop.name == "nowhere"


def test_what_is_slow_waits_wherever_it_comes_from(tmp_path: Path) -> None:
    """A module that nobody named defers what it imports from a slow one, by itself or by way of another module."""
    modules = {
        "vllm.slow": "class Request: ...\n",
        "vllm.types": "from vllm.slow import Request\nAlias = Request | None\n",
        "vllm.parser": "from vllm.types import Alias\ndef f(value):\n    return isinstance(value, Alias)\n",
        "vllm._slice": "",
        "vllm._slice.deferred": "class Deferred: ...\n",
    }
    spec = _spec("vllm.parser", slow=frozenset({"vllm.slow"}))
    built = _survey(spec, modules, tmp_path)
    assert not built.stops
    assert "_deferred.holds(value" in built.modules["vllm.parser"].text
    assert '_deferred.define("Alias", lambda: (' in built.modules["vllm.types"].text
    modules["vllm.parser"] += "class Mine(Alias): ...\n"
    (stop,) = _stops(spec, modules, tmp_path)
    assert (stop.module, stop.name) == ("vllm.parser", "Alias")
    assert not _stops(dataclasses.replace(spec, prompt={"vllm.parser": ("Alias",)}), modules, tmp_path)


def test_a_module_or_a_definition_of_another_version(tmp_path: Path) -> None:
    modules = {"vllm.a": "from vllm.new import f\nfrom vllm.old import g\n", "vllm.old": "def g(): return 'old'\n"}
    spec = _spec(
        "vllm.a",
        borrow={"vllm.new": Borrow("v2"), "vllm._g": Borrow("v2", "vllm.old")},
        given={"vllm.old": {"g": "vllm._g"}},
        cut={"vllm._g": Cut()},
    )
    later = {"vllm": "", "vllm.new": "def f(): ...\n", "vllm.old": "import torch\ndef g(): return 'new'\n"}
    built = _survey(spec, modules, tmp_path, v2=later)
    assert not built.stops
    assert built.modules["vllm.new"].text == later["vllm.new"]
    assert built.modules["vllm.old"].text.endswith("\nfrom vllm._g import g  # noqa\n")
    assert "return 'new'" in built.modules["vllm._g"].text
    assert "torch" not in built.modules["vllm._g"].text


def test_a_module_that_moved_is_found_under_both_names(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "own.py").write_text("from vllm.new.place import f\n")
    modules = {"vllm.old": "def f(): ...\n", "vllm.new": ""}
    built = _survey(_spec("vllm.new.place:f", "vllm.own", moved={"vllm.new.place": "vllm.old"}), modules, tmp_path)
    assert not built.stops
    assert "('vllm.old', 'f')" in built.modules["vllm.new.place"].text
    assert built.modules["vllm.own"].text == "from vllm.old import f\n"


def test_a_package_that_moved_is_one_entry(tmp_path: Path) -> None:
    """Tables, core and the slice keep its name; what upstream left behind at the old place does not count."""
    own = {
        "__init__": "",
        "tool_parsers/__init__": "_TOOL_PARSERS_TO_REGISTER = {}\n",
        "reasoning/__init__": "_REASONING_PARSERS_TO_REGISTER = {}\n",
        "user": "from vllm.frontend.api.deep.place import f\nfrom vllm.api.left import g\n",
        "api/__init__": "",
        "api/left": "def g(): ...\n",
        "api/deep/__init__": "",
        "api/deep/place": "from vllm.frontend.api.deep.place import f\n",
        "frontend/__init__": "",
        "frontend/api/__init__": "",
        "frontend/api/deep/__init__": "",
        "frontend/api/deep/place": "from vllm.frontend.api.deep.other import h\ndef f(): return h()\ndef unused(): ...\n",
        "frontend/api/deep/other": "from .place import f as g\ndef h(): ...\n",
    }
    files = {f"vllm/{name}.py": text.encode() for name, text in own.items()}
    moved = _spec(
        "vllm.user",
        "vllm.api.deep.place:f",
        version="0.34.0",
        vendored={},
        packages={"vllm.api": "vllm.frontend.api"},
        cut={"vllm.api.deep.place": Cut()},
    )
    given = upstream(moved, _wheel(tmp_path, "0.34.0", files))
    built = collect(moved, given, HandModules("0.34.0", tmp_path))
    assert not built.stops
    assert {name for name in built.modules if "frontend" in name} == set()
    assert built.modules["vllm.user"].text.startswith("from vllm.api.deep.place import f\n")
    assert built.modules["vllm.api.deep.place"].kind == "slice+redirect"
    assert "unused" not in built.modules["vllm.api.deep.place"].text
    assert "def g" in built.modules["vllm.api.left"].text


def test_a_hand_module_stops_until_its_original_was_looked_at(tmp_path: Path) -> None:
    """And the version's own file comes before the one for all."""
    spec = _spec("vllm.a")
    (tmp_path / spec.version / "vllm").mkdir(parents=True)
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "a.py").write_text("x = 'for all'\n")
    own = tmp_path / spec.version / "vllm" / "a.py"
    own.write_text("x = 'own'\n")
    modules = {"vllm.a": "x = 'upstream'\n"}
    (stop,) = _stops(spec, modules, tmp_path)
    assert isinstance(stop, OriginalChanged)
    assert stop.digest == hashlib.sha256(b"x = 'upstream'\n").hexdigest()
    HandModules(spec.version, tmp_path).accept(stop, "vllm 0.33.0")
    assert own.read_text() == f"x = 'own'\n\n# replaces vllm 0.33.0: sha256:{stop.digest}\n"
    built = _survey(spec, modules, tmp_path)
    assert not built.stops
    assert built.modules["vllm.a"].text == "x = 'own'\n"
    assert _stops(spec, {"vllm.a": "x = 'changed'\n"}, tmp_path)


def test_a_delta_must_not_outlive_its_reason() -> None:
    spec = _spec("vllm.a:f,g", cut={"vllm.heavy": Cut()})
    assert spec.but(drop={"roots": {"vllm.a:g"}}).roots == ("vllm.a:f",)
    assert spec.but(drop={"cut": {"vllm.heavy"}}).cut == {}
    for wrong in ({"cut": {"vllm.gone"}}, {"roots": {"vllm.a:h"}}, {"roots": {"vllm.b"}}):
        with pytest.raises(KeyError, match="to drop"):
            spec.but(drop=wrong)


def test_two_builds_give_the_same_bytes(upstream_of: Callable[[str], Upstream], tmp_path: Path) -> None:
    first = build(specification(NEWEST), upstream_of(NEWEST), tmp_path / "one")
    # In another process, with another order of hashing.
    command = [sys.executable, "-m", "infra.slice", "build", "--out", str(tmp_path / "two")]
    environment = {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "PATH": "", "HOME": str(Path.home())}
    subprocess.run(command, check=True, cwd=ROOT, env=environment)
    second = tmp_path / "two" / first.wheel.name
    assert first.wheel.read_bytes() == second.read_bytes()
    assert first.wheel.name == f"vllm-{SLICE_VERSION}-py3-none-any.whl"


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def slice_wheel(
    version: str, upstream_of: Callable[[str], Upstream], tmp_path_factory: pytest.TempPathFactory
) -> zipfile.ZipFile:
    built = build(specification(version), upstream_of(version), tmp_path_factory.mktemp("slice"))
    return zipfile.ZipFile(built.wheel)


def test_wheel_is_complete(version: str, slice_wheel: zipfile.ZipFile) -> None:
    names = set(slice_wheel.namelist())
    info = f"vllm-{specification(version).slice_version}.dist-info"
    assert f"{info}/licenses/vllm/LICENSE" in names
    assert f"{info}/licenses/openai/LICENSE" in names
    assert f"{info}/licenses/xgrammar/LICENSE" in names
    assert "Apache License" in slice_wheel.read(f"{info}/licenses/vllm/LICENSE").decode()
    compiled = {
        f"{name.replace('.', '/')}/{machine}.abi3.so"
        for name in specification(version).compiled
        for machine in MACHINES
    }
    assert {name for name in names if name.endswith((".so", ".pyc"))} == compiled
    assert {name.split("/")[0] for name in names} == {"vllm", info}
    record = slice_wheel.read(f"{info}/RECORD").decode()
    for line in record.splitlines():
        path, digest, size = line.rsplit(",", 2)
        if path != f"{info}/RECORD":
            data = slice_wheel.read(path)
            expected = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={expected}", str(len(data)))
    assert {line.rsplit(",", 2)[0] for line in record.splitlines()} == names


def test_set_up_slice_is_this_build(version: str, slice_wheel: zipfile.ZipFile) -> None:
    """The other tests run what `make slices` has set up: it must be what the sources here build."""
    names = [name for name in slice_wheel.namelist() if name.startswith("vllm/")]
    if version == NEWEST:
        installed = InstalledArchive("vllm")
        assert installed.version == SLICE_VERSION
        for name in names:
            assert installed.read(name) == slice_wheel.read(name), f"{name}: reinstall the slice"
    else:
        folder = ROOT / "build" / "slices" / version
        for name in names:
            assert (folder / name).read_bytes() == slice_wheel.read(name), f"{name}: `make slices`"


def test_copied_modules_equal_upstream(
    version: str, slice_wheel: zipfile.ZipFile, upstream_of: Callable[[str], Upstream]
) -> None:
    contents = json.loads(slice_wheel.read("vllm/_slice/contents.json"))
    copied = [name for name, kind in contents["modules"].items() if kind == "copy" and "._slice" not in name]
    assert len(copied) > 100
    upstream = upstream_of(version).vllm
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
        upstream(specification("0.33.0"), wheel)
    with pytest.raises(SourceError, match=r"0\.34\.0.*there are: 0\.33\.0, "):
        specification("0.34.0")


def test_another_version_of_a_vendored_package_is_refused() -> None:
    """Else the slice would change with a lock, under the same version."""
    spec = dataclasses.replace(specification(NEWEST), vendored={"openai": "1.0.0"})
    with pytest.raises(SourceError, match=r"for openai 1\.0\.0"):
        upstream(spec)


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
