"""Finding a model folder's chat templates, by transformers' conventions.

A ``chat_template.jinja`` file, or ``chat_templates/NAME.jinja`` (also
``additional_chat_templates/``), wins over ``chat_template`` in
``tokenizer_config.json``, which is a template or a list of named ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.bundle.folder import ModelFiles
from core.errors import ConfigurationError

_FOLDERS = ("additional_chat_templates", "chat_templates")


def find_chat_templates(files: ModelFiles, tokenizer_config: Mapping[str, Any]) -> str | dict[str, str] | None:
    """The default template, a mapping of names to templates, or None when the model has none.

    Raises:
        ConfigurationError: a template is not text.
    """
    found: dict[str, str] = {}
    for name in files.names():
        folder, _, rest = name.rpartition("/")
        if name == "chat_template.jinja":
            found["default"] = _text(files, name)
        elif folder in _FOLDERS and rest.endswith(".jinja"):
            found.setdefault(rest.removesuffix(".jinja"), _text(files, name))
    if not found:
        return _from_config(tokenizer_config.get("chat_template"))
    return found["default"] if set(found) == {"default"} else found


def _text(files: ModelFiles, name: str) -> str:
    try:
        return files.read(name).decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ConfigurationError(f"{files.origin}: {name} is not UTF-8 text") from exc


def _from_config(value: Any) -> str | dict[str, str] | None:
    if value is None or isinstance(value, str):
        return value
    try:
        if isinstance(value, list):
            return {str(entry["name"]): str(entry["template"]) for entry in value}
        if isinstance(value, dict):
            return {str(k): str(v) for k, v in value.items()}
    except (KeyError, TypeError) as exc:
        raise ConfigurationError("tokenizer_config.json: chat_template is a list without name and template") from exc
    raise ConfigurationError("tokenizer_config.json: chat_template is neither text nor a list of named templates")
