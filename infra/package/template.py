"""``template.yaml`` for the other architecture. Only its name, the layer's name and the artefacts' paths differ.

The SAM CLI reads the paths of local artefacts before any parameter has a
value, so the architecture cannot be a parameter of one template.
"""

from __future__ import annotations

from infra.package.target import Target

_DEFAULT = "arm64"
_PATH = "CodeUri: dist/"
# The Lambda Web Adapter's layer has other names for the architectures.
_LAYER = "LambdaAdapterLayer"
_LAYERS = {"arm64": "Arm64", "x86_64": "X86"}


def other_template(text: str, target: Target) -> str | None:
    """The template for ``target``, to lie beside the artefacts; None for the one that the template is written for."""
    if target.name == _DEFAULT:
        return None
    lines = []
    for line in text.splitlines(keepends=True):
        if line.strip() in (f"- {_DEFAULT}", f"Architectures: [{_DEFAULT}]") or _PATH in line:
            line = line.replace(_DEFAULT, target.name).replace(_PATH, "CodeUri: ")
        line = line.replace(_LAYER + _LAYERS[_DEFAULT], _LAYER + _LAYERS[target.name])
        lines.append(line)
    return "".join(lines)
