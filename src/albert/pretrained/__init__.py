"""model ↔ folder: Hugging Face's layout is ours; the original TensorFlow checkpoints come in too."""
