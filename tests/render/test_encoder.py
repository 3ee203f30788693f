"""Models whose chats vLLM writes in code: DeepSeek V3.2, V4, V4.1; and those whose code is not here.

`data/deepseek.jsonl.gz` holds answers of vLLM 0.33.0's render server with the
tokenizer modes `deepseek_v32`, `deepseek_v4` and `deepseek_v41`.
"""

from __future__ import annotations

import gzip
import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from core.errors import BadRequest, RequestError
from core.model import Model
from core.render.chat import render_chat
from core.render.completions import render_completion
from core.render.tokenize import tokenize
from tests.golden.deviations import is_written_limit
from tests.golden.difference import differences
from tests.golden.normal_form import IdNames
from tests.render.conftest import FolderOf, chat, prompt_text
from tests.support.models import load

_DATA = Path(__file__).parent / "data" / "deepseek.jsonl.gz"
_RENDER: dict[str, Any] = {
    "/v1/chat/completions/render": render_chat,
    "/v1/completions/render": render_completion,
    "/tokenize": tokenize,
}


def _key(case: dict[str, Any]) -> tuple[str, str, str]:
    return case["model"], case["architecture"], case["reasoning_parser"] or ""


def _recorded() -> list[tuple[tuple[str, str, str], list[dict[str, Any]]]]:
    cases = [json.loads(line) for line in gzip.decompress(_DATA.read_bytes()).decode().split("\n") if line]
    return [(key, list(group)) for key, group in groupby(cases, key=_key)]


def model_with(folder_of: FolderOf, architecture: str, name: str = "custom", **options: Any) -> Model:
    config = json.dumps({"architectures": [architecture], "max_position_embeddings": 65536, "vocab_size": 129280})
    return load(folder_of({"config.json": config}, name, "deepseek"), **options)


@pytest.mark.parametrize(("key", "cases"), _recorded(), ids=["-".join(filter(None, key)) for key, _ in _recorded()])
def test_answers_as_recorded(folder_of: FolderOf, key: tuple[str, str, str], cases: list[dict[str, Any]]) -> None:
    name, architecture, reasoning = key
    model = model_with(folder_of, architecture, name, reasoning_parser=reasoning or None)
    assert len(cases) > 30
    for case in cases:
        try:
            status, body = 200, _RENDER[case["endpoint"]](model, case["request"])
        except RequestError as refused:
            status, body = refused.status, refused.body()
        answer = IdNames().normalise(json.loads(json.dumps({"status": status, "body": body})))
        found = [one for one in differences(case["response"], answer) if not is_written_limit(one)]
        assert not found, case["request"]


def test_the_template_in_the_folder_is_not_used(folder_of: FolderOf) -> None:
    model = model_with(folder_of, "DeepseekV32ForCausalLM")
    assert model.tokenizer.chat_template
    text = prompt_text(model, render_chat(model, chat("Hi", chat_template_kwargs={"thinking": True})))
    assert text == "<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜><think>"


def test_a_middle_is_filled_in(folder_of: FolderOf) -> None:
    model = model_with(folder_of, "DeepseekV4ForCausalLM")
    for prompt in ("a", ["a", "a"]):
        for rendered in render_completion(model, {"prompt": prompt, "suffix": "c", "add_special_tokens": False}):
            assert prompt_text(model, rendered) == "<｜fim▁begin｜>a<｜fim▁hole｜>c<｜fim▁end｜>"


@pytest.mark.parametrize("architecture", ["KimiK3ForConditionalGeneration", "InklingForCausalLM"])
def test_code_that_is_not_here_is_not_replaced_by_a_template(folder_of: FolderOf, architecture: str) -> None:
    model = model_with(folder_of, architecture)
    for render in (render_chat, tokenize):
        with pytest.raises(BadRequest, match=f"chats of a {architecture} model cannot be rendered by this server"):
            render(model, chat())
    assert render_completion(model, {"prompt": "Hi"})[0]["token_ids"]


@pytest.mark.parametrize(
    ("architecture", "refused"), [("DeepseekV4ForCausalLM", None), ("DeepseekV41ForCausalLM", "medium")]
)
def test_old_thoughts_and_efforts(folder_of: FolderOf, architecture: str, refused: str | None) -> None:
    """Public report i37: without tools an old thought is left out, and each level is a prompt of its own."""
    model = model_with(folder_of, architecture)
    body = chat("q")
    body["messages"] += [
        {"role": "assistant", "content": "a1", "reasoning_content": "OLD-THOUGHT"},
        {"role": "user", "content": "q2"},
    ]
    text = prompt_text(model, render_chat(model, body))
    assert "OLD-THOUGHT" not in text
    assert "</think>a1" in text
    levels = [
        prompt_text(model, render_chat(model, {**body, "reasoning_effort": one})) for one in ("low", "high", "max")
    ]
    assert len(set(levels)) == 3
    if refused is not None:
        asked = {**body, "reasoning_effort": refused}
        with pytest.raises(BadRequest, match="reasoning_effort must be low, high, xhigh, max"):
            render_chat(model, asked)
        mapped = model_with(folder_of, architecture, "mapped", reasoning_effort_map={refused: "low"})
        assert prompt_text(mapped, render_chat(mapped, asked)) == levels[0]
