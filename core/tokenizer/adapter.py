"""The tokenizer of a model with a ``tokenizer.json``, as rendering, decoding and vLLM's parsers see it.

It offers the part of the transformers interface that vLLM's parsers and
rendering use, on the ``tokenizers`` package, without transformers. Decoding
works from a :class:`DecodeTable` alone; the full tokenizer, with its merges,
is built by the first call that encodes text. Instances are never changed
after they are built, apart from these lazy parts and a faster encoder of the
same ids (:mod:`core.tokenizer.fast`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from tokenizers import AddedToken
from tokenizers import Tokenizer as RustTokenizer

from core.errors import ConfigurationError
from core.text.unfinished import ByteForm
from core.tokenizer.decode_table import DecodeTable
from core.tokenizer.named_tokens import NamedTokens
from core.tokenizer.special_tokens import SpecialTokens

if TYPE_CHECKING:
    from core.tokenizer.first_encoder import FirstEncoder


class FastTokenizer(NamedTokens):
    """A Hugging Face fast tokenizer, decode-first.

    Parameters
    ----------
    table:
        The decode half.
    special:
        The special tokens of the configuration.
    read_tokenizer_json:
        Returns the bytes of ``tokenizer.json``; called once, when something encodes.
    source_digest:
        Returns the SHA-256 of those bytes, in hexadecimal, where that is known without reading them.
    extra_tokens:
        Tokens of the configuration that the file may lack, in order: ``{"content", "special", ...}``.
    init_kwargs:
        ``tokenizer_config.json``; some parsers look into it.
    chat_template:
        The default template, a mapping of named ones, or None.
    name:
        The model's name or folder, for ``name_or_path``.
    cache_bytes:
        How many bytes of texts with their ids are kept, so as not to encode them again.
    read_merges:
        Returns the packed merges of a bundle, where it has them: the first texts are encoded from those.
    """

    source_file = "tokenizer.json"
    padding_side = "right"

    def __init__(
        self,
        table: DecodeTable,
        special: SpecialTokens,
        read_tokenizer_json: Callable[[], bytes],
        *,
        source_digest: Callable[[], str] | None = None,
        extra_tokens: Sequence[Mapping[str, Any]] = (),
        init_kwargs: Mapping[str, Any] | None = None,
        chat_template: str | dict[str, str] | None = None,
        name: str = "",
        cache_bytes: int = 0,
        read_merges: Callable[[], bytes] | None = None,
    ) -> None:
        super().__init__(table.tokens, special.named)
        self.table = table
        self.special = special
        self._read_tokenizer_json = read_tokenizer_json
        self._extra_tokens = extra_tokens
        self.init_kwargs = dict(init_kwargs or {})
        self.chat_template = chat_template
        self.name_or_path = name
        self._cache_bytes = cache_bytes
        self._read_merges = read_merges
        self._source_digest = source_digest or (lambda: hashlib.sha256(read_tokenizer_json()).hexdigest())
        self._fast_ids: Callable[[str], list[int] | None] = _leave
        self._size = table.size
        self._join = table.join
        self._byte_form = table.byte_form

    # -- vocabulary ---------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._size

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def vocab_size(self) -> int:
        return self.table.base_size

    @property
    def max_token_id(self) -> int:
        return max(len(self._tokens), self.table.base_size) - 1

    @cached_property
    def max_chars_per_token(self) -> int:
        """Length in characters of the longest token: bounds a prompt's tokens by its characters."""
        return max((len(token) for token in self._tokens if token), default=1)

    @cached_property
    def _vocab(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(self._tokens) if token is not None}

    def get_added_vocab(self) -> dict[str, int]:
        return dict(sorted(self.table.added.items(), key=lambda item: item[1]))

    @cached_property
    def all_special_tokens(self) -> list[str]:
        return list(self.special.every)

    @cached_property
    def all_special_ids(self) -> list[int]:
        ids = (self._id_of(token) for token in self.special.every)
        return [i for i in ids if i is not None]

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids that ``skip_special_tokens`` leaves out."""
        return frozenset(self.all_special_ids)

    @property
    def bos_token(self) -> str | None:
        return self.special.named.get("bos_token")

    @property
    def eos_token(self) -> str | None:
        return self.special.named.get("eos_token")

    @property
    def pad_token(self) -> str | None:
        return self.special.named.get("pad_token")

    @property
    def unk_token(self) -> str | None:
        return self.special.named.get("unk_token")

    def _id_of(self, token: str) -> int | None:
        # Special tokens are added tokens: the whole vocabulary need not be turned round for them.
        found = self.table.added.get(token)
        return self._vocab.get(token) if found is None else found

    _special_id = _id_of

    @property
    def space_marker(self) -> str | None:
        """The character that stands for a leading space, in SentencePiece-like vocabularies."""
        return self.table.space_marker

    @property
    def joins_exactly(self) -> bool:
        """Whether joining a whole run of tokens equals joining it piece by piece (see ``core.text.detokenizer``)."""
        return self.table.joins_exactly

    @property
    def byte_form(self) -> ByteForm:
        """How the decoder makes characters of bytes."""
        return self._byte_form

    # -- ids to text --------------------------------------------------------------------------

    @overload
    def convert_ids_to_tokens(self, ids: int, skip_special_tokens: bool = False) -> str | None: ...

    @overload
    def convert_ids_to_tokens(self, ids: Sequence[int], skip_special_tokens: bool = False) -> list[str | None]: ...

    def convert_ids_to_tokens(
        self, ids: int | Sequence[int], skip_special_tokens: bool = False
    ) -> str | list[str | None] | None:
        if isinstance(ids, int):
            return self.id_to_token(ids)
        skip = self.special_ids if skip_special_tokens else ()
        return [self.id_to_token(i) for i in ids if i not in skip]

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return self._join(tokens)

    def decode(self, ids: int | Sequence[int], skip_special_tokens: bool = False) -> str:
        """The text of ``ids``; unknown ids give nothing. Skips by the flags of ``tokenizer.json``.

        Raises:
            OverflowError: an id does not fit 32 bits.
        """
        flagged = self.table.flagged if skip_special_tokens else ()
        ids = [ids] if isinstance(ids, int) else ids
        tokens = [token for i in ids if i not in flagged and (token := self.id_to_token(i)) is not None]
        return self._join(tokens)

    # -- text to ids --------------------------------------------------------------------------

    @cached_property
    def subject(self) -> str:
        """A digest of all that its ids depend on."""
        from core.tokenizer.subject import subject_of  # late: as the encoder is

        return subject_of(self._source_digest(), self.added, self.splits_special_tokens)

    def read_source(self) -> bytes:
        """The bytes of ``tokenizer.json``, read anew."""
        return self._read_tokenizer_json()

    @cached_property
    def added(self) -> list[AddedToken]:
        """The tokens of the configuration, in the order in which they are added."""
        return [_added(token) for token in self._extra_tokens]

    @property
    def splits_special_tokens(self) -> bool:
        """Whether special tokens in a text are encoded like other words."""
        return bool(self.init_kwargs.get("split_special_tokens"))

    def encode_by(self, ids: Callable[[str], list[int] | None]) -> None:
        """From now on ask ``ids`` first, which gives what ``tokenizers`` would give, or None."""
        self._fast_ids = ids

    def load_merges(self) -> None:
        """Read all that encoding may need, now: before a snapshot, and before a fork."""
        _ = self.backend_tokenizer

    @cached_property
    def backend_tokenizer(self) -> RustTokenizer:
        """The full tokenizer with its merges, built on first use."""
        try:
            backend = RustTokenizer.from_buffer(self.read_source())
        except ConfigurationError:
            raise
        except Exception as exc:  # the package raises plain Exception
            raise ConfigurationError(f"tokenizer.json is not a tokenizer: {exc}") from exc
        backend.no_truncation()
        backend.no_padding()
        if self.splits_special_tokens:
            backend.encode_special_tokens = True
        for token in self.added:
            add = backend.add_special_tokens if token.special else backend.add_tokens
            add([token])
        return backend

    def encode(
        self,
        text: str,
        add_special_tokens: bool = True,
        truncation: bool | None = False,
        max_length: int | None = None,
    ) -> list[int]:
        """Ids of ``text``; with ``truncation`` at most ``max_length`` of them, special tokens included."""
        return self.encode_prompt(text, add_special_tokens, truncation, max_length)[0]

    def encode_prompt(
        self,
        text: str,
        add_special_tokens: bool = True,
        truncation: bool | None = False,
        max_length: int | None = None,
        offsets: bool = False,
    ) -> tuple[list[int], list[tuple[int, int]] | None]:
        """As :meth:`encode`; with ``offsets`` the (start, end) characters of each token, too."""
        around = ((), ()) if not add_special_tokens else self.around
        if offsets or around is None:
            return self._encode_whole(text, add_special_tokens, max_length if truncation else None, offsets)
        ids = self._ids_of(text)
        before, after = around
        if truncation and max_length is not None:
            room = max(max_length - len(before) - len(after), 0)
            if len(ids) > room:
                ids = ids[:room] if self.truncation_side == "right" else ids[len(ids) - room :]
        return [*before, *ids, *after] if before or after else ids, None

    @cached_property
    def _ids_of(self) -> Callable[[str], list[int]]:
        """The ids of a text without special tokens around it."""
        # Late: a function that only decodes does without.
        from core.kept import Kept
        from core.tokenizer.segments import SegmentEncoder
        from core.tokenizer.splitting import Splitting, splitting_of

        if self._first is not None:
            splitting: Splitting | None = self._first.splitting
        else:
            splitting = splitting_of(self.backend_tokenizer) if self._cache_bytes else None
        if splitting is None:
            return self._ids_of_part
        return SegmentEncoder(splitting, self._encode_all, Kept(self._cache_bytes)).ids

    def _encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._ids_of_part(text) for text in texts]

    def _ids_of_part(self, text: str) -> list[int]:
        ids = self._fast_ids(text)
        if ids is None and self._first is not None and "backend_tokenizer" not in self.__dict__:
            ids = self._first.ids(text)
        return self.reference_ids(text) if ids is None else ids

    @cached_property
    def _first(self) -> FirstEncoder | None:
        """What encodes until the full tokenizer is worth its loading."""
        if self._read_merges is None or "backend_tokenizer" in self.__dict__:
            return None
        from core.tokenizer.first_encoder import unpack_merges  # late: a function that only decodes does without

        first = unpack_merges(self._read_merges(), self.base_vocabulary)
        # Of another tokenizer.json, or beside another configuration: a folder may hold what once was a bundle.
        return first if first.subject == self.subject else None

    def base_vocabulary(self) -> dict[str, int]:
        added = self.table.added
        return {token: i for token, i in self._vocab.items() if token not in added}

    def reference_ids(self, text: str) -> list[int]:
        """The ids that ``tokenizers`` gives a text without special tokens around it."""
        # Offsets are a fifth of an encode; only the batch form can do without.
        return list(self.backend_tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids)

    def _encode_whole(
        self, text: str, add_special_tokens: bool, max_length: int | None, offsets: bool
    ) -> tuple[list[int], list[tuple[int, int]] | None]:
        backend = self.backend_tokenizer
        encoding = backend.encode(text, add_special_tokens=add_special_tokens and max_length is None)
        if max_length is not None:
            room = max_length - (backend.num_special_tokens_to_add(False) if add_special_tokens else 0)
            encoding.truncate(max(room, 0), stride=0, direction=self.truncation_side)
            encoding = backend.post_process(encoding, None, add_special_tokens)
        return list(encoding.ids), list(encoding.offsets) if offsets else None

    @cached_property
    def around(self) -> tuple[list[int], list[int]] | None:
        """The special tokens that go before and after every text; None where that is not all that is added."""
        if self._first is not None:
            return self._first.around
        backend = self.backend_tokenizer
        if not backend.num_special_tokens_to_add(False):
            return [], []
        found = None
        for text in ("a", "b c"):
            ids = backend.encode(text, add_special_tokens=False).ids
            whole = backend.encode(text).ids
            added = len(whole) - len(ids)
            places = [place for place in range(added + 1) if whole[place : place + len(ids)] == ids]
            if len(places) != 1:
                return None
            around = whole[: places[0]], whole[places[0] + len(ids) :]
            if found not in (None, around):
                return None
            found = around
        return found

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        return int(self.backend_tokenizer.num_special_tokens_to_add(pair))


def _added(token: Mapping[str, Any]) -> AddedToken:
    known = {k: bool(token[k]) for k in ("single_word", "lstrip", "rstrip", "normalized") if k in token}
    return AddedToken(str(token["content"]), special=bool(token.get("special")), **known)


def _leave(_text: str) -> None:
    """Leaves every text to ``tokenizers``."""
