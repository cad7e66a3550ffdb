"""Short names for models in tables and charts."""

from collections.abc import Sequence
from pathlib import PurePath

from albert.training.run_folder import MODEL_DIR


def name_models(sources: Sequence[str]) -> list[str]:
    """Shorten folders, runs and hub names as far as they still differ.

    `runs/a/model` and `runs/b/model` are `a` and `b`, whatever is above and below.
    """
    rows = []
    for source in sources:
        words = [word for word in PurePath(source).parts if word not in ("/", ".")]
        # Every run keeps its model in a folder of the same name.
        rows.append(words[:-1] if len(words) > 1 and words[-1] == MODEL_DIR else words or [source])
    while len(rows) > 1 and min(map(len, rows)) > 1 and len({words[-1] for words in rows}) == 1:
        rows = [words[:-1] for words in rows]
    for size in range(1, 1 + max(map(len, rows), default=0)):
        names = ["/".join(words[-size:]) for words in rows]
        if len(set(names)) == len(names):
            return names
    return list(sources)
