"""A real vLLM engine behind the relay, on a CPU: `make demo-vllm`.

The engine runs in an environment of its own (`.venv-vllm`), the relay in the project's: they meet on HTTP only.
"""
