"""The commands, with heavy imports inside their functions."""
