"""The slice against results recorded from full vLLM: every parser, one-shot and streamed, requests, rendering.

`parity/probe.py --sample` made the recording, run with full vLLM; here it runs with the slice. All tool and reasoning
parsers are composed with every model folder; where a tokenizer lacks a parser's tokens, vLLM's own reason is compared.
"""

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from infra.slice.versions import NEWEST, VERSIONS
from tests.parity.parsers import compare
from tests.parity.probes import slice_environ
from tests.slice.parity.compare import first_difference, read

HERE = Path(__file__).parent
RECORDED = {version: read(HERE / "data" / f"full-vllm-{version}.jsonl.gz") for version in VERSIONS}

pytestmark = pytest.mark.xdist_group("slice-parity")


def _groups() -> list[tuple[str, str]]:
    """Version and part of the recorded cases; for the default version parsers (or model folder) as well."""
    groups = dict.fromkeys(
        (version, _group(version, name)) for version, recorded in RECORDED.items() for name in recorded
    )
    return list(groups)


def _group(version: str, name: str) -> str:
    words = name.split()
    if version != NEWEST:
        return words[0]
    return f"stream {words[3]}" if words[0] == "stream" else " ".join(words[:2])


@pytest.fixture(scope="session")
def measured(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """What the slice of a version gives, run once in a process of its own."""
    folder = tmp_path_factory.mktemp("parity")

    @cache
    def run(version: str) -> dict[str, Any]:
        out = folder / f"{version}.jsonl.gz"
        command = [sys.executable, str(HERE / "parity" / "probe.py"), "--sample"]
        command += ["--models", str(models_dir), "--out", str(out)]
        subprocess.run(command, check=True, timeout=600, env=slice_environ(version))
        return read(out)

    return run


@pytest.mark.parametrize(("version", "group"), _groups())
def test_same_as_full_vllm(version: str, group: str, measured: Callable[[str], dict[str, Any]]) -> None:
    recorded, found = RECORDED[version], measured(version)
    for name in recorded:
        if _group(version, name) == group:
            assert name in found
            if found[name] != recorded[name]:
                pytest.fail(f"{name}: {first_difference(recorded[name], found[name])}")


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_left_out(version: str, measured: Callable[[str], dict[str, Any]]) -> None:
    assert measured(version).keys() == RECORDED[version].keys()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_parser_composes_somewhere_and_nothing_is_broken_alike(version: str) -> None:
    comparison = compare(RECORDED[version], RECORDED[version])
    assert (comparison.composed_nowhere, comparison.answering_nowhere) == ([], [])
    assert [row.title for row in comparison.rows if row.broken] == []


def test_every_registered_parser_composes_somewhere() -> None:
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    tools, reasoning = ToolParserManager.list_registered(), ReasoningParserManager.list_registered()
    assert (len(tools), len(reasoning)) == (58, 42)
    names = {f"{tool}|None" for tool in tools} | {f"None|{parser}" for parser in reasoning}
    composed = {key.split()[1] for key, result in RECORDED[NEWEST].items() if isinstance(result, list)}
    assert names <= {key.split()[1] for key in RECORDED[NEWEST] if key.startswith("compose ")}
    # For these, full vLLM wants a response template in the tokenizer's configuration, or a package of Cohere's.
    rest = {name.strip("|").replace("None", "").strip("|") for name in names - composed}
    assert rest == {"beam", "hf", "cohere_command3", "cohere_command4"}


@pytest.mark.parametrize("kind", ["tool", "reasoning"])
def test_every_registered_parser_imports(kind: str) -> None:
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    if kind == "tool":
        for name in ToolParserManager.list_registered():
            assert isinstance(ToolParserManager.get_tool_parser(name), type)
    else:
        for name in ReasoningParserManager.list_registered():
            assert isinstance(ReasoningParserManager.get_reasoning_parser(name), type)
