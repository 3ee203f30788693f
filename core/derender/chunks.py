"""Writers of the chunks that streaming derender answers, for chat and for completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from core.choice.output import ChoiceOutput
from core.derender.choices import chat_delta, completion_choice
from core.json import Json
from core.protocol import openai
from core.protocol.engine import GenerateChunk


class StreamHeader(NamedTuple):
    """What every chunk of a stream says of it; ``prompt_tokens`` is the caller's count.

    ``lean`` leaves out the nulls of deltas, and tells the cached tokens (``ModelOptions.chunk_form``).
    """

    model_name: str
    request_id: str
    prompt_tokens: int | None
    return_token_ids: bool
    lean: bool = False

    def usage(self, chunk: GenerateChunk) -> Json | None:
        """The usage that a chunk shows."""
        counts = openai.chunk_usage(chunk.usage, self.prompt_tokens)
        return openai.with_prompt_details(counts, [chunk.usage]) if self.lean and counts is not None else counts

    def prompt_ids(self, chunk: GenerateChunk) -> list[int] | None:
        """The prompt ids that a chunk shows."""
        return chunk.prompt_token_ids if self.return_token_ids else None


class ChatChunkWriter:
    """Writes ``ChatCompletionStreamResponse``s; the role goes out with the stream's first output."""

    def __init__(self, header: StreamHeader, *, role_sent: bool) -> None:
        self._header = header
        self._role_sent = role_sent

    def write(self, chunk: GenerateChunk, outputs: Sequence[ChoiceOutput]) -> Json:
        choices = []
        for output in outputs:
            choice = chat_delta(output, None if self._role_sent else "assistant")
            choices.append({**choice, "delta": openai.without_nulls(choice["delta"])} if self._header.lean else choice)
            self._role_sent = True
        header = self._header
        return openai.chat_chunk(
            chunk,
            header.model_name,
            choices,
            header.usage(chunk),
            id=header.request_id,
            prompt_token_ids=header.prompt_ids(chunk),
        )

    def fields(self) -> Json:
        return {"role_sent": self._role_sent}


class CompletionChunkWriter:
    """Writes ``CompletionStreamResponse``s; ``text_offset`` is where the next text begins, in characters."""

    def __init__(self, header: StreamHeader, *, text_offset: int) -> None:
        self._header = header
        self._offset = text_offset

    def write(self, chunk: GenerateChunk, outputs: Sequence[ChoiceOutput]) -> Json:
        header = self._header
        choices = []
        for output in outputs:
            choice, self._offset = completion_choice(output, self._offset)
            choices.append({**choice, "prompt_token_ids": header.prompt_ids(chunk)})
        return openai.completion_chunk(chunk, header.model_name, choices, header.usage(chunk), id=header.request_id)

    def fields(self) -> Json:
        return {"logprob_text_offset": self._offset}
