"""albert-nano-en: the best small English ALBERT that a few hours of two cores make."""
