"""Files of a task come in, examples go out."""
