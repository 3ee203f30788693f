"""``/v1/completions/render``: a completion request into one request for the engine for each prompt."""

from __future__ import annotations

from typing import Any

from core.errors import BadRequest
from core.model import Model
from core.render.generate_request import generate_request
from core.render.media import AS_ASKED, ImageHandling
from core.render.prompt import CheckedText, Prompt, check_ids, check_prompt, check_text, tokenize_text
from core.render.renderer import Renderer
from core.render.sampling import check_beam_search, resolve_sampling
from core.upstream.conversations import check_media_options
from core.upstream.refusals import invalid, refusals
from core.upstream.requests import validate_completion

_SUFFIX = "suffix is only supported for models with FIM completion rendering"


def render_completion(
    model: Model, body: Any, request_id: str | None = None, images: ImageHandling = AS_ASKED
) -> list[dict[str, Any]]:
    """The ``GenerateRequest`` of each prompt, in the order of the prompts.

    ``body`` is the decoded JSON of the request and stays as it is.
    ``request_id`` wins over the request's own.

    Raises:
        ModelNotFound, BadRequest, SchemaError: in the order in which vLLM checks.
    """
    return render_valid_completion(model, validate_completion(body), request_id)


def render_valid_completion(model: Model, request: Any, request_id: str | None = None) -> list[dict[str, Any]]:
    """The ``GenerateRequest`` of each prompt of vLLM's ``CompletionRequest``, which stays as it is.

    Raises:
        ModelNotFound, BadRequest: in the order in which vLLM checks.
    """
    model.resolve_name(request.model)
    check_beam_search(request)
    renderer = model.renderer
    with refusals():
        prompt_input = _with_suffix(renderer, request)
        _check_options(request)
        prompts = completion_prompts(renderer, request, prompt_input)
        base_id = f"cmpl-{request.request_id if request_id is None else request_id}"
        written: list[dict[str, Any]] = []
        for index, prompt in enumerate(prompts):
            check_prompt(prompt)
            sampling = resolve_sampling(
                request,
                request.max_tokens,
                len(prompt.token_ids),
                renderer.defaults,
                renderer.limits,
                request.truncate_prompt_tokens,
            )
            one_id = base_id if len(prompts) == 1 else f"{base_id}-{index}"
            written.append(generate_request(request, one_id, prompt, sampling))
        return written


def _check_options(request: Any) -> None:
    """What vLLM refuses before it looks at a prompt."""
    embeds = request.prompt_embeds is not None
    if request.echo and embeds:
        raise BadRequest("Echo is unsupported with prompt embeds.")
    if request.prompt_logprobs is not None and embeds:
        raise BadRequest("prompt_logprobs is not compatible with prompt embeds.")
    check_media_options(request)
    if embeds and request.prompt_embeds != []:
        raise invalid("You must set `--enable-prompt-embeds` to input `prompt_embeds`.", "prompt_embeds")


def _with_suffix(renderer: Renderer, request: Any) -> Any:
    """The request's prompt, its suffix worked in where it has one and the model can fill in a middle.

    Raises:
        BadRequest: says what the suffix does not go with.
    """
    prompt, suffix = request.prompt, request.suffix
    if suffix is None:
        return prompt
    if request.echo:
        raise BadRequest("Echo is unsupported with suffix.", "suffix")
    for field in ("prompt_embeds", "truncate_prompt_tokens"):
        if getattr(request, field) is not None:
            raise BadRequest(f"suffix is not supported with {field}", "suffix")
    texts = [prompt] if isinstance(prompt, str) else prompt
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise BadRequest("suffix requires text prompt input for FIM completion rendering", "suffix")
    encoder = renderer.encoder
    joined = [None if encoder is None else encoder.with_suffix(text, suffix) for text in texts]
    if None in joined:
        raise BadRequest(_SUFFIX, "suffix")
    return joined[0] if isinstance(prompt, str) else joined


def completion_prompts(renderer: Renderer, request: Any, prompt: Any) -> list[Prompt]:
    """The prompts of a completion or tokenize request: a text, ids, or a list of either.

    Raises:
        Exception: there is none, or one is too long.
    """
    check_media_options(request)
    tokenizer = renderer.tokenizer
    params = renderer.tokenize_params(request)
    single = isinstance(prompt, str) or (isinstance(prompt, list) and prompt and isinstance(prompt[0], int))
    given = [prompt] if single else list(prompt or ())
    if not given:
        raise invalid("You must pass at least one prompt", "prompt")
    # Everything that can be refused without tokenizing is refused before anything is tokenized.
    checked: list[CheckedText | Prompt] = []
    for one in given:
        if isinstance(one, str):
            checked.append(check_text(tokenizer, one, params))
            continue
        ids = check_ids(tokenizer, one, params)
        if params.needs_detokenization:
            tokenizer.decode(ids.token_ids)  # an echo needs the text: ids that no tokenizer can hold are refused
        checked.append(ids)
    return [one if isinstance(one, Prompt) else tokenize_text(renderer, one, params) for one in checked]
