"""A process of its own: compares ``fastokens`` with ``tokenizers`` over one model folder, writes JSON.

python -m benchmarks.harness.fastokens_child FOLDER STRINGS_OF_EACH_KIND
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastokens
from tokenizers import AddedToken, Tokenizer

from benchmarks.harness.chats import prose
from core.tokenizer.fast.corpus import corpus

# Flags that a folder's configuration may give tokens of its own.
_FLAGGED = [
    AddedToken("<|left|>", lstrip=True),
    AddedToken("<|right|>", rstrip=True, special=True),
    AddedToken("<|both|>", lstrip=True, rstrip=True),
    AddedToken("oneword", single_word=True, normalized=True),
    AddedToken("Émile", normalized=True),
]
# Characters of prose that make a chat of about 815 tokens, and one of 8,000.
_SIZES = {"815": 3_400, "8k": 33_000}
_SHOWN = 3


def main() -> None:
    folder, each = Path(sys.argv[1]), int(sys.argv[2])
    path = folder / "tokenizer.json"
    source = path.read_text(encoding="utf-8")
    result: dict[str, Any] = {"model": folder.name}
    before, began = _resident_mb(), time.perf_counter()
    theirs = Tokenizer.from_str(source)
    result |= {"load_ms": (time.perf_counter() - began) * 1e3, "load_mb": _resident_mb() - before}
    before, began = _resident_mb(), time.perf_counter()
    try:
        fast = fastokens.Tokenizer.from_json_str(source)
    except ValueError as refused:
        print(json.dumps({**result, "refused": str(refused)}))
        return
    result |= {"fast_load_ms": (time.perf_counter() - began) * 1e3, "fast_load_mb": _resident_mb() - before}
    result |= _times(theirs, fast)
    theirs.no_truncation()
    theirs.no_padding()
    fast.no_truncation()
    fast.no_padding()
    result |= _equality(theirs, fast, each)
    theirs.add_tokens(_FLAGGED)
    fast.add_tokens(_FLAGGED)
    result["flagged"] = _equality(theirs, fast, each // 4)
    print(json.dumps(result))


def _equality(theirs: Tokenizer, fast: fastokens.Tokenizer, each: int) -> dict[str, Any]:
    """How many strings were encoded, and how many to other ids; with and without special tokens, and split ones.

    ``long_s`` counts those that are equal when "ſ", which "s" matches when case is ignored, is taken out.
    """
    added = [token.content for token in theirs.get_added_tokens_decoder().values()]
    chance = random.Random(3)
    size = theirs.get_vocab_size()
    pieces = [theirs.decode([chance.randrange(size)], skip_special_tokens=False) for _ in range(20_000)]
    strings = encodes = decodes = decoded_otherwise = long_s = 0
    differing: dict[str, int] = {}
    shown: list[dict[str, Any]] = []
    for kind, text in corpus(added, pieces, each):
        strings += 1
        ways = [(True, False), (False, False)] if strings % 4 else [(True, False), (False, True)]
        for special, split in ways:
            theirs.encode_special_tokens = split
            expected = theirs.encode(text, add_special_tokens=special).ids
            found = _attempt(lambda: list(fast.encode(text, special, split).ids))  # noqa: B023
            encodes += 1
            if found != expected:
                plain = text.replace("ſ", "s")
                again = list(fast.encode(plain, special, split).ids)
                long_s += again == theirs.encode(plain, add_special_tokens=special).ids
                differing[kind] = differing.get(kind, 0) + 1
                if len(shown) < _SHOWN * len(differing):
                    shown.append({"kind": kind, "text": text[:80], "expected": expected[:12], "found": found})
        theirs.encode_special_tokens = False
        # What a model may write: the ids of the text, and of every fourth text ids at random.
        ids = expected if strings % 4 else [chance.randrange(size) for _ in range(chance.randrange(1, 12))]
        skip = bool(strings % 2)
        decodes += 1
        decoded_otherwise += _attempt(lambda: fast.decode(ids, skip)) != theirs.decode(ids, skip)  # noqa: B023
    return {
        "strings": strings,
        "encodes": encodes,
        "different": sum(differing.values()),
        "by_kind": differing,
        "long_s": long_s,
        "decodes": decodes,
        "decoded_otherwise": decoded_otherwise,
        "shown": [{**one, "found": str(one["found"])[:120]} for one in shown],
    }


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def _attempt(call: Callable[[], Any]) -> Any:
    """The result, or the error: a panic of Rust code is not an Exception."""
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return repr(error)[:100]


def _times(theirs: Tokenizer, fast: fastokens.Tokenizer) -> dict[str, float]:
    """Median milliseconds and CPU milliseconds of one encode: of texts never seen before, and of one text again."""
    calls: dict[str, Callable[[str], list[int]]] = {
        "": lambda text: list(theirs.encode(text, add_special_tokens=False).ids),
        "no_offsets_": lambda text: list(theirs.encode_batch_fast([text], add_special_tokens=False)[0].ids),
        "fast_": lambda text: list(fast.encode(text, False).ids),
    }
    found = {}
    whole = prose()
    for size, characters in _SIZES.items():
        windows = [whole[at : at + characters] for at in range(0, len(whole) - characters, characters)][:120]
        texts, unseen = windows[::2], windows[1::2]
        for kind, sent in (("fresh", texts), ("same", texts[:1] * 40)):
            wall: dict[str, list[float]] = {name: [] for name in calls}
            for text in sent:
                for name, call in calls.items():
                    began = time.perf_counter()
                    call(text)
                    wall[name].append(time.perf_counter() - began)
            for name, took in wall.items():
                found[f"{name}{kind}_{size}_ms"] = statistics.median(took) * 1e3
        for name, call in calls.items():
            began = time.process_time()
            for text in unseen:
                call(text)
            found[f"{name}cpu_{size}_ms"] = (time.process_time() - began) / len(unseen) * 1e3
    return found


if __name__ == "__main__":
    main()
