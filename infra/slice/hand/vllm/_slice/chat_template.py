"""Chat templates: compiling and rendering them as models expect, on jinja2.

The rules are those that published templates rely on (the Hugging Face chat template conventions): blocks are trimmed,
loops have `break` and `continue`, `{% generation %}` marks what the assistant wrote, `tojson` neither escapes HTML nor
turns other letters into ASCII. Templates come from model folders and from clients: they run in jinja2's immutable
sandbox, and must never run outside it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import Template, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import CallBlock, Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

__all__ = ["compile_chat_template", "render_chat_template"]

# Some templates trim a message's trailing white space; the mark's own space shows whether this one did.
_MARK = "CONTINUE_FINAL_MESSAGE_TAG "


class _GenerationBlock(Extension):
    """`{% generation %}...{% endgeneration %}`: renders its body. What it marks matters to training only."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@lru_cache(maxsize=1)
def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


@lru_cache(maxsize=128)
def compile_chat_template(source: str) -> Template:
    """The compiled template; compiled once for each source.

    Raises jinja2.TemplateSyntaxError when the source is not a template.
    """
    return _environment().from_string(source)


def _with_mark(messages: Sequence[Mapping[str, Any]], key: str, source: str) -> tuple[list[Any], str]:
    """A copy of the messages with the mark after the last one's text, and that text."""
    marked: list[Any] = deepcopy(list(messages))
    text = marked[-1].get(key)
    if text is None:
        raise ValueError(f'continue_final_message is set but the final message has no "{key}" to continue!')
    if key not in source:
        raise ValueError(
            f'continue_final_message is set to "{key}" but this is not an accepted field in the chat_template'
        )
    if isinstance(text, list | tuple):
        part = next((part for part in reversed(text) if "text" in part), None)
        if part is None:
            raise ValueError(
                "continue_final_message is set but we could not find any text to continue in the final message!"
            )
        text = part["text"]
        part["text"] = text + _MARK
    else:
        marked[-1][key] = text + _MARK
    return marked, text


def _cut_at_mark(rendered: str, text: str) -> str:
    """What was rendered up to the end of the last message's text."""
    mark = _MARK.strip()
    if text.strip() not in rendered or mark not in rendered:
        raise ValueError(
            "continue_final_message is set but the final message does not appear in the chat after "
            "applying the chat template! This can happen if the chat template deletes portions of "
            "the final message. Please verify the chat template and final message in your chat to "
            "ensure they are compatible."
            f"Final message to continue: {text.strip()}\nRendered chat:\n{rendered}"
        )
    end = rendered.rindex(mark)
    kept = rendered[:end]
    # A template that trims took the mark's space with it, and would have taken the text's own.
    return kept if rendered.startswith(_MARK, end) else kept.rstrip()


def render_chat_template(
    source: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    documents: Sequence[Mapping[str, Any]] | None = None,
    add_generation_prompt: bool = False,
    continue_final_message: bool | str = False,
    **variables: Any,
) -> str:
    """The prompt text for a conversation.

    Parameters
    ----------
    source
        The template's text.
    messages, tools, documents
        What the template sees under these names.
    continue_final_message
        Leave the last message open for the model to go on with. A string names the message's key to continue, instead
        of `content`.
    variables
        Everything else that the template sees: special tokens, the request's template options.

    Raises jinja2.TemplateError when the template does (`raise_exception` included), ValueError or TypeError when the
    arguments do not fit.
    """
    template = compile_chat_template(source)
    for tool in tools or ():
        if not isinstance(tool, Mapping):
            raise ValueError(f"tools must be JSON schemas, not {type(tool).__name__}")
    for document in documents or ():
        if not isinstance(document, Mapping):
            raise TypeError("Documents should be a list of dicts with 'title' and 'text' keys!")
    text: str | None = None
    if continue_final_message:
        key = continue_final_message if isinstance(continue_final_message, str) else "content"
        messages, text = _with_mark(messages, key, source)
    rendered = template.render(
        messages=messages, tools=tools, documents=documents, add_generation_prompt=add_generation_prompt, **variables
    )
    return rendered if text is None else _cut_at_mark(rendered, text)
