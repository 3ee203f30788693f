"""The chat template compiler under the name by which vLLM calls it."""

from vllm._slice.chat_template import compile_chat_template as _compile_jinja_template

__all__ = ["_compile_jinja_template"]
