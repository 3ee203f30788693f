"""``turn_state``: what a caller carries of the last prompt to the next one, some 300 bytes.

It holds what cannot be computed from the ids that come with it: what the
prompt's messages gave as plain text (its length and hash), and which spans of
the ids were sampled. What can be computed is compared, and never taken on trust.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt

from core.errors import BadRequest
from core.json import Json
from core.model import Model
from core.state.fingerprint import fingerprint
from core.state.signature import StateSigner
from core.turns.packing import id_bytes

STATE = "turn_state"
# Turns of a conversation; one of so many has other problems.
MAX_SPANS = 4096
_HEX = 32
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Span = tuple[int, int]


class TurnState(BaseModel):
    """The facts about one prompt.

    ``chars`` and ``text`` are the length and hash of the plain prompt's text,
    ``ids`` the hash of the prompt's ids. With ``spliced`` the ids' text is not
    the plain one: ids of an earlier answer were kept against the template.
    ``spans`` are the sampled ids of the prompt, as starts and ends by turns.
    ``output`` is the hash of the ids that answered, where derender has read
    them. ``config`` is what the text depends on besides the messages.
    """

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    config: str = Field(max_length=128)
    chars: NonNegativeInt
    text: Hash
    ids: Hash
    spliced: bool = False
    spans: Annotated[list[NonNegativeInt], Field(max_length=2 * MAX_SPANS, fail_fast=True)] = Field(
        default_factory=list
    )
    output: Hash | None = None
    signature: str | None = Field(default=None, max_length=128)

    @property
    def pairs(self) -> list[Span]:
        """The spans as (start, end)."""
        return list(zip(self.spans[::2], self.spans[1::2], strict=False))

    def fields(self) -> Json:
        """The state as JSON, without what has its default; all but the signature are signed."""
        return {"version": self.version, **self.model_dump(exclude_defaults=True)}


class InvalidTurn(BadRequest):
    """A ``turn_state``, or ids beside it, that do not add up."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(f"invalid turn_state: {message}", param)


def text_hash(text: str) -> str:
    """32 hexadecimal digits over a text, which may hold lone surrogates."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HEX]


def ids_hash(ids: Sequence[int]) -> str:
    """32 hexadecimal digits over ids of at most 32 bits."""
    return hashlib.sha256(id_bytes(ids)).hexdigest()[:_HEX]


NO_IDS = "0" * _HEX
"""The hash of an output before its first id."""


def output_hash(ids: Sequence[int], before: str = NO_IDS) -> str:
    """32 hexadecimal digits over an output's ids, from the hash of those ``before``: a stream brings them in pieces."""
    value = bytes.fromhex(before)
    packed = id_bytes(ids)
    for place in range(0, len(packed), 4):
        value = hashlib.blake2b(packed[place : place + 4], digest_size=_HEX // 2, key=value).digest()
    return value.hex()


def turn_config(model: Model) -> str:
    """The fingerprint of what a prompt's text and ids depend on besides the request."""
    options = model.options
    templates = model.tokenizer.chat_template
    return fingerprint(
        {
            "stream": model.stream_config,
            "template": options.chat_template,
            "templates": templates,
            "format": options.chat_template_content_format,
            "hidden": options.exclude_tools_when_tool_choice_none,
        }
    )


def signed(model: Model, state: TurnState) -> TurnState:
    """The state with its signature, where the deployment has a key."""
    if model.turn_signer is None:
        return state.model_copy(update={"signature": None})
    return state.model_copy(update={"signature": model.turn_signer.sign(state.fields())})


def check_state(model: Model, state: TurnState, token_ids: Sequence[int], output: Sequence[int], place: str) -> None:
    """Refuse a state that this deployment did not write for this prompt and output; ``place`` is its parent's.

    Raises:
        InvalidTurn: names the field that does not match.
    """
    check_signature(model, state, f"{place}.{STATE}")
    if state.config != turn_config(model):
        raise InvalidTurn(
            "config does not match: it was made with another tokenizer, chat template, parser or version; "
            "every turn of a conversation needs the same deployment",
            f"{place}.{STATE}.config",
        )
    if state.ids != ids_hash(token_ids):
        raise InvalidTurn("token_ids are not those of the prompt that it was made for", f"{place}.token_ids")
    if state.output is not None and state.output != output_hash(output):
        raise InvalidTurn("output_token_ids are not those that derender read", f"{place}.output_token_ids")
    check_spans(state.spans, len(token_ids), f"{place}.{STATE}.spans")


def check_signature(model: Model, state: TurnState, place: str) -> None:
    """Refuse a state that is not signed as the deployment wants it.

    Raises:
        InvalidTurn: the signature is missing, or not of one of the deployment's keys.
    """
    signer: StateSigner | None = model.turn_signer
    if signer is None:
        return
    if state.signature is None:
        if signer.required:
            raise InvalidTurn(
                "signature is missing; this deployment reads only states that it signed", f"{place}.signature"
            )
    elif not signer.signs(state.fields(), state.signature):
        raise InvalidTurn("signature does not match: it was altered, or signed with another key", f"{place}.signature")


def check_spans(spans: Sequence[int], length: int, place: str) -> None:
    """Refuse spans that are not in order inside a prompt of ``length`` ids.

    Raises:
        InvalidTurn: says so.
    """
    bounds = [0, *spans, length]
    if len(spans) % 2 or any(one > other for one, other in pairwise(bounds)):
        raise InvalidTurn(f"spans are not in order within the prompt of {length} ids", place)
