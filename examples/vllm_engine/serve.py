"""Starts vLLM's server in the environment that runs this file (`.venv-vllm`); the arguments are vLLM's.

    .venv-vllm/bin/python examples/vllm_engine/serve.py MODEL_DIR --port 8200 --tokens-only ...

vLLM starts its engine as a second process, which imports this file again: that is what the guard at the end is for.
Nothing of the project is imported here.
"""

import os

# No model hub is asked, and the model's memory is kept small: it has hardly any.
SETTINGS = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}


def main() -> None:
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    # The command line of vLLM wants to know the version of a package called vllm, and this one is called vllm-cpu.
    from vllm.entrypoints.launchers.api_server.entry import main as serve

    serve()


if __name__ == "__main__":
    main()
