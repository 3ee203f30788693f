"""A token engine that answers from a script: vLLM's `/inference/v1/generate` on the wire, no model and no GPU.

    python examples/scripted_engine.py --port 8200 [--model DIR] [--script FILE.json] [--served-model-name NAME ...]

It starts the engine of tests/engine; the README there says what it does and how a script looks.
"""

import sys
from pathlib import Path

# Run as a script, Python looks for modules in examples/ only.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.engine.server import main

if __name__ == "__main__":
    sys.exit(main())
