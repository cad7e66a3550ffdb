"""ids → vectors → logits: configuration, sharing, encoder and heads. Pure torch: no files, no losses."""
