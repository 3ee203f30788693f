"""Where an image comes from: the URL of a content part, into the bytes of a file.

Source: ``vllm/multimodal/media/connector.py`` of vLLM 0.33.0. Nothing is
fetched here: files of http(s) URLs are handed in by who is allowed to fetch them.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from core.errors import BadRequest, NotImplementedHere, RequestError, ServerRefusal
from core.render.media import Files, FilesWanted

_NO_LOCAL_FILES = "Cannot load local files without `--allowed-local-media-path`."


def check_fetched(urls: Sequence[Any], files: Files) -> None:
    """Ask for the files of remote URLs that are not there.

    Raises:
        FilesWanted: there are some.
    """
    wanted = list(dict.fromkeys(url for url in urls if is_remote(url) and url not in files))
    if wanted:
        raise FilesWanted(not_allowed(wanted[0], ()), wanted)


def read_source(url: Any, files: Files) -> bytes:
    """The file that a URL stands for; that of a remote one is among ``files``.

    Raises:
        RequestError: with vLLM's words and status.
    """
    if not isinstance(url, str):
        raise BadRequest(f"The URL of an image must be a string, not {type(url).__name__}", "image_url")
    if url[:5].lower() == "data:":
        return _data(url)
    scheme = _scheme(url)
    if is_remote(url):
        found = files[url]
        if isinstance(found, RequestError):
            raise found
        return found
    if scheme == "file":
        raise ServerRefusal(_NO_LOCAL_FILES)
    raise BadRequest("The URL must be either a HTTP, data or file URL.")


def is_remote(url: Any) -> bool:
    """Whether the file must be fetched."""
    return isinstance(url, str) and _scheme(url).startswith("http")


def not_allowed(url: str, domains: tuple[str, ...]) -> str:
    """What is answered to a URL of a domain that the deployment does not list."""
    return (
        f"The URL must be from one of the allowed domains: {list(domains)}. Input URL domain: "
        f"{(urlsplit(url).hostname or '')[:255]}"
    )


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme.lower()
    except ValueError as exc:
        raise BadRequest(f"Failed to parse: {url[:200]}") from exc


def _data(url: str) -> bytes:
    head, comma, data = url[5:].partition(",")
    if not comma:
        raise BadRequest(f"Invalid data URL {url[:32]!r}: missing ',' separator.")
    _, semicolon, encoding = head.rpartition(";")
    if not semicolon or encoding != "base64":
        raise NotImplementedHere("Only base64 data URLs are supported for now.")
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except ValueError as exc:
        raise BadRequest("Non-base64 digit found") from exc
