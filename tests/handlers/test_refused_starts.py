"""Configuration that cannot work ends the start in one sentence, or is a warning where it may be meant."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigurationError
from handlers.app import create_app
from handlers.commands.command_line import main
from handlers.derender_endpoints import DERENDER
from handlers.render_endpoints import RENDER
from handlers.server import server_app
from handlers.settings import Settings, settings_from_environ

BROKEN = "{% for m in messages %}{{ m.content }"
Folder = Callable[..., Path]


@pytest.fixture
def folder(models_dir: Path, tmp_path: Path) -> Folder:
    """A copy of the Qwen3 folder with another template, or none."""

    def make(template: str | None, model: str = "qwen3") -> Path:
        copy = tmp_path / "model"
        shutil.copytree(models_dir / model, copy)
        (copy / "chat_template.jinja").unlink(missing_ok=True)
        if template is not None:
            (copy / "chat_template.jinja").write_text(template)
        return copy

    return make


def warnings(capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    return [line["reason"] for line in lines if line["message"] == "configuration"]


def test_a_template_with_a_syntax_error(folder: Folder, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    broken = folder(BROKEN)
    settings = Settings(model=str(broken))
    with pytest.raises(ConfigurationError, match=r"the chat template has a syntax error in line 1"):
        create_app(settings, RENDER)
    with pytest.raises(ConfigurationError, match=r"the chat template has a syntax error in line 1"):
        server_app(settings)
    capsys.readouterr()
    assert main(["bundle", str(broken), str(tmp_path / "bundle")]) == 1
    error = capsys.readouterr().err
    assert "the chat template has a syntax error in line 1" in error
    assert error.count("\n") == 1, "found before anything else is read"
    assert not (tmp_path / "bundle").exists()
    # What only decodes has no use for a template.
    create_app(Settings(model=str(broken)), DERENDER)


def test_a_given_template_with_a_syntax_error(models_dir: Path) -> None:
    with pytest.raises(ConfigurationError, match="syntax error"):
        server_app(Settings(model=str(models_dir / "qwen3"), chat_template=BROKEN))


def test_a_missing_template(folder: Folder, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bare = folder(None)
    server_app(Settings(model=str(bare)))
    (warning,) = warnings(capsys)
    assert "no chat template" in warning
    assert "completions alone" in warning
    with pytest.raises(ConfigurationError, match="a parser is named, and the model has no chat template"):
        server_app(Settings(model=str(bare), reasoning_parser="qwen3"))
    assert main(["bundle", str(bare), str(tmp_path / "bundle")]) == 0
    assert "no chat template" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["gpt-oss", "mistral-tekken", "qwen3"])
def test_models_that_have_what_writes_their_chats(
    models_dir: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    server_app(Settings(model=str(models_dir / name)))
    assert warnings(capsys) == []
    assert main(["bundle", str(models_dir / name), str(tmp_path / "bundle")]) == 0
    assert "derender:" not in capsys.readouterr().err


def test_a_tool_parser_without_automatic_choice(models_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server_app(Settings(model=str(models_dir / "qwen3"), tool_call_parser="hermes"))
    (warning,) = warnings(capsys)
    assert "--tool-call-parser" in warning
    assert "no effect without --enable-auto-tool-choice" in warning


@pytest.mark.parametrize(
    ("model", "parser", "families"),
    [
        ("qwen3", "qwen3_coder", "Qwen3-Coder, and the chat template writes them in that of Hermes"),
        ("qwen3.5", "hermes", "Hermes, and the chat template writes them in that of Qwen3-Coder"),
        ("qwen3", "glm45", "GLM, and the chat template writes them in that of Hermes"),
        ("llama3", "hermes", "Hermes, and the chat template writes them in that of Llama"),
        ("deepseek", "hermes", "Hermes, and the chat template writes them in that of DeepSeek V3"),
        ("mistral-spm", "hermes", "Hermes, and the chat template writes them in that of Mistral"),
    ],
)
def test_a_parser_of_another_family(models_dir: Path, model: str, parser: str, families: str) -> None:
    options: dict[str, Any] = {"tool_call_parser": parser, "enable_auto_tool_choice": True}
    for router in (DERENDER, RENDER):
        with pytest.raises(ConfigurationError, match=families):
            create_app(Settings(model=str(models_dir / model), **options), router)
    server_app(Settings(model=str(models_dir / model), parser_family="any", **options))


@pytest.mark.parametrize(
    ("model", "parser"),
    [
        ("qwen3", "hermes"),
        ("qwen3.5", "qwen3_coder"),
        ("llama3", "llama3_json"),
        ("llama3", "pythonic"),
        ("deepseek", "deepseek_v31"),
        ("mistral-spm", "mistral"),
        ("gpt-oss", "openai"),
        ("qwen3", "xlam"),
    ],
)
def test_a_parser_of_the_family_or_one_that_nothing_is_plain_of(models_dir: Path, model: str, parser: str) -> None:
    create_app(Settings(model=str(models_dir / model), tool_call_parser=parser, enable_auto_tool_choice=True), DERENDER)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("TOOL_PARSER", "DERENDER_TOOL_CALL_PARSER"), ("ENGINE_URLS", "DERENDER_ENGINE_URL"), ("XYZZY", "")],
)
def test_an_unknown_variable(name: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=f"DERENDER_{name} is no setting.*{meant}"):
        settings_from_environ({"DERENDER_MODEL": "m", f"DERENDER_{name}": "x"})


def test_variables_of_kubernetes_and_of_the_projects_tools_are_no_settings() -> None:
    links = {
        "DERENDER_SERVICE_HOST": "10.0.0.1",
        "DERENDER_SERVICE_PORT": "80",
        "DERENDER_SERVICE_PORT_HTTP": "80",
        "DERENDER_PORT": "tcp://10.0.0.1:80",
        "DERENDER_PORT_80_TCP": "tcp://10.0.0.1:80",
        "DERENDER_PORT_80_TCP_ADDR": "10.0.0.1",
        "DERENDER_RELAY_SERVICE_HOST": "10.0.0.1",
        "DERENDER_BUILD_PYTHON": "python3",
        "DERENDER_NOTHING": "",
    }
    assert settings_from_environ({"DERENDER_MODEL": "m", **links}).model == "m"


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/chat/completions", "/inference/v1/generate", "?x=1", "#a", "/gate/v1"]
)
def test_an_engine_url_with_a_path_that_no_engine_has(path: str) -> None:
    with pytest.raises(ConfigurationError, match="without the path of an endpoint"):
        Settings(model="m", engine_url=(f"http://engine:8000{path}",))


@pytest.mark.parametrize("path", ["", "/", "/models/qwen3", "/v1beta"])
def test_an_engine_url_behind_a_gateways_path(path: str) -> None:
    assert Settings(model="m", engine_url=(f"http://engine:8000{path}",)).engine_url


def test_flags_are_written_out_and_may_have_underscores(models_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(models_dir / "qwen3")
    with pytest.raises(SystemExit):
        main(["serve", model, "--tokenizer-mod", "hf"])
    assert "--tokenizer-mod" in capsys.readouterr().err
    assert main(["serve", model, "--tool_call_parser", "nonesuch", "--enable_auto_tool_choice"]) == 1
    assert "nonesuch" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"reasoning_effort_map": {"enormous": "high"}},
            "reasoning_effort_map must hold a text for any of none, minimal",
        ),
        ({"reasoning_effort_map": {"high": 3}}, "reasoning_effort_map must hold"),
        (
            {"override_generation_config": {"temperature": "hot"}},
            "override_generation_config: temperature must be a number",
        ),
        ({"tokenizer": "/nonesuch"}, "model folder /nonesuch does not exist"),
    ],
)
def test_vllms_settings_with_wrong_values(models_dir: Path, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        server_app(Settings(model=str(models_dir / "qwen3"), **options))


@pytest.mark.parametrize("value", ["often", "AUTO"])
def test_a_strict_level_is_one_of_vllms(value: str) -> None:
    with pytest.raises(ConfigurationError, match="DERENDER_TOOL_STRICT_LEVEL must be one of auto, function, parameter"):
        settings_from_environ({"DERENDER_MODEL": "m", "DERENDER_TOOL_STRICT_LEVEL": value})
