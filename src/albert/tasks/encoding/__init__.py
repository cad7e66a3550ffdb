"""Examples come in, the sequences of pieces that the model reads go out."""
