"""Answers of vLLM 0.33.0's own render server to generated requests, beside the golden corpus and in its form.

`data/recorded.jsonl.gz` holds 1,145 requests drawn at random over the fields of
the three endpoints, valid and not, and over 24 server configurations. Requests
over which vLLM answers a 500, and the deviations that this project makes on
purpose, were left out.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.golden.corpus import Case
from tests.golden.replay import JSON_HEADERS

_DATA = Path(__file__).parent / "data" / "recorded.jsonl.gz"


def load() -> list[Case]:
    """All cases, those of one configuration one after the other."""
    lines = gzip.decompress(_DATA.read_bytes()).decode().split("\n")
    cases = [json.loads(line) for line in lines if line]
    return [
        # What was recorded of the headers is what came besides.
        {**case, "id": f"render/{number}", "core": True, "headers": {**JSON_HEADERS, **case.get("headers", {})}}
        for number, case in enumerate(cases)
    ]
