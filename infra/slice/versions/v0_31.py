"""The specification for vLLM 0.31.0: what is not as in 0.32.0."""

from __future__ import annotations

from infra.slice.spec import Borrow, Cut
from infra.slice.versions import v0_32

_NEW, _OLD = "vllm.renderers.chat_utils", "vllm.entrypoints.chat_utils"
_HAS_MEDIA = "vllm._slice.chat_utils_0_32"
_MESSAGES = "vllm.entrypoints.anthropic.serving"
_STOP_REASON = "vllm._slice.anthropic_0_32"

SPECIFICATION = v0_32.SPECIFICATION.but(
    version="0.31.0",
    revision=3,
    # minimax_m3 parses in it.
    opaque={},
    prompt={"vllm.entrypoints.openai.responses.streaming_events": ("StreamingResponsesResponse",)},
    compiled=frozenset({"vllm._rust_tool_parser"}),
    add={
        "moved": {_NEW: _OLD, f"{_NEW}.content_parser": _OLD},
        "borrow": {_HAS_MEDIA: Borrow("0.32.0", _NEW), _STOP_REASON: Borrow("0.32.0", _MESSAGES)},
        "given": {
            _MESSAGES: {"_to_anthropic_stop_reason": _STOP_REASON},
            _OLD: {
                "AsyncMultiModalItemTracker": "vllm._slice.item_tracker",
                "MultiModalItemTracker": "vllm._slice.item_tracker",
                "has_non_text_content": _HAS_MEDIA,
            },
        },
        "cut": {_OLD: Cut(), _HAS_MEDIA: Cut(), _STOP_REASON: Cut()},
    },
    drop={
        "roots": {"vllm.v1.engine.detokenizer:uses_fast_detokenizer"},
        "cut": {_NEW, "vllm.outputs"},
        "given": {_NEW},
    },
)
