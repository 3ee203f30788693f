"""``derender bundle``: a Hugging Face model folder into a model bundle.

It appears at its destination whole or not at all: a folder is put in place by
one rename, a prefix in S3 is complete when its manifest, the last file, is there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from core.bundle.contents import bundle_contents, write_folder
from core.bundle.folder import FolderFiles, ModelFiles
from core.bundle.manifest import MANIFEST_NAME, load_manifest
from core.bundle.other_tokenizer import OtherTokenizer
from core.tokenizer.fast.comparison import ENCODES
from core.upstream.version import is_installed
from handlers.progress import progress

_S3 = "s3://"
_SLOW = 1.0  # seconds after which a step is worth a line


def write_bundle(
    source: Path, dest: str, mode: str = "auto", tokenizer: Path | None = None, encodes: int = ENCODES
) -> int:
    """Write the bundle of ``source`` to ``dest``, a folder or ``s3://bucket/prefix``, and say what is in it.

    ``mode`` is the tokenizer's (``core.tokenizer.MODES``), which is read from another folder where
    ``tokenizer`` names one. The fast encoder is compared over ``encodes`` texts (``core.bundle.contents``).

    Raises:
        ConfigurationError: the source cannot be served, or the destination is in use.
    """
    files: ModelFiles = FolderFiles(source)
    if tokenizer is not None:
        files = OtherTokenizer(files, FolderFiles(tokenizer))
    if is_installed():
        from core.render.template_check import check_folder  # late: it imports vLLM, which may be absent

        warning = check_folder(files, mode)
        if warning is not None:
            print(f"derender: {warning}", file=sys.stderr)
    contents = bundle_contents(files, mode, _step, encodes)
    if dest.startswith(_S3):
        _write_to_s3(contents, dest)
    else:
        write_folder(contents, Path(dest))
    for name, data in sorted(contents.items()):
        print(f"{len(data):>12,}  {name}")
    proof = load_manifest(contents[MANIFEST_NAME]).encoder_proof
    if proof is not None:
        print(f"{proof['encodes']:>12,}  encodes compared with {proof['encoder']}: {proof['different']} differ")
    print(f"{sum(map(len, contents.values())):>12,}  bytes in {dest}")
    return 0


def _write_to_s3(contents: Mapping[str, bytes], dest: str) -> None:
    from core.bundle.s3 import parse_address, upload  # boto3 is slow to load

    address = parse_address(dest)
    with progress("uploading", sum(map(len, contents.values())), unit="B") as tell:
        written = upload(address, contents, tell)
    if not written:
        print(f"{address} holds this very bundle already: nothing was written", file=sys.stderr)


@contextmanager
def _step(name: str) -> Iterator[None]:
    """Names a step on standard error once it has taken longer than a second."""
    began = time.monotonic()
    try:
        yield
    finally:
        seconds = time.monotonic() - began
        if seconds > _SLOW:
            print(f"{name}: {seconds:.1f} s", file=sys.stderr)
