"""Message parts that are not text: refused, with the words vLLM uses for a model that takes text only.

Must never fetch anything: a part's URL is the client's.
"""

from functools import cache
from typing import Any, Generic, NoReturn, TypeVar

from vllm.config import ModelConfig
from vllm.exceptions import VLLMValidationError

__all__ = ["AsyncMultiModalItemTracker", "BaseMultiModalItemTracker", "MultiModalItemTracker"]

_T = TypeVar("_T")


@cache
def _text_content_parser() -> type:
    """The parser's class. Made late: the module that has its base class needs this one, in some versions of vLLM."""
    from vllm.renderers.chat_utils.content_parser import _ENABLE_PROMPT_EMBEDS_ERROR, BaseMultiModalContentParser

    class TextContentParser(BaseMultiModalContentParser):
        """Has every method that the message parser calls for a part that is not text; each of them raises."""

        def __init__(self, tracker: "BaseMultiModalItemTracker[Any]") -> None:
            super().__init__()
            self._tracker = tracker

        @property
        def model_config(self) -> ModelConfig:
            return self._tracker.model_config

        def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
            config: Any = self.model_config
            name = getattr(config, "served_model_name", None) or config.model
            if getattr(config, "is_multimodal_model", False):
                raise VLLMValidationError(f"{name} takes images, audio and video, but this server handles text only")
            raise ValueError(f"{name} is not a multimodal model")

        def _refuse_embeds(self, *args: object, **kwargs: object) -> NoReturn:
            if getattr(self.model_config, "is_multimodal_model", False):
                self._refuse()
            raise ValueError("The model is not multimodal.")

        parse_image = _refuse
        parse_image_pil = _refuse
        parse_audio = _refuse
        parse_input_audio = _refuse
        parse_video = _refuse
        parse_image_embeds = _refuse_embeds
        parse_audio_embeds = _refuse_embeds
        parse_video_embeds = _refuse_embeds

        def parse_prompt_embeds(self, data: str) -> NoReturn:
            raise VLLMValidationError(_ENABLE_PROMPT_EMBEDS_ERROR, parameter="prompt_embeds")

    return TextContentParser


class BaseMultiModalItemTracker(Generic[_T]):
    """Keeps nothing: no item is ever accepted."""

    def __init__(self, model_config: ModelConfig, media_io_kwargs: dict[str, dict[str, Any]] | None = None) -> None:
        self._model_config = model_config

    @property
    def model_config(self) -> ModelConfig:
        return self._model_config

    def get_num_items(self, modality: str) -> int:
        return 0

    def create_parser(self, mm_processor_kwargs: dict[str, Any] | None = None) -> Any:
        return _text_content_parser()(self)


class MultiModalItemTracker(BaseMultiModalItemTracker[object]):
    """For the synchronous message parser."""

    def resolve_items(self) -> tuple[None, None]:
        return None, None


class AsyncMultiModalItemTracker(BaseMultiModalItemTracker[object]):
    """For the asynchronous message parser."""

    async def resolve_items(self) -> tuple[None, None]:
        return None, None
