"""Pieces, damaged vocabularies, and the edges at which ours is not vLLM's tokenizer."""

import json
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.bundle.folder import FolderFiles
from core.errors import BadRequest, ConfigurationError
from core.text.detokenizer import DecodeOptions, detokenize, seed_window
from core.tokenizer import load_tokenizer
from core.tokenizer.mistral import TekkenTokenizer, load_tekken
from core.tokenizer.mistral_chat import adjust_messages, text_message
from core.tokenizer.tekken import join_pieces, piece_of, read_tekken

Of = Callable[[str], TekkenTokenizer]
MARKS = "".join(map(chr, range(0x10FF80, 0x110000)))


@given(st.lists(st.binary(max_size=8), max_size=8))
def test_pieces_lose_no_byte_and_travel_as_json(parts: list[bytes]) -> None:
    pieces = [piece_of(part) for part in parts]
    assert json.loads(json.dumps(pieces, ensure_ascii=False).encode()) == orjson.loads(orjson.dumps(pieces)) == pieces
    assert join_pieces(pieces) == b"".join(parts).decode("utf-8", "replace")


@given(st.text(st.sampled_from("a\u00e9\U0001f389" + MARKS[0] + MARKS[-1]), max_size=6), st.integers(0, 24))
def test_characters_that_serve_as_marks_stay_themselves(text: str, cut: int) -> None:
    raw = text.encode()
    assert join_pieces([piece_of(raw[:cut]), piece_of(raw[cut:])]) == text


def small(**changes: Any) -> dict[str, Any]:
    words = [bytes([i]) for i in range(256)] + [b" hi", "\u6f22".encode()[:2]]
    return {
        "config": {"default_vocab_size": 264, "default_num_special_tokens": 6, "version": "v11", "pattern": "."},
        "special_tokens": [{"rank": i, "token_str": t} for i, t in enumerate(("<unk>", "<s>", "</s>", "[TOOL_CALLS]"))],
        "vocab": [
            {"rank": i, "token_bytes": b64encode(word).decode(), "token_str": None} for i, word in enumerate(words)
        ],
        **changes,
    }


def test_a_small_vocabulary() -> None:
    found = read_tekken(orjson.dumps(small()))
    assert found.version == 11
    assert found.special == ["<unk>", "<s>", "</s>", "[TOOL_CALLS]", "<SPECIAL_4>", "<SPECIAL_5>"]
    assert (found.pieces[6 + 97], found.pieces[262], found.pieces[263]) == ("a", " hi", "\U0010ffe6\U0010ffbc")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{}",
        b'{"config": null}',
        orjson.dumps(small(vocab=small()["vocab"][:-1])),
        orjson.dumps(small(vocab=small()["vocab"][::-1])),
        orjson.dumps(small(vocab=[{**entry, "token_bytes": "%"} for entry in small()["vocab"]])),
        orjson.dumps(small(special_tokens=None)),
        orjson.dumps(small(special_tokens=[{"rank": 1, "token_str": "<s>"}])),
        orjson.dumps(small(special_tokens=[{"rank": 0, "token_str": "<s>"}, {"rank": 1, "token_str": "<s>"}])),
        orjson.dumps(small(special_tokens=[{"rank": i, "token_str": str(i)} for i in range(7)])),
        orjson.dumps(small(config={**small()["config"], "version": "eleven"})),
        orjson.dumps(small(config={**small()["config"], "default_vocab_size": 10**12})),
        orjson.dumps(small(config={**small()["config"], "default_num_special_tokens": -1})),
    ],
)
def test_a_damaged_file_is_named(raw: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"tekken\.json"):
        load_tekken(lambda: raw, "model")


def test_a_character_between_kept_special_tokens_is_whole(tekken_of: Of) -> None:
    """vLLM gives U+FFFD for every token that is part of a character when special tokens are kept."""
    tokenizer = tekken_of("v13")
    ids = [119685, 1145, 1169, 29568, 1240, 1159, 1154, 1128]  # " \U0001f469\u200d\U0001f680"
    text, window = "", seed_window(tokenizer, None, False)
    for token_id in [34, *ids, 35]:
        new, window = detokenize(tokenizer, [token_id], window, DecodeOptions(False, True))
        text += new
    assert text == "[THINK] \U0001f469\u200d\U0001f680[/THINK]"


def test_ids_outside_the_vocabulary(tekken_of: Of) -> None:
    """They give nothing, as with every other tokenizer; vLLM fails over them, or takes -1 for a special token."""
    tokenizer = tekken_of("v3")
    size = len(tokenizer)
    assert tokenizer.decode([8101, size, 5913]) == "hi ok"
    assert tokenizer.convert_ids_to_tokens([size, 8101]) == [None, "hi"]
    assert tokenizer.id_to_token(size) is None
    for token_id in (-1, 2**32):
        with pytest.raises(OverflowError):
            tokenizer.id_to_token(token_id)
        with pytest.raises(OverflowError):
            tokenizer.decode([token_id])


def test_vllm_takes_it_for_its_own(tekken_of: Of) -> None:
    from vllm.utils.mistral import is_mistral_tokenizer

    assert is_mistral_tokenizer(tekken_of("v3"))


def test_decoding_does_without_mistral_common(tekken_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "mistral_common"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mistral_common", None)  # the import system's way to say: not installed
    tokenizer = load_tokenizer(FolderFiles(tekken_dir / "tekken-v13"))
    assert isinstance(tokenizer, TekkenTokenizer)
    assert tokenizer.decode([8101, 5913]) == "hi ok"
    needs_it: list[Callable[[], object]] = [
        lambda: tokenizer.encode("hi"),
        lambda: tokenizer.apply_chat_template([{"role": "user", "content": "hi"}]),
        lambda: tokenizer.grammar_factory,
        lambda: tokenizer.llg_tokenizer,
    ]
    for call in needs_it:
        with pytest.raises(ConfigurationError, match=r"derender\[mistral\]"):
            call()


@pytest.mark.parametrize("kind", ["image_url", "image", "input_audio", "audio_url", "video_url"])
def test_what_would_be_fetched_is_refused(kind: str) -> None:
    part = {"type": kind, kind: {"url": "http://localhost:1/x"}, "url": "http://localhost:1/x"}
    with pytest.raises(BadRequest, match="only text"):
        text_message({"role": "user", "content": [{"type": "text", "text": "see"}, part]})


def test_tool_call_ids_are_cut_and_lazy_calls_read() -> None:
    call = {"id": "chatcmpl-tool-0123456789abcdef", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": iter([call])},
        {"role": "tool", "tool_call_id": "chatcmpl-tool-0123456789abcdef", "content": "x"},
        {"role": "tool", "tool_call_id": None, "content": "x"},
        {"role": "assistant", "content": "y"},
    ]
    adjust_messages(messages)
    assert messages[0]["tool_calls"] == [{**call, "id": "789abcdef"}]
    assert [message.get("tool_call_id") for message in messages[1:3]] == ["789abcdef", None]
    assert messages[3]["tool_calls"] == []
