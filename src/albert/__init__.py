"""albert: the complete ALBERT, from raw text to a served model."""

__version__ = "0.1.0"
