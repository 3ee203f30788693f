"""What builds and ships: the vLLM slice, model folders, packages, the emulator, the Python distribution, deployments."""
