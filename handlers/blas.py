"""numpy's matrix products on one thread.

The products of a resize are many and small: with two threads they take three
times the CPU time, most of it waiting. Requests are what runs side by side.
"""

from __future__ import annotations

import os

_THREADS = "OPENBLAS_NUM_THREADS"


def use_one_thread() -> None:
    """To be called before numpy is imported, which reads it once. An operator's own choice stays."""
    os.environ.setdefault(_THREADS, "1")
