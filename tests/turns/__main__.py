"""The measurements of docs/results/turns.md: python -m tests.turns [--only NAME ...] [--chats N] [--write].

Generated chats of every family under every policy, with everything checked that
must hold; the cost of a continued render at 32,000 tokens; the bytes of a request.
A family that is measured is kept in build/turns, and not measured again; --again
forgets it. It needs the published templates: pip install --no-deps trl==1.16.0
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.turns import cost, page
from tests.turns.chats import Style
from tests.turns.conversation import Tally, run_chat
from tests.turns.families import FAMILIES, PUBLISHED, Family, have_published

KEPT = page.PATH.parents[2] / "build" / "turns"
STYLES = [Style(*flags) for flags in itertools.product((False, True), repeat=3)]
# What promises something is measured at length.
PROMISES = ("exact", "append")
# One with a template that keeps reasoning, one with a template that does not, and one without any.
COSTS = ("qwen3, ours", "qwen 3", "llama 3.1")


def main() -> int:
    """0 when nothing was wrong."""
    parser = argparse.ArgumentParser(description="measure conversations that continue token for token")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[family.name for family in FAMILIES])
    parser.add_argument("--chats", type=int, default=3, help="chats of 20 turns of each family and style")
    parser.add_argument("--again", action="store_true", help="measure what is kept anew")
    parser.add_argument("--write", action="store_true", help="write docs/results/turns.md of all that is kept")
    options = parser.parse_args()
    if not have_published():
        sys.exit(f"the published templates are missing: pip install --no-deps {PUBLISHED.requirement}")
    KEPT.mkdir(parents=True, exist_ok=True)
    for family in FAMILIES:
        if options.only and family.name not in options.only:
            continue
        kept = KEPT / f"{family.name}.json"
        if options.again or not kept.exists():
            begun = time.monotonic()
            kept.write_text(json.dumps(_measured(family, options.chats)))
            print(f"{family.name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    found = {family.name: KEPT / f"{family.name}.json" for family in FAMILIES}
    results = {name: json.loads(path.read_text()) for name, path in found.items() if path.exists()}
    tallies = {name: {policy: _tally(one) for policy, one in all_["tallies"].items()} for name, all_ in results.items()}
    costs = [row for one in results.values() for row in one["costs"]]
    sizes = [row for one in results.values() for row in one["sizes"]]
    written = page.text(tallies, options.chats, PUBLISHED.version, costs, sizes)
    print(written)
    if options.write:
        page.PATH.write_text(written, encoding="utf-8")
    every = [tally for family in tallies.values() for tally in family.values()]
    for example in itertools.chain.from_iterable(tally.examples for tally in every):
        print(example, file=sys.stderr)
    return int(any(tally.wrong_text or tally.wrong_spans or tally.wrong_edits for tally in every))


def _measured(family: Family, chats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        model = family.load(Path(folder))
        tallies = {}
        for policy in page.POLICIES:
            tally = Tally()
            for style, seed in itertools.product(STYLES, range(chats if policy in PROMISES else 1)):
                tally.add(run_chat(model, family, policy, style, seed))
            tallies[policy] = dict(vars(tally))
        costs = cost.measure(family, Path(folder)) if family.name in COSTS else []
        sizes = cost.sizes(model, family) if family.name == COSTS[1] else []
    return {"tallies": tallies, "costs": costs, "sizes": sizes}


def _tally(fields: dict[str, Any]) -> Tally:
    return Tally(**{name: Counter(value) if isinstance(value, dict) else value for name, value in fields.items()})


if __name__ == "__main__":
    sys.exit(main())
