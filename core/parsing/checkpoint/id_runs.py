"""What may be left out of a list of token ids in which a parser only looks for markers."""

from __future__ import annotations

from collections.abc import Iterable

# Ids that are kept as they are at the end of a list: the parsers look back at single ids and at markers of a few.
_LAST_IDS = 8


def fewer_ids(ids: list[int], markers: Iterable[int | None]) -> list[int]:
    """``ids`` with each run of ids other than ``markers`` cut down to its last one, apart from the end.

    Whether, how often and in which order markers occur, what stands next to
    what, and the last ids stay the same.
    """
    if len(ids) <= 2 * _LAST_IDS:
        return ids
    wanted = set(markers)
    kept: list[int] = []
    skipped: int | None = None
    for token_id in ids[:-_LAST_IDS]:
        if token_id not in wanted:
            skipped = token_id
            continue
        if skipped is not None:
            kept.append(skipped)
            skipped = None
        kept.append(token_id)
    if skipped is not None:
        kept.append(skipped)
    return kept + ids[-_LAST_IDS:]
