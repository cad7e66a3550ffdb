"""Kinds of tasks: what each asks of a batch, how it learns from the answer, and how it is scored."""
