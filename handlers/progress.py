"""How far something is that takes long: a bar in a terminal, a line for each step elsewhere. On standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(what: str, total: int, *, unit: str = "") -> Iterator[Callable[[str, int], None]]:
    """A function that is told of each step when it is done: its name, and how much of the ``total`` it was.

    ``unit`` "B" counts bytes.
    """
    if not sys.stderr.isatty():
        done = 0

        def say(name: str, amount: int = 1) -> None:
            nonlocal done
            done += amount
            print(
                f"{what}: {done:,} of {total:,}{' bytes' if unit == 'B' else ''}, {name}", file=sys.stderr, flush=True
            )

        yield say
        return
    from tqdm import tqdm  # late: only a terminal shows bars

    with tqdm(desc=what, total=total, unit=unit or "it", unit_scale=unit == "B", file=sys.stderr, leave=False) as bar:

        def show(name: str, amount: int = 1) -> None:
            bar.set_postfix_str(name, refresh=False)
            bar.update(amount)

        yield show
