"""The slice against results recorded from full vLLM: every parser, one-shot and streamed, requests, rendering.

`parity/probe.py --sample` made the recording, run with full vLLM; here it runs with the slice. All tool and reasoning
parsers are composed with every model folder; where a tokenizer lacks a parser's tokens, vLLM's own reason is compared.
"""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.slice.parity.compare import first_difference, read

HERE = Path(__file__).parent
RECORDED = read(HERE / "data" / "full-vllm-0.33.0.jsonl.gz")

pytestmark = pytest.mark.xdist_group("slice-parity")


def _groups() -> dict[str, list[str]]:
    """Case names by part and parsers (or model folder)."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in RECORDED:
        groups[" ".join(name.split()[:2]) if not name.startswith("stream") else f"stream {name.split()[3]}"].append(
            name
        )
    return dict(groups)


GROUPS = _groups()


@pytest.fixture(scope="session")
def measured(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("parity") / "slice.jsonl.gz"
    command = [sys.executable, str(HERE / "parity" / "probe.py"), "--sample"]
    subprocess.run([*command, "--models", str(models_dir), "--out", str(out)], check=True, timeout=600)
    return read(out)


@pytest.mark.parametrize("group", GROUPS)
def test_same_as_full_vllm(group: str, measured: dict[str, Any]) -> None:
    for name in GROUPS[group]:
        assert name in measured
        if measured[name] != RECORDED[name]:
            pytest.fail(f"{name}: {first_difference(RECORDED[name], measured[name])}")


def test_nothing_is_left_out(measured: dict[str, Any]) -> None:
    assert measured.keys() == RECORDED.keys()


def test_every_registered_parser_composes_somewhere() -> None:
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    tools, reasoning = ToolParserManager.list_registered(), ReasoningParserManager.list_registered()
    assert (len(tools), len(reasoning)) == (58, 42)
    names = {f"{tool}|None" for tool in tools} | {f"None|{parser}" for parser in reasoning}
    composed = {key.split()[1] for key, result in RECORDED.items() if isinstance(result, list)}
    assert names <= {key.split()[1] for key in RECORDED if key.startswith("compose ")}
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
