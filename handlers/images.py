"""A deployment's images: what reads them, by its settings, and what fetches them."""

from __future__ import annotations

from collections.abc import Mapping

from core.bundle.folder import ModelFiles
from core.bundle.model_config import ModelConfig
from core.errors import ConfigurationError
from core.images.bounds import ImageLimits
from core.images.setup import ImageOptions, build_reader
from core.model import ImagesOf
from core.render.media import ImageReader
from core.tokenizer import Tokenizer
from handlers.logs import write_line
from handlers.media_fetch import MediaFetcher
from handlers.settings import Settings


def images_of(settings: Settings) -> ImagesOf:
    """What builds a model's reader of images.

    Raises:
        ConfigurationError: one of vLLM's variables is wrong.
    """
    options = ImageOptions(
        model_id=settings.media_model_id or settings.model,
        limits=_limits(settings.environ),
        client_uuids=not settings.refuse_media_uuids,
        content_parts=settings.content_parts,
    )

    def build(files: ModelFiles, config: ModelConfig, tokenizer: Tokenizer) -> ImageReader | None:
        reader = build_reader(files, config, tokenizer, options)
        if reader is not None and not reader.family.known:
            write_line(
                "WARNING",
                "images of this model are only passed on, as content_parts; prompts count without their tokens",
                architecture=config.architecture,
            )
        if reader is not None and not reader.family.dense:
            write_line(
                "WARNING",
                "vLLM 0.33's engine cannot use the image features of this model: its placeholders need a mask that "
                "features have no room for; send it content_parts",
                architecture=config.architecture,
            )
        return reader

    return build


def fetcher_of(settings: Settings) -> MediaFetcher:
    """What fetches the images of a deployment.

    Raises:
        ConfigurationError: one of vLLM's variables is wrong.
    """
    return MediaFetcher(
        domains=tuple(domain.lower() for domain in settings.allowed_media_domains),
        timeout=_number(settings.environ, "VLLM_IMAGE_FETCH_TIMEOUT", 5),
        max_bytes=settings.max_body_bytes,
        max_redirects=5 if _number(settings.environ, "VLLM_MEDIA_URL_ALLOW_REDIRECTS", 1) else 0,
    )


def _limits(environ: Mapping[str, str]) -> ImageLimits:
    usual = ImageLimits()
    return ImageLimits(
        max_pixels=_number(environ, "VLLM_MAX_IMAGE_PIXELS", usual.max_pixels),
        max_decoded_bytes=_number(environ, "VLLM_MAX_MEDIA_REQUEST_DECODE_BYTES", usual.max_decoded_bytes),
    )


def _number(environ: Mapping[str, str], name: str, usual: int) -> int:
    text = environ.get(name)
    if not text:
        return usual
    if not text.isdecimal():
        raise ConfigurationError(f"{name} must be a whole number, not {text!r}")
    return int(text)
