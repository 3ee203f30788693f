"""SentencePiece BPE models: from the published .model file to a tokenizer.json.

The file is one protobuf message whose field 1 repeats the pieces; only these are read, so neither protobuf nor the
sentencepiece library is needed.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from infra.models.tokenizer_json import TokenizerJson, added_token

SPACE = "▁"
"""The character that stands for a space in pieces (U+2581)."""

_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3


class Piece(NamedTuple):
    """A piece of the vocabulary; its position is its id.  `kind`: 1 normal, 2 unknown, 3 control, 6 byte."""

    text: str
    score: float
    kind: int


def _varint(buffer: bytes, position: int) -> tuple[int, int]:
    """(value, position after it)."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7


def _fields(buffer: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The (field number, value) pairs of one protobuf message."""
    position = 0
    while position < len(buffer):
        key, position = _varint(buffer, position)
        wire_type = key & 7
        if wire_type == 0:
            value, position = _varint(buffer, position)
            yield key >> 3, value
            continue
        if wire_type == 2:
            size, position = _varint(buffer, position)
        elif wire_type in (1, 5):
            size = 8 if wire_type == 1 else 4
        else:
            raise ValueError(f"not a SentencePiece model: wire type {wire_type} at byte {position}")
        yield key >> 3, buffer[position : position + size]
        position += size


def _piece(message: bytes) -> Piece:
    text, score, kind = "", 0.0, _NORMAL
    for number, value in _fields(message):
        if isinstance(value, int):
            kind = value if number == 3 else kind
        elif number == 1:
            text = value.decode("utf-8")
        elif number == 2:
            (score,) = struct.unpack("<f", value)
    return Piece(text, score, kind)


def read_pieces(model: bytes) -> list[Piece]:
    """The pieces of a SentencePiece .model file, in the order of their ids."""
    return [_piece(value) for number, value in _fields(model) if number == 1 and isinstance(value, bytes)]


def _merges(pieces: list[Piece], vocabulary: dict[str, int]) -> list[list[str]]:
    """Every way to make a piece of two known ones: pieces with high scores first, then by ids.

    SentencePiece merges whichever pair makes the best piece; this order makes BPE do the same.
    """
    found = []
    for text, score, kind in pieces:
        if kind != _NORMAL:
            continue
        for cut in range(1, len(text)):
            left, right = text[:cut], text[cut:]
            if left in vocabulary and right in vocabulary:
                found.append((-score, vocabulary[text], vocabulary[left], vocabulary[right], left, right))
    return [[left, right] for *_, left, right in sorted(found)]


def sentencepiece_tokenizer(pieces: list[Piece]) -> TokenizerJson:
    """A BPE tokenizer with metaspace, byte fallback and a `<s>` before every text."""
    vocabulary = {piece.text: i for i, piece in enumerate(pieces)}
    special = [(i, piece.text) for i, piece in enumerate(pieces) if piece.kind in (_UNKNOWN, _CONTROL)]

    def begin(type_id: int, sequence: str) -> list[dict[str, object]]:
        return [
            {"SpecialToken": {"id": "<s>", "type_id": type_id}},
            {"Sequence": {"id": sequence, "type_id": type_id}},
        ]

    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added_token(i, text, True) for i, text in special],
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": False},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": begin(0, "A"),
            "pair": [*begin(0, "A"), *begin(1, "B")],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [vocabulary["<s>"]], "tokens": ["<s>"]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": _merges(pieces, vocabulary),
        },
    }
