"""scores → knowledge: the paper's claims as something that can be run."""
