"""The engine is not part of the slice; the detokenizer's stop string check is."""
