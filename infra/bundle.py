"""``derender bundle``: a Hugging Face model folder into a model bundle.

The folder is loaded first, tokenizer with merges and all, so that what cannot
be served is found here and not at a cold start. The bundle holds only the
files that serving reads, a packed decode table, and a manifest with the
SHA-256 of each. It appears at its destination whole or not at all: a folder
is put in place by one rename, a prefix in S3 is complete when its manifest,
the last file, is there.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from core.bundle.folder import FolderFiles, ModelFiles
from core.bundle.manifest import MANIFEST_NAME, Manifest, dump_manifest, entry_of
from core.bundle.model_config import read_model_config
from core.errors import ConfigurationError
from core.tokenizer import FastTokenizer, load_tokenizer, tokenizer_file
from core.tokenizer.decode_table import PACKED_NAME, pack_table

# What serving may read. Weights, READMEs and the like stay behind.
_NEEDED = frozenset(
    {
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "config.json",
        "generation_config.json",
        "chat_template.jinja",
    }
)
_TEMPLATE_FOLDERS = ("chat_templates/", "additional_chat_templates/")
_S3 = "s3://"
_SLOW = 1.0  # seconds after which a step is worth a line


def write_bundle(source: Path, dest: str, mode: str = "auto") -> int:
    """Write the bundle of ``source`` to ``dest``, a folder or ``s3://bucket/prefix``, and say what is in it.

    ``mode`` is the tokenizer's (``core.tokenizer.MODES``).

    Raises:
        ConfigurationError: the source cannot be served, or the destination is in use.
    """
    contents = bundle_contents(FolderFiles(source), mode)
    if dest.startswith(_S3):
        _write_to_s3(contents, dest)
    else:
        _write_to_folder(contents, Path(dest))
    for name, data in sorted(contents.items()):
        print(f"{len(data):>12,}  {name}")
    print(f"{sum(map(len, contents.values())):>12,}  bytes in {dest}")
    return 0


def _write_to_s3(contents: Mapping[str, bytes], dest: str) -> None:
    from core.bundle.s3 import parse_address, upload  # boto3 is slow to load

    address = parse_address(dest)
    with _step("uploading"):
        written = upload(address, contents)
    if not written:
        print(f"{address} holds this very bundle already: nothing was written", file=sys.stderr)


def _write_to_folder(contents: Mapping[str, bytes], target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())) and not (target / MANIFEST_NAME).is_file():
        raise ConfigurationError(f"{target} exists and is not a model bundle; it is left as it is")
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for name, data in contents.items():
            path = staging / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        staging.chmod(0o755)
        if target.exists():
            shutil.rmtree(target)
        os.replace(staging, target)
    except OSError as exc:
        raise ConfigurationError(f"cannot write {target}: {exc.strerror}") from exc
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def bundle_contents(files: ModelFiles, mode: str = "auto") -> dict[str, bytes]:
    """The files of a bundle by name, manifest included. It holds one tokenizer, the one that ``mode`` chooses.

    Raises:
        ConfigurationError: the model cannot be served; says why.
    """
    config = read_model_config(files)
    with _step("reading the tokenizer"):
        tokenizer = load_tokenizer(files, config, mode=mode)
    if not config.config:
        raise ConfigurationError(f"{files.origin} has no config.json: the model type and context length are unknown")
    with _step("building the encoder"):
        tokenizer.encode("")  # reads the merges: a damaged file is found here
    # The weights, by which vLLM chooses between two tokenizers, are not in a bundle: the other one is left out, too.
    needed = _NEEDED | {tokenizer_file(files.names(), mode)}
    contents = {
        name: files.read(name)
        for name in files.names()
        if name in needed or (name.startswith(_TEMPLATE_FOLDERS) and name.endswith(".jinja"))
    }
    if isinstance(tokenizer, FastTokenizer):
        contents[PACKED_NAME] = pack_table(tokenizer.table)
    with _step("hashing"):
        manifest = Manifest(files={name: entry_of(data) for name, data in contents.items()})
    contents[MANIFEST_NAME] = dump_manifest(manifest)
    return contents


class _step:  # noqa: N801 (reads as a statement)
    """Names a step on standard error once it has taken longer than a second."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *exc: object) -> None:
        seconds = time.monotonic() - self._began
        if seconds > _SLOW:
            print(f"{self._name}: {seconds:.1f} s", file=sys.stderr)
