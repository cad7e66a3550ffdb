"""Sources of models come in: folders, runs, names on the hub; a short name for each of them goes out."""

from collections.abc import Sequence
from pathlib import PurePath

from albert.training.run_folder import MODEL_DIR


def name_models(sources: Sequence[str]) -> list[str]:
    """Paths without what all of them end with, as short as they may be and still differ.

    `runs/a/model` and `runs/b/model` are `a` and `b`, whatever lies above and below.
    """
    rows = _drop_common_end([_split(source) for source in sources])
    for size in range(1, 1 + max(map(len, rows), default=0)):
        names = ["/".join(words[-size:]) for words in rows]
        if len(set(names)) == len(names):
            return names
    return list(sources)


def _split(source: str) -> list[str]:
    words = [word for word in PurePath(source).parts if word not in ("/", ".")]
    # The model of a run lies in a folder that is called so in every run.
    return words[:-1] if len(words) > 1 and words[-1] == MODEL_DIR else words or [source]


def _drop_common_end(rows: list[list[str]]) -> list[list[str]]:
    """Without the words that all rows end with; of each, one word is left."""
    while len(rows) > 1 and min(map(len, rows)) > 1 and len({words[-1] for words in rows}) == 1:
        rows = [words[:-1] for words in rows]
    return rows
