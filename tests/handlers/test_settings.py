"""Settings: every wrong value stops the start with a message that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigurationError
from handlers.commands.command_line import main
from handlers.settings import settings_from_environ


def test_every_flag_has_its_variable() -> None:
    settings = settings_from_environ(
        {
            "DERENDER_MODEL": "m",
            "DERENDER_SERVED_MODEL_NAME": "one two",
            "DERENDER_TOOL_CALL_PARSER": "hermes",
            "DERENDER_ENABLE_AUTO_TOOL_CHOICE": "true",
            "DERENDER_DEFAULT_CHAT_TEMPLATE_KWARGS": '{"enable_thinking": false}',
            "DERENDER_MAX_MODEL_LEN": "128",
            "DERENDER_REASONING_PARSER": "",
            "VLLM_MAX_N_SEQUENCES": "3",
        }
    )
    options = settings.model_options()
    assert options.served_names == ("one", "two")
    assert options.default_chat_template_kwargs == {"enable_thinking": False}
    assert (options.max_model_len, options.max_n_sequences, options.reasoning_parser) == (128, 3, None)


def test_the_served_name_defaults_to_the_model_as_given() -> None:
    assert settings_from_environ({"DERENDER_MODEL": "models/x"}).model_options().served_names == ("models/x",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MODEL", ""),
        ("ENABLE_AUTO_TOOL_CHOICE", "maybe"),
        ("MAX_MODEL_LEN", "many"),
        ("DEFAULT_CHAT_TEMPLATE_KWARGS", "[1]"),
        ("DEFAULT_CHAT_TEMPLATE_KWARGS", "{"),
        ("STREAM_STATE", "memory"),
        ("MAX_BODY_BYTES", "0"),
        ("SERVED_MODEL_NAME", " , "),
        ("ENABLE_AUTO_TOOL_CHOICE", "true"),  # without a tool parser
    ],
)
def test_a_wrong_value_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"DERENDER_{name}"):
        settings_from_environ({"DERENDER_MODEL": "m", f"DERENDER_{name}": value})


def test_chat_template_is_a_file_or_a_template(tmp_path: Path) -> None:
    path = tmp_path / "t.jinja"
    path.write_text("{{ 1 }}")
    for value in (str(path), "{{ 1 }}"):
        settings = settings_from_environ({"DERENDER_MODEL": "m", "DERENDER_CHAT_TEMPLATE": value})
        assert settings.model_options().chat_template == "{{ 1 }}"
    with pytest.raises(ConfigurationError, match="chat_template"):
        settings_from_environ({"DERENDER_MODEL": "m", "DERENDER_CHAT_TEMPLATE": "none.jinja"}).model_options()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--tool-call-parser", "nonesuch", "--enable-auto-tool-choice"], "nonesuch"),
        # The Qwen3 tokenizer has no tokens of this family: the reason is vLLM's.
        (["--tool-call-parser", "deepseek_v3", "--enable-auto-tool-choice"], "could not locate tool call start/end"),
        (["--reasoning-parser", "mistral"], "could not locate the tool call token"),
        (["--max-model-len", "99999999"], "max_model_len"),
        (["--chat-template-content-format", "xml"], "chat_template_content_format"),
    ],
)
def test_a_start_that_cannot_work_ends_in_one_line(
    models_dir: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    assert main(["serve", str(models_dir / "qwen3"), "--port", "0", *arguments]) == 1
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
    assert "Traceback" not in error
