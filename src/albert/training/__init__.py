"""Batches come in, weights go out: losses, optimisers, schedules, checkpoints, the loop, pretraining."""
