"""What must make a comparison with full vLLM fail, above all where both sides agree."""

from __future__ import annotations

import base64
import copy
import hashlib
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.slice.sources import WheelArchive
from infra.slice.versions import NEWEST
from tests.golden import corpus
from tests.golden.corpus import Case, Json
from tests.golden.verdict import expected
from tests.parity.__main__ import main
from tests.parity.parsers import OWN_FAULTS, Results, compare
from tests.parity.reference import PYTHON, PYTHONPATH, Reference, find_reference, require_full, unpacked
from tests.parity.servers import Tally, tally
from tests.slice.parity.compare import read

DATA = Path(__file__).parents[1] / "slice" / "data"
ERRORS = ("ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "RuntimeError", "NameError")


PAIRS = ("hermes|None", "None|qwen3", "hermes|qwen3", "openai|openai_gptoss")


@pytest.fixture(scope="module")
def recorded() -> Results:
    """What full vLLM gave for a few parsers, and a little of all else."""
    whole = read(DATA / f"full-vllm-{NEWEST}.jsonl.gz")
    other = [name for name in whole if not name.startswith(("compose", "parse", "stream", "adjust", "responses"))]
    some = {name.split()[0]: name for name in other}.values()
    words = {name: name.split() for name in whole}
    return {
        name: whole[name]
        for name in whole
        if name in some or words[name][3 if words[name][0] == "stream" else 1] in PAIRS
    }


def changed(results: Results, wanted: Callable[[str], bool], result: Json) -> Results:
    """The results with another one in the cases that are wanted, of which there must be some."""
    names = [name for name in results if wanted(name)]
    assert names
    return {**results, **dict.fromkeys(names, result)}


# -- parsers ----------------------------------------------------------------------------------------------------------


def test_what_full_vllm_gives_agrees_with_itself(recorded: Results) -> None:
    assert compare(recorded, copy.deepcopy(recorded)).agrees


def test_a_difference_is_told(recorded: Results) -> None:
    name = next(name for name in recorded if name.startswith("parse hermes|None"))
    for ours in ({**recorded, name: ["other"]}, {key: recorded[key] for key in recorded if key != name}):
        comparison = compare(recorded, ours)
        assert not comparison.agrees
        assert [row.different for row in comparison.rows if row.different] == [[name]]
        assert name in comparison.told(20)


def test_nothing_compared_is_no_agreement() -> None:
    assert not compare({}, {}).agrees


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("part", ["parse", "stream", "adjust", "responses", "render", "harmony", "protocol"])
def test_an_error_of_code_on_both_sides_is_told(recorded: Results, error: str, part: str) -> None:
    names = [name for name in recorded if name.startswith(part)]
    for failed in ({"error": f"{error}: no such"}, [1, {"error": f"{error}: x"}], {"a": [{"error": f"{error}: x"}]}):
        results = {**recorded, names[-1]: failed}
        comparison = compare(results, results)
        assert [row.broken for row in comparison.rows if row.broken] == [[names[-1]]]
        assert not comparison.agrees
        assert any(error in line for line in comparison.told(20))


@pytest.mark.parametrize(
    "result", [{"error": "ValueError: no"}, {"error": "NotImplementedError: a stub"}, ["TypeError: x"]]
)
def test_what_a_parser_answers_is_no_error_of_code(recorded: Results, result: Json) -> None:
    name = next(name for name in recorded if name.startswith("parse hermes|None"))
    results = {**recorded, name: result}
    assert compare(results, results).agrees


@pytest.mark.parametrize(("part", "parser"), OWN_FAULTS)
def test_a_fault_of_vllms_own_is_named_for_its_parser_alone(recorded: Results, part: str, parser: str) -> None:
    error = OWN_FAULTS[part, parser]
    names = [name for name in recorded if name.startswith(f"{part} ")]
    own, other = f"{part} {parser}|None families fields 0 choice 0", names[0]
    assert parser not in other
    # With nothing but errors, the parser would be one that answers nowhere.
    recorded = {**recorded, own.replace("choice 0", "choice 1"): recorded[other]}
    assert compare(failing := {**recorded, own: {"error": error}}, failing).agrees
    assert not compare(failing := {**recorded, own: {"error": f"{error} x"}}, failing).agrees
    assert not compare(failing := {**recorded, other: {"error": error}}, failing).agrees


@pytest.mark.parametrize("title", ["hermes|None", "None|qwen3", "hermes|qwen3"])
def test_a_parser_or_pair_that_composes_nowhere_is_told(recorded: Results, title: str) -> None:
    refused = {"error": "TypeError: x cannot be used with the tokenizer of 'y': no token <- ValueError: no token"}
    results = changed(recorded, lambda name: name.startswith(f"compose {title} "), refused)
    comparison = compare(results, results)
    assert not comparison.agrees
    assert len(comparison.composed_nowhere) == 1
    assert comparison.told(20)[-1] == f"full vLLM composes these nowhere: {comparison.composed_nowhere[0]}"


@pytest.mark.parametrize("error", ["TypeError: get_parser() got an unexpected keyword argument", *ERRORS[:3]])
def test_composing_that_fails_alike_in_one_folder_is_told(recorded: Results, error: str) -> None:
    results = changed(recorded, lambda name: name == "compose hermes|None llama3", {"error": error})
    assert not compare(results, results).agrees
    around = f"TypeError: x cannot be used with the tokenizer of 'y': z <- {error}"
    results = changed(recorded, lambda name: name == "compose hermes|None llama3", {"error": around})
    assert not compare(results, results).agrees


def test_a_parser_that_only_refuses_is_told(recorded: Results) -> None:
    """vLLM keeps the parsers of harmony on one class, so that one composed later once made all of them refuse."""
    refused = {"error": "ValueError: Harmony requires GptOssReasoningParser, got another."}
    ours = changed(
        recorded, lambda name: "openai|openai_gptoss" in name and name.startswith(("parse", "stream")), refused
    )
    comparison = compare(ours, ours)
    assert (comparison.agrees, comparison.answering_nowhere) == (False, ["openai + openai_gptoss"])


# -- what full vLLM is ------------------------------------------------------------------------------------------------


def test_a_slice_is_no_reference() -> None:
    with pytest.raises(ValueError, match="imports a slice of vLLM"):
        require_full(Reference(sys.executable, ""), NEWEST)


def test_another_version_is_no_reference(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").touch()
    (tmp_path / "vllm" / "version.py").write_text('__version__ = "0.32.0+cpu"\n')
    require_full(Reference(sys.executable, str(tmp_path)), "0.32.0")
    with pytest.raises(ValueError, match=r"imports vLLM 0\.32\.0\+cpu, wanted is 0\.33\.0"):
        require_full(Reference(sys.executable, str(tmp_path)), "0.33.0")


def test_the_command_compares_no_slice_with_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(PYTHON, sys.executable)
    monkeypatch.setenv(PYTHONPATH, "")
    assert main(["--only", "parsers", "--sample"]) == 2
    assert "which is no reference" in capsys.readouterr().err


def test_a_python_that_is_not_there_is_told() -> None:
    with pytest.raises(FileNotFoundError, match="no Python at /nowhere/python"):
        find_reference({PYTHON: "/nowhere/python"}, Path("python"))


def wheel(path: Path, files: dict[str, bytes]) -> WheelArchive:
    """A wheel with a RECORD of its files."""
    sums = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=") for name, data in files.items()}
    record = "".join(f"{name},sha256={value.decode()},{len(files[name])}\n" for name, value in sums.items())
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**files, "vllm-9.0.0.dist-info/RECORD": record.encode()}.items():
            archive.writestr(name, data)
    return WheelArchive(path)


KEPT = {
    "vllm/__init__.py": b"",
    "vllm/_rust_tool_parser.abi3.so": b"a parser",
    "vllm/tool_parsers/_minimax.cpython-313-x86_64-linux-gnu.so": b"a parser",
    "vllm-9.0.0.dist-info/METADATA": b"",
}
KERNELS = (
    "vllm/_C.abi3.so",
    "vllm/_moe_C_stable_libtorch.abi3.so",
    "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so",
    "vllm/third_party/deep_gemm/_C_extension.abi3.so",
    "vllm/cumem_allocator.abi3.so",
    "vllm/vllm-rs",
)


def test_the_full_side_keeps_compiled_parsers(tmp_path: Path) -> None:
    published = wheel(tmp_path / "vllm-9.0.0-cp38-abi3-any.whl", {**KEPT, **dict.fromkeys(KERNELS, b"kernel")})
    out = unpacked(published, tmp_path)
    assert {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()} == KEPT


def test_an_unpacking_that_lacks_a_compiled_parser_is_done_again(tmp_path: Path) -> None:
    published = wheel(tmp_path / "vllm-9.0.0-cp38-abi3-any.whl", KEPT)
    parser = unpacked(published, tmp_path) / "vllm" / "_rust_tool_parser.abi3.so"
    parser.unlink()
    unpacked(published, tmp_path)
    assert parser.read_bytes() == b"a parser"


# -- servers ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """A one-shot case, a stream through a parser and a stream without, as recorded."""
    found = corpus.load()
    parsed = next(case for case in found if "stream" in case and corpus.through_parser(case))
    plain = next(case for case in found if "stream" in case and not corpus.through_parser(case))
    return [next(case for case in found if case["id"] == "misc.get.version"), parsed, plain]


def answered(cases: list[Case], number: int | None = None, status: int = 418) -> list[Json]:
    """The recorded answers, one of them with another status at its end."""
    answers = [copy.deepcopy(expected(case)) for case in cases]
    if number is not None:
        last = answers[number][-1] if isinstance(answers[number], list) else answers[number]
        last["status"] = status
    return answers


def found(made: Tally) -> list[int]:
    """How many answers were not accepted: vLLM's and ours by the recording, ours by vLLM's, and failed."""
    return [len(told) for told in made.reports.values()]


def test_servers_that_answer_as_recorded_agree(cases: list[Case]) -> None:
    assert found(tally("x", cases, answered(cases), answered(cases), ())) == [0, 0, 0, 0]


@pytest.mark.parametrize("number", range(3))
def test_ours_is_compared_with_the_recording_and_with_theirs(cases: list[Case], number: int) -> None:
    assert found(tally("x", cases, answered(cases), answered(cases, number), ())) == [0, 1, 1, 0]


@pytest.mark.parametrize("number", range(3))
def test_a_recording_that_is_wrong_is_told_though_ours_follows_it(cases: list[Case], number: int) -> None:
    assert found(tally("x", cases, answered(cases, number), answered(cases), ())) == [1, 0, 1, 0]


@pytest.mark.parametrize("number", range(3))
def test_two_servers_that_are_wrong_alike_are_told(cases: list[Case], number: int) -> None:
    assert found(tally("x", cases, answered(cases, number), answered(cases, number), ())) == [1, 1, 0, 0]


@pytest.mark.parametrize("number", range(3))
def test_two_servers_that_fail_alike_are_told(cases: list[Case], number: int) -> None:
    """Even where a recording were made of them."""
    failed = answered(cases, number, status=500)
    wrong = [
        {**case, "stream": {**case["stream"], "responses": answer}}
        if "stream" in case
        else {**case, "response": answer}
        for case, answer in zip(cases, failed, strict=True)
    ]
    assert found(tally("x", wrong, failed, copy.deepcopy(failed), ())) == [0, 0, 0, 2]


def test_a_deviation_is_accepted_from_both_and_must_be_there(cases: list[Case]) -> None:
    from core.upstream.version import slice_version

    ours = answered(cases)
    ours[0]["body"]["slice"] = slice_version()
    made = tally("x", cases, answered(cases), ours)
    assert (found(made), made.deviations) == ([0, 0, 0, 0], 1)
    assert found(tally("x", cases, answered(cases), answered(cases))) == [0, 1, 1, 0]
