"""Whether a state is of this endpoint, deployment and model, where vLLM's own fields tell.

A client that reads states into vLLM's model loses ``config``. What is left
says more than it seems: once there are tokens, a chat has sent its role and
a completion has none, only completions count characters, only a parsed stream
is replayed, and a plain stream has the texts of its last tokens beside their
ids, which another tokenizer has other texts for. What it cannot say is in
``docs/streaming.md``.
"""

from __future__ import annotations

from core.choice.reader import OutputReader
from core.errors import InvalidState
from core.protocol.derender import StreamState


def check_chat_state(state: StreamState) -> None:
    """Refuse the state of a completion's stream at the chat endpoint.

    Raises:
        InvalidState: names the field that says so.
    """
    if state.logprob_text_offset:
        raise _foreign("a chat's stream counts no characters", "logprob_text_offset")
    if not state.role_sent and state.logprob_context_token_ids:
        raise _foreign("a chat's stream says its role with its first token", "role_sent")


def check_text_state(state: StreamState, reader: OutputReader, *, is_chat: bool) -> None:
    """Refuse a state that is no plain stream's of this endpoint, or whose last tokens are no tokens of this model.

    Raises:
        InvalidState: names the field that says so.
    """
    if is_chat:
        check_chat_state(state)
    elif state.role_sent and state.logprob_context_token_ids:
        raise _foreign("a completion has no role", "role_sent")
    if state.output_token_ids or state.checkpoint is not None:
        raise _foreign("this stream goes through no parser, and the state's did", "output_token_ids")
    ids = state.logprob_context_token_ids
    if ids and state.prev_tokens and not _are_texts_of(state.prev_tokens, ids, reader):
        raise _foreign("its last tokens have other texts with the tokenizer of this model", "prev_tokens")


def _are_texts_of(tokens: list[str], ids: list[int], reader: OutputReader) -> bool:
    """Whether the last ``tokens`` of a window can be the texts of ``ids``.

    Special tokens are passed over on both sides, as the requests of earlier
    chunks may have shown them; a stop token that was cut off is no part of the window.
    """
    tokenizer = reader.tokenizer
    special = tokenizer.special_ids
    size = len(tokenizer)
    names = {tokenizer.id_to_token(i) for i in special}
    have = [token for token in tokens if token not in names]
    texts = [(tokenizer.id_to_token(i) or "") if 0 <= i < size else "" for i in ids if i not in special]
    if _ends_alike(have, texts):
        return True
    stops = ids[-1] in reader.eos.every or ids[-1] in reader.options.stop.token_ids
    return stops and ids[-1] not in special and _ends_alike(have, texts[:-1])


def _ends_alike(one: list[str], other: list[str]) -> bool:
    size = min(len(one), len(other))
    return one[len(one) - size :] == other[len(other) - size :]


def _foreign(why: str, field: str) -> InvalidState:
    return InvalidState(
        f"{field} is of another stream: {why}; every chunk of a stream needs the same endpoint and deployment",
        f"stream_state.{field}",
    )
