"""One choice's output being parsed: vLLM's stream processor with the decode window that feeds it.

A live stream is rebuilt for every call, from nothing, from a checkpoint, or by
replaying all earlier chunks; it is never kept between calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from vllm.entrypoints.openai.chat_completion.stream_processor import ChatStreamProcessor

from core.parsing.chat_parser import ChatParser
from core.text.detokenizer import DecodeOptions, Window, detokenize, seed_window


@dataclass
class LiveStream:
    """A processor and its window. ``step`` changes both."""

    parser: ChatParser
    processor: ChatStreamProcessor
    window: Window
    decode: DecodeOptions

    def step(
        self,
        text_ids: Sequence[int],
        token_ids: list[int],
        finish_reason: str | None,
        prompt_token_ids: list[int] | None,
        keep: int | None = None,
    ) -> tuple[Any, str | None]:
        """Feed one chunk: the delta (vLLM's ``DeltaMessage`` or None) and the chat finish reason.

        ``text_ids`` are the chunk's ids without a stop token; the parser is
        shown all of them, as in vLLM. ``keep`` is how many characters of their
        text count, where a stop string cuts it (None: all).
        """
        text, self.window = detokenize(self.parser.tokenizer, text_ids, self.window, self.decode)
        result = self.processor.step(text[:keep], token_ids, finish_reason, prompt_token_ids)
        return result.delta, result.finish_reason


def start_stream(
    parser: ChatParser, chat_request: Any, prompt_token_ids: Sequence[int] | None, decode: DecodeOptions
) -> LiveStream:
    """A stream before its first chunk, its window primed with the end of the prompt."""
    window = seed_window(parser.tokenizer, prompt_token_ids, decode.skip_special)
    return LiveStream(parser, parser.processor(chat_request), window, decode)


def replay_stream(
    stream: LiveStream,
    output_token_ids: Iterable[int],
    chunk_lens: Iterable[int],
    prompt_token_ids: list[int] | None,
) -> None:
    """Bring a fresh stream to where it was, one step for each earlier chunk; what they emit is dropped."""
    ids = iter(output_token_ids)
    for length in chunk_lens:
        chunk = list(islice(ids, length))
        stream.step(chunk, chunk, None, prompt_token_ids)
