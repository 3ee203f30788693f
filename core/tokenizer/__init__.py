"""The tokenizer of a model: decode-first, and what vLLM's parsers see."""

from core.tokenizer.adapter import FastTokenizer
from core.tokenizer.interface import Tokenizer
from core.tokenizer.load import load_tokenizer

__all__ = ["FastTokenizer", "Tokenizer", "load_tokenizer"]
