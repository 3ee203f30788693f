"""The parser of a deployment: chosen and checked once, built for each request.

Everything that splits text into reasoning, content and tool calls is vLLM's
own code, from the slice (``infra/slice``). This module chooses the parser as
vLLM's servers do, hands it what it expects, and turns what comes out into
plain mappings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from core.errors import BadRequest
from core.kept import Kept
from core.options import ModelOptions
from core.parsing.budget import ParserBudget
from core.parsing.checkpoint import CheckpointRefused, Layouts, Prototype, check_supported
from core.tokenizer import Tokenizer
from core.upstream.model_view import ModelView
from core.upstream.parsers import (
    build_parser,
    choose_parser_class,
    is_chat,
    new_processor,
    read_whole,
    resolve_finish_reason,
    tell_prompt,
)
from core.upstream.reading import Segment
from core.upstream.requests import chat_params, validate_chat
from core.upstream.tables import check_version, installed_layouts
from core.upstream.version import vllm_version

if TYPE_CHECKING:
    from core.parsing.known_request import KnownRequest
    from core.parsing.waiting import Waiting

# What the requests and the parsers of running streams may take that are kept for their next chunks.
_REQUEST_BYTES = 8 * 1024 * 1024
_WAITING_BYTES = 8 * 1024 * 1024
# Sets of tools that are offered at a time; one more, and the collection starts anew.
_MOST_PROTOTYPES = 16


class ChatParser:
    """A parser class with what every use of it needs. Shared between requests.

    ``requests`` are those of running streams by digest (``core.parsing.known_request``),
    ``waiting`` their parsers (``core.parsing.waiting``): what is there saves work, and changes no answer.
    """

    def __init__(
        self,
        parser_cls: Any,
        tokenizer: Tokenizer,
        view: ModelView,
        options: ModelOptions,
        is_harmony: bool,
    ) -> None:
        self.parser_cls = parser_cls
        self.tokenizer = tokenizer
        self.view = view
        self.is_harmony = is_harmony
        self._options = options
        # Part of the loaded model: what it holds depends on no output, only on the tools that requests offer.
        self._prototypes: dict[str, Prototype | None] = {}
        self.requests: Kept[bytes, KnownRequest] = Kept(_REQUEST_BYTES)
        self.waiting: Kept[tuple[bytes, str], Waiting] = Kept(_WAITING_BYTES)

    def validate(self, chat_request: Mapping[str, Any]) -> Any:
        """The request as vLLM's ``ChatCompletionRequest``.

        Raises:
            SchemaError, BadRequest: as vLLM would.
        """
        return validate_chat(chat_request, "body.chat_request")

    def template_kwargs(self, chat_request: Any) -> dict[str, Any]:
        """The chat template's arguments: a parser reads some of them (``enable_thinking``)."""
        if self.is_harmony:
            return {}
        options = self._options
        params = chat_params(
            chat_request, options.chat_template, options.chat_template_content_format, options.reasoning_effort_map
        )
        kwargs = params.with_defaults(dict(options.default_chat_template_kwargs)).chat_template_kwargs
        return dict(kwargs)

    def build(self, chat_request: Any) -> Any:
        """A fresh vLLM parser for one output of ``chat_request``."""
        return self.build_with(chat_request, self.template_kwargs(chat_request))

    def build_with(self, chat_request: Any, template_kwargs: Mapping[str, Any]) -> Any:
        """A fresh vLLM parser, told the chat template's arguments that rendering settled on."""
        return build_parser(self.parser_cls, self.tokenizer, self.view, chat_request.tools, template_kwargs)

    def processor(self, chat_request: Any, key: str | None = None, *, repaired: bool = False) -> Any:
        """A fresh stream processor, vLLM's or one like it, for one output of ``chat_request``.

        Requests with the same ``key`` have the same tools and template
        arguments: the parser is built for the first and copied for the others.
        A ``repaired`` reading must know what is reasoning, and hides it itself.
        """
        parser = self.build(chat_request) if key is None else self._copied(chat_request, key)
        return new_processor(
            self.parser_cls, parser, chat_request, self._options.enable_auto_tool_choice, tells_reasoning=repaired
        )

    def _copied(self, chat_request: Any, key: str) -> Any:
        if key not in self._prototypes:
            if len(self._prototypes) >= _MOST_PROTOTYPES:
                self._prototypes.clear()
            try:
                self._prototypes[key] = Prototype(self.build(chat_request), self.layouts)
            except CheckpointRefused:
                self._prototypes[key] = None
        prototype = self._prototypes[key]
        return self.build(chat_request) if prototype is None else prototype.fresh()

    @property
    def layouts(self) -> Layouts:
        """How the state of the parser's objects is laid out, for checkpoints."""
        return installed_layouts()

    def why_replayed(self) -> str | None:
        """Why no checkpoint carries this parser, so that streams are replayed; None when they need not be.

        The parser is built for a request without tools: one of another form may be refused by itself.
        """
        try:
            check_supported(build_parser(self.parser_cls, self.tokenizer, self.view, None), self.layouts)
        except CheckpointRefused as exc:
            return str(exc)
        return None

    @property
    def steps_by_token(self) -> bool:
        """Whether a chunk goes through the parser one token at a time (``ModelOptions.parser_step``)."""
        return self._options.parser_step == "token"

    def repairs(self, chat_request: Any, *, by_default: bool) -> bool:
        """Whether answers to a request are read repaired (``ModelOptions.answers``); ``by_default`` without a setting.

        Responses of gpt-oss models are read as vLLM reads them: in messages that say whom they are for, not in text.
        """
        answers = self._options.answers
        if self.is_harmony and not is_chat(chat_request):
            return False
        return by_default if answers == "auto" else answers == "repaired"

    @property
    def audits(self) -> bool:
        """Whether what the parser makes of outputs is audited (``ModelOptions.audit``)."""
        return self._options.audit != "off"

    @property
    def counts_reasoning(self) -> bool:
        """Whether the deployment has a reasoning parser, so that usage can tell reasoning tokens apart."""
        return self.parser_cls.reasoning_parser_cls is not None

    def budget(self) -> ParserBudget:
        """The CPU time of a call that begins now (``ModelOptions.parser_budget``)."""
        return ParserBudget(self._options.parser_budget, short=self._options.short)

    def with_options(self, options: ModelOptions) -> ChatParser:
        """The same parser for other options; what is kept of requests is kept for both."""
        other = copy(self)
        other._options = options
        return other

    def for_request(
        self, chat_request: Any, prompt_token_ids: Sequence[int] | None, *, count_reasoning: bool = False
    ) -> OneShotParser:
        """Parsing of complete outputs that answer ``chat_request``."""
        return OneShotParser(
            self, chat_request, prompt_token_ids, self._options.enable_auto_tool_choice, count_reasoning
        )


class ParsedMessage(NamedTuple):
    """What a parser makes of a complete output; ``reasoning_tokens`` only where they are counted.

    ``segments`` are those of gpt-oss models, where the dialect asks for them.
    """

    content: str | None
    reasoning: str | None
    tool_calls: list[dict[str, Any]]
    finish_reason: str
    reasoning_tokens: int | None
    segments: Sequence[Segment] | None = None


class OneShotParser:
    """Parses the complete outputs of one request."""

    def __init__(
        self,
        parser: ChatParser,
        chat_request: Any,
        prompt_token_ids: Sequence[int] | None,
        enable_auto_tools: bool,
        count_reasoning: bool,
    ) -> None:
        self._parser = parser
        self._request = chat_request
        self._prompt_token_ids = None if prompt_token_ids is None else list(prompt_token_ids)
        self._enable_auto_tools = enable_auto_tools
        self._count_reasoning = count_reasoning
        self._budget = parser.budget()
        self._budget.admit(None)

    def parse(self, text: str, token_ids: Sequence[int], finish_reason: str | None) -> ParsedMessage:
        """The message of one output, and its chat ``finish_reason``.

        Raises:
            BadRequest: the parser cannot make sense of the output (vLLM answers so too), or the outputs
                before it took the time of the call.
        """
        self._budget.check()
        try:
            live = self._parser.build(self._request)
            if self._prompt_token_ids is not None:
                tell_prompt(live, self._prompt_token_ids)
            read = read_whole(self._parser.parser_cls, live, self._request, text, token_ids, self._enable_auto_tools)
            counted = live.count_reasoning_tokens(tuple(token_ids)) if self._count_reasoning else None
        except Exception as exc:
            # Parsers read model output, which can be anything; whatever they make of it is no fault of the server.
            raise BadRequest(str(exc) or type(exc).__name__) from exc
        ends = resolve_finish_reason(finish_reason, self._request, bool(read.tool_calls))
        return ParsedMessage(read.content, read.reasoning, read.tool_calls, ends, counted, read.segments)


def load_chat_parser(
    is_harmony: bool, view: ModelView, tokenizer: Tokenizer, options: ModelOptions
) -> ChatParser | None:
    """Choose the parser of a deployment; None when the options select none.

    Raises:
        ConfigurationError: a parser does not exist, cannot be combined, or needs
            tokens that the tokenizer does not have, with vLLM's reason; or nothing is
            known of the parsers of the vLLM that is installed.
    """
    parser_cls = choose_parser_class(
        tool_parser=options.tool_call_parser,
        reasoning_parser=options.reasoning_parser,
        enable_auto_tools=options.enable_auto_tool_choice,
        model_name=options.served_names[0],
        is_harmony=is_harmony,
        tokenizer=tokenizer,
        tool_strict_level=options.tool_strict_level,
    )
    if parser_cls is None:
        return None
    check_version(vllm_version())
    return ChatParser(parser_cls, tokenizer, view, options, is_harmony)
