"""Baselines without a language model for every task type, used by `bench/downstream`."""
