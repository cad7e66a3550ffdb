"""Train models: losses, optimizers, schedules, checkpoints, the training loop and pretraining."""
