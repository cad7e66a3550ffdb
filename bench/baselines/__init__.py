"""Baselines without a language model for every task type, which `bench/downstream` compares with."""
