"""``make bench``: run the benchmarks, write ``benchmarks/results/NAME.json``, print the tables, draw the charts.

python -m benchmarks [NAME ...]   run all, or those named; then the charts
python -m benchmarks charts       only draw docs/charts/*.svg anew, from the last results
python -m benchmarks --markdown   only put the tables of the last results into the documents, and draw the charts
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import platform
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.harness.charts import write_charts
from benchmarks.harness.setups import ROOT
from benchmarks.harness.tables import write_tables
from handlers.progress import progress

# In the order of the tables; each module has run() -> rows, and the question that it answers as its first line.
NAMES = (
    "start_to_answer", "server_memory", "render_time", "stream_time", "dialect_chunk_time", "one_shot_time",
    "audit_cost", "time_by_part", "encoder_speed", "relay_overhead", "streams_per_cpu", "picture_time",
    "function_start", "function_call", "stream_price", "attack_pauses",
)  # fmt: skip
RESULTS = ROOT / "benchmarks" / "results"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; charts; default: all")
    parser.add_argument("--markdown", action="store_true", help="put the last tables into the documents, run nothing")
    options = parser.parse_args()
    if options.markdown and options.names:
        parser.error("--markdown takes no names: it writes every table that has results")
    unknown = set(options.names) - {*NAMES, "charts"}
    if unknown:
        parser.error(f"no benchmark called {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    RESULTS.mkdir(exist_ok=True)
    began = time.perf_counter()
    names = () if options.markdown else [name for name in options.names if name != "charts"]
    wanted = names if options.names or options.markdown else NAMES
    failed = []
    with progress("benchmarks", len(wanted)) as tell:
        for name in wanted:
            if not measured(name):
                failed.append(name)
            tell(name, 1)
    if not options.markdown:
        print(f"{time.perf_counter() - began:.0f} s in all")
    results = last_results()
    if options.markdown:
        print("tables:", ", ".join(write_tables(results)))
    for path in write_charts({name: result["rows"] for name, result in results.items()}):
        print("chart:", path.relative_to(ROOT))
    if failed:
        print("failed:", ", ".join(failed), file=sys.stderr)
    return 1 if failed else 0


def measured(name: str) -> bool:
    """Run one benchmark and keep its result; False where it failed, which must not cost the results of the others."""
    began, others = time.perf_counter(), _cpu_of_others()
    try:
        module = importlib.import_module(f"benchmarks.{name}")
        rows = module.run()
    except Exception:
        traceback.print_exc()
        return False
    seconds = time.perf_counter() - began
    result = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "others": max(0.0, _cpu_of_others() - others) / seconds,
        "seconds": seconds,
        "rows": rows,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
    print((module.__doc__ or "").partition("\n")[0])
    show(f"{name}, {seconds:.0f} s, others used {result['others']:.2f} cores", rows)
    return True


def last_results() -> dict[str, dict[str, Any]]:
    """What was measured last, by the benchmark's name."""
    return {name: json.loads(path.read_text()) for name in NAMES if (path := RESULTS / f"{name}.json").is_file()}


def _cpu_of_others() -> float:
    """Seconds of processor time that were not ours or our ended children's, since the machine's start."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _, _, hard, soft, steal = fields
    used = (user + nice + system + hard + soft + steal) / os.sysconf("SC_CLK_TCK")
    return used - sum(os.times()[:4])


def _cpu() -> str:
    """The processor's name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """Print one benchmark's rows as a table; lists are for the charts."""
    table = Table(title=title.replace("_", " "))
    first = max(rows, key=len, default={})
    columns = [column for column in first if not isinstance(first[column], list)]
    for column in columns:
        table.add_column(column.replace("_", " "), justify="left" if isinstance(first[column], str) else "right")
    for row in rows:
        values = (row.get(column, "") for column in columns)
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in values))
    Console(width=max(200, Console().width)).print(table)


if __name__ == "__main__":
    sys.exit(main())
