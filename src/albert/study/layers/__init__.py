"""How far each layer moves its input (figure 1)."""
