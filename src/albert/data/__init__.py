"""documents → shards: untidy files come in, tokenized Arrow shards with a manifest go out."""
