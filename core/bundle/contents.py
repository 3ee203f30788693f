"""What goes into a model bundle: only the files that serving reads, a packed decode table, and a manifest.

The folder is loaded first, tokenizer with merges and all, so that what cannot
be served is found here and not at a cold start.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from core.bundle.folder import ModelFiles
from core.bundle.manifest import MANIFEST_NAME, Manifest, dump_manifest, entry_of
from core.bundle.model_config import read_model_config
from core.errors import ConfigurationError
from core.tokenizer import FastTokenizer, load_tokenizer, tokenizer_file
from core.tokenizer.decode_table import MERGES_NAME, PACKED_NAME, pack_table
from core.tokenizer.fast.comparison import ENCODES, prove
from core.tokenizer.fast.proof import dump_proof
from core.tokenizer.merges import packed_merges

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

Step = Callable[[str], AbstractContextManager[None]]
"""Opens a named step of the work, for whoever wants to show how far it is."""


def _silent(_name: str) -> AbstractContextManager[None]:
    return nullcontext()


def bundle_contents(
    files: ModelFiles, mode: str = "auto", step: Step = _silent, encodes: int = ENCODES
) -> dict[str, bytes]:
    """The files of a bundle by name, manifest included. It holds one tokenizer, the one that ``mode`` chooses.

    ``mode`` is one of ``core.tokenizer.MODES``. Where there is a fast encoder for the tokenizer, it is compared over
    about so many ``encodes`` (0: not), and the manifest says with what result.

    Raises:
        ConfigurationError: the model cannot be served; says why.
    """
    config = read_model_config(files)
    with step("reading the tokenizer"):
        tokenizer = load_tokenizer(files, config, mode=mode)
    if not config.config:
        raise ConfigurationError(f"{files.origin} has no config.json: the model type and context length are unknown")
    with step("building the encoder"):
        # A damaged file is found here.
        if isinstance(tokenizer, FastTokenizer):
            tokenizer.load_merges()
        else:
            tokenizer.encode("")
    # The weights, by which vLLM chooses between two tokenizers, are not in a bundle: the other one is left out, too.
    needed = _NEEDED | {tokenizer_file(files.names(), mode)}
    contents = {
        name: files.read(name)
        for name in files.names()
        if name in needed or (name.startswith(_TEMPLATE_FOLDERS) and name.endswith(".jinja"))
    }
    if isinstance(tokenizer, FastTokenizer):
        contents[PACKED_NAME] = pack_table(tokenizer.table)
        with step("packing the merges"):
            merges = packed_merges(tokenizer)
        if merges is not None:
            contents[MERGES_NAME] = merges
    with step("comparing the encoders"):
        proof = prove(tokenizer, encodes) if encodes else None
    with step("hashing"):
        entries = {name: entry_of(data) for name, data in contents.items()}
        manifest = Manifest(entries, None if proof is None else dump_proof(proof))
    contents[MANIFEST_NAME] = dump_manifest(manifest)
    return contents


def write_folder(contents: Mapping[str, bytes], target: Path) -> None:
    """Put a bundle's files into a folder, whole or not at all: it is in place by one rename.

    Raises:
        ConfigurationError: ``target`` is something else than a bundle, or cannot be written.
    """
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
