"""The tokenizer of a model, whichever kind it is: what rendering, decoding and vLLM's parsers may ask of it.

vLLM's names and meanings throughout, so that its code can be handed one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, overload

from core.text.detokenizer import TextTokenizer


class Tokenizer(TextTokenizer, Protocol):
    """A tokenizer. Never changed once built, apart from parts that are built on first use."""

    source_file: str
    name_or_path: str
    chat_template: str | dict[str, str] | None
    init_kwargs: dict[str, Any]
    truncation_side: str

    # -- vocabulary ---------------------------------------------------------------------------

    @property
    def vocab_size(self) -> int: ...

    @property
    def max_token_id(self) -> int: ...

    @property
    def max_chars_per_token(self) -> int: ...

    def get_vocab(self) -> dict[str, int]: ...

    @property
    def all_special_ids(self) -> list[int]: ...

    @property
    def special_tokens_map(self) -> dict[str, str]: ...

    @property
    def bos_token_id(self) -> int | None: ...

    @property
    def eos_token_id(self) -> int | None: ...

    @property
    def pad_token_id(self) -> int | None: ...

    # -- ids to text --------------------------------------------------------------------------

    @overload
    def convert_ids_to_tokens(self, ids: int, skip_special_tokens: bool = False) -> str | None: ...

    @overload
    def convert_ids_to_tokens(self, ids: Sequence[int], skip_special_tokens: bool = False) -> list[str | None]: ...

    def convert_ids_to_tokens(
        self, ids: int | Sequence[int], skip_special_tokens: bool = False
    ) -> str | list[str | None] | None: ...

    # -- text to ids --------------------------------------------------------------------------

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> int | list[int | None] | None: ...

    def encode(
        self,
        text: str,
        add_special_tokens: bool = True,
        truncation: bool | None = False,
        max_length: int | None = None,
    ) -> list[int]: ...

    def encode_prompt(
        self,
        text: str,
        add_special_tokens: bool = True,
        truncation: bool | None = False,
        max_length: int | None = None,
        offsets: bool = False,
    ) -> tuple[list[int], list[tuple[int, int]] | None]:
        """The ids of a prompt; with ``offsets`` the (start, end) characters of each, too, where the kind can tell."""
        ...
