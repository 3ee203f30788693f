"""What is refused of images before anything is decoded."""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import BadRequest

# A progressive JPEG is gone over once a scan, and a scan costs its sender a dozen bytes. Encoders write ten.
MAX_JPEG_SCANS = 100
# vLLM counts four bytes a pixel against its limit on a request.
_BYTES_PER_PIXEL = 4


@dataclass(frozen=True)
class ImageLimits:
    """A deployment's limits on the images of one request.

    ``max_pixels`` of one image and ``max_decoded_bytes`` of all, at four bytes
    a pixel, are vLLM's limits (``VLLM_MAX_IMAGE_PIXELS``,
    ``VLLM_MAX_MEDIA_REQUEST_DECODE_BYTES``), lower than there unless set.
    ``max_images`` is vLLM's default. ``max_feature_bytes`` bounds the tensors
    of an answer: a picture of one pixel can become megabytes of them.
    """

    max_pixels: int = 50_000_000
    max_decoded_bytes: int = 400_000_000
    max_images: int = 999
    max_feature_bytes: int = 256 << 20


class DecodeBudget:
    """Counts the pixels of one request's images."""

    def __init__(self, limits: ImageLimits) -> None:
        self._limits = limits
        self._used = 0

    def charge(self, width: int, height: int) -> None:
        """Take an image's pixels from the budget.

        Raises:
            BadRequest: too many of them, in the words of vLLM.
        """
        pixels, most = width * height, self._limits.max_pixels
        if 0 < most < pixels:
            raise BadRequest(
                f"Image dimensions {width}x{height} ({pixels} pixels) exceed the maximum of {most} pixels. "
                f"Set VLLM_MAX_IMAGE_PIXELS to increase this limit."
            )
        self._used += pixels * _BYTES_PER_PIXEL
        limit = self._limits.max_decoded_bytes
        if 0 < limit < self._used:
            raise BadRequest(
                f"Request decoded media exceeds VLLM_MAX_MEDIA_REQUEST_DECODE_BYTES={limit} ({self._used} bytes)."
            )
