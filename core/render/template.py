"""Chat templates: choosing the one for a request and rendering a conversation with it.

Choosing, detecting the content format and filtering arguments is vLLM's code
(``vllm.renderers.hf``); this module is the tokenizer that it sees. A template
is compiled once, and its format detected once, for the life of the process.
Templates always run in jinja2's sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.tokenizer import Tokenizer
from core.upstream.templates import compile_chat_template, render_chat_template, render_compiled

_BOTH_ENDS = (
    "continue_final_message and add_generation_prompt are not compatible. Use continue_final_message when you want "
    "the model to continue the final message, and add_generation_prompt when you want to add a header that will "
    "prompt it to start a new assistant message instead."
)


class TemplateTokenizer:
    """What vLLM's template functions want of a Hugging Face tokenizer.

    ``own_templates`` are the deployment's templates; every other template
    comes from a client and is rendered under a step limit.
    """

    def __init__(self, tokenizer: Tokenizer, default_template: str | None) -> None:
        self.name_or_path = tokenizer.name_or_path
        self._tokenizer = tokenizer
        self._templates = tokenizer.chat_template
        named = self._templates.values() if isinstance(self._templates, Mapping) else [self._templates]
        self.own_templates = frozenset(template for template in (*named, default_template) if template is not None)

    def get_chat_template(self, chat_template: str | None = None, tools: Sequence[Any] | None = None) -> str:
        """The template of a name, ``chat_template`` itself when it is not a name, or the default one.

        A model with several templates has "tool_use" for requests with tools
        and "default" for the others (the rule of transformers).

        Raises:
            ValueError: there is no default.
        """
        templates = self._templates
        if chat_template is not None:
            return templates.get(chat_template, chat_template) if isinstance(templates, dict) else chat_template
        if isinstance(templates, dict):
            found = templates.get("tool_use") if tools is not None else None
            found = templates.get("default") if found is None else found
            if found is None:
                raise ValueError(f"the model has no default chat template, only {', '.join(sorted(templates))}")
            return found
        if templates is None:
            raise ValueError("the model has no chat template")
        return templates

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        tokenize: bool = True,
        padding: Any = False,
        truncation: Any = False,
        max_length: int | None = None,
        return_tensors: Any = None,
        return_dict: bool = True,
        return_assistant_tokens_mask: bool = False,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> str | list[int]:
        """The text of a conversation, or with ``tokenize`` its ids.

        vLLM reads the parameters' names to know which of a request's template
        arguments are not the template's own. Those that shape a tensor mean
        nothing for text and are refused for ids.

        Raises:
            ValueError, TypeError, jinja2.TemplateError: the conversation or an argument does not fit.
        """
        if return_assistant_tokens_mask:
            raise ValueError("`return_assistant_tokens_mask=True` requires `return_dict=True` and `tokenize=True`")
        if tokenize and (padding or truncation or max_length or return_tensors or tokenizer_kwargs):
            raise ValueError("padding, truncation and tensors are not supported as chat template arguments")
        source = self.get_chat_template(chat_template, tools)
        if not conversation:
            raise ValueError("Cannot apply chat template to an empty conversation. Provide at least one message.")
        if continue_final_message and add_generation_prompt:
            raise ValueError(_BOTH_ENDS)
        variables = {**self._tokenizer.special_tokens_map, **kwargs}
        variables |= {"tools": tools, "documents": documents, "add_generation_prompt": add_generation_prompt}
        if source in self.own_templates:
            text = render_chat_template(
                source, conversation, continue_final_message=continue_final_message, **variables
            )
        else:
            text = _render_limited(source, conversation, continue_final_message, variables)
        return self._tokenizer.encode(text, add_special_tokens=False) if tokenize else text


def _render_limited(
    source: str, messages: Sequence[Mapping[str, Any]], continued: bool | str, variables: dict[str, Any]
) -> str:
    """As the slice's ``render_chat_template``, under the step limit."""
    from core.render.step_limit import compile_limited  # late: only a deployment that trusts its clients' templates

    template = compile_limited(source, compile_chat_template(source).environment)
    return render_compiled(template, source, messages, continued, variables)
