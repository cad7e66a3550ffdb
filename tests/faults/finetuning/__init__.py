"""What can go wrong when a model is fine-tuned."""
