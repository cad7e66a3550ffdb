"""Weights come in, scores go out: GLUE, SQuAD, RACE and your own files."""
