"""Message parts that are not text: images are noted where the deployment reads them, all else is refused.

Must never fetch or decode anything: a part's URL is the client's. What a
deployment reads is the ``media`` of its model configuration: it has
``image_placeholder`` (what stands for an image in plain text, or None),
``max_images`` and ``others`` (modalities that the model takes besides). Without
it the words are those that vLLM uses for a model that takes text only.
"""

from functools import cache
from typing import Any, Generic, NoReturn, TypeVar

from vllm.config import ModelConfig
from vllm.exceptions import VLLMValidationError

__all__ = ["AsyncMultiModalItemTracker", "BaseMultiModalItemTracker", "MultiModalItemTracker"]

_T = TypeVar("_T")
_Items = tuple[dict[str, list[Any]] | None, dict[str, list[str | None]] | None]


@cache
def _content_parser() -> type:
    """The parser's class. Made late: the module that has its base class needs this one, in some versions of vLLM."""
    from vllm.renderers.chat_utils.content_parser import _ENABLE_PROMPT_EMBEDS_ERROR, BaseMultiModalContentParser

    class ContentParser(BaseMultiModalContentParser):
        """Has every method that the message parser calls for a part that is not text."""

        def __init__(self, tracker: "BaseMultiModalItemTracker[Any]") -> None:
            super().__init__()
            self._tracker = tracker

        @property
        def model_config(self) -> ModelConfig:
            return self._tracker.model_config

        @property
        def _media(self) -> Any:
            return getattr(self.model_config, "media", None)

        def parse_image(self, image_url: Any, uuid: str | None = None) -> None:
            if self._media is None:
                self._refuse()
            self._add_placeholder("image", self._tracker.add("image", (image_url, uuid)))

        def parse_video(self, *args: object, **kwargs: object) -> None:
            self._refuse_modality("video")

        def parse_audio(self, *args: object, **kwargs: object) -> None:
            self._refuse_modality("audio")

        parse_input_audio = parse_audio

        def parse_image_embeds(self, *args: object, **kwargs: object) -> None:
            self._refuse_embeds("image")

        def parse_audio_embeds(self, *args: object, **kwargs: object) -> None:
            self._refuse_embeds("audio")

        def parse_video_embeds(self, *args: object, **kwargs: object) -> None:
            self._refuse_embeds("video")

        def parse_prompt_embeds(self, data: str) -> NoReturn:
            raise VLLMValidationError(_ENABLE_PROMPT_EMBEDS_ERROR, parameter="prompt_embeds")

        def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
            config: Any = self.model_config
            name = getattr(config, "served_model_name", None) or config.model
            if getattr(config, "is_multimodal_model", False):
                handled = "text only" if self._media is None else "text and images only"
                raise VLLMValidationError(f"{name} takes images, audio and video, but this server handles {handled}")
            raise ValueError(f"{name} is not a multimodal model")

        parse_image_pil = _refuse

        def _refuse_modality(self, modality: str) -> NoReturn:
            if self._media is None or modality in self._media.others:
                self._refuse()
            raise VLLMValidationError(f"At most 0 {modality}(s) may be provided in one prompt.", parameter=modality)

        def _refuse_embeds(self, modality: str) -> NoReturn:
            if self._media is not None:
                name = f"{modality}_embeds"
                raise VLLMValidationError(f"You must set `--enable-mm-embeds` to input `{name}`", parameter=name)
            if getattr(self.model_config, "is_multimodal_model", False):
                self._refuse()
            raise ValueError("The model is not multimodal.")

    return ContentParser


class BaseMultiModalItemTracker(Generic[_T]):
    """Keeps what the parts of one request name, unread."""

    def __init__(self, model_config: ModelConfig, media_io_kwargs: dict[str, dict[str, Any]] | None = None) -> None:
        self._model_config = model_config
        self._images: list[tuple[Any, str | None]] = []

    @property
    def model_config(self) -> ModelConfig:
        return self._model_config

    def get_num_items(self, modality: str) -> int:
        return len(self._images) if modality == "image" else 0

    def add(self, modality: str, item: tuple[Any, str | None]) -> str | None:
        """Note one more image; what stands for it in plain text.

        Raises:
            VLLMValidationError: there are too many.
        """
        media: Any = getattr(self._model_config, "media", None)
        if len(self._images) >= media.max_images:
            message = f"At most {media.max_images} {modality}(s) may be provided in one prompt."
            raise VLLMValidationError(message, parameter=modality)
        self._images.append(item)
        placeholder: str | None = media.image_placeholder
        return placeholder

    def create_parser(self, mm_processor_kwargs: dict[str, Any] | None = None) -> Any:
        return _content_parser()(self)

    def _items(self) -> _Items:
        if not self._images:
            return None, None
        urls, uuids = zip(*self._images, strict=True)
        return {"image": list(urls)}, {"image": list(uuids)}


class MultiModalItemTracker(BaseMultiModalItemTracker[object]):
    """For the synchronous message parser."""

    def resolve_items(self) -> _Items:
        return self._items()


class AsyncMultiModalItemTracker(BaseMultiModalItemTracker[object]):
    """For the asynchronous message parser."""

    async def resolve_items(self) -> _Items:
        return self._items()
