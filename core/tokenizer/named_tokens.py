"""The tokens of a vocabulary by id and by name: what all kinds of tokenizer have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property

_MAX_ID = 2**32 - 1


class NamedTokens(ABC):
    """A vocabulary whose special tokens have names (``bos_token``).

    ``tokens`` are in id order, None where an id is not in use; ``named`` maps
    the names of the configuration to tokens.
    """

    is_fast = True
    # What vLLM's own loader sets on every tokenizer.
    truncation_side = "left"

    def __init__(self, tokens: Sequence[str | None], named: Mapping[str, str]) -> None:
        self._tokens = tokens
        self._named = named

    @abstractmethod
    def _id_of(self, token: str) -> int | None:
        """The id of a token, special ones included."""

    @abstractmethod
    def _special_id(self, token: str) -> int | None:
        """The id of a special token."""

    @property
    @abstractmethod
    def _vocab(self) -> dict[str, int]: ...

    def __bool__(self) -> bool:
        return True

    def get_vocab(self) -> dict[str, int]:
        """All tokens with their ids. Shared: callers must not change it."""
        return self._vocab

    @property
    def special_tokens_map(self) -> dict[str, str]:
        return dict(self._named)

    def _named_id(self, name: str) -> int | None:
        token = self._named.get(name)
        return None if token is None else self._special_id(token)

    @cached_property
    def bos_token_id(self) -> int | None:
        return self._named_id("bos_token")

    @cached_property
    def eos_token_id(self) -> int | None:
        return self._named_id("eos_token")

    @cached_property
    def pad_token_id(self) -> int | None:
        return self._named_id("pad_token")

    @cached_property
    def unk_token_id(self) -> int | None:
        return self._named_id("unk_token")

    def id_to_token(self, token_id: int) -> str | None:
        """The token of an id, None where there is none.

        Raises:
            OverflowError: the id does not fit 32 bits, as in the tokenizers package.
        """
        if 0 <= token_id < len(self._tokens):
            return self._tokens[token_id]
        check_id(token_id)
        return None

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> int | list[int | None] | None:
        """Ids of tokens; an unknown one gives the unk token's id, or None without one."""
        if isinstance(tokens, str):
            found = self._id_of(tokens)
            return self.unk_token_id if found is None else found
        return [self.convert_tokens_to_ids(token) for token in tokens]  # type: ignore[misc]


def check_id(token_id: int) -> None:
    """Refuse an id that no tokenizer can hold, in the tokenizers package's words.

    Raises:
        OverflowError: below 0 or above 32 bits.
    """
    if token_id < 0:
        raise OverflowError("number too small to fit in target type")
    if token_id > _MAX_ID:
        raise OverflowError("number too large to fit in target type")
