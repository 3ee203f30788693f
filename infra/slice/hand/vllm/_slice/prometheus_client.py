"""Counters that count nothing: vLLM's parsers count their calls, and nothing here would read the counts."""

from typing import Any

__all__ = ["REGISTRY", "Counter"]


class Counter:
    """Accepts what a counter accepts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def labels(self, *args: Any, **kwargs: Any) -> "Counter":
        return self

    def inc(self, amount: float = 1) -> None:
        pass


class _Registry:
    def __init__(self) -> None:
        self._names_to_collectors: dict[str, Counter] = {}


REGISTRY = _Registry()
