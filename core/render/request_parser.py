"""The deployment's parser for one request: its say on the request, and what it reads in the prompt.

It is built once, when something first asks for it: most requests without tools
need none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from core.render.conversation import Conversation
from core.render.mistral import is_mistral
from core.upstream.mistral import is_mistral_tool_parser
from core.upstream.requests import answer_format

if TYPE_CHECKING:
    from core.parsing.chat_parser import ChatParser
    from core.tokenizer import Tokenizer


class RequestParser:
    """The parser of one request that is rendered; ``parser`` is the deployment's, None when it has none."""

    def __init__(self, parser: ChatParser | None, conversation: Conversation) -> None:
        self._parser = parser
        self._request = conversation.request
        self._arguments = conversation.arguments
        self._repaired = conversation.repaired

    @cached_property
    def _live(self) -> Any:
        assert self._parser is not None
        return self._parser.build_with(self._request, self._arguments)

    def adjust(self, prompt_token_ids: Sequence[int] | None) -> None:
        """Let the parser change the request in place, as it must before sampling parameters are made from it.

        It turns tool choices into structured outputs and asks for special
        tokens in the output. ``prompt_token_ids`` is None where it must do so
        before there is a prompt (harmony).

        Raises:
            Exception: of any kind, over what the request holds; see ``core.upstream.refusals``.
        """
        if self._parser is None or (prompt_token_ids is not None and self._has_no_say(self._parser)):
            return
        from core.upstream.parsers import constrain_calls, tell_prompt  # late: only with a parser, which has loaded it

        if prompt_token_ids is not None:
            tell_prompt(self._live, prompt_token_ids)
        if self._repaired and self._request.tool_choice == "auto" and answer_format(self._request) != "text":
            # Else a format of the answer makes calls impossible. With calls constrained so far, vLLM allows either.
            constrain_calls(self._live)
        self._live.adjust_request(request=self._request)

    def _has_no_say(self, parser: ChatParser) -> bool:
        from core.upstream.parsers import always_adjusts  # late: only with a parser, which has loaded it

        kind = parser.parser_cls
        if self._request.tool_choice != "none" or always_adjusts(kind) or kind.reasoning_parser_cls is not None:
            return False
        return not _constrains_always(parser.tokenizer, kind.tool_parser_cls)

    @property
    def reads_reasoning(self) -> bool:
        """Whether the parser can tell whether a prompt ends inside reasoning."""
        return self._parser is not None and self._parser.parser_cls.reasoning_parser_cls is not None

    def reasoning_ended(self, prompt_token_ids: list[int]) -> bool | None:
        """Whether the output begins after the reasoning, as the engine is told; None: the engine finds out."""
        live = self._live if self.reads_reasoning else None
        ended: bool | None = self._request.resolve_reasoning_ended(live, prompt_token_ids)
        return ended


def _constrains_always(tokenizer: Tokenizer, tool_parser_cls: Any) -> bool:
    """Whether the parser must see every request: Mistral's grammars keep special tokens out of plain answers, too."""
    if tool_parser_cls is None or not is_mistral(tokenizer) or not is_mistral_tool_parser(tool_parser_cls):
        return False
    grammars: Any = tokenizer
    return bool(grammars.supports_grammar)
