"""str → tokens → ids: normalization, sentence splitting, tokenizers, vocabulary training."""
