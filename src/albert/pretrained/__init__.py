"""Load and save models: Hugging Face's folder layout, original TensorFlow checkpoints, the hub."""
