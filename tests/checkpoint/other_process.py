"""Takes streams over in another process: reads cases, answers one chunk of each from its checkpoint.

Run by ``test_other_process`` with another hash seed; a case is a line of JSON on standard input.
"""

from __future__ import annotations

import json
import logging
import random
import sys
from pathlib import Path

from core.bundle.folder import FolderFiles
from core.parsing.checkpoint import pack, unpack
from core.tokenizer import Tokenizer, load_tokenizer
from tests.checkpoint import formats
from tests.checkpoint.carrying import restore, snapshot
from tests.checkpoint.equality import LIMITS, step
from tests.checkpoint.setups import Deployments


def main(models_dir: str) -> None:
    logging.disable(logging.CRITICAL)
    loaded: dict[tuple[str, bool], Tokenizer] = {}

    def load(model: str, templated: bool) -> Tokenizer:
        if (model, templated) not in loaded:
            tokenizer = load_tokenizer(FolderFiles(Path(models_dir) / model))
            if templated:
                tokenizer.init_kwargs["response_template"] = formats.RESPONSE_TEMPLATE
            loaded[model, templated] = tokenizer
        return loaded[model, templated]

    deployments = Deployments(load)
    for line in sys.stdin:
        pair, seed, checkpoints = json.loads(line)
        setup, stream, _ = deployments.stream(tuple(pair), random.Random(seed), mutated=False)
        answers = []
        for position, checkpoint in checkpoints:
            processor = setup.processor()
            restore(processor, unpack(checkpoint, LIMITS))
            answer = step(processor, stream[position], None)
            answers.append([answer, pack(snapshot(processor))])
        print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
