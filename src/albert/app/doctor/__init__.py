"""A run folder, or a machine, comes in; what is stuck, slow or damaged goes out, with figures and cures."""
