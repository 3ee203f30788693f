"""The measurements of docs/results/turns.md: python -m tests.turns [--only NAME ...] [--chats N] [--write].

Generated chats of every family under every policy, with everything checked that
must hold; the cost of a continued render at 32,000 tokens; the bytes of a request.
It needs the published templates: pip install --no-deps trl==1.16.0
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path

from core.model import Model
from tests.turns import cost, page
from tests.turns.chats import Style
from tests.turns.conversation import PLAIN, Tally, run_chat
from tests.turns.families import FAMILIES, PUBLISHED, Family, have_published

STYLES = [Style(*flags) for flags in itertools.product((False, True), repeat=3)]
# One with a template that keeps reasoning and one that does not.
COSTS = ("qwen3, ours", "qwen 3", "llama 3.1")


def main() -> int:
    """0 when nothing was wrong."""
    parser = argparse.ArgumentParser(description="measure conversations that continue token for token")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[family.name for family in FAMILIES])
    parser.add_argument("--chats", type=int, default=3, help="chats of 20 turns of each family and style")
    parser.add_argument("--write", action="store_true", help="write docs/results/turns.md")
    options = parser.parse_args()
    if not have_published():
        sys.exit(f"the published templates are missing: pip install --no-deps {PUBLISHED.requirement}")
    tallies: dict[str, dict[str, Tally]] = {}
    costs, sizes = [], []
    with tempfile.TemporaryDirectory() as folder:
        for family in FAMILIES:
            if options.only and family.name not in options.only:
                continue
            begun = time.monotonic()
            model = family.load(Path(folder), max_model_len=None if family.folder == "mistral-spm" else 40_960)
            tallies[family.name] = {policy: _tally(model, family, policy, options.chats) for policy in page.POLICIES}
            if family.name in COSTS:
                costs += cost.measure(model, family)
            if family.name == COSTS[1]:
                sizes = cost.sizes(model, family)
            _show(family, tallies[family.name], time.monotonic() - begun)
    written = page.text(tallies, options.chats, PUBLISHED.version, costs, sizes)
    print(written)
    if options.write:
        page.PATH.write_text(written, encoding="utf-8")
    every = [tally for family in tallies.values() for tally in family.values()]
    for example in itertools.chain.from_iterable(tally.examples for tally in every):
        print(example, file=sys.stderr)
    return int(any(tally.wrong_text or tally.wrong_spans or tally.wrong_edits for tally in every))


def _tally(model: Model, family: Family, policy: str, chats: int) -> Tally:
    tally = Tally()
    for style, seed in itertools.product(STYLES, range(chats)):
        tally.add(run_chat(model, family, policy, style, seed))
    return tally


def _show(family: Family, tallies: dict[str, Tally], seconds: float) -> None:
    modes = {policy: dict(tally.modes) for policy, tally in tallies.items() if policy != PLAIN}
    print(f"{family.name}: {modes} ({seconds:.0f} s)", file=sys.stderr, flush=True)
    for tally in tallies.values():
        if tally.wrong_text or tally.wrong_spans or tally.wrong_edits:
            print(f"  wrong: {tally.wrong_text} {tally.wrong_spans} {tally.wrong_edits}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
