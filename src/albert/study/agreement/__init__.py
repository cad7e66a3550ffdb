"""A masked-language model → what it knows of English grammar: minimal pairs of our own, and who is right."""
