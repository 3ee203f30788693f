"""Which of two tokenizers of one folder is taken: vLLM's rule, its setting, and what a bundle keeps of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from core.bundle.folder import FolderFiles
from core.errors import ConfigurationError
from core.model import load_model
from core.options import ModelOptions
from core.tokenizer import FastTokenizer, load_tokenizer, tokenizer_file
from core.tokenizer.mistral import TekkenTokenizer
from handlers.commands.command_line import main


@pytest.fixture
def both(models_dir: Path, tmp_path: Path) -> Path:
    """A folder with Mistral's own tokenizer and a Hugging Face one, as Mistral publishes its models; no weights."""
    folder = tmp_path / "both"
    shutil.copytree(models_dir / "mistral-tekken", folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(models_dir / "qwen3" / name, folder / name)
    return folder


@pytest.mark.parametrize(
    ("names", "mode", "expected"),
    [
        (["tokenizer.json", "tekken.json"], "auto", "tokenizer.json"),
        (["tokenizer.json", "tekken.json", "model-00001-of-00002.safetensors"], "auto", "tokenizer.json"),
        (["tokenizer.json", "tekken.json", "consolidated.safetensors"], "auto", "tekken.json"),
        (["tokenizer.json", "tekken.json", "consolidated-00001-of-00003.safetensors"], "auto", "tekken.json"),
        (["tokenizer.json", "tekken.json", "consolidated.safetensors"], "hf", "tokenizer.json"),
        (["tokenizer.json", "tekken.json"], "mistral", "tekken.json"),
        (["tokenizer.json", "consolidated.safetensors"], "auto", "tokenizer.json"),
        (["tekken.json"], "auto", "tekken.json"),
        ([], "auto", "tokenizer.json"),
    ],
)
def test_the_choice(names: list[str], mode: str, expected: str) -> None:
    assert tokenizer_file(names, mode) == expected


def test_the_setting_decides(both: Path) -> None:
    files = FolderFiles(both)
    assert isinstance(load_tokenizer(files), FastTokenizer)
    for mode, kind in (("hf", FastTokenizer), ("mistral", TekkenTokenizer)):
        assert isinstance(load_tokenizer(files, mode=mode), kind)
        assert isinstance(load_model(files, ModelOptions(["m"], tokenizer_mode=mode)).tokenizer, kind)
    (both / "consolidated.safetensors").touch()
    assert isinstance(load_tokenizer(FolderFiles(both)), TekkenTokenizer)


def test_streams_of_two_modes_are_not_mixed(both: Path) -> None:
    files = FolderFiles(both)
    configs = {load_model(files, ModelOptions(["m"], tokenizer_mode=mode)).stream_config for mode in ("hf", "mistral")}
    assert len(configs) == 2


@pytest.mark.parametrize(("weights", "mode", "kept"), [
    (True, None, "tekken.json"), (False, None, "tokenizer.json"), (True, "hf", "tokenizer.json"), (False, "mistral", "tekken.json"),
])  # fmt: skip
def test_a_bundle_keeps_what_was_chosen(
    both: Path, tmp_path: Path, weights: bool, mode: str | None, kept: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if weights:
        (both / "consolidated.safetensors").touch()
    flags = ["--tokenizer-mode", mode] if mode else []
    assert main(["bundle", *flags, str(both), str(tmp_path / "bundle")]) == 0
    names = FolderFiles(tmp_path / "bundle").names()
    assert [name for name in names if name in ("tokenizer.json", "tekken.json")] == [kept]
    expected = TekkenTokenizer if kept == "tekken.json" else FastTokenizer
    assert isinstance(load_tokenizer(FolderFiles(tmp_path / "bundle")), expected)


def test_a_mode_that_cannot_be_is_said_so(models_dir: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"has no tekken\.json, which tokenizer_mode mistral needs"):
        load_tokenizer(FolderFiles(models_dir / "qwen3"), mode="mistral")
    with pytest.raises(ConfigurationError, match="tokenizer_mode must be one of auto, hf, mistral"):
        load_tokenizer(FolderFiles(models_dir / "qwen3"), mode="slow")
