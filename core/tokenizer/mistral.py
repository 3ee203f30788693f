"""The tokenizer of a Mistral model that has a ``tekken.json``.

Decoding stands on the vocabulary alone. Encoding text, rendering a chat and
making grammars is mistral-common's work: this is the one module that imports
it, on first use, since a deployment that only decodes does without it.

The meanings are those of vLLM's ``MistralTokenizer`` (0.33.0); ``tests/tokenizer/tekken``
holds its recorded answers and says where ours differ.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, overload

from core.errors import BadRequest, ConfigurationError
from core.text.unfinished import ByteForm
from core.tokenizer.mistral_chat import adjust_messages, check_conversation, check_template_options, text_message
from core.tokenizer.mistral_grammar import MistralGrammars
from core.tokenizer.named_tokens import NamedTokens
from core.tokenizer.tekken import TekkenVocabulary, join_pieces, read_tekken
from core.upstream.mistral import introduce_tokenizer

_FIRST_GRAMMAR_VERSION = 11
_FIRST_EFFORT_VERSION = 15
# Special tokens that stay in the text whatever is asked for: Mistral's parsers read them there.
_SHOWN = ("[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]")
_NAMED = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
_LANGUAGE = re.compile("^lang:[a-z]{2}")


class TekkenTokenizer(NamedTokens):
    """A tekken vocabulary as core and vLLM's parsers see it.

    Parameters
    ----------
    vocabulary:
        The decode half.
    read_tekken_json:
        Returns the bytes of ``tekken.json``; called once, when something needs mistral-common.
    name:
        The model's name or folder, for ``name_or_path``.
    """

    # By these vLLM's parsers know the kind.
    IS_MISTRAL_TOKENIZER = True
    is_tekken = True

    source_file = "tekken.json"
    space_marker: str | None = None
    joins_exactly = True
    byte_form = ByteForm.JOINED

    def __init__(self, vocabulary: TekkenVocabulary, read_tekken_json: Callable[[], bytes], *, name: str = "") -> None:
        special_ids = {text: i for i, text in enumerate(vocabulary.special)}
        super().__init__(vocabulary.pieces, {name: text for name, text in _NAMED.items() if text in special_ids})
        self.version = vocabulary.version
        self.name_or_path = name
        # A tekken model has no jinja template and no tokenizer_config.json: mistral-common renders its chats.
        self.chat_template: str | dict[str, str] | None = None
        self.init_kwargs: dict[str, Any] = {}
        self._read_tekken_json = read_tekken_json
        self._pieces = vocabulary.pieces
        self._special = vocabulary.special
        self._special_ids = special_ids
        self._hidden = frozenset(self._special).difference(_SHOWN)

    # -- vocabulary ---------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def vocab_size(self) -> int:
        return len(self._pieces)

    @property
    def max_token_id(self) -> int:
        return len(self._pieces) - 1

    @cached_property
    def vocab(self) -> list[str]:
        """The text of every token by itself, in id order; part of a character shows as U+FFFD. Shared."""
        return [join_pieces((piece,)) for piece in self._pieces]

    @cached_property
    def max_chars_per_token(self) -> int:
        """Length in characters of the longest token: bounds a prompt's tokens by its characters."""
        return max(map(len, self.vocab))

    @cached_property
    def _vocab(self) -> dict[str, int]:
        # From the end, so that of equal texts the lowest id stays; then in id order.
        lowest = {text: i for i, text in reversed(list(enumerate(self.vocab)))}
        return dict(sorted(lowest.items(), key=lambda item: item[1]))

    def get_added_vocab(self) -> dict[str, int]:
        return {}

    @property
    def all_special_tokens(self) -> list[str]:
        return self._special

    @cached_property
    def all_special_ids(self) -> list[int]:
        return list(range(len(self._special)))

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids that ``skip_special_tokens`` leaves out."""
        return frozenset(self._special_ids[text] for text in self._hidden)

    # -- ids to text --------------------------------------------------------------------------

    @overload
    def convert_ids_to_tokens(self, ids: int, skip_special_tokens: bool = False) -> str | None: ...

    @overload
    def convert_ids_to_tokens(self, ids: Sequence[int], skip_special_tokens: bool = False) -> list[str | None]: ...

    def convert_ids_to_tokens(
        self, ids: int | Sequence[int], skip_special_tokens: bool = False
    ) -> str | list[str | None] | None:
        """The tokens of some ids: as texts, each by itself, or with ``skip_special_tokens`` as pieces to join.

        vLLM has ``bytes`` where a piece here holds part of a character.
        """
        if isinstance(ids, int):
            piece = self.id_to_token(ids)
            return None if piece is None else join_pieces((piece,))
        pieces = [self.id_to_token(i) for i in ids if not skip_special_tokens or i not in self.special_ids]
        if skip_special_tokens:
            return pieces
        return [None if piece is None else join_pieces((piece,)) for piece in pieces]

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """The text of a run of tokens. Special tokens never show, apart from those that Mistral's parsers read."""
        hidden = self._hidden
        return join_pieces([token for token in tokens if token not in hidden])

    def decode(self, ids: int | Sequence[int], skip_special_tokens: bool = False) -> str:
        """The text of ``ids``, all special tokens shown, or none; unknown ids give nothing.

        Raises:
            OverflowError: an id does not fit 32 bits.
        """
        ids = [ids] if isinstance(ids, int) else ids
        special_count = len(self._special)
        texts = []
        # A special token ends a character: what stands on both sides of it is never joined.
        for is_special, group in groupby(ids, key=lambda i: 0 <= i < special_count):
            if not is_special or not skip_special_tokens:
                texts.append(join_pieces(piece for i in group if (piece := self.id_to_token(i)) is not None))
        return _without_language("".join(texts)) if skip_special_tokens else "".join(texts)

    # -- text to ids --------------------------------------------------------------------------

    @cached_property
    def _text_ids(self) -> dict[str, int]:
        return {self._pieces[i]: i for i in range(len(self._special), len(self._pieces))}

    def _id_of(self, token: str) -> int | None:
        found = self._text_ids.get(token)
        return self._special_ids.get(token) if found is None else found

    def _special_id(self, token: str) -> int | None:
        return self._special_ids.get(token)

    @cached_property
    def mistral(self) -> Any:
        """mistral-common's ``MistralTokenizer``, built on first use.

        Raises:
            ConfigurationError: mistral-common is not installed, or refuses the file.
        """
        try:
            # Late: mistral-common is slow to load, may be missing, and only an encoder needs it.
            from mistral_common.protocol.instruct.validator import ValidationMode
            from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
        except ImportError as exc:
            raise ConfigurationError(
                "encoding text or a chat for a model with a tekken.json needs mistral-common: "
                f"install the extra derender[mistral] ({exc})"
            ) from exc
        try:
            # It reads files only, and knows the kind by the name.
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "tekken.json")
                path.write_bytes(self._read_tekken_json())
                return MistralTokenizer.from_file(path, mode=ValidationMode.test)
        except ConfigurationError:
            raise
        except Exception as exc:  # it asserts much
            raise ConfigurationError(f"mistral-common cannot read tekken.json: {exc!r}") from exc

    def encode(
        self,
        text: str,
        add_special_tokens: bool = True,
        truncation: bool | None = None,
        max_length: int | None = None,
    ) -> list[int]:
        """Ids of ``text``, special tokens in it being plain text; the first ones, unless ``truncation`` is False."""
        ids: list[int] = self.mistral.instruct_tokenizer.tokenizer.encode(text, bos=add_special_tokens, eos=False)
        return ids if truncation is False or max_length is None else ids[:max_length]

    def encode_prompt(
        self,
        text: str,
        add_special_tokens: bool = True,
        truncation: bool | None = False,
        max_length: int | None = None,
        offsets: bool = False,
    ) -> tuple[list[int], None]:
        """The ids of a prompt; of too many the last, after the beginning-of-sequence token. No offsets."""
        ids = self.encode(text, add_special_tokens=False)
        start = [self.mistral.instruct_tokenizer.tokenizer.bos_id] if add_special_tokens else []
        surplus = len(start) + len(ids) - max_length if truncation and max_length else 0
        return start + ids[max(surplus, 0) :], None

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        return len(self.encode(""))

    # -- grammars -----------------------------------------------------------------------------

    @property
    def supports_grammar(self) -> bool:
        """Whether mistral-common makes grammars for this version."""
        return self.version >= _FIRST_GRAMMAR_VERSION

    @cached_property
    def grammar_factory(self) -> MistralGrammars:
        """What makes the grammars of answers.

        Raises:
            AttributeError: the version has no grammars, as in vLLM.
            ConfigurationError: mistral-common is not installed.
        """
        if not self.supports_grammar:
            raise AttributeError(f"a tekken vocabulary of version {self.version} has no grammars")
        mistral = self.mistral
        from mistral_common.guidance.grammar_factory import GrammarFactory  # late: only a request with a grammar

        return MistralGrammars(GrammarFactory(mistral))

    @cached_property
    def llg_tokenizer(self) -> Any:
        """The vocabulary as llguidance wants it."""
        mistral = self.mistral
        from mistral_common.guidance.tokenizer import from_mistral_tokenizer  # late: only a request with a grammar

        return from_mistral_tokenizer(mistral)

    # -- chats --------------------------------------------------------------------------------

    def adjust_chat_request(self, request: Any) -> None:
        """What vLLM does to a chat request for a Mistral tokenizer before it renders it (see ``mistral_chat``).

        Raises:
            BadRequest: it wants a chat template, or a reasoning effort that there is not.
            ConfigurationError: mistral-common is not installed.
        """
        adjust_messages(request.messages)
        check_template_options(request, self._efforts)

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = False,
        continue_final_message: bool = False,
        reasoning_effort: str | None = None,
        **ignored: Any,
    ) -> list[int]:
        """The ids of a conversation, as mistral-common encodes it.

        ``messages`` are the request's own, in OpenAI's form, and not changed.
        Other template arguments (``documents``, ...) mean nothing here.

        Raises:
            BadRequest: mistral-common refuses the conversation, or it holds more than text.
            ConfigurationError: mistral-common is not installed.
        """
        check_conversation(messages, add_generation_prompt, continue_final_message)
        mistral = self.mistral
        from mistral_common.protocol.instruct.request import ChatCompletionRequest  # late: only a chat

        try:
            request = ChatCompletionRequest.from_openai(
                messages=[text_message(message) for message in messages],
                tools=tools,
                continue_final_message=continue_final_message,
                reasoning_effort=reasoning_effort if self.version >= _FIRST_EFFORT_VERSION else None,
            )
            ids: list[int] = mistral.encode_chat_completion(request).tokens
        except BadRequest:
            raise
        except Exception as exc:  # assertions, and what pydantic and json raise: all of it over the conversation
            raise BadRequest(str(exc) or type(exc).__name__) from exc
        return ids

    @cached_property
    def _efforts(self) -> list[str]:
        _ = self.mistral  # says what is missing
        from mistral_common.protocol.instruct.request import ReasoningEffort  # late: only a chat

        return [effort.value for effort in ReasoningEffort]


def load_tekken(read: Callable[[], bytes], name: str) -> TekkenTokenizer:
    """The tokenizer of a ``tekken.json``, whose bytes ``read`` gives.

    Raises:
        ConfigurationError: the file is not a tekken vocabulary.
    """
    tokenizer = TekkenTokenizer(read_tekken(read()), read, name=name)
    introduce_tokenizer(TekkenTokenizer)
    return tokenizer


def _without_language(text: str) -> str:
    """Drop the language mark with which a speech model begins: text to the vocabulary, a special token by meaning."""
    return _LANGUAGE.sub("", text)
