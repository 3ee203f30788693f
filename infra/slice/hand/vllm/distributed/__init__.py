"""The slice runs in one process; only `parallel_state` has something to say about that."""
