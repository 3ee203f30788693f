"""Loading the fast encoder before the first answer, by the proof of the model's bundle (``core.tokenizer.fast``).

A server loads it later, beside its answers: ``handlers.work.encoder``.
"""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec

from core.errors import ConfigurationError, Unavailable
from core.tokenizer import FastTokenizer
from handlers.loading import ModelLoader
from handlers.settings import PREFIX, Settings


def load_at_start(loader: ModelLoader, settings: Settings, prepared: bool) -> None:
    """What a Lambda function does: load it before a snapshot, or because it is set to "on".

    Into a snapshot goes all that encoding may need, the merges of ``tokenizers``, too.

    Raises:
        ConfigurationError: as :func:`load_now` does.
    """
    required = settings.fast_encoder == "on"
    if prepared:
        with suppress(Unavailable):
            tokenizer = loader.get().tokenizer
            if isinstance(tokenizer, FastTokenizer):
                tokenizer.load_merges()
    if settings.fast_encoder == "off" or not (prepared or required):
        return
    with suppress(Unavailable):  # the start says so itself, or the first request does
        load_now(loader, required)


def load_now(loader: ModelLoader, required: bool) -> bool:
    """Load the encoder before anything is answered, by the proof of the bundle. False where there is none that holds.

    Raises:
        ConfigurationError: the bundle's proof is malformed; with ``required`` also where the encoder cannot be loaded.
        Unavailable: the model is not there.
    """
    model = loader.get()
    loaded = False
    if model.files.encoder_proof is not None and find_spec("fastokens"):
        # Late: few functions have it.
        from core.tokenizer.fast.load import use_fast_encoder
        from core.tokenizer.fast.proof import load_proof

        loaded = use_fast_encoder(model.tokenizer, load_proof(model.files.encoder_proof, model.files.origin))
    if required and not loaded:
        raise ConfigurationError(
            f"{PREFIX}FAST_ENCODER is on, and {model.origin} has no proof that holds here: the package fastokens must "
            "be installed, and the model a bundle that `derender bundle` wrote with it on this kind of machine"
        )
    return loaded
