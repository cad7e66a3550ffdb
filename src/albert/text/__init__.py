"""Text to token ids: normalization, sentence splitting, tokenizers and vocabulary training."""
