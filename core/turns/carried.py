"""Ids that came back on the messages of a conversation: each answer carries what it added to the one before.

A relay puts the field on the answers that it gives, and clients that keep
unknown fields send it back. What the answers of a conversation carry grows
with the conversation, not with its square.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from core.errors import BadRequest
from core.json import Json
from core.model import Model
from core.protocol.schema_error import schema_error
from core.turns.asked import FIRST, Last, Packed, check_last
from core.turns.door import CHAT, Door
from core.turns.packing import pack_ids, unpack_ids
from core.turns.state import STATE, InvalidTurn, TurnState, check_signature, ids_hash, turn_config

_BROKEN = "the messages do not carry the ids of every answer"
_OTHER = "the ids were made by another deployment"


class CarriedTurn(BaseModel):
    """What one answer carries: the state of its prompt, and its ids.

    ``kept`` is how many ids of the turn before stayed, ``prompt_ids`` those that
    follow in the prompt, ``output_ids`` those that were sampled; both packed.
    """

    model_config = ConfigDict(extra="forbid")

    kept: NonNegativeInt = 0
    prompt_ids: Packed
    output_ids: Packed
    state: TurnState


def carried_turn(state: TurnState, kept: int, token_ids: Sequence[int], output: Sequence[int]) -> Json:
    """The field of an answer to a prompt of ``token_ids``, the first ``kept`` of which came from the turn before."""
    return {
        "kept": kept,
        "prompt_ids": pack_ids(token_ids[kept:]),
        "output_ids": pack_ids(output),
        "state": state.fields(),
    }


def without_turns(body: Any, door: Door = CHAT) -> Any:
    """A body without the field on its messages."""
    messages = body.get(door.field) if isinstance(body, Mapping) else None
    if not isinstance(messages, list) or not any(isinstance(one, dict) and STATE in one for one in messages):
        return body
    bare = [
        {name: value for name, value in one.items() if name != STATE} if isinstance(one, dict) else one
        for one in messages
    ]
    return {**body, door.field: bare}


def gather(model: Model, body: Mapping[str, Any], door: Door = CHAT) -> Last | str:
    """The last turn as the messages of a body carry it; a reason where they do not.

    A client may drop or shorten messages: then there is nothing to continue from.

    Raises:
        SchemaError, InvalidTurn: what a message carries is not of its form, or not signed as the deployment wants it.
    """
    answers = _answers(body.get(door.field), door)
    if not answers:
        return FIRST
    if answers[-1][1] is None:
        return _BROKEN if any(carried is not None for _, carried in answers) else FIRST
    whole: list[int] = []
    prompt = output = whole
    turn: CarriedTurn | None = None
    most = model.limits.max_model_len
    for place, carried in answers:
        if carried is None:
            continue
        where = f"body.{door.field}.{place}.{STATE}"
        turn = _read(model, carried, where)
        added, output = _unpack(turn.prompt_ids, most, where), _unpack(turn.output_ids, most, where)
        if turn.kept > len(whole):
            return _BROKEN
        prompt = whole[: turn.kept] + added
        whole = prompt + output
        if len(whole) > most:
            raise BadRequest(f"{where} makes more than max_model_len ({most}) token ids", where)
    assert turn is not None
    if turn.state.config != turn_config(model):
        return _OTHER
    if not prompt or max(prompt) > model.tokenizer.max_token_id or turn.state.ids != ids_hash(prompt):
        return _BROKEN
    last = Last(prompt, output, turn.state)
    check_last(model, last, f"body.{door.field}.{answers[-1][0]}.{STATE}")
    return last


def _answers(entries: Any, door: Door) -> list[tuple[int, Any]]:
    """What each answer carries, None for nothing, and the place where it does."""
    found: list[tuple[int, Any]] = []
    before = None
    for place, entry in enumerate(entries if isinstance(entries, list) else ()):
        if not door.is_answer(entry):
            continue
        carried = entry.get(STATE)
        if door.joined and before is not None and before == place - 1:
            found[-1] = found[-1] if carried is None else (place, carried)
        else:
            found.append((place, carried))
        before = place
    return found


def _read(model: Model, value: Any, where: str) -> CarriedTurn:
    try:
        turn = CarriedTurn.model_validate(value)
    except ValidationError as exc:
        raise schema_error(exc, where) from exc
    if turn.state.config == turn_config(model):
        check_signature(model, turn.state, f"{where}.state")
    return turn


def _unpack(text: str, most: int, where: str) -> list[int]:
    try:
        return unpack_ids(text, most)
    except ValueError as exc:
        raise InvalidTurn(str(exc), where) from exc
