"""The images of one request: read from their parts, counted into the prompt, and written as the engine takes them.

The steps are in the order in which they cost: bytes, headers, tokens, pixels.
A request that is refused for its length or its answer's size has not decoded anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import BadRequest
from core.images.bounds import DecodeBudget, ImageLimits
from core.images.families.family import Family
from core.images.hashing import image_hash
from core.images.picture import Picture, open_picture
from core.images.placeholders import Expanded, Span, Vocabulary, check_spans
from core.images.source import Fetched, read_source
from core.images.tensors import EncodedItem, encode_item, metadata

_UUIDS = "multi_modal_uuids"
MODALITY = "image"


@dataclass(frozen=True)
class ImagePart:
    """An image as a message names it: a URL, and a client's own name for it; one of both may be missing."""

    url: Any
    uuid: str | None = None


@dataclass(frozen=True)
class ReadImage:
    """An image whose header is read; without a picture there is only its name."""

    part: ImagePart
    picture: Picture | None


@dataclass(frozen=True)
class ImageReader:
    """A deployment's way with images. Never changed once built; safe to share between requests.

    ``model_id`` is what hashes are taken with: the model argument of the engine, for them to be equal to its own.
    ``client_uuids`` says whether clients may choose the keys of the engine's caches.
    """

    family: Family
    model_id: str
    vocabulary: Vocabulary
    limits: ImageLimits
    client_uuids: bool = True

    def read(self, parts: Sequence[ImagePart], fetched: Fetched) -> list[ReadImage]:
        """The images of a request's parts, opened by their headers.

        Raises:
            RequestError: the first that cannot be read, in vLLM's words and status.
        """
        budget = DecodeBudget(self.limits)
        images = []
        for part in parts:
            if part.uuid is not None and not self.client_uuids:
                raise BadRequest("this server takes no uuid for an image: leave it out", "uuid")
            picture = open_picture(read_source(part.url, fetched), budget) if part.url else None
            images.append(ReadImage(part, picture))
        return images

    def expand(self, token_ids: list[int], images: Sequence[ReadImage]) -> Expanded:
        """The prompt with the tokens of its images in it.

        Raises:
            BadRequest: an image is missing, cannot be taken in its size, or has no place.
        """
        pictures = [self._picture(index, image) for index, image in enumerate(images)]
        contents = [self.family.tokens(picture.width, picture.height) for picture in pictures]
        expanded = self.family.expand(token_ids, contents, self.vocabulary)
        check_spans(expanded.spans)
        return expanded

    def feature_bytes(self, images: Sequence[ReadImage]) -> int:
        """The size of all tensors, before any is made."""
        pictures = (image.picture for image in images)
        return sum(self.family.feature_bytes(picture.width, picture.height) for picture in pictures if picture)

    def features(self, images: Sequence[ReadImage], spans: Sequence[Span], tensors: bool) -> dict[str, Any]:
        """``features`` of a ``GenerateRequest``; without ``tensors`` nothing is decoded.

        Raises:
            BadRequest: an image cannot be decoded, or all of them would make too many bytes.
        """
        if tensors and self.feature_bytes(images) > self.limits.max_feature_bytes > 0:
            raise BadRequest(
                f"the images of this request would make {self.feature_bytes(images)} bytes of features; "
                f"at most {self.limits.max_feature_bytes} are made"
            )
        hashes = [self._hash(image) for image in images]
        items = [self._items(image.picture) for image in images if image.picture] if tensors else None
        kept = None if items is None else [kept for _, kept in items]
        return {
            "mm_hashes": {MODALITY: hashes},
            "mm_placeholders": {MODALITY: [{"offset": offset, "length": length} for offset, length in spans]},
            "kwargs_data": None if items is None else {MODALITY: [item for item, _ in items]},
            "mm_metadata": {MODALITY: kept} if kept and any(kept) else None,
        }

    def _picture(self, index: int, image: ReadImage) -> Picture:
        if image.picture is not None:
            return image.picture
        if image.part.uuid is None:
            missing = f"multi_modal_data['image'][{index}] is empty but {_UUIDS}['image'][{index}] is missing."
            raise BadRequest(f"{missing} (parameter={_UUIDS})", _UUIDS)
        raise BadRequest(f"Cache miss for image at index {index} but data is not provided.")

    def _hash(self, image: ReadImage) -> str:
        if image.part.uuid is not None:
            return image.part.uuid
        assert image.picture is not None
        return image_hash(self.model_id, image.picture.data, image.picture.converted)

    def _items(self, picture: Picture) -> tuple[EncodedItem, EncodedItem | None]:
        fields = self.family.fields(picture.rgb())
        kept = metadata(fields)
        return encode_item(fields), encode_item(kept) if kept else None


def content_parts(images: Sequence[ReadImage]) -> list[dict[str, Any]]:
    """``content_parts`` of a ``GenerateRequest``: the images as they came, for the engine to read."""
    return [
        {"type": "image_url", "url": image.part.url} | ({} if image.part.uuid is None else {"uuid": image.part.uuid})
        for image in images
    ]
