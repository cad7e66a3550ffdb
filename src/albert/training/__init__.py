"""batches → weights: losses, optimizers, schedules, checkpoints, the loop, pretraining."""
