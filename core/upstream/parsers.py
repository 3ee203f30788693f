"""vLLM's parsers: choosing a class, building one for a request, and what its servers do with what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vllm.entrypoints.openai.chat_completion.message_assembly import assemble_chat_message_fields
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.chat_completion.stream_processor import ChatStreamProcessor
from vllm.entrypoints.serve.utils.tool_calls_utils import resolve_finish_reason
from vllm.parser import ParserManager
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager
from vllm.tool_parsers.tool_strict_level import ToolStrictLevel

from core.errors import ConfigurationError
from core.upstream.contract import has
from core.upstream.model_view import ModelView
from core.upstream.reading import Whole
from core.upstream.version import vllm_version

__all__ = [
    "ChatStreamProcessor",
    "always_adjusts",
    "as_chat",
    "build_parser",
    "choose_parser_class",
    "constrain_calls",
    "counts_as_it_reads",
    "is_chat",
    "new_processor",
    "read_whole",
    "registered_parsers",
    "resolve_finish_reason",
    "tell_prompt",
]

_HARMONY_REASONING = "openai_gptoss"
# The classes that a composed parser is made of hang off these attributes.
_PARTS = ("reasoning_parser_cls", "tool_parser_cls", "tool_strict_level")


def registered_parsers() -> tuple[list[str], list[str]]:
    """The names of vLLM's tool parsers, and of its reasoning parsers."""
    return sorted(ToolParserManager.list_registered()), sorted(ReasoningParserManager.list_registered())


def choose_parser_class(
    *,
    tool_parser: str | None,
    reasoning_parser: str | None,
    enable_auto_tools: bool,
    model_name: str,
    is_harmony: bool,
    tokenizer: Any,
    tool_strict_level: str | None = None,
) -> Any:
    """The parser class of a deployment; None when the names select none.

    Raises:
        ConfigurationError: a parser does not exist, cannot be combined, or needs
            tokens that the tokenizer does not have; the reason is vLLM's.
    """
    chosen_by = {"tokenizer": tokenizer} if has(vllm_version(), "get_parser.tokenizer") else {}
    if tool_strict_level is not None:
        chosen_by["tool_strict_level"] = tool_strict_level
    try:
        parser_cls = ParserManager.get_parser(
            tool_parser_name=tool_parser,
            reasoning_parser_name=reasoning_parser or (_HARMONY_REASONING if is_harmony else None),
            enable_auto_tools=enable_auto_tools,
            model_name=model_name,
            is_harmony=is_harmony,
            **chosen_by,
        )
    except Exception as exc:
        # vLLM names the parser in one exception and the reason in its cause.
        reasons = [str(exc)]
        if exc.__cause__ is not None and str(exc.__cause__) not in reasons[0]:
            reasons.append(str(exc.__cause__))
        raise ConfigurationError(": ".join(filter(None, reasons))) from exc
    if parser_cls is not None and is_harmony:
        # vLLM stores the choice on its one HarmonyParser class: a subclass keeps deployments apart.
        parser_cls = type(parser_cls.__name__, (parser_cls,), {name: getattr(parser_cls, name) for name in _PARTS})
    return parser_cls


def build_parser(
    parser_cls: Any,
    tokenizer: Any,
    view: ModelView,
    tools: Sequence[Any] | None,
    template_kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """A fresh parser for one request or one of its outputs.

    ``tools`` are those of vLLM's request; ``template_kwargs`` the arguments of
    the chat template, some of which parsers read (``enable_thinking``).
    """
    return parser_cls(tokenizer, tools, chat_template_kwargs=template_kwargs, model_config=view)


def tell_prompt(parser: Any, prompt_token_ids: Sequence[int]) -> None:
    """Tell a parser the prompt that its output answers, where this version of vLLM wants to know."""
    if has(vllm_version(), "vllm.parser.abstract_parser:Parser.set_prompt_token_ids"):
        parser.set_prompt_token_ids(prompt_token_ids)


def constrain_calls(parser: Any) -> None:
    """Constrain a parser's calls to their markup and a tool's name at least: ``--tool-strict-level function``."""
    level = parser.tool_strict_level
    parser.tool_strict_level = ToolStrictLevel.FUNCTION if level is None else max(level, ToolStrictLevel.FUNCTION)


def always_adjusts(parser_cls: Any) -> bool:
    """Whether a parser changes every request, also one without tools."""
    known = has(vllm_version(), "vllm.parser.abstract_parser:Parser.always_adjust_request")
    return known and bool(parser_cls.always_adjust_request)


def counts_as_it_reads(parser: Any) -> bool:
    """Whether a parser knows how much of what it read is reasoning; others are told all ids of an output to count."""
    return (
        hasattr(parser, "process_chunk")  # harmony
        or hasattr(parser, "_engine")
        or hasattr(getattr(parser, "reasoning_parser", None), "_parser_engine")
    )


def is_chat(request: Any) -> bool:
    """Whether a validated request is a chat's, and not of a dialect with requests of its own."""
    return isinstance(request, ChatCompletionRequest)


def as_chat(request: Any) -> Any:
    """The chat request that one of another dialect is to those who read its answer; a chat's is itself.

    Some parsers know tools in a chat's form only, and find no calls for requests of another.
    """
    if is_chat(request):
        return request
    from core.upstream.responses_chat import responses_as_chat  # late: only a deployment that speaks Responses

    return responses_as_chat(request)


def new_processor(
    parser_cls: Any, parser: Any, request: Any, enable_auto_tools: bool, *, tells_reasoning: bool = False
) -> Any:
    """A stream processor for one output of ``request``, around a fresh parser: vLLM's, or one with its surface.

    With ``tells_reasoning`` it says what is reasoning also where a chat's request hides it.
    """
    if not isinstance(request, ChatCompletionRequest):
        from core.upstream.responses_output import ResponsesProcessor  # late: only a deployment that speaks Responses

        return ResponsesProcessor(request, parser)
    if tells_reasoning and not request.include_reasoning:
        request = request.model_copy(update={"include_reasoning": True})
    return ChatStreamProcessor(request, parser, enable_auto_tools=enable_auto_tools, parser_cls=parser_cls)


def read_whole(
    parser_cls: Any, parser: Any, request: Any, text: str, token_ids: Sequence[int], enable_auto_tools: bool
) -> Whole:
    """Read a complete output of ``request`` with a fresh parser.

    Raises:
        Exception: of any kind, from the parser.
    """
    if not isinstance(request, ChatCompletionRequest):
        from core.upstream import responses_output  # late: only a deployment that speaks Responses

        return responses_output.read_whole(parser, request, text, token_ids, enable_auto_tools=enable_auto_tools)
    reasoning, content, calls = parser.parse(
        text, request, enable_auto_tools=enable_auto_tools, model_output_token_ids=token_ids
    )
    fields = assemble_chat_message_fields(
        request, reasoning, content, calls, enable_auto_tools=enable_auto_tools, parser_cls=parser_cls
    )
    return Whole(fields.reasoning, fields.content, [call.model_dump() for call in fields.tool_calls])
