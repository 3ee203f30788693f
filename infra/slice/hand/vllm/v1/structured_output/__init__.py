"""Checks and conversions of grammars. The managers and back ends that run them are the engine's."""
