"""Places of text come in; their paragraphs go out, cleaned, one by one, as a vocabulary learns from them."""

from collections.abc import Callable, Iterator, Sequence

from albert.data.cleaning import looks_binary
from albert.data.decompress import read_head
from albert.data.readers import iter_documents
from albert.data.sources import find_sources


def iter_plain_texts(
    places: Sequence[str],
    *,
    text_key: str = "text",
    layout: str | None = None,
    keeps_long_tokens: bool = False,
    warn: Callable[[str], None],
) -> Iterator[str]:
    """The paragraphs of all sources; these are looked for at once, and `warn` hears of those left out."""
    for source in find_sources(places):
        if source.kind in ("txt", "jsonl") and looks_binary(read_head(source.path)):
            warn(f"{source.name}: binary, left out")
            continue
        documents = iter_documents(
            source, text_key=text_key, layout=layout, keeps_long_tokens=keeps_long_tokens
        )
        for document in documents:
            yield from document.paragraphs
