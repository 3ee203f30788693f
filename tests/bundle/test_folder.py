"""Model bundles: what is written is what is read, and nothing altered is ever used."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from core.bundle.chat_templates import find_chat_templates
from core.bundle.folder import FolderFiles
from core.bundle.manifest import MANIFEST_NAME, load_manifest
from core.bundle.model_config import read_model_config
from core.errors import ConfigurationError
from core.model import load_model
from core.options import ModelOptions
from core.tokenizer import load_tokenizer
from handlers.commands.command_line import main


@pytest.fixture
def bundle(models_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    source, dest = models_dir / "qwen3", tmp_path / "bundle"
    assert main(["bundle", str(source), str(dest), "--encodes", "0"]) == 0
    assert "derender-vocab.bin" in capsys.readouterr().out
    return dest


def test_a_bundle_serves_what_its_folder_serves(bundle: Path, models_dir: Path) -> None:
    from_bundle, from_folder = load_tokenizer(FolderFiles(bundle)), load_tokenizer(FolderFiles(models_dir / "qwen3"))
    ids = from_folder.encode("Hello <think>wörld</think> 漢字")
    assert from_bundle.encode("Hello <think>wörld</think> 漢字") == ids
    assert from_bundle.decode(ids) == from_folder.decode(ids)
    assert from_bundle.chat_template == from_folder.chat_template


def test_two_bundles_of_one_model_are_identical(bundle: Path, models_dir: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert main(["bundle", str(models_dir / "qwen3"), str(again), "--encodes", "0"]) == 0
    names = sorted(p.relative_to(bundle) for p in bundle.rglob("*"))
    assert names == sorted(p.relative_to(again) for p in again.rglob("*"))
    assert all((bundle / n).read_bytes() == (again / n).read_bytes() for n in names)


@pytest.mark.parametrize("change", ["truncate", "flip", "remove"])
def test_an_altered_file_stops_the_start_with_its_name(bundle: Path, change: str) -> None:
    path = bundle / "derender-vocab.bin"
    data = bytearray(path.read_bytes())
    if change == "truncate":
        path.write_bytes(data[:-1])
    elif change == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    else:
        path.unlink()
    with pytest.raises(ConfigurationError, match=r"derender-vocab\.bin"):
        load_model(FolderFiles(bundle), ModelOptions(served_names=("m",)))


def test_a_file_that_the_manifest_does_not_list_does_not_exist(bundle: Path) -> None:
    (bundle / "added_tokens.json").write_text('{"<new>": 5}')
    files = FolderFiles(bundle)
    assert "added_tokens.json" not in files.names()
    with pytest.raises(ConfigurationError, match="not in the manifest"):
        files.read("added_tokens.json")


@pytest.mark.parametrize("name", ["../x", "a/b/c", "/etc/passwd", "a/../b", "", "x\ny", ".", "a/.", "config.json\n"])
def test_a_manifest_names_only_files_of_the_bundle(name: str) -> None:
    entry = {"size": 1, "sha256": "0" * 64}
    with pytest.raises(ConfigurationError, match=MANIFEST_NAME.replace(".", r"\.")):
        load_manifest(json.dumps({"version": 1, "files": {name: entry}}).encode())


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 2, "files": {}}', '{"version": 1, "files": {"a": {}}}',
     '{"version": 1, "files": {"a": {"size": -1, "sha256": "00"}}}',
     '{"version": 1, "files": {"a": {"size": true, "sha256": "%s"}}}' % ("0" * 64),
     '{"version": 1, "files": {"a": {"size": 1, "sha256": "%s\\n"}}}' % ("0" * 64)],
)  # fmt: skip
def test_what_is_not_a_manifest_is_said_so(text: str) -> None:
    with pytest.raises(ConfigurationError, match=MANIFEST_NAME.replace(".", r"\.")):
        load_manifest(text.encode())


def test_bundling_refuses_what_cannot_be_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["bundle", str(empty), str(tmp_path / "out")]) == 1
    assert "no tokenizer.json" in capsys.readouterr().err
    assert main(["bundle", str(tmp_path / "nowhere"), str(tmp_path / "out")]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_bundling_leaves_a_foreign_folder_alone(
    models_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not lose")
    assert main(["bundle", str(models_dir / "qwen3"), str(tmp_path / "mine")]) == 1
    assert "left as it is" in capsys.readouterr().err
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "do not lose"


def test_chat_templates_of_every_convention(tmp_path: Path) -> None:
    files = FolderFiles(tmp_path)
    assert find_chat_templates(files, {}) is None
    assert find_chat_templates(files, {"chat_template": "T"}) == "T"
    named = {"chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "U"}]}
    assert find_chat_templates(files, named) == {"default": "D", "tool_use": "U"}
    (tmp_path / "chat_template.jinja").write_text("F")
    assert find_chat_templates(files, named) == "F"
    (tmp_path / "chat_templates").mkdir()
    (tmp_path / "chat_templates" / "rag.jinja").write_text("R")
    assert find_chat_templates(files, named) == {"default": "F", "rag": "R"}
    with pytest.raises(ConfigurationError, match="chat_template"):
        find_chat_templates(FolderFiles(tmp_path / "chat_templates"), {"chat_template": 7})


def test_configuration_files_are_checked(tmp_path: Path) -> None:
    for name in ("text_config", "llm_config"):  # InternVL's own name of it
        (tmp_path / "config.json").write_text(f'{{"{name}": {{"vocab_size": 7, "max_position_embeddings": 9}}}}')
        config = read_model_config(FolderFiles(tmp_path))
        assert (config.vocab_size, config.max_model_len) == (7, 9)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(ConfigurationError, match=r"config\.json is not a JSON object"):
        read_model_config(FolderFiles(tmp_path))


def test_a_folder_that_may_not_be_read_is_an_error_of_one_sentence(tmp_path: Path) -> None:
    """A volume that belongs to another user. Root reads everything, so root becomes nobody for it."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / MANIFEST_NAME).write_text("{}")
    folder.chmod(0)
    is_root = os.geteuid() == 0
    if is_root:
        tmp_path.chmod(0o755)
        os.seteuid(65534)
    try:
        with pytest.raises(ConfigurationError, match="Permission denied"):
            FolderFiles(folder)
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)
