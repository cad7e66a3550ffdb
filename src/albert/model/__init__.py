"""Token ids to vectors to logits: config, encoder and heads."""
