"""Environment variables that look like settings and are none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from core.errors import ConfigurationError

# Variables of the project's tools, not of a service.
_TOOLS = ("vllm_python", "vllm_pythonpath", "build_python")
# What Kubernetes sets in every container of a namespace, for a service that is called derender.
_SERVICE_LINK = re.compile(r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")


def refuse_unknown(environ: Mapping[str, str], prefix: str, settings: Iterable[str]) -> None:
    """Refuse variables with our prefix that are no setting: a misspelled one would change nothing, and say nothing.

    Raises:
        ConfigurationError: names one, and what it may have been meant to be.
    """
    known = {prefix + name.upper() for name in (*settings, *_TOOLS)}
    for name in sorted(environ):
        if (
            name.startswith(prefix)
            and name not in known
            and environ[name]
            and not _SERVICE_LINK.fullmatch(name.removeprefix(prefix))
        ):
            from difflib import get_close_matches  # late: only a start that ends here

            near = get_close_matches(name, known, 1)
            raise ConfigurationError(f"{name} is no setting" + (f": is {near[0]} meant?" if near else ""))
