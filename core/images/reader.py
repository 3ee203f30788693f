"""The images of one request: read from their parts, counted into the prompt, and written as the engine takes them.

The steps are in the order in which they cost: bytes, headers, tokens, pixels.
A request that is refused for its length or its answer's size has not decoded anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import BadRequest, PayloadTooLarge
from core.images.bounds import DecodeBudget, ImageLimits
from core.images.families.family import Family
from core.images.families.unknown import refused
from core.images.hashing import image_hash
from core.images.picture import Picture, open_picture
from core.images.placeholders import Span, Vocabulary, check_spans
from core.images.source import check_fetched, read_source
from core.images.tensors import EncodedItem, encode_item, metadata
from core.render.media import CONTENT_PARTS, TENSORS, ImageHandling
from core.upstream.model_view import MediaView

NEVER, ASKED, ALWAYS = "never", "asked", "always"
_MODALITY = "image"
_UUIDS = "multi_modal_uuids"


@dataclass(frozen=True)
class PlacedImage:
    """An image as the request names it, its picture, and where its tokens are."""

    url: Any
    uuid: str | None
    picture: Picture
    span: Span


@dataclass(frozen=True)
class PlacedImages:
    """The images of a prompt, in their places; ``written_ids`` is the prompt before they were expanded."""

    token_ids: list[int]
    written_ids: list[int]
    images: Sequence[PlacedImage]
    reader: ImageReader
    max_bytes: int | None

    def fields(self, payload: str) -> dict[str, Any]:
        """The fields of a ``GenerateRequest`` that carry the images, and the token ids that go with it.

        Raises:
            RequestError: an image cannot be decoded, or all of them would make too many bytes.
        """
        if payload == CONTENT_PARTS:
            return {"token_ids": self.written_ids, "content_parts": [_content_part(image) for image in self.images]}
        if not self.reader.family.known:
            raise refused()
        return {"features": self._features(payload == TENSORS)}

    def _features(self, with_tensors: bool) -> dict[str, Any]:
        items = self._items() if with_tensors else None
        kept = None if items is None else [kept for _, kept in items]
        spans = [image.span for image in self.images]
        return {
            "mm_hashes": {_MODALITY: [self._hash(image) for image in self.images]},
            "mm_placeholders": {_MODALITY: [{"offset": offset, "length": length} for offset, length in spans]},
            "kwargs_data": None if items is None else {_MODALITY: [item for item, _ in items]},
            "mm_metadata": {_MODALITY: kept} if kept and any(item is not None for item in kept) else None,
        }

    def _hash(self, image: PlacedImage) -> str:
        if image.uuid is not None:
            return image.uuid
        return image_hash(self.reader.model_id, image.picture.data, image.picture.converted)

    def _items(self) -> list[tuple[EncodedItem, EncodedItem | None]]:
        """The tensors of each image, and the metadata among them."""
        self.reader.check_size(self.images, self.max_bytes)
        items = []
        for image in self.images:
            fields = self.reader.family.fields(image.picture.rgb())
            kept = metadata(fields)
            items.append((encode_item(fields), encode_item(kept) if kept else None))
        return items


@dataclass(frozen=True)
class ImageReader:
    """A deployment's way with images. Never changed once built; safe to share between requests.

    Parameters
    ----------
    model_id:
        What hashes are taken with: for them to be the engine's own, its model argument.
    client_uuids:
        Whether clients may choose the keys of the engine's caches.
    content_parts:
        Whether images may go to the engine as they came: "never", where a request "asked" for it, or "always", where
        it does not ask for less.
    """

    family: Family
    model_id: str
    vocabulary: Vocabulary
    limits: ImageLimits
    view: MediaView
    client_uuids: bool = True
    content_parts: str = ASKED

    def place(
        self, images: Sequence[tuple[Any, str | None]], token_ids: list[int], handling: ImageHandling
    ) -> PlacedImages:
        """Read the images of a prompt, given by URL and uuid, by their headers, and put their tokens in.

        Raises:
            FilesWanted: some must be fetched first.
            RequestError: an image cannot be read, cannot be taken in its size, or has no place in the prompt.
        """
        check_fetched([url for url, _ in images], handling.files)
        budget = DecodeBudget(self.limits)
        opened = [open_picture(read_source(url, handling.files), budget) if url else None for url, _ in images]
        pictures = [self._present(index, uuid, opened[index]) for index, (_, uuid) in enumerate(images)]
        contents = [self.family.tokens(picture.width, picture.height) for picture in pictures]
        expanded = self.family.expand(token_ids, contents, self.vocabulary)
        check_spans(expanded.spans)
        placed = [
            PlacedImage(url, uuid, picture, span)
            for (url, uuid), picture, span in zip(images, pictures, expanded.spans, strict=True)
        ]
        return PlacedImages(expanded.token_ids, token_ids, placed, self, handling.max_bytes)

    def check_size(self, images: Sequence[PlacedImage], max_bytes: int | None) -> None:
        """Refuse features that would be too large, before they are made.

        Raises:
            PayloadTooLarge: they would be larger than an answer may be; names what can be asked for instead.
            BadRequest: they would take more memory than a request may.
        """
        sizes = [self.family.feature_bytes(image.picture.width, image.picture.height) for image in images]
        if 0 < self.limits.max_feature_bytes < sum(sizes):
            raise BadRequest(
                f"the images of this request would make {sum(sizes)} bytes of features; "
                f"at most {self.limits.max_feature_bytes} are made"
            )
        text = sum((size + 2) // 3 * 4 for size in sizes)
        if max_bytes is not None and text > max_bytes:
            raise PayloadTooLarge(too_large(text, max_bytes))

    def _present(self, index: int, uuid: str | None, picture: Picture | None) -> Picture:
        if uuid is not None and not self.client_uuids:
            raise BadRequest("this server takes no uuid for an image: leave it out", "uuid")
        if picture is not None:
            return picture
        if uuid is None:
            missing = f"multi_modal_data['image'][{index}] is empty but {_UUIDS}['image'][{index}] is missing."
            raise BadRequest(f"{missing} (parameter={_UUIDS})", _UUIDS)
        raise BadRequest(f"Cache miss for image at index {index} but data is not provided.")


def too_large(size: int, limit: int) -> str:
    """What is answered where the features of a request's images have no room in an answer."""
    return (
        f"the features of these images take {size} bytes, and an answer here may have {limit}: ask with mm_payload "
        f'"none" for their hashes and places alone, or with mm_payload "content_parts" for the images as they are, '
        f"which the engine reads itself; a server (derender serve) has no such limit"
    )


def _content_part(image: PlacedImage) -> dict[str, Any]:
    named = {} if image.uuid is None else {"uuid": image.uuid}
    return {"type": "image_url", "url": image.url, **named}


def take_payload(body: Any, policy: str) -> tuple[Any, str | None]:
    """A request's body as vLLM knows it, and the payload where it is none of vLLM's; ``policy`` as with the reader."""
    if not isinstance(body, Mapping) or policy == NEVER:
        return body, None
    asked = body.get("mm_payload")
    if asked == CONTENT_PARTS:
        return {name: value for name, value in body.items() if name != "mm_payload"}, CONTENT_PARTS
    wants_tensors = asked in (None, TENSORS) and body.get("return_mm_kwargs") is not False
    return body, CONTENT_PARTS if policy == ALWAYS and wants_tensors else None
