"""``THIRD_PARTY_NOTICES.md``: whose work the Lambda artefacts contain, and under which licences.

``python -m infra.licences`` writes it from the locks of what is packaged and
the metadata of the distributions that are installed here; with ``--check`` it
only says whether the file is up to date. Nothing is looked up elsewhere: what
a distribution does not say is said to be missing.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.utils import canonicalize_name

from infra.package.target import PYTHON

ROOT = Path(__file__).resolve().parents[1]
NOTICES = "THIRD_PARTY_NOTICES.md"
# relay.txt adds the HTTP client and server of the relay, images.txt the decoders of images, server.txt the S3 client of
# the server image, fast.txt the fast encoder.
LOCKS = ("runtime.txt", "relay.txt", "images.txt", "server.txt", "fast.txt")
SLICE = "vllm"
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)\s*(?:;\s*([^\\]*?))?\s*\\?$", re.MULTILINE)
_LICENCE_FILE = re.compile(r"(LICEN[CS]E|NOTICE|COPYING)", re.IGNORECASE)
_HOMEPAGES = ("homepage", "source", "source code", "repository", "github")
# What decides which lines of a universal lock are packaged: never the Python that runs this module.
_LAMBDA = {
    "python_version": PYTHON,
    "python_full_version": f"{PYTHON}.0",
    "implementation_name": "cpython",
    "implementation_version": f"{PYTHON}.0",
    "platform_python_implementation": "CPython",
    "os_name": "posix",
    "sys_platform": "linux",
    "platform_system": "Linux",
}
_MACHINES = ("aarch64", "x86_64")

_HEAD = """# Third-party notices

derender is under the Apache License 2.0 ([LICENSE](LICENSE)). The artefacts that `make package` writes contain
the distributions below, each those that it needs, and for the most part only the files that run. This file is
written by `python -m infra.licences` from the locks in `requirements` and from the distributions' own metadata. The
artefacts hold the licence files themselves, in the `.dist-info` folders. Here each text stands once, at the end.
"""
_TREE = """## In the source tree

* `examples/api_example.py` and `examples/api_stream_example.py` follow the examples of vLLM's documentation of its
  derender API: Apache License 2.0, copyright contributors to the vLLM project.
* `tests/golden/data` holds answers recorded from vLLM's server, and `tests/slice/data` results of its parsers.
* `infra/models/configs` repeats configuration values of published models, and `infra/models/family_tokens.txt` the
  names of their special tokens. Vocabularies are not here: the test model folders are built from registry packages
  (`requirements/dev.in`), and no artefact holds one unless it is packaged with `make package MODEL=DIR`.
"""


class LicenceError(Exception):
    """A distribution of a lock is not here, or not in the locked version."""


@dataclass(frozen=True)
class Component:
    """A library that is compiled into a distribution, by the distribution's own bill of materials."""

    name: str
    version: str
    licence: str


@dataclass(frozen=True)
class Notice:
    """What one distribution says about itself. ``texts`` are its licence files by path."""

    name: str
    version: str
    licence: str
    homepage: str
    remark: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    is_compiled: bool = False
    components: Sequence[Component] = ()


def locked(root: Path = ROOT) -> dict[str, str]:
    """Version by normalised name of all that the artefacts' locks install in Lambda, whatever runs here."""
    pins: dict[str, str] = {}
    for lock in LOCKS:
        path = root / "requirements" / lock
        if not path.is_file():
            continue
        for name, version, marker in _PIN.findall(path.read_text(encoding="utf-8")):
            if not marker or _is_installed(marker):
                pins[canonicalize_name(name)] = version
    return dict(sorted(pins.items()))


def _is_installed(marker: str) -> bool:
    environments = [{**_LAMBDA, "platform_machine": machine} for machine in _MACHINES]
    return any(Marker(marker).evaluate(environment) for environment in environments)


def read_notices(root: Path = ROOT) -> list[Notice]:
    """The notices of the locks' distributions and of the vLLM slice, by name.

    Raises:
        LicenceError: one is not installed, or in another version than locked.
    """
    found = []
    for name, version in locked(root).items():
        distribution = _distribution(name)
        if distribution.version != version:
            raise LicenceError(f"{name} is installed as {distribution.version}, locked as {version}: run `make setup`")
        found.append(_notice(name, distribution))
    slice_notice = _notice(SLICE, _distribution(SLICE), remark=_first_paragraph(_distribution(SLICE)))
    return sorted([*found, slice_notice], key=lambda notice: notice.name)


def _distribution(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise LicenceError(f"{name} is not installed: run `make setup`") from None


def _notice(name: str, distribution: metadata.Distribution, remark: str = "") -> Notice:
    return Notice(
        name=name,
        # What the slice is cut from counts, not how often it was cut.
        version=distribution.version.partition("+")[0],
        licence=_licence(distribution),
        homepage=_homepage(distribution),
        remark=remark,
        texts=dict(sorted(_texts(distribution))),
        is_compiled=any(path.suffix in (".so", ".pyd", ".dylib") for path in distribution.files or ()),
        components=_components(distribution),
    )


def _field(distribution: metadata.Distribution, name: str) -> list[str]:
    return [str(value) for value in distribution.metadata.get_all(name) or ()]


def _licence(distribution: metadata.Distribution) -> str:
    for name in ("License-Expression", "License"):
        for value in _field(distribution, name):
            # The older field may hold a whole text, which stands among the texts anyway.
            if value and "\n" not in value:
                return value
    prefix = "License :: "
    named = [value.rpartition(" :: ")[2] for value in _field(distribution, "Classifier") if value.startswith(prefix)]
    return ", ".join(named) or "not named in its metadata"


def _homepage(distribution: metadata.Distribution) -> str:
    urls: dict[str, str] = {}
    for entry in _field(distribution, "Project-URL"):
        label, _, url = entry.partition(",")
        urls.setdefault(label.strip().lower(), url.strip())
    direct = [value for value in _field(distribution, "Home-page") if value not in ("", "UNKNOWN")]
    labelled = [urls[label] for label in _HOMEPAGES if label in urls]
    return next(iter([*direct, *labelled, *urls.values()]), "")


def _first_paragraph(distribution: metadata.Distribution) -> str:
    description = distribution.metadata.get_payload()  # type: ignore[attr-defined]
    return str(description).strip().split("\n\n")[0]


def _texts(distribution: metadata.Distribution) -> Iterator[tuple[str, str]]:
    """Every licence file, beside the modules too: a library that is compiled in may have its own there."""
    for path in distribution.files or ():
        if _LICENCE_FILE.match(path.name) and path.suffix not in (".py", ".pyc"):
            yield _shown(path), path.read_text(encoding="utf-8").replace("\r\n", "\n").strip("\n")


def _shown(path: metadata.PackagePath) -> str:
    """A file's path without the version in it, which would change with each update and says nothing."""
    parts = [part for part in path.parts if not part.endswith(".dist-info") and part != "licenses"]
    return "/".join(parts)


def _components(distribution: metadata.Distribution) -> list[Component]:
    found = []
    for path in distribution.files or ():
        if ".dist-info" in path.parts[0] and "sboms" in path.parts and path.suffix == ".json":
            for entry in json.loads(path.read_text(encoding="utf-8")).get("components", ()):
                found.append(Component(entry["name"], entry.get("version", ""), _component_licence(entry)))
    return sorted(found, key=lambda component: (component.name, component.version))


def _component_licence(entry: Mapping[str, Any]) -> str:
    named = []
    for licence in entry.get("licenses", ()):
        inner = licence.get("license", {})
        named.append(licence.get("expression") or inner.get("id") or inner.get("name") or "?")
    return " AND ".join(named) or "not named"


@dataclass
class _Text:
    """One licence text and the files that hold it."""

    number: int
    text: str
    users: list[str]


def document(notices: Sequence[Notice]) -> str:
    """The whole file."""
    texts: dict[str, _Text] = {}
    for notice in notices:
        for path, text in notice.texts.items():
            entry = texts.setdefault(_key(text), _Text(len(texts) + 1, text, []))
            entry.users.append(f"{notice.name} ({path})")
    parts = [_HEAD, *(_section(notice, texts) for notice in notices), _TREE, "## Licence texts\n"]
    for entry in texts.values():
        parts.append(f"### Text {entry.number}\n\nOf {', '.join(entry.users)}.\n\n````text\n{entry.text}\n````\n")
    return "\n".join(parts)


def _key(text: str) -> str:
    """Texts that differ in white space only are one."""
    return " ".join(text.split())


def _section(notice: Notice, texts: Mapping[str, _Text]) -> str:
    lines = [f"## {notice.name} {notice.version}", "", f"* Licence: {notice.licence}"]
    if notice.homepage:
        lines.append(f"* Home: {notice.homepage}")
    if notice.remark:
        lines.append(f"* {notice.remark}")
    if notice.texts:
        numbers = {path: texts[_key(text)].number for path, text in notice.texts.items()}
        links = [f"{path} ([text {number}](#text-{number}))" for path, number in numbers.items()]
        lines.append("* Licence files: " + ", ".join(links))
    else:
        lines.append("* The distribution holds no licence file: its metadata is all that it says")
        if "Apache" in notice.licence:
            lines.append("* The Apache License 2.0 is in [LICENSE](LICENSE)")
    if notice.components:
        parts = [f"{part.name} {part.version} ({part.licence})" for part in notice.components]
        lines.append("* Compiled in, by its own bill of materials: " + ", ".join(parts))
    elif notice.is_compiled:
        lines.append("* Holds compiled code without a bill of materials: only the texts tell what is linked into it")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the file; the exit status is 1 when it is not up to date or cannot be made."""
    parser = argparse.ArgumentParser(prog="python -m infra.licences", description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the file is not up to date")
    arguments = parser.parse_args(argv)
    path = ROOT / NOTICES
    try:
        text = document(read_notices())
    except LicenceError as exc:
        print(f"licences: {exc}", file=sys.stderr)
        return 1
    if not arguments.check:
        path.write_text(text, encoding="utf-8")
    elif not path.is_file() or path.read_text(encoding="utf-8") != text:
        print(f"licences: {NOTICES} is not up to date: run `python -m infra.licences`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
