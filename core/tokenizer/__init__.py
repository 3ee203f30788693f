"""The tokenizer of a model: decode-first, and what vLLM's parsers see."""

from core.tokenizer.adapter import FastTokenizer
from core.tokenizer.interface import Tokenizer
from core.tokenizer.load import MODES, load_tokenizer, tokenizer_file

__all__ = ["MODES", "FastTokenizer", "Tokenizer", "load_tokenizer", "tokenizer_file"]
