"""``make bench``: run the benchmarks, write ``benchmarks/results/NAME.json`` and print the tables.

python -m benchmarks [NAME ...]
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.setups import ROOT

# In the order of the tables; each module has run() -> rows.
NAMES = ("cold_start", "one_shot", "streaming", "relay", "lambda_cold_start", "lambda_warm", "lambda_cost")
RESULTS = ROOT / "benchmarks" / "results"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default: all")
    names = parser.parse_args().names or NAMES
    unknown = set(names) - set(NAMES)
    if unknown:
        parser.error(f"no benchmark called {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    RESULTS.mkdir(exist_ok=True)
    for name in names:
        rows = importlib.import_module(f"benchmarks.{name}").run()
        result = {"python": platform.python_version(), "machine": platform.machine(), "rows": rows}
        (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
        show(name, rows)
    return 0


def show(name: str, rows: list[dict[str, Any]]) -> None:
    """Print one benchmark's rows as a table."""
    table = Table(title=name.replace("_", " "))
    for column in rows[0]:
        table.add_column(column.replace("_", " "), justify="left" if isinstance(rows[0][column], str) else "right")
    for row in rows:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console(width=max(160, Console().width)).print(table)


if __name__ == "__main__":
    sys.exit(main())
