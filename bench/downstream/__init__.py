"""What a pretrained model is worth on every task, against itself untrained and against plain words."""
