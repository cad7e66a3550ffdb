"""How the released model albert-nano-en is made, from text to the folder in the package."""
