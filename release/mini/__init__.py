"""The steps that make albert-mini-en (docs/release.md)."""
