"""Texts come in; an order and a place for each go out that depend on nothing but the text."""

import hashlib
from collections.abc import Iterable


def hash_text(text: str) -> str:
    """A text's SHA-256 in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def sort_by_hash(texts: Iterable[str]) -> list[str]:
    """The texts in an order as good as drawn by chance, and always the same."""
    return sorted(texts, key=hash_text)


def find_share(text: str) -> float:
    """A number from 0 to 1 that belongs to the text."""
    return int(hash_text(text)[:8], 16) / 2**32
