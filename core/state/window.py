"""The decode window and the logprob context in a stream state."""

from __future__ import annotations

from core.errors import InvalidState
from core.protocol.derender import StreamState
from core.text.detokenizer import Window

# Far above any real token; a longer one is an attempt to make decoding expensive.
MAX_TOKEN_CHARS = 4096


def read_window(state: StreamState) -> Window:
    """The decode window of a state.

    Raises:
        InvalidState: the offsets do not fit the window. (vLLM decodes odd text
            from such a state; see ``docs/compatibility.md``.)
    """
    size = len(state.prev_tokens)
    if not 0 <= state.prefix_offset <= state.read_offset <= size:
        raise InvalidState(
            f"prefix_offset ({state.prefix_offset}) and read_offset ({state.read_offset}) "
            f"must be in order and within prev_tokens ({size})",
            "stream_state.read_offset",
        )
    if any(len(token) > MAX_TOKEN_CHARS for token in state.prev_tokens):
        raise InvalidState("prev_tokens holds a token that no vocabulary has", "stream_state.prev_tokens")
    return Window(tuple(state.prev_tokens), state.prefix_offset, state.read_offset)


def window_fields(window: Window) -> dict[str, object]:
    """The state's fields of a decode window."""
    return {
        "prev_tokens": list(window.tokens),
        "prefix_offset": window.prefix_offset,
        "read_offset": window.read_offset,
    }
