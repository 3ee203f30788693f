"""The specification for vLLM 0.32.0: what is not as in 0.33.0."""

from __future__ import annotations

from infra.slice.spec import Borrow, Cut
from infra.slice.versions import v0_33

_ASSEMBLY = "vllm.entrypoints.openai.chat_completion"
_CHAT_UTILS = "vllm.renderers.chat_utils"
_TOOL_CALLS = "vllm.entrypoints.serve.utils.tool_calls_utils"

SPECIFICATION = v0_33.SPECIFICATION.but(
    version="0.32.0",
    revision=3,
    # One module, which 0.33 made a package.
    moved={f"{_CHAT_UTILS}.content_parser": _CHAT_UTILS},
    borrow={
        # The assembly of answers, which server and derenderer have shared since 0.33.
        f"{_ASSEMBLY}.message_assembly": Borrow("0.33.0"),
        f"{_ASSEMBLY}.stream_processor": Borrow("0.33.0"),
        "vllm._slice.tool_calls_0_33": Borrow("0.33.0", _TOOL_CALLS),
    },
    given={
        _TOOL_CALLS: {"resolve_finish_reason": "vllm._slice.tool_calls_0_33"},
        _CHAT_UTILS: {
            "AsyncMultiModalItemTracker": "vllm._slice.item_tracker",
            "MultiModalItemTracker": "vllm._slice.item_tracker",
        },
    },
    add={
        "cut": {_CHAT_UTILS: Cut(), "vllm._slice.tool_calls_0_33": Cut()},
        "absent": {"vllm.utils.torch_utils:is_torch_equal_or_newer"},
    },
    drop={
        "roots": {
            "vllm.entrypoints.generate.base.serving:chat_top_logprobs_limit,completion_top_logprobs_limit",
            "vllm.renderers:map_reasoning_effort",
            "vllm.renderers:ReasoningEffort",
        },
        "cut": {f"{_CHAT_UTILS}.content_parser", "vllm.entrypoints.generate.base.serving"},
        "lazy": {_CHAT_UTILS},
        "denied": {"vllm.utils.torch_version"},
    },
)
