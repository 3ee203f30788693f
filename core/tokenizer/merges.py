"""Packing a tokenizer's merges for a bundle, where the ids that are made of them are those of ``tokenizers``."""

from __future__ import annotations

from core.tokenizer.adapter import FastTokenizer
from core.tokenizer.fast.comparison import compare
from core.tokenizer.first_encoder import pack_merges, unpack_merges
from core.tokenizer.splitting import splitting_of

_ENCODES = 3_000


def packed_merges(tokenizer: FastTokenizer, encodes: int = _ENCODES) -> bytes | None:
    """The file ``MERGES_NAME`` of a bundle.

    None where ids are made otherwise, or some of ``encodes`` texts have others.
    """
    backend = tokenizer.backend_tokenizer
    splitting = splitting_of(backend)
    around = tokenizer.around
    if splitting is None or around is None:
        return None
    if any(token.content not in splitting.ids for token in backend.get_added_tokens_decoder().values()):
        return None  # found after normalizing: not at a cut
    data = pack_merges(tokenizer.read_source(), splitting.ids, around, tokenizer.subject)
    if data is None:
        return None
    first = unpack_merges(data, tokenizer.base_vocabulary)

    def ids(text: str) -> list[int] | None:
        found: list[int] = []
        for part in splitting.split(text):
            of_part = first.ids(part, unbounded=True) if isinstance(part, str) else [part]
            if of_part is None:
                return None
            found += of_part
        return found

    return None if compare(tokenizer, ids, encodes).different else data
