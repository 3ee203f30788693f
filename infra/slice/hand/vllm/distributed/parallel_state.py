"""Ranks for the logger's `*_once` methods: there is one process, and it is the first."""

__all__ = ["is_global_first_rank", "is_local_first_rank"]


def is_global_first_rank() -> bool:
    """Always true."""
    return True


def is_local_first_rank() -> bool:
    """Always true."""
    return True
