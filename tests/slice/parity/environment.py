"""The two sides of the comparison: full vLLM with its own tokenizers, or the slice with the project's."""

import itertools
import os
import random
import re
import time
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")
# The harmony system message has the date in it.
os.environ["VLLM_SYSTEM_START_DATE"] = "2031-01-15"

_numbers = itertools.count(1)


class _Uuid:
    def __init__(self) -> None:
        self.int = next(_numbers)
        self.hex = f"{self.int:032x}"


def settle() -> None:
    """Make random ids and times the same in every run of a case."""
    global _numbers
    _numbers = itertools.count(1)
    random.seed(0)
    uuid.uuid4 = _Uuid  # type: ignore[assignment, misc]
    time.time = lambda: 1700000000.0


def is_slice() -> bool:
    """Whether the vllm that this Python has is the slice."""
    import vllm

    return (Path(vllm.__file__).parent / "_slice").is_dir()


def version() -> tuple[int, ...]:
    """Major and minor number of the vllm that this Python has."""
    from vllm.version import __version__

    return tuple(int(part) for part in __version__.split(".")[:2])


def load_tokenizer(folder: Path) -> Any:
    """The folder's tokenizer, as each side loads it."""
    if is_slice():
        from core.bundle.folder import FolderFiles
        from core.tokenizer import load_tokenizer as load

        return load(FolderFiles(folder), name=folder.name)
    from vllm.tokenizers import get_tokenizer

    tokenizer = get_tokenizer(str(folder))
    tokenizer.name_or_path = folder.name
    return tokenizer


def template_tokenizer(tokenizer: Any) -> Any:
    """The tokenizer with `get_chat_template` and `apply_chat_template`, to compare vLLM's rendering functions."""
    if hasattr(tokenizer, "apply_chat_template"):
        return tokenizer
    from vllm._slice.chat_template import render_chat_template
    from vllm._slice.transformers import TokenizersBackend

    class Adapter(TokenizersBackend):
        name_or_path = tokenizer.name_or_path

        def get_chat_template(self, chat_template: str | None = None, tools: Any = None) -> str:
            template = chat_template or tokenizer.chat_template
            if not isinstance(template, str):
                raise ValueError("tokenizer.chat_template is not set")
            return template

        def apply_chat_template(
            self,
            conversation: Any,
            tools: Any = None,
            documents: Any = None,
            chat_template: str | None = None,
            **options: Any,
        ) -> str:
            if not conversation:
                raise ValueError("Cannot apply chat template to an empty conversation. Provide at least one message.")
            options.pop("tokenize", None)
            return render_chat_template(
                self.get_chat_template(chat_template, tools),
                conversation,
                tools=tools,
                documents=documents,
                **{**tokenizer.special_tokens_map, **options},
            )

    return Adapter()


class _NotMultimodal(SimpleNamespace):
    def get_multimodal_config(self) -> None:
        raise ValueError("The model is not multimodal.")


def model_config(name: str) -> Any:
    """What vLLM's functions read of a text model's configuration."""
    return _NotMultimodal(
        model=name,
        served_model_name=None,
        tokenizer=name,
        tokenizer_revision=None,
        revision=None,
        code_revision=None,
        trust_remote_code=False,
        hf_config=SimpleNamespace(model_type="qwen3"),
        hf_text_config=None,
        hf_overrides=None,
        multimodal_config=None,
        is_multimodal_model=False,
        enable_prompt_embeds=False,
        allowed_local_media_path="",
        allowed_media_domains=None,
    )


def without_addresses(text: str) -> str:
    """A representation without memory addresses."""
    return re.sub(r"0x[0-9a-f]+", "0x", text)
