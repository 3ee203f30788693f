"""Chats of models for which vLLM has code in place of a chat template: DeepSeek V3.2, V4 and V4.1.

The code is vLLM's, from the slice. Which model wants it is told by the
architecture in ``config.json``, as in vLLM's ``ModelConfig``. A model whose
code the slice does not hold must be refused, never rendered with a template
that happens to lie in its folder: the prompt would be another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from core.errors import BadRequest
from core.tokenizer import Tokenizer
from core.upstream.conversations import parse_messages
from core.upstream.model_view import ModelView

_V32 = ("vllm.tokenizers.deepseek_v32", "get_deepseek_v32_tokenizer", "string")
_V4 = ("vllm.tokenizers.deepseek_v4", "get_deepseek_v4_tokenizer", "openai")
_V41 = ("vllm.tokenizers.deepseek_v41", "get_deepseek_v41_tokenizer", "openai")
_ENCODERS = {
    "DeepseekV32ForCausalLM": _V32,
    "DeepseekV4ForCausalLM": _V4,
    "DeepseekV4ForConditionalGeneration": _V4,
    "DeepseekV41ForCausalLM": _V41,
}
_WITHOUT_SUFFIX = (_V32,)
_MISSING = (
    "InklingForCausalLM",
    "InklingForConditionalGeneration",
    "KimiK3ForConditionalGeneration",
    "MoonshotKimiaForCausalLM",
)


@dataclass(frozen=True)
class ChatEncoder:
    """An architecture's own way to write a conversation; ``encode`` is vLLM's, None when it is not here."""

    architecture: str
    encode: Any
    content_format: str
    takes_suffix: bool
    drops_developers: bool = False

    def render(self, view: ModelView, messages: Any, arguments: dict[str, Any]) -> str | list[int]:
        """The text of a conversation, or its ids; ``arguments`` are those that a chat template would get.

        Raises:
            BadRequest: the architecture's code is not here.
            Exception: of any kind, over what the messages hold; see ``core.upstream.refusals``.
        """
        if self.encode is None:
            raise BadRequest(f"chats of a {self.architecture} model cannot be rendered by this server")
        conversation = parse_messages(messages, view, self.content_format).messages
        rendered: str | list[int] = self.encode(conversation=conversation, messages=messages, **arguments)
        return rendered

    def kept(self, messages: Any) -> Any:
        """Messages none of which the architecture's code leaves out.

        DeepSeek V4's drops developer messages with the thoughts of earlier
        turns. Where it does not, it writes them as a turn of the user's: here they begin the user's.
        """
        if not self.drops_developers:
            return messages
        return [{**one, "role": "user"} if one.get("role") == "developer" else one for one in messages]

    def with_suffix(self, prompt: str, suffix: str) -> str | None:
        """The text that asks for what stands between two texts; None when the model has none."""
        if not self.takes_suffix:
            return None
        from vllm.renderers.deepseek_v4 import _FIM_BEGIN, _FIM_END, _FIM_HOLE  # late: only such a request reads them

        return f"{_FIM_BEGIN}{prompt}{_FIM_HOLE}{suffix}{_FIM_END}"


def has_encoder(architecture: str | None) -> bool:
    """Whether chats of an architecture are written by code, here or only in vLLM."""
    return architecture in _MISSING or architecture in _ENCODERS


def find_encoder(architecture: str | None, tokenizer: Tokenizer) -> ChatEncoder | None:
    """The encoder of an architecture; None when its chats go through a template."""
    if architecture is None:
        return None
    if architecture in _MISSING:
        return ChatEncoder(architecture, None, "openai", takes_suffix=False)
    entry = _ENCODERS.get(architecture)
    if entry is None:
        return None
    module, name, content_format = entry
    # vLLM makes a copy of the tokenizer with another ``apply_chat_template``.
    encode = getattr(import_module(module), name)(tokenizer).apply_chat_template
    return ChatEncoder(
        architecture,
        encode,
        content_format,
        takes_suffix=entry not in _WITHOUT_SUFFIX,
        drops_developers=entry in (_V4, _V41),
    )
