"""Compares two files of probe.py and prints how many cases of each part agree, and the first that do not.

    python tests/slice/parity/compare.py full.jsonl.gz slice.jsonl.gz

The exit status is 1 when any case differs or exists on one side only.
"""

import collections
import gzip
import json
import sys
from pathlib import Path
from typing import Any


def read(path: Path) -> dict[str, Any]:
    """The results of one run by the name of the case."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return dict(json.loads(line) for line in file)


def first_difference(left: Any, right: Any, place: str = "") -> str:
    """Where two results part, and what each has there."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            if key not in left or key not in right or left[key] != right[key]:
                return first_difference(left.get(key), right.get(key), f"{place}/{key}")
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (a, b) in enumerate(zip(left, right, strict=True)):
            if a != b:
                return first_difference(a, b, f"{place}/{index}")
    return f"{place}: {json.dumps(left)[:300]} != {json.dumps(right)[:300]}"


def main() -> int:
    left, right = (read(Path(argument)) for argument in sys.argv[1:3])
    counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0, 0])
    different: list[str] = []
    for name in dict.fromkeys([*left, *right]):
        count = counts[name.split()[0]]
        count[0] += 1
        result = left.get(name)
        count[2] += isinstance(result, dict) and "error" in result
        if name not in left or name not in right or left[name] != right[name]:
            count[1] += 1
            different.append(name)
    for part, (cases, differ, errors) in counts.items():
        print(f"{part:10} {cases:6} cases ({errors} of them errors), {differ} differ")
    print(f"{'all':10} {sum(c[0] for c in counts.values()):6} cases, {len(different)} differ")
    for name in different[:20]:
        print(f"{name}\n    {first_difference(left.get(name), right.get(name))}")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
