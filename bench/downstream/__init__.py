"""Compare a pretrained model on every task with an untrained one and with baselines."""
