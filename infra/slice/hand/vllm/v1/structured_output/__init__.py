"""Checks and conversions of grammars. The managers and back ends that run them are the engine's."""

# replaces vllm 0.31.0: sha256:92f2b2550d988abd1ac4edf9664b14dd8c2afb4cee4dc585c7348ce3995d5ac5
# replaces vllm 0.32.0: sha256:cfd425138e30ad21fef8849edfe1e7d73f2826a1db28fc33a348d6882f0c1b66
# replaces vllm 0.33.0: sha256:f8537b746bd7610baa04125476f54e5abafbd3509826cac9e2aa2b115a08d55d
