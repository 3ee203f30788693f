"""What a check tells of a version, and what it drafts: upstream code given as wheels of a few modules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from infra.slice.build import Upstream
from infra.slice.check import check, compared, lines
from infra.slice.draft import used_by_core
from infra.slice.errors import SourceError
from infra.slice.sources import Mount, Sources, WheelArchive
from infra.slice.spec import Specification
from infra.slice.versions import NEWEST
from infra.slice.wheel import write_wheel

TOOLS = "_TOOL_PARSERS_TO_REGISTER = {{{}}}\n"
CALLS = "vllm.entrypoints.serve.utils.tool_calls_utils"
RENDERERS = "from vllm.renderers.params import ChatParams, ReasoningEffort, TokenizeParams, map_reasoning_effort, merge_kwargs\n"


def wheel(folder: Path, version: str, modules: dict[str, str]) -> WheelArchive:
    files = {"__init__": "", "reasoning/__init__": "_REASONING_PARSERS_TO_REGISTER = {}\n", **modules}
    folder.mkdir(exist_ok=True)
    contents = {f"vllm/{name}.py": text.encode() for name, text in files.items()}
    return WheelArchive(write_wheel(folder, "vllm", version, "Metadata-Version: 2.4\nName: vllm\n", contents))


def given(
    folder: Path, version: str, modules: dict[str, str], before: dict[str, str]
) -> Callable[[Specification], Upstream]:
    def of(spec: Specification) -> Upstream:
        archive = wheel(folder / "now", version, modules)
        older = Sources([Mount(wheel(folder / "before", NEWEST, before), "vllm", "vllm")])
        return Upstream(archive, lambda machine: archive, {}, lambda version: older)

    return of


def of(tmp_path: Path, modules: dict[str, str], before: dict[str, str] | None = None) -> list[str]:
    """The lines of a check of a version that has no tables yet."""
    tools = {"tool_parsers/__init__": TOOLS.format("")}
    return list(lines(check("0.34.0", given(tmp_path, "0.34.0", {**tools, **modules}, {**tools, **(before or {})}))))


def test_all_is_told_at_once_with_its_place(tmp_path: Path) -> None:
    told = of(tmp_path, {})
    assert told[0] == f"no tables for vllm 0.34.0: those of {NEWEST} were tried"
    missing = [line for line in told if "does not exist upstream" in line]
    assert len(missing) > 20
    assert all("infra/slice/versions/v0_33.py:" in line for line in missing)
    assert any(line.endswith(" stops") for line in told)


def test_parsers_that_are_new_and_gone_are_told(tmp_path: Path) -> None:
    now = {"tool_parsers/__init__": TOOLS.format('"b": ("b", "B"), "c": ("c", "C")')}
    before = {"tool_parsers/__init__": TOOLS.format('"a": ("a", "A"), "b": ("b", "B")')}
    told = of(tmp_path, now, before)
    assert "new tool parsers: c" in told
    assert "gone tool parsers: a" in told
    assert "gone reasoning parsers: none" in told


def test_the_draft_is_a_file_whose_tables_load(tmp_path: Path) -> None:
    """What is mechanical is data in it: it can be built upon without an edit."""
    modules = {"utils/__init__": "import torch\n", "renderers/__init__": RENDERERS}
    modules |= {
        "entrypoints/__init__": "",
        "entrypoints/serve/utils/__init__": "",
        "entrypoints/serve/utils/tool_calls_utils": "",
    }
    told = "\n".join(of(tmp_path, modules))
    text = told.partition("a draft of its tables:\n")[2]
    names: dict[str, Specification] = {}
    exec(compile(text, "v0_34.py", "exec"), names)
    made = names["SPECIFICATION"]
    assert (made.version, made.revision) == ("0.34.0", 1)
    # Nothing in core uses it; what core uses is left to whoever reads this.
    assert "vllm.renderers:ChatParams,TokenizeParams,merge_kwargs,map_reasoning_effort,ReasoningEffort" in made.roots
    assert any(root.startswith(f"{CALLS}:resolve_finish_reason") for root in made.roots)
    assert f"# to decide: {CALLS}:resolve_finish_reason, which core/upstream/parsers.py:" in text
    assert "torch" not in made.third_party


def test_where_core_uses_something() -> None:
    place = used_by_core("resolve_finish_reason")
    assert place is not None
    assert place.startswith("core/upstream/parsers.py:")
    assert used_by_core("chat_top_logprobs_limit") is None


def test_what_changed_upstream_is_shown(tmp_path: Path) -> None:
    modules, before = {"config": "a = 1\nb = 2\n"}, {"config": "a = 1\n"}
    tools = {"tool_parsers/__init__": TOOLS.format("")}
    made = given(tmp_path, "0.34.0", {**tools, **modules}, {**tools, **before})
    shown = list(compared("0.34.0", "vllm.config", made(None)))  # type: ignore[arg-type]
    assert shown[:2] == [f"--- vllm.config, vllm {NEWEST}", "+++ vllm.config, vllm 0.34.0"]
    assert shown[-1] == "+b = 2"


def test_a_version_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not a released version"):
        check("next", given(tmp_path, "0.34.0", {}, {}))
