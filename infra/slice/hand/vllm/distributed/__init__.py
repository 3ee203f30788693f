"""The slice runs in one process; only `parallel_state` has something to say about that."""

# replaces vllm 0.33.0: sha256:97f28c30b32662af8cab163939e4ee423037f11630752e13b55cbc25a7d0ab71
