"""ids → vectors → logits: config, encoder and heads."""
