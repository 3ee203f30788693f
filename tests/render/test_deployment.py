"""The deployment's own say on a prompt and its sampling: vLLM's flags beside those of the recording."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from vllm.parser import ParserManager
from vllm.tool_parsers.tool_strict_level import ToolStrictLevel

from core.bundle.folder import FolderFiles
from core.bundle.other_tokenizer import OtherTokenizer
from core.model import load_model
from core.options import ModelOptions
from core.render.chat import render_chat
from core.render.completions import render_completion
from handlers.commands.command_line import main
from handlers.server import server_app
from handlers.settings import Settings
from tests.render.conftest import HARMONY, HERMES, WEATHER, FolderOf, ModelOf, chat, prompt_text

EFFORT = "{{ reasoning_effort }}|{{ enable_thinking }}|{% for m in messages %}{{ m.content }}{% endfor %}"


def test_a_reasoning_effort_has_the_templates_name(model_of: ModelOf) -> None:
    model = model_of("qwen3", chat_template=EFFORT, reasoning_effort_map={"high": "max", "none": "low"})

    def written(**fields: Any) -> str:
        return prompt_text(model, render_chat(model, chat("x", **fields)))

    assert written(reasoning_effort="high") == "max|True|x"
    assert written(reasoning_effort="medium") == "medium|True|x"
    # As vLLM: what counts as thinking is the name that came of it.
    assert written(reasoning_effort="none") == "low|True|x"
    assert written() == "||x"


def test_a_parser_is_told_the_templates_name(model_of: ModelOf) -> None:
    model = model_of("qwen3", reasoning_effort_map={"none": "low"}, **HERMES)
    assert model.chat_parser is not None
    request = model.chat_parser.validate(chat("x", reasoning_effort="none"))
    assert model.chat_parser.template_kwargs(request)["reasoning_effort"] == "low"


def test_harmony_writes_the_mapped_effort(model_of: ModelOf) -> None:
    model = model_of("gpt-oss", reasoning_effort_map={"minimal": "low", "none": "low"}, **HARMONY)
    low = render_chat(model, chat("x", reasoning_effort="low"))["token_ids"]
    for effort in ("minimal", "none"):
        assert render_chat(model, chat("x", reasoning_effort=effort))["token_ids"] == low


@pytest.mark.parametrize(("level", "strict"), [(None, False), ("auto", False), ("function", True), ("parameter", True)])
def test_the_strict_level_constrains_every_request_with_tools(model_of: ModelOf, level: str, strict: bool) -> None:
    model = model_of("qwen3", tool_strict_level=level, **HERMES)
    assert model.chat_parser is not None
    kind = model.chat_parser.parser_cls
    assert kind.tool_strict_level == (None if level is None else ToolStrictLevel.from_name(level))
    sampling = render_chat(model, chat("x", tools=[WEATHER]))["sampling_params"]
    assert bool(sampling.get("structured_outputs")) is strict
    if level == "parameter":
        assert "city" in json.dumps(sampling["structured_outputs"])
    theirs = ParserManager.get_parser(
        tool_parser_name="hermes", enable_auto_tools=True, tool_strict_level=level, tokenizer=model.tokenizer
    )
    assert theirs is not None
    assert theirs.tool_strict_level == kind.tool_strict_level


@pytest.mark.parametrize("source", ["auto", "vllm"])
def test_sampling_defaults_that_win(model_of: ModelOf, source: str) -> None:
    overrides = {"temperature": 0.25, "max_new_tokens": 5}
    model = model_of("qwen3", generation_config=source, override_generation_config=overrides)
    sampling = render_chat(model, chat("x"))["sampling_params"]
    assert (sampling["temperature"], sampling["max_tokens"]) == (0.25, 5)
    # vLLM takes an override of the tokens for a limit as well.
    assert render_chat(model, chat("x", max_tokens=99))["sampling_params"]["max_tokens"] == 5
    assert render_chat(model, chat("x", temperature=0.5))["sampling_params"]["temperature"] == 0.5
    top_p = render_completion(model, {"prompt": "x"})[0]["sampling_params"].get("top_p", 1.0)
    assert (top_p == 1.0) is (source == "vllm")


def test_the_tokenizer_of_another_folder(models_dir: Path, folder_of: FolderOf) -> None:
    files = OtherTokenizer(FolderFiles(models_dir / "qwen3"), FolderFiles(models_dir / "llama3"))
    model = load_model(files, ModelOptions(("m",)))
    llama = load_model(FolderFiles(models_dir / "llama3"), ModelOptions(("m",)))
    qwen = load_model(FolderFiles(models_dir / "qwen3"), ModelOptions(("m",)))
    assert render_chat(model, chat("Grüße"))["token_ids"] == render_chat(llama, chat("Grüße"))["token_ids"]
    assert model.limits == qwen.limits
    assert model.config.config == qwen.config.config
    assert model.stream_config != qwen.stream_config


def test_a_bundle_with_the_tokenizer_of_another_folder(models_dir: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    assert main(["bundle", str(models_dir / "qwen3"), str(bundle), "--tokenizer", str(models_dir / "llama3")]) == 0
    one = load_model(FolderFiles(bundle), ModelOptions(("m",)))
    files = OtherTokenizer(FolderFiles(models_dir / "qwen3"), FolderFiles(models_dir / "llama3"))
    assert render_chat(one, chat("x")) | {"request_id": ""} == render_chat(
        load_model(files, ModelOptions(("m",))), chat("x")
    ) | {"request_id": ""}


def test_the_setting(models_dir: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(models_dir / "qwen3" / "config.json", bare)
    app = server_app(Settings(model=str(bare), tokenizer=str(models_dir / "qwen3")))
    assert app.state.loader.get().tokenizer.source_file == "tokenizer.json"
