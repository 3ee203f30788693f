"""What rendering asks of whoever reads images. Deployments that take text only have nobody who does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.errors import BadRequest, RequestError
from core.upstream.model_view import MediaView

# The ways to give an engine images: ``mm_payload`` of a request. The last one is this project's.
TENSORS, NONE, CONTENT_PARTS = "tensors", "none", "content_parts"
# Files that were fetched for URLs of a request, or why one was not.
Files = Mapping[str, bytes | RequestError]


@dataclass(frozen=True)
class ImageHandling:
    """What becomes of the images of one request.

    ``files`` are those that were fetched. ``payload`` wins over the request's
    ``mm_payload``. ``max_bytes`` is what the text of all features may take.
    """

    files: Files = field(default_factory=dict)
    payload: str | None = None
    max_bytes: int | None = None


AS_ASKED = ImageHandling()
# The relay's way: the engine reads images itself.
RELAYED = ImageHandling(payload=CONTENT_PARTS)


class FilesWanted(BadRequest):
    """Images of the request lie elsewhere: whoever may fetch their ``urls`` can ask again with the files."""

    def __init__(self, message: str, urls: Sequence[str]) -> None:
        super().__init__(message, "image_url")
        self.urls = urls


class PlacedImages(Protocol):
    """The images of a prompt, in their places."""

    @property
    def token_ids(self) -> list[int]:
        """The prompt with every token of its images."""
        ...

    def fields(self, payload: str) -> dict[str, Any]:
        """The fields of a ``GenerateRequest`` that carry the images, and the token ids that go with them.

        Raises:
            RequestError: an image cannot be decoded, or the features would be too large.
        """
        ...


class ImageReader(Protocol):
    """A deployment's way with images."""

    @property
    def view(self) -> MediaView:
        """What vLLM's reading of messages is told of it."""
        ...

    def place(
        self, images: Sequence[tuple[Any, str | None]], token_ids: list[int], handling: ImageHandling
    ) -> PlacedImages:
        """Read the images of a prompt, given by URL and uuid, by their headers.

        Raises:
            FilesWanted: some must be fetched first.
            RequestError: an image cannot be read, cannot be taken in its size, or has no place in the prompt.
        """
        ...
