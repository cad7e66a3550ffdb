"""texts → predictions: a loaded model with its tokenizer."""
