"""Running a built function as Lambda does, without Docker: AWS's Runtime Interface Emulator and runtime client."""

from infra.emulator.process import Emulator, InvokeError
from infra.emulator.runtime import Runtime, prepare_runtime

__all__ = ["Emulator", "InvokeError", "Runtime", "prepare_runtime"]
