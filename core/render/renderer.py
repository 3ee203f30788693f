"""Everything that rendering needs of a model, built once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from core.bounds import Limits
from core.bundle.model_config import ModelConfig
from core.options import ModelOptions
from core.render.media import ImageReader
from core.render.sampling import SamplingDefaults, sampling_defaults
from core.render.template import TemplateTokenizer
from core.tokenizer import Tokenizer
from core.upstream.encoders import ChatEncoder, find_encoder
from core.upstream.model_view import ModelView

if TYPE_CHECKING:
    from core.parsing.chat_parser import ChatParser

# Every vLLM server has this default (--cohere-format); it is on the wire of every answer.
_COHERE_FORMAT = {"cohere_format": "cmd4"}


@dataclass(frozen=True, eq=False)
class Renderer:
    """A model's rendering half. Never changed once built; safe to share between requests and threads.

    ``encoder`` stands in for the chat template where the architecture has none.
    ``template_kwargs`` are the deployment's default arguments of the chat
    template. ``parser`` decides what becomes of ``tool_choice`` and
    ``response_format``; None when the deployment has none. ``images`` is None
    where only text is read.
    """

    options: ModelOptions
    tokenizer: Tokenizer
    limits: Limits
    is_harmony: bool
    view: ModelView
    templates: TemplateTokenizer
    encoder: ChatEncoder | None
    template_kwargs: Mapping[str, Any]
    defaults: SamplingDefaults
    parser: ChatParser | None
    images: ImageReader | None = None

    def repairs(self, relayed: bool) -> bool:
        """Whether prompts keep what vLLM would lose; ``relayed`` are those of the relay for its engine."""
        return self.options.prompts == "repaired" or (relayed and self.options.prompts is None)

    def tokenize_params(self, request: Any) -> Any:
        """vLLM's ``TokenizeParams`` of a request.

        Raises:
            VLLMValidationError: the request asks for more tokens than there can be.
        """
        params = request.build_tok_params(self.view)
        # vLLM's renderers of these models give no offsets, for texts either.
        return params if self.encoder is None else replace(params, return_token_offsets=False)


def build_renderer(
    config: ModelConfig,
    options: ModelOptions,
    view: ModelView,
    tokenizer: Tokenizer,
    limits: Limits,
    parser: ChatParser | None,
    images: ImageReader | None = None,
) -> Renderer:
    """The renderer of a loaded model. Reads no file; the tokenizer's merges are read by the first text."""
    return Renderer(
        options=options,
        tokenizer=tokenizer,
        limits=limits,
        is_harmony=config.is_harmony,
        view=view if images is None else replace(view, media=images.view),
        templates=TemplateTokenizer(tokenizer, options.chat_template),
        encoder=find_encoder(config.architecture, tokenizer),
        template_kwargs={**_COHERE_FORMAT, **options.default_chat_template_kwargs},
        defaults=sampling_defaults(config, options),
        parser=parser,
        images=images,
    )
