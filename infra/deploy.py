"""``make deploy``: `sam deploy` with the profile's parameters, the given parameters and the name of the release.

SAM publishes a new version of a function when its code changes, not when a
parameter does (its issue 3820): a changed parser or a rotated key would reach
``$LATEST`` and no caller. So every deployment names its release, a digest of
artefacts, template and parameters. An unchanged release publishes nothing; any
change publishes a new version.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from core.errors import ConfigurationError
from infra.package.build import ROOT
from infra.package.functions import FUNCTIONS
from infra.package.target import TARGETS

_PARAMETER = re.compile(r"^([A-Za-z][A-Za-z0-9]*)=(.*)$", re.DOTALL)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit status is that of `sam deploy`, or 1 with one line on standard error."""
    parser = argparse.ArgumentParser(prog="python -m infra.deploy", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("parameters", nargs="*", metavar="NAME=VALUE", help="parameters of template.yaml")
    parser.add_argument("--stage", default="default", help="the profile of samconfig.toml (default: the sandbox)")
    parser.add_argument("--arch", choices=[target.name for target in TARGETS], default="arm64")
    parser.add_argument("--show", action="store_true", help="print the command instead of running it")
    options, further = parser.parse_known_args(arguments)
    try:
        command = deploy_command(ROOT, options.stage, options.arch, options.parameters) + further
    except ConfigurationError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    if options.show:
        print("\n".join(command))
        return 0
    return subprocess.run(command, cwd=ROOT, env={"SAM_CLI_TELEMETRY": "0", **os.environ}).returncode


def deploy_command(root: Path, stage: str, arch: str, given: list[str]) -> list[str]:
    """The `sam deploy` of one stage.

    Raises:
        ConfigurationError: the stage is unknown, a parameter is malformed, or the artefacts are not built.
    """
    template = root / ("template.yaml" if arch == "arm64" else f"dist/template-{arch}.yaml")
    parameters = _parameters([*_profile(root / "samconfig.toml", stage), *given])
    artefacts = [root / "dist" / f"{function.name}-{arch}.zip" for function in FUNCTIONS]
    missing = [path.name for path in (*artefacts, template) if not path.is_file()]
    if missing:
        raise ConfigurationError(f"{', '.join(missing)} not built: run `make package` first")
    parameters["Release"] = _release([template, *artefacts], parameters)
    command = [str(root / ".venv-sam" / "bin" / "sam"), "deploy", "--template-file", str(template)]
    command += ["--config-file", str(root / "samconfig.toml"), "--config-env", stage]
    return [*command, "--parameter-overrides", *(f"{name}={_quoted(value)}" for name, value in parameters.items())]


def _profile(path: Path, stage: str) -> list[str]:
    """A profile's own parameters: those of the command line would replace them all."""
    config: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    if stage not in config:
        stages = ", ".join(name for name, value in config.items() if isinstance(value, dict))
        raise ConfigurationError(f"samconfig.toml has no profile {stage!r}; there are {stages}")
    overrides: list[str] = config[stage].get("deploy", {}).get("parameters", {}).get("parameter_overrides", [])
    return overrides


def _parameters(texts: list[str]) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for text in texts:
        found = _PARAMETER.match(text)
        if not found:
            raise ConfigurationError(f"{text!r} is not a parameter of the form NAME=VALUE")
        parameters[found[1]] = found[2]
    return parameters


def _release(files: list[Path], parameters: dict[str, str]) -> str:
    digest = hashlib.sha256(repr(sorted(parameters.items())).encode())
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _quoted(value: str) -> str:
    # The SAM CLI splits overrides once more, at spaces and by quotation marks.
    return '"' + value.replace('"', '\\"') + '"'


if __name__ == "__main__":
    raise SystemExit(main())
