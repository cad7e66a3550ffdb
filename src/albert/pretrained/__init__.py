"""model ↔ folder: Hugging Face's layout, original TensorFlow checkpoints, the hub."""
