"""The first texts of a process, from a bundle's packed merges: the ids of ``tokenizers``, and no more of them than pays."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from core.bundle.contents import bundle_contents, write_folder
from core.bundle.folder import FolderFiles
from core.bundle.other_tokenizer import OtherTokenizer
from core.errors import ConfigurationError
from core.tokenizer import FastTokenizer, load_tokenizer
from core.tokenizer import first_encoder as module
from core.tokenizer.decode_table import MERGES_NAME
from core.tokenizer.fast.comparison import texts
from core.tokenizer.first_encoder import pack_merges, unpack_merges
from core.tokenizer.merges import packed_merges
from handlers.fast_encoder import load_at_start
from handlers.loading import ModelLoader
from handlers.settings import Settings
from tests.support.models import FAMILIES

# Deepseek has added tokens that are found after normalizing.
OTHERS = ("mistral-spm", "deepseek")
PACKED = tuple(family for family in FAMILIES if family not in OTHERS)
Bundle = Callable[[str], Path]


@pytest.fixture(scope="module")
def bundle(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The bundle of a family."""

    @cache
    def write(family: str) -> Path:
        folder = tmp_path_factory.mktemp(family) / "bundle"
        write_folder(bundle_contents(FolderFiles(models_dir / family), encodes=0), folder)
        return folder

    return write


def loaded(folder: Path, **options: Any) -> FastTokenizer:
    tokenizer = load_tokenizer(FolderFiles(folder), **options)
    assert isinstance(tokenizer, FastTokenizer)
    return tokenizer


def has_merges(tokenizer: FastTokenizer) -> bool:
    """Whether ``tokenizers`` has been built with all of its merges."""
    return "backend_tokenizer" in tokenizer.__dict__


@pytest.mark.parametrize("family", PACKED)
def test_the_first_ids_are_those_of_the_package(
    bundle: Bundle, models_dir: Path, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_WORK", 2**40)  # none of these is the last
    plain, first = loaded(models_dir / family), loaded(bundle(family), cache_bytes=100_000)
    encoded, rest = 0, 10
    for number, (_, text) in enumerate(texts(plain, 400, seed=5)):
        special = number % 3 == 0
        if len(text) < 5_000:
            assert first.encode(text, special) == plain.encode(text, special), text[:200]
            limit = number % 70
            cut = first.encode(text, special, truncation=True, max_length=limit)
            assert cut == plain.encode(text, special, truncation=True, max_length=limit)
        if has_merges(first):  # a word that was too long: tokenizers has it from then on
            rest -= 1
            if not rest:
                break
            first = loaded(bundle(family), cache_bytes=100_000)
        else:
            encoded += 1
    assert encoded > 250


def test_it_ends_when_it_has_cost_as_much_as_loading(bundle: Bundle, models_dir: Path) -> None:
    plain = loaded(models_dir / "qwen3")
    tokenizer = loaded(bundle("qwen3"))
    for number in range(module._MOST_WORK // 500):
        text = f"{number} " + "a few words and " * 61
        assert tokenizer.encode(text) == plain.encode(text)
        if has_merges(tokenizer):
            break
    assert number > 50
    assert has_merges(tokenizer)


@pytest.mark.parametrize("text", ["word " * 3_000, "a" * 300, "\ud800"])
def test_a_text_that_it_is_not_for_goes_to_the_package(bundle: Bundle, models_dir: Path, text: str) -> None:
    tokenizer, plain = loaded(bundle("qwen3")), loaded(models_dir / "qwen3")
    assert _outcome(tokenizer, text) == _outcome(plain, text)
    assert has_merges(tokenizer)
    assert tokenizer.encode("some text") == plain.encode("some text")


def test_offsets_are_those_of_the_package(bundle: Bundle, models_dir: Path) -> None:
    text = "Hello <think>wörld</think>"
    asked = loaded(bundle("qwen3")).encode_prompt(text, offsets=True)
    assert asked == loaded(models_dir / "qwen3").encode_prompt(text, offsets=True)


@pytest.mark.parametrize("family", OTHERS)
def test_other_bundles_do_without(bundle: Bundle, models_dir: Path, family: str) -> None:
    assert MERGES_NAME not in FolderFiles(bundle(family)).names()
    tokenizer = loaded(bundle(family))
    assert tokenizer.encode("Hello <think>") == loaded(models_dir / family).encode("Hello <think>")
    assert has_merges(tokenizer)


def test_only_a_tokenizer_that_merges_bytes_has_it(models_dir: Path) -> None:
    plain = loaded(models_dir / "qwen3")
    spec = json.loads(plain.read_source())
    cuts = {token["content"]: token["id"] for token in spec["added_tokens"]}
    around: tuple[list[int], list[int]] = ([], [])
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    assert pack_merges(plain.read_source(), cuts, around, "s") is not None

    def packed(cuts: dict[str, int] = cuts, **changes: Any) -> bytes | None:
        changed = {**spec, "model": {**spec["model"], **changes}}
        return pack_merges(json.dumps(changed).encode(), cuts, around, "s")

    assert packed(type="WordPiece") is None
    assert packed(dropout=0.1) is None
    assert packed(unk_token="<unk>") is None
    assert packed(byte_fallback=True) is None
    assert packed(end_of_word_suffix="</w>") is None
    assert packed(vocab={"a": 0}, merges=[]) is None, "bytes without a token"
    for steps in (
        None,
        {"type": "Whitespace"},
        {"type": "Sequence", "pretokenizers": [byte_level, {"type": "Digits"}]},
    ):
        changed = json.dumps({**spec, "pre_tokenizer": steps}).encode()
        assert pack_merges(changed, cuts, around, "s") is None, steps


def test_a_token_that_is_not_cut_at_leaves_it_out(models_dir: Path) -> None:
    """One of the configuration that is found after normalizing."""
    plain = loaded(models_dir / "families")
    assert packed_merges(plain, 300) is not None
    more = [{"content": "word", "special": False, "normalized": True}]
    assert packed_merges(FastTokenizer(plain.table, plain.special, plain.read_source, extra_tokens=more), 300) is None


def test_a_function_has_all_merges_in_its_snapshot(bundle: Bundle) -> None:
    for choice in ("auto", "off"):
        settings = Settings(model=str(bundle("families")), fast_encoder=choice)
        for prepared in (False, True):
            loader = ModelLoader(settings)
            load_at_start(loader, settings, prepared)
            tokenizer = loader.get().tokenizer
            assert isinstance(tokenizer, FastTokenizer)
            assert has_merges(tokenizer) is prepared


def test_a_folder_that_was_a_bundle_and_was_changed_does_not_use_it(bundle: Bundle, tmp_path: Path) -> None:
    files = FolderFiles(bundle("families"))
    for name in files.names():
        (tmp_path / name).write_bytes(files.read(name))
    same = loaded(tmp_path)
    same.encode("some text")
    assert not has_merges(same)
    (tmp_path / "tokenizer.json").write_bytes(files.read("tokenizer.json") + b"\n")
    changed = loaded(tmp_path)
    changed.encode("some text")
    assert has_merges(changed)


def test_a_tokenizer_from_elsewhere_brings_its_own(bundle: Bundle, models_dir: Path) -> None:
    files = OtherTokenizer(FolderFiles(models_dir / "llama3"), FolderFiles(bundle("qwen3")))
    tokenizer = load_tokenizer(files)
    assert isinstance(tokenizer, FastTokenizer)
    assert tokenizer.encode("some text") == loaded(models_dir / "qwen3").encode("some text")
    assert not has_merges(tokenizer)


@pytest.mark.parametrize("spoil", [lambda data: b"", lambda data: data[:-8], lambda data: b"{}\n", lambda data: b"[]\n" + data,
                                   lambda data: data.replace(b'"version":1', b'"version":9', 1)])  # fmt: skip
def test_a_spoilt_file_is_refused(bundle: Bundle, spoil: Callable[[bytes], bytes]) -> None:
    data = (bundle("qwen3") / MERGES_NAME).read_bytes()
    assert unpack_merges(data, dict).subject
    with pytest.raises(ConfigurationError, match="merges"):
        unpack_merges(spoil(data), dict)


def test_an_altered_file_is_never_used(bundle: Bundle, tmp_path: Path) -> None:
    folder = shutil.copytree(bundle("qwen3"), tmp_path / "bundle")
    data = bytearray((folder / MERGES_NAME).read_bytes())
    data[-1] ^= 1
    (folder / MERGES_NAME).write_bytes(data)
    with pytest.raises(ConfigurationError, match="SHA-256"):
        loaded(folder).encode("some text")


def _outcome(tokenizer: FastTokenizer, text: str) -> Any:
    try:
        return tokenizer.encode(text)
    except Exception as exc:
        return type(exc)
