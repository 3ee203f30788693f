"""mistral-common's tool types: the package's own where it is installed, else the copies in the slice.

A tokenizer that brings its own grammar factory comes from mistral-common, and that checks for its own classes.
"""

__all__ = ["NamedToolChoice", "Tool", "ToolChoice", "ToolChoiceEnum"]

try:
    from mistral_common.protocol.instruct.tool_calls import NamedToolChoice, Tool, ToolChoice, ToolChoiceEnum
except ModuleNotFoundError as error:
    if error.name != "mistral_common":
        raise
    from vllm._slice.mistral_common.protocol.instruct.tool_calls import (
        NamedToolChoice,
        Tool,
        ToolChoice,
        ToolChoiceEnum,
    )
