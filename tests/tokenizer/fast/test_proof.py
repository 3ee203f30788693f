"""The fast encoder is used where it was proved for this very tokenizer, and nowhere else."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.bundle.contents import bundle_contents
from core.bundle.folder import FolderFiles
from core.bundle.manifest import MANIFEST_NAME, Manifest, dump_manifest, load_manifest
from core.errors import ConfigurationError
from core.tokenizer import FastTokenizer, load_tokenizer
from core.tokenizer.fast.comparison import prove
from core.tokenizer.fast.load import use_fast_encoder
from core.tokenizer.fast.proof import LEAST_ENCODES, Proof, dump_proof, load_proof, surroundings
from handlers.commands.command_line import main
from handlers.fast_encoder import load_at_start, load_now
from handlers.loading import ModelLoader
from handlers.server import server_app
from handlers.settings import Settings
from handlers.work.start import working


@pytest.fixture(scope="module")
def bundle(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    dest = tmp_path_factory.mktemp("proved") / "bundle"
    assert main(["bundle", str(models_dir / "families"), str(dest), "--encodes", "6000"]) == 0
    return dest


@pytest.fixture(scope="module")
def proof(bundle: Path) -> Proof:
    return load_proof(FolderFiles(bundle).encoder_proof, "bundle")


def uses_it(tokenizer: Any) -> bool:
    return tokenizer._fast_ids("a") is not None


def test_a_bundle_brings_its_proof(bundle: Path, proof: Proof) -> None:
    assert proof.different == 0
    assert proof.encodes >= LEAST_ENCODES
    assert (proof.encoder, proof.reference, proof.machine) == surroundings()
    tokenizer = load_tokenizer(FolderFiles(bundle))
    assert use_fast_encoder(tokenizer, proof)
    assert uses_it(tokenizer)
    assert tokenizer.encode("Hello <think>wörld</think>") == load_tokenizer(FolderFiles(bundle)).encode(
        "Hello <think>wörld</think>"
    )


def test_two_proofs_of_one_tokenizer_are_the_same(bundle: Path, models_dir: Path, tmp_path: Path) -> None:
    assert main(["bundle", str(models_dir / "families"), str(tmp_path / "again"), "--encodes", "6000"]) == 0
    assert (tmp_path / "again" / MANIFEST_NAME).read_bytes() == (bundle / MANIFEST_NAME).read_bytes()


@pytest.mark.parametrize(
    "change",
    [{"tokenizer": "0" * 64}, {"encoder": "fastokens 0.3.4"}, {"reference": "tokenizers 0.1"}, {"machine": "riscv64"},
     {"corpus": 0}, {"encodes": LEAST_ENCODES - 1}, {"different": 1}],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_a_proof_of_something_else_is_none(bundle: Path, proof: Proof, change: dict[str, Any]) -> None:
    tokenizer = load_tokenizer(FolderFiles(bundle))
    assert not use_fast_encoder(tokenizer, replace(proof, **change))
    assert not uses_it(tokenizer)


def test_a_changed_tokenizer_never_uses_it(bundle: Path, proof: Proof, tmp_path: Path) -> None:
    """A space that means nothing, a token of the configuration, another way to split: each is another tokenizer."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in FolderFiles(bundle).names():
        (folder / name).write_bytes((bundle / name).read_bytes())
    same = load_tokenizer(FolderFiles(folder))
    assert isinstance(same, FastTokenizer)
    assert same.subject == proof.tokenizer
    source = (folder / "tokenizer.json").read_bytes()
    (folder / "tokenizer.json").write_bytes(source + b"\n")
    assert not use_fast_encoder(load_tokenizer(FolderFiles(folder)), proof)
    (folder / "tokenizer.json").write_bytes(source)
    config = json.loads((folder / "tokenizer_config.json").read_bytes())
    for more in ({"split_special_tokens": True}, {"unk_token": "<another>"}):
        (folder / "tokenizer_config.json").write_text(json.dumps({**config, **more}))
        assert not use_fast_encoder(load_tokenizer(FolderFiles(folder)), proof), more


@pytest.mark.parametrize("value", ["[]", "1", '"yes"', "true"])
def test_a_manifest_with_another_kind_of_proof_is_refused(bundle: Path, value: str) -> None:
    data = json.loads((bundle / MANIFEST_NAME).read_bytes()) | {"encoder": json.loads(value)}
    with pytest.raises(ConfigurationError, match="malformed"):
        load_manifest(json.dumps(data).encode())


@pytest.mark.parametrize(
    "spoil",
    [lambda proof: proof.pop("encodes"), lambda proof: proof.update(more=1), lambda proof: proof.update(encodes=True),
     lambda proof: proof.update(encodes="6000"), lambda proof: proof.update(different=-1),
     lambda proof: proof.update(tokenizer=None), lambda proof: proof.update(machine=["x86_64"])],
)  # fmt: skip
def test_a_malformed_proof_stops_who_wants_it_and_no_other(
    bundle: Path, proof: Proof, tmp_path: Path, spoil: Callable[[dict[str, Any]], Any]
) -> None:
    value = dump_proof(proof)
    spoil(value)
    for name in FolderFiles(bundle).names():
        (tmp_path / name).write_bytes((bundle / name).read_bytes())
    manifest = load_manifest((bundle / MANIFEST_NAME).read_bytes())
    (tmp_path / MANIFEST_NAME).write_bytes(dump_manifest(Manifest(manifest.files, value)))
    loader = loader_of(tmp_path)
    with pytest.raises(ConfigurationError, match="fast encoder"):
        load_now(loader, required=False)
    assert not uses_it(loader.get().tokenizer)
    assert loader.get().tokenizer.encode("a") == load_tokenizer(FolderFiles(bundle)).encode("a")


def test_a_manifest_without_a_proof_reads_as_ever(bundle: Path) -> None:
    manifest = load_manifest((bundle / MANIFEST_NAME).read_bytes())
    again = load_manifest(dump_manifest(Manifest(manifest.files)))
    assert again.encoder_proof is None
    assert again.files == manifest.files


def loader_of(folder: Path, **settings: Any) -> ModelLoader:
    return ModelLoader(Settings(model=str(folder), served_model_name=("m",), **settings))


@pytest.mark.parametrize(
    ("choice", "prepared", "expected"),
    [("auto", False, False), ("auto", True, True), ("on", False, True), ("off", True, False)],
)
def test_a_function_loads_it_for_a_snapshot_or_by_setting(
    bundle: Path, choice: str, prepared: bool, expected: bool
) -> None:
    settings = Settings(model=str(bundle), served_model_name=("m",), fast_encoder=choice)
    loader = ModelLoader(settings)
    load_at_start(loader, settings, prepared)
    assert uses_it(loader.get().tokenizer) is expected


def test_a_setting_that_cannot_be_followed_stops_the_start(models_dir: Path) -> None:
    settings = Settings(model=str(models_dir / "families"), fast_encoder="on")
    with pytest.raises(ConfigurationError, match="FAST_ENCODER"):
        load_at_start(ModelLoader(settings), settings, False)
    load_at_start(ModelLoader(settings), replace(settings, fast_encoder="auto"), True)


def test_without_the_package_all_is_as_ever(
    bundle: Path, proof: Proof, models_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastokens", None)  # as if it were not installed
    tokenizer = load_tokenizer(FolderFiles(bundle))
    assert prove(tokenizer, 6_000) is None
    assert not use_fast_encoder(tokenizer, proof)
    contents = bundle_contents(FolderFiles(models_dir / "families"), encodes=6_000)
    assert load_manifest(contents[MANIFEST_NAME]).encoder_proof is None
    settings = Settings(model=str(bundle), served_model_name=("m",), work_processes=0)
    app = server_app(settings)
    with working(app, settings):
        assert not [thread for thread in threading.enumerate() if thread.name == "encoder"]
        assert app.state.loader.get().tokenizer.encode("a") == tokenizer.encode("a")
    with pytest.raises(ConfigurationError, match="fastokens must be installed"):
        load_now(loader_of(bundle), required=True)
