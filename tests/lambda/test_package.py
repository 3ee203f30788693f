"""What is in the artefacts: the right machine code, everything that runs, and nothing else."""

from __future__ import annotations

import ast
import json
import os
import re
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.emulator import Runtime
from infra.package.__main__ import main
from infra.package.binaries import check_binary, check_libraries, is_binary, needed_libraries, read_binary
from infra.package.build import ROOT, Artefact, Workshop
from infra.package.bytecode import bytecode_name
from infra.package.errors import PackageError
from infra.package.functions import FUNCTIONS, SERVER, Function
from infra.package.reach import data_files, reachable
from infra.package.target import TARGETS, Target, find_target, host_target

BuildOf = Callable[[str, Target], Artefact]
# CPython 3.13's bytecode, of every patch release.
MAGIC_3_13 = struct.pack("<H2s", 3571, b"\r\n")
MEGABYTES = {"derender": 60, "render": 100, "render-images": 150, "relay": 100}
CLIENT_AND_SERVER = {"httpx", "httpcore", "h11", "certifi", "uvicorn", "click"}
every = pytest.mark.parametrize(
    ("function", "target"),
    [(function, target) for function in FUNCTIONS for target in TARGETS],
    ids=[f"{function.name}-{target.name}" for function in FUNCTIONS for target in TARGETS],
)


def contents(artefact: Artefact) -> dict[str, bytes]:
    with zipfile.ZipFile(artefact.archive) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@every
def test_every_compiled_file_is_for_the_target(artefact_of: BuildOf, function: Function, target: Target) -> None:
    binaries = {name: data for name, data in contents(artefact_of(function.name, target)).items() if is_binary(data)}
    extensions = 0
    for name, data in binaries.items():
        binary = read_binary(name, data)
        assert binary.machine == target.machine, name
        assert binary.glibc <= (2, 34), f"{name} does not start on Amazon Linux 2023"
        if binary.is_extension:
            extensions += 1
            assert binary.abi in ("abi3", "cpython-313"), name
            assert binary.abi == "abi3" or binary.triple == target.triple, name
    check_libraries(binaries)
    assert extensions >= 6, "tokenizers, pydantic_core, orjson, regex, msgspec, markupsafe at least"


@every
def test_nothing_that_does_not_run_is_there(artefact_of: BuildOf, function: Function, target: Target) -> None:
    names = list(contents(artefact_of(function.name, target)))
    tops = {name.split("/")[0] for name in names}
    heavy = {"torch", "transformers", "triton", "boto3", "botocore", "pytest", "infra", "tests"}
    assert not heavy & tops
    images = {"numpy", "PIL", "blake3"}
    reads = "core/images/", "handlers/image", "handlers/media_fetch"
    assert images & tops == (images if function.name == "render-images" else set())
    assert any(name.startswith(reads) for name in names) == (function.name == "render-images")
    assert not any("pillow" in name.lower() for name in names) or function.name == "render-images"
    assert CLIENT_AND_SERVER & tops == (CLIENT_AND_SERVER if function.name == "relay" else set())
    assert ("mangum" in tops) == (function.name != "relay"), "the relay is a server of its own"
    assert {"xgrammar", "tvm_ffi"} & tops == (set() if function.name == "derender" else {"xgrammar", "tvm_ffi"})
    ours = [name for name in names if name.startswith(("core/", "handlers/")) and name.endswith(".py")]
    assert "handlers/app.py" in ours
    assert not any(re.search(r"(^|/)tests?/|/test_|testclient|conftest", name) for name in names)
    licences = re.compile(r"(\.dist-info/|(^|/)LICENSE|THIRD_PARTY_NOTICES\.md$)")
    code = [name for name in names if not licences.search(name)]
    assert not any(name.endswith((".pyi", ".h", ".cc", ".c", ".md")) for name in code)
    others = {"render", "derender", "relay"} - {function.name.removesuffix("-images")}
    assert not any(f"handlers/{other}_endpoints.py" in ours for other in others)
    relays = [
        name for name in ours if name.startswith("core/relay/") and not name.endswith(("__init__.py", "errors.py"))
    ]
    assert bool(relays) == (function.name == "relay")
    # Render reads the last output of a conversation that continues as derender does.
    assert any(name.startswith("core/derender/stream") for name in ours) == (function.name == "derender")
    doors = {name.rpartition("/")[2] for name in ours if name.startswith("core/dialects/chat/")} - {"__init__.py"}
    assert doors == {f"{door}.py" for door in function.doors}
    assert "handlers/auth.py" in ours, "any function may be given keys"


@every
def test_sizes(artefact_of: BuildOf, function: Function, target: Target) -> None:
    artefact = artefact_of(function.name, target)
    assert artefact.unzipped == sum(map(len, contents(artefact).values()))
    assert artefact.unzipped <= MEGABYTES[function.name] * 1_000_000


@every
def test_every_module_is_precompiled_for_3_13(artefact_of: BuildOf, function: Function, target: Target) -> None:
    files = contents(artefact_of(function.name, target))
    sources = [name for name in files if name.endswith(".py")]
    assert len(sources) > 500
    for name in sources:
        code = files[bytecode_name(name)]
        assert code[:4] == MAGIC_3_13, name
        assert struct.unpack("<I", code[4:8])[0] == 0b01, f"{name}: used without a look at its source"
        assert str(ROOT).encode() not in code, f"{name} tells where it was built"


@pytest.mark.parametrize("function", FUNCTIONS[1:], ids=lambda function: function.name)
def test_the_same_sources_give_the_same_bytes(artefact_of: BuildOf, tmp_path: Path, function: Function) -> None:
    target = TARGETS[0]
    again = Workshop(cache=tmp_path / "elsewhere").build(function, target)
    assert again.archive.read_bytes() == artefact_of(function.name, target).archive.read_bytes()


def test_only_a_script_may_be_run(artefact_of: BuildOf) -> None:
    for function in FUNCTIONS:
        artefact = artefact_of(function.name, TARGETS[0])
        with zipfile.ZipFile(artefact.archive) as archive:
            runnable = [entry.filename for entry in archive.infolist() if entry.external_attr >> 16 & 0o111]
        assert runnable == ([function.start] if function.start else [])
        assert all(os.access(artefact.unpacked() / name, os.X_OK) for name in runnable)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_licences_are_shipped(artefact_of: BuildOf, function: Function) -> None:
    files = contents(artefact_of(function.name, TARGETS[0]))
    assert "Apache License" in files["LICENSE"].decode()
    notices = files["THIRD_PARTY_NOTICES.md"].decode()
    distributions = {name.split("/")[0] for name in files if ".dist-info/" in name}
    assert len(distributions) > 20
    without = set()
    for folder in distributions:
        package = folder.split("-")[0]
        assert re.search(rf"(?i)\b{package.replace('_', '[-_.]')}\b", notices), package
        if not any(re.match(rf"{re.escape(folder)}/.*(LICEN[CS]E|NOTICE|COPYING)", name, re.I) for name in files):
            without.add(package)
    # Their wheels hold none; the notices say so.
    assert without <= {"tokenizers", "mangum", "partial_json_parser"}
    if function.name != "derender":
        assert any(name.startswith("tvm_ffi/3rdparty/") for name in files), "the licences of what a library contains"


@pytest.mark.parametrize("name", [function.name for function in FUNCTIONS])
def test_every_module_of_ours_and_the_slice_can_be_loaded(artefact_of: BuildOf, runtime: Runtime, name: str) -> None:
    """By the target's Python, with nothing but the artefact: no module that is loaded late is missing."""
    artefact = artefact_of(name, runtime.target)
    code = """
import importlib, json, os, sys
sys.path.insert(0, os.getcwd())
failed = {}
try:
    importlib.import_module("vllm._slice.xgrammar").Grammar  # its modules ask for this order
except ImportError:
    pass
for top in ("core", "handlers", "vllm"):
    for folder, _, files in os.walk(top):
        for file in files:
            if file.endswith(".py") and not folder.endswith("__pycache__"):
                module = os.path.join(folder, file)[:-3].replace(os.sep, ".").removesuffix(".__init__")
                if module in ("handlers.render", "handlers.render_images", "handlers.derender", "handlers.relay"):
                    continue  # these load a model
                try:
                    importlib.import_module(module)
                except Exception as exc:
                    failed[module] = f"{type(exc).__name__}: {exc}"
print(json.dumps(failed))
"""
    done = subprocess.run(
        [str(runtime.python), "-S", "-c", code], cwd=artefact.unpacked(), capture_output=True, text=True, check=True
    )
    failed: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    # The slice refuses, on purpose, what it was cut off from.
    denied = "is not part of the vLLM slice"
    missing = {
        module: why for module, why in failed.items() if denied not in why and not _is_left_out(module, why, name)
    }
    assert missing == {}


def test_the_packaged_grammar_library_works(artefact_of: BuildOf, runtime: Runtime) -> None:
    code = """
import os, sys
sys.path.insert(0, os.getcwd())
from vllm._slice.xgrammar import Grammar
print("yes" in str(Grammar.from_ebnf('root ::= "yes" | "no"')))
try:
    Grammar.from_ebnf("root ::= (")
except Exception as exc:
    print("EBNF" in str(exc))
"""
    folder = artefact_of("render", runtime.target).unpacked()
    command = [str(runtime.python), "-S", "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"], done.stderr


def _is_left_out(module: str, why: str, function: str) -> bool:
    """What the slice holds and no deployment of this function can use."""
    if re.search(r"xgrammar|tvm_ffi", why):
        return function == "derender"
    if module in ("vllm.parser.cohere_command", "vllm.utils.torch_utils"):
        return "cohere-melody" in why or "numpy" in why  # a parser that needs a package of its vendor; arrays
    return module.startswith("core.bundle.s3") and "boto" in why


def test_what_a_function_reaches_is_what_its_imports_name() -> None:
    found = reachable("handlers.derender", ROOT)
    assert "core.derender.chat" in found
    assert "core.bundle.s3" in found, "an import inside a function counts"
    assert "core" in found, "the packages above a module count"
    assert not any(name.startswith(("infra", "tests", "derender_client")) for name in found)
    for name, path in found.items():
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "__import__"), name


def test_the_playground_goes_with_the_server_and_with_no_function() -> None:
    found = {one.name: reachable(one.module, ROOT, one.doors) for one in (*FUNCTIONS, SERVER)}
    assert [name for name, modules in found.items() if "handlers.playground.endpoints" in modules] == ["serve"]
    pages = {path.name for path in data_files(found["serve"])}
    assert pages == {"page.html", "page.css", "page.js", "examples.json"}
    assert not any(data_files(modules) for name, modules in found.items() if name != "serve")


def elf(machine: int, body: bytes = b"") -> bytes:
    return b"\x7fELF\x02\x01\x01" + b"\0" * 11 + struct.pack("<H", machine) + body


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a/x.cpython-313-x86_64-linux-gnu.so", elf(62), "ELF machine 62"),
        ("a/x.cpython-311-aarch64-linux-gnu.so", elf(183, b"\0PyInit_x\0"), "cpython-311"),
        ("a/x.cpython-313t-aarch64-linux-gnu.so", elf(183, b"\0PyInit_x\0"), "cpython-313t"),
        ("a/x.so", elf(183, b"\0PyInit_x\0"), "unnamed ABI"),
        ("a/x.cpython-313-x86_64-linux-gnu.so", elf(183), "named for x86_64"),
        ("a/x.abi3.so", elf(183, b"\0PyInit_x\0GLIBC_2.17\0GLIBC_2.38\0"), "glibc 2.38"),
    ],
)
def test_a_file_for_another_platform_is_refused(name: str, data: bytes, words: str) -> None:
    arm = find_target("arm64")
    assert arm is not None
    with pytest.raises(PackageError, match=re.escape(words)):
        check_binary(name, data, arm)
    check_binary("lib/libx.so.1", elf(183, b"\0GLIBC_2.17\0"), arm)


def test_a_library_that_is_missing_is_found(artefact_of: BuildOf) -> None:
    binaries = {name: data for name, data in contents(artefact_of("render", TARGETS[0])).items() if is_binary(data)}
    core = next(name for name in binaries if name.startswith("tvm_ffi/core."))
    assert {"libtvm_ffi.so", "libc.so.6"} < set(needed_libraries(binaries[core]))
    del binaries["tvm_ffi/lib/libtvm_ffi.so"]
    with pytest.raises(PackageError, match=r"linked with libtvm_ffi\.so"):
        check_libraries(binaries)


def test_a_model_can_be_packaged(models_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = host_target()
    assert host is not None
    arguments = ["--function", "derender", "--arch", host.name, "--out", str(tmp_path)]
    # A cache of its own: the other tests' artefacts stay.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("infra.package.build.Workshop.__init__.__defaults__", (ROOT, tmp_path / "cache", None, False))
        assert main([*arguments, "--model", str(models_dir / "qwen3")]) == 0
    printed = capsys.readouterr().out
    assert f"derender-{host.name}.zip" in printed
    with zipfile.ZipFile(tmp_path / f"derender-{host.name}.zip") as archive:
        assert "model/derender-manifest.json" in archive.namelist()
    record = json.loads((tmp_path / "package.json").read_text())
    assert record["artefacts"][0]["model"] is True
    assert record["python"].startswith("3.13.")


def test_a_missing_interpreter_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from infra.package import interpreter

    monkeypatch.setenv("DERENDER_BUILD_PYTHON", "/nowhere/python3.13")
    interpreter.find_interpreter.cache_clear()
    try:
        with pytest.raises(PackageError, match=r"uv python install 3\.13"):
            interpreter.find_interpreter()
    finally:
        interpreter.find_interpreter.cache_clear()
