"""A token engine that answers from a script: vLLM's `/inference/v1/generate` on the wire, no model and no GPU.

    python examples/scripted_engine.py --port 8200 [--model DIR] [--script FILE.json] [--served-model-name NAME ...]

For demos and tests of what stands before and behind an engine.  Fields, their order, the SSE framing and the errors
are those of a vLLM 0.33.0 server that has a tokenizer.  It must never be taken for a model: `temperature`, `seed` and
the like are checked and then ignored, and logprobs are made up (always the same for the same request).

A script is `{"rules": [RULE, ...]}`; the first rule that matches answers.  A rule has `match`, a regular expression
searched in the prompt's last user message, optionally `prompt`, one searched in the whole decoded prompt, and
`answer`: a text, or a list of texts for the choices 0, 1, ...  In a text, `{1}` is what the first group of `match`
found, `{user}` the last user message and `{last_words}` its end.  Texts are encoded with the model's tokenizer, so
special tokens may be written out; the end of sequence token follows by itself.  A rule may have a `fault`, too:
what an engine does that breaks down (examples/engine/faults.py).
"""

import sys
from pathlib import Path

# Run as a script, Python looks for modules in examples/ only.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.engine.server import main

if __name__ == "__main__":
    sys.exit(main())
