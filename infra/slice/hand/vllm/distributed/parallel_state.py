"""Ranks for the logger's `*_once` methods: there is one process, and it is the first."""

__all__ = ["is_global_first_rank", "is_local_first_rank"]


def is_global_first_rank() -> bool:
    """Always true."""
    return True


def is_local_first_rank() -> bool:
    """Always true."""
    return True


# replaces vllm 0.31.0: sha256:a33fc846e0f4e682a644ce712d862806ecfa12dca6e5f641806e2e7991cd0087
# replaces vllm 0.32.0: sha256:0e47cff9a89717183bdce6403f0454961848247f51306a0f1dfbe3d6e1b93336
# replaces vllm 0.33.0: sha256:c40796553e6797ce3e10d116ad58a30ce52a95156f4c393a4d11758c15fd1f1f
