"""What builds and ships: the vLLM slice, model folders, Lambda packages, the emulator, the Python distribution."""
