"""Texts to predictions: a loaded model with its tokenizer."""
