"""The engines' version of vLLM against the slice's: parsers of another version read the same output otherwise."""

from __future__ import annotations

import re
from threading import Thread

import httpx

from core.errors import ConfigurationError
from core.upstream.version import vllm_version
from handlers.logs import write_fault, write_line
from handlers.settings import PREFIX, Settings
from handlers.slices import available

_SECONDS = 5.0
_NO_ANSWER = ""
_MOST_BYTES = 64 * 1024
_VERSION = re.compile(r"\d+\.\d+\.\d+")


def check_engines(settings: Settings) -> None:
    """Ask every engine for its version: another one than the slice's is told in the log, or stops the start.

    A start that need not stop does not wait for the answers.

    Raises:
        ConfigurationError: with ``require_engine_version``, an engine has another version, or does not tell it.
    """
    if settings.require_engine_version:
        wrong = [complaint for complaint in _complaints(settings) if complaint is not None]
        if wrong:
            raise ConfigurationError(f"{PREFIX}REQUIRE_ENGINE_VERSION: {'; '.join(wrong)}")
    else:
        Thread(target=_warn, args=(settings,), name="engine versions", daemon=True).start()


def _warn(settings: Settings) -> None:
    try:
        complaints = _complaints(settings)
    except Exception as exc:
        # Nobody waits for this: a thread that fails must not write to the process's own error output.
        write_fault(exc, "/version")
        return
    for complaint in complaints:
        if complaint is not None:
            write_line("WARNING", "the engine", reason=complaint)


def _complaints(settings: Settings) -> list[str | None]:
    """What is wrong with each engine, without its address: the log may be read by others than its owner."""
    headers = {"authorization": f"Bearer {settings.engine_api_key}"} if settings.engine_api_key else {}
    with httpx.Client(headers=headers, timeout=_SECONDS, trust_env=False, follow_redirects=False) as client:
        return [_complaint(number, _asked(client, url)) for number, url in enumerate(settings.engine_url, 1)]


def _asked(client: httpx.Client, url: str) -> str | None:
    """The version that an engine tells; None when it tells no version of vLLM, and empty when it does not answer."""
    try:
        with client.stream("GET", f"{url.rstrip('/')}/version") as answer:
            answer.raise_for_status()
            body = b""
            for block in answer.iter_bytes():
                body += block
                if len(body) > _MOST_BYTES:
                    return None
        told = httpx.Response(200, content=body).json()
    except (httpx.TransportError, httpx.InvalidURL):
        return _NO_ANSWER
    except (httpx.HTTPError, ValueError):
        return None
    version = told.get("version") if isinstance(told, dict) else None
    found = _VERSION.match(version) if isinstance(version, str) else None
    return found[0] if found else None


def _complaint(number: int, version: str | None) -> str | None:
    """What is wrong with an engine's version, and what to do; None when it is that of the slice."""
    ours = vllm_version()
    if version == _NO_ANSWER:
        return f"engine {number} does not answer: make sure of its address, and that it runs"
    if version is None:
        return f"engine {number} does not tell its version: make sure that it runs vLLM {ours}, whose parsers are used"
    if version == ours:
        return None
    slices = available()
    advice = f"--vllm-version {version}" if version in slices else f"no slice of it is here, only {', '.join(slices)}"
    return f"engine {number} runs vLLM {version}, and the parsers are those of {ours}: {advice}"
