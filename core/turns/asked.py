"""``continue_from``: what a request asks for, read and bounded before any work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.errors import BadRequest
from core.model import Model
from core.protocol.lists import PromptIds
from core.protocol.schema_error import schema_error
from core.turns.packing import unpack_ids
from core.turns.state import STATE, InvalidTurn, TurnState, check_state

FIELD = "continue_from"
PLACE = f"body.{FIELD}"
Policy = Literal["exact", "template", "append"]
# Base64 of compressed ids is never much longer than four characters an id.
_MAX_PACKED = 2**26
Packed = Annotated[str, Field(max_length=_MAX_PACKED)]
FIRST = "nothing to continue from"


class ContinueFrom(BaseModel):
    """The last turn, and how the next prompt is to continue from it.

    The ids are lists, or text (``core.turns.packing``). Without them a request
    asks for the ``turn_state`` of a plain prompt, which is how a conversation
    begins, or goes by what its messages carry.
    """

    model_config = ConfigDict(extra="forbid")

    token_ids: PromptIds | Packed | None = None
    output_token_ids: PromptIds | Packed | None = None
    turn_state: TurnState | None = None
    policy: Policy = "exact"

    @model_validator(mode="after")
    def _all_or_nothing(self) -> Self:
        given = [part is not None for part in (self.token_ids, self.output_token_ids, self.turn_state)]
        if any(given) and not all(given):
            raise ValueError("token_ids, output_token_ids and turn_state belong together")
        return self


@dataclass(frozen=True)
class Last:
    """The last turn of a conversation: its prompt's ids, the ids that were sampled, and what is known of both."""

    token_ids: list[int]
    output: list[int]
    state: TurnState


@dataclass(frozen=True)
class Asked:
    """What a request asks for. Without ``last`` the prompt is plain, and ``reason`` says why."""

    policy: Policy
    last: Last | None
    reason: str = FIRST


def take(model: Model, body: Any) -> tuple[Any, ContinueFrom | None]:
    """A request's body without the field, and the field, where it is there.

    Raises:
        SchemaError: it is not of its form.
    """
    if not isinstance(body, Mapping) or body.get(FIELD) is None:
        return body, None
    rest = {name: value for name, value in body.items() if name != FIELD}
    try:
        return rest, ContinueFrom.model_validate(body[FIELD])
    except ValidationError as exc:
        raise schema_error(exc, PLACE) from exc


def read(model: Model, given: ContinueFrom) -> Asked:
    """What the field says, checked against the deployment.

    Raises:
        BadRequest, InvalidTurn: names what does not match.
    """
    if given.turn_state is None:
        return Asked(given.policy, None)
    most = model.limits.max_model_len
    token_ids = _ids(given.token_ids, most, "token_ids")
    output = _ids(given.output_token_ids, most, "output_token_ids")
    last = Last(token_ids, output, given.turn_state)
    check_last(model, last, PLACE)
    return Asked(given.policy, last)


def check_last(model: Model, last: Last, place: str) -> None:
    """Refuse a turn whose ids are none of the model's, or whose state is not theirs.

    Raises:
        BadRequest, InvalidTurn: names what does not match.
    """
    count = len(last.token_ids) + len(last.output)
    if count > model.limits.max_model_len:
        raise BadRequest(
            f"{place} holds {count} token ids, more than max_model_len ({model.limits.max_model_len})", place
        )
    if not last.token_ids or not last.output:
        raise InvalidTurn("a turn has a prompt and an output", place)
    highest = max(max(last.token_ids), max(last.output))
    # The engine's vocabulary is often padded beyond the tokenizer's.
    if highest > max(model.tokenizer.max_token_id, model.renderer.view.vocab_size - 1):
        raise BadRequest(f"Token id {highest} is out of vocabulary", place)
    check_state(model, last.state, last.token_ids, last.output, place)


def _ids(given: list[int] | str | None, most: int, name: str) -> list[int]:
    if isinstance(given, str):
        try:
            return unpack_ids(given, most)
        except ValueError as exc:
            raise InvalidTurn(f"{name}: {exc}", f"{PLACE}.{name}") from exc
    if given is None or len(given) > most:
        raise BadRequest(f"{PLACE}.{name} holds more than max_model_len ({most}) token ids", f"{PLACE}.{name}")
    return given


__all__ = ["FIELD", "FIRST", "PLACE", "STATE", "Asked", "ContinueFrom", "Last", "Policy", "check_last", "read", "take"]
