"""The decode half of a tokenizer: id -> token text, and the decoder that joins tokens.

Derender never encodes, and a tokenizer's merges are most of its load time, so
this table is all that a decoding process builds. It is read from a
``tokenizer.json`` (the merges are cut out before parsing) or, faster, from the
packed file that ``derender bundle`` writes beside it.

The joining itself is done by the decoder of the ``tokenizers`` package, built
from the same configuration: this module must never decode bytes on its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from tokenizers import Tokenizer as RustTokenizer
from tokenizers.decoders import Decoder

from core.errors import ConfigurationError
from core.text.unfinished import ByteForm

PACKED_NAME = "derender-vocab.bin"
# Beside it, for the first texts that are encoded: ``first_encoder.py``, which is loaded with them.
MERGES_NAME = "derender-merges.bin"
_PACKED_VERSION = 1
# The largest published vocabularies have some 300,000 tokens; a larger id is a damaged file.
_MAX_IDS = 2**24
# The opening of the merges list. A vocabulary entry "merges" is followed by a
# number and a quote inside a token is escaped, so only the real key matches.
_MERGES = re.compile(rb'"merges"\s*:\s*\[')
_TAIL = re.compile(rb"\]\s*\}\s*\}\s*$")


@dataclass(frozen=True)
class DecodeTable:
    """What decoding needs.

    ``tokens[i]`` is the text of id ``i`` or None where the vocabulary has a
    hole. ``size`` counts distinct tokens (what ``len(tokenizer)`` is in
    transformers), ``base_size`` those of the model without added tokens.
    ``added`` maps added tokens to ids; ``flagged`` holds the ids that
    ``tokenizer.json`` flags special. ``space_marker`` is the character that
    stands for a leading space in SentencePiece-like vocabularies, else None.
    """

    tokens: list[str | None]
    size: int
    base_size: int
    added: Mapping[str, int]
    flagged: frozenset[int]
    decoder: Decoder | None
    decoder_config: Any
    space_marker: str | None

    @property
    def joins_exactly(self) -> bool:
        """Whether the decoder treats each token by itself: byte-level ones do, cleaning-up ones do not."""
        config = self.decoder_config
        return isinstance(config, Mapping) and config.get("type") == "ByteLevel"

    @property
    def byte_form(self) -> ByteForm:
        """How the decoder makes characters of bytes; ``UNKNOWN`` for whatever is not plainly one of the others."""
        if self.joins_exactly:
            return ByteForm.JOINED
        config = self.decoder_config
        parts = config.get("decoders") if isinstance(config, Mapping) and config.get("type") == "Sequence" else None
        if not isinstance(parts, list) or not all(map(_keeps_runs, parts)):
            return ByteForm.UNKNOWN
        return ByteForm.RUNS if any(part["type"] == "ByteFallback" for part in parts) else ByteForm.UNKNOWN

    def join(self, tokens: list[str]) -> str:
        """The text of a run of tokens."""
        if self.decoder is None:
            return " ".join(tokens)
        return self.decoder.decode(tokens)


def read_table(raw: bytes, extra: Sequence[Mapping[str, Any]] = ()) -> DecodeTable:
    """Build the table from the bytes of a ``tokenizer.json``.

    ``extra`` lists tokens to append as transformers does when the
    configuration names tokens that the file lacks: ``{"content", "special"}``.

    Raises:
        ConfigurationError: the file is not a tokenizer.
    """
    try:
        spec = orjson.loads(_without_merges(raw))
        vocab = _base_vocab(spec["model"])
        entries = spec.get("added_tokens") or []
        added = {str(t["content"]): int(t["id"]) for t in entries}
        flagged = {int(t["id"]) for t in entries if t.get("special")}
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as exc:
        raise ConfigurationError(f"tokenizer.json is not a tokenizer: {exc}") from exc
    base_size = len(vocab)
    next_id = max([base_size - 1, *added.values()]) + 1
    for token in extra:
        content = str(token["content"])
        token_id = added.get(content, vocab.get(content))
        if token_id is None:
            token_id, next_id = next_id, next_id + 1
        added.setdefault(content, token_id)
        if token.get("special"):
            flagged.add(token_id)
    every = [*vocab.values(), *added.values()]
    if not all(isinstance(i, int) and 0 <= i < _MAX_IDS for i in every):
        raise ConfigurationError(f"tokenizer.json is not a tokenizer: an id is not between 0 and {_MAX_IDS}")
    tokens: list[str | None] = [None] * (max(every, default=-1) + 1)
    for text, token_id in vocab.items():
        tokens[token_id] = text
    for text, token_id in added.items():
        tokens[token_id] = text
    size = base_size + sum(text not in vocab for text in added)
    return _table(tokens, size, base_size, added, flagged, spec.get("decoder"), _marker(spec.get("pre_tokenizer")))


def pack_table(table: DecodeTable) -> bytes:
    """The table as one file that loads in a few milliseconds.

    One line of JSON, then all tokens joined by a character that none of them holds.
    """
    text = "".join(token or "" for token in table.tokens)
    separator = next(c for c in map(chr, range(1, 0xD800)) if c != "\n" and c not in text)
    header = {
        "version": _PACKED_VERSION,
        "separator": separator,
        "size": table.size,
        "base_size": table.base_size,
        "holes": [i for i, token in enumerate(table.tokens) if token is None],
        "added": dict(table.added),
        "flagged": sorted(table.flagged),
        "decoder": table.decoder_config,
        "space_marker": table.space_marker,
    }
    body = separator.join(token or "" for token in table.tokens)
    return orjson.dumps(header) + b"\n" + body.encode("utf-8", "surrogatepass")


def unpack_table(raw: bytes) -> DecodeTable:
    """Read what :func:`pack_table` wrote.

    Raises:
        ConfigurationError: the file is of another version or damaged.
    """
    head, _, body = raw.partition(b"\n")
    try:
        header = orjson.loads(head)
        if header["version"] != _PACKED_VERSION:
            raise ConfigurationError(f"{PACKED_NAME} is of version {header['version']}, not {_PACKED_VERSION}")
        tokens: list[str | None] = list(body.decode("utf-8", "surrogatepass").split(header["separator"]))
        for hole in header["holes"]:
            tokens[hole] = None
        return _table(
            tokens,
            header["size"],
            header["base_size"],
            header["added"],
            header["flagged"],
            header["decoder"],
            header["space_marker"],
        )
    except (orjson.JSONDecodeError, UnicodeDecodeError, KeyError, IndexError, TypeError, ValueError) as exc:
        raise ConfigurationError(f"{PACKED_NAME} is damaged: {exc}") from exc


def _table(
    tokens: list[str | None],
    size: int,
    base_size: int,
    added: Mapping[str, int],
    flagged: Any,
    decoder_config: Any,
    space_marker: str | None,
) -> DecodeTable:
    decoder = None
    if decoder_config is not None:
        # The package builds a decoder only as part of a tokenizer; an empty one will do.
        shell = {"version": "1.0", "added_tokens": [], "decoder": decoder_config}
        shell["model"] = {"type": "BPE", "vocab": {}, "merges": []}
        try:
            decoder = RustTokenizer.from_str(orjson.dumps(shell).decode()).decoder
        except Exception as exc:  # the package raises plain Exception
            raise ConfigurationError(f"the tokenizer's decoder is not understood: {exc}") from exc
    return DecodeTable(tokens, size, base_size, added, frozenset(flagged), decoder, decoder_config, space_marker)


def _without_merges(raw: bytes) -> bytes:
    """Cut the merges list out of a tokenizer.json where that is plainly safe."""
    opening = _MERGES.search(raw)
    if opening is None or len(list(_MERGES.finditer(raw))) != 1:
        return raw
    tail = _TAIL.search(raw, len(raw) - 64) if len(raw) > 64 else None
    # The list is the model's last member and the model the file's: the last
    # bracket closes it. Anything else is parsed whole.
    if tail is None or tail.start() < opening.end():
        return raw
    return raw[: opening.end()] + raw[tail.start() :]


def _base_vocab(model: Mapping[str, Any]) -> dict[str, int]:
    vocab = model["vocab"]
    if isinstance(vocab, list):  # Unigram: [token, score] in id order
        return {str(entry[0]): i for i, entry in enumerate(vocab)}
    if not isinstance(vocab, dict):
        raise TypeError("model.vocab is neither a mapping nor a list")
    return vocab


def _keeps_runs(part: Any) -> bool:
    """Whether a part of a decoder leaves byte tokens and the end of the text alone, and makes no text longer."""
    if not isinstance(part, Mapping):
        return False
    if part.get("type") == "Replace":
        pattern, content = part.get("pattern"), part.get("content")
        old = pattern.get("String") if isinstance(pattern, Mapping) else None
        return old == "▁" and isinstance(content, str) and len(content) <= 1 and content != "\ufffd"
    if part.get("type") == "Strip":
        return part.get("stop") == 0
    return part.get("type") in ("ByteFallback", "Fuse")


def _marker(pre_tokenizer: Any) -> str | None:
    """The Metaspace replacement character of a pre-tokenizer, if it has one."""
    if not isinstance(pre_tokenizer, Mapping):
        return None
    if pre_tokenizer.get("type") == "Metaspace":
        return str(pre_tokenizer.get("replacement", "▁"))
    if pre_tokenizer.get("type") == "Sequence":
        for part in pre_tokenizer.get("pretokenizers") or []:
            if part.get("type") == "Metaspace":
                return str(part.get("replacement", "▁"))
    return None
