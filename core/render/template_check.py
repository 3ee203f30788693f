"""Chat templates that cannot work, found at the start and by whoever bundles a model, not by the first client.

A template that comes with a deployment is the operator's: a 400 to a client
would blame the wrong one.
"""

from __future__ import annotations

from collections.abc import Iterable

from jinja2 import TemplateError

from core.bundle.chat_templates import find_chat_templates
from core.bundle.folder import ModelFiles
from core.bundle.model_config import read_model_config
from core.errors import ConfigurationError
from core.render.mistral import is_mistral
from core.render.renderer import Renderer
from core.tokenizer import tokenizer_file
from core.upstream.conversations import choose_template
from core.upstream.encoders import has_encoder
from core.upstream.templates import compile_chat_template

NO_TEMPLATE = (
    "the model has no chat template, so every chat will be refused: completions alone can be served; "
    "name a template with --chat-template (DERENDER_CHAT_TEMPLATE)"
)


def check_syntax(templates: Iterable[str]) -> None:
    """Compile templates; what is compiled is kept for the requests to come.

    Raises:
        ConfigurationError: one is not a template; says the line.
    """
    for template in templates:
        try:
            compile_chat_template(template)
        except TemplateError as exc:
            line = getattr(exc, "lineno", None)
            place = "" if line is None else f" in line {line}"
            raise ConfigurationError(f"the chat template has a syntax error{place}: {exc.message}") from exc


def check_templates(renderer: Renderer) -> str | None:
    """Check what a deployment writes chats with; a warning where there is nothing, and only completions can be served.

    Raises:
        ConfigurationError: a template has a syntax error, or there is none and a parser is named, which reads chats.
    """
    if renderer.is_harmony or renderer.encoder is not None or is_mistral(renderer.tokenizer):
        return None
    check_syntax(renderer.templates.own_templates)
    if choose_template(renderer.templates, renderer.options.chat_template, None, renderer.view) is not None:
        return None
    if renderer.parser is not None:
        raise ConfigurationError(f"a parser is named, and {NO_TEMPLATE}")
    return NO_TEMPLATE


def check_folder(files: ModelFiles, mode: str) -> str | None:
    """Check the templates of a model folder that nobody serves yet; a warning where it has none and chats need one.

    ``mode`` is the tokenizer's (``core.tokenizer.MODES``).

    Raises:
        ConfigurationError: a template has a syntax error.
    """
    config = read_model_config(files)
    templates = find_chat_templates(files, config.tokenizer_config)
    if templates is not None:
        check_syntax([templates] if isinstance(templates, str) else templates.values())
        return None
    written_by_code = config.is_harmony or has_encoder(config.architecture)
    return None if written_by_code or tokenizer_file(files.names(), mode) == "tekken.json" else NO_TEMPLATE
