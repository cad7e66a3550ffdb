"""An untrained model in place of the released one, if the package was built without it."""

from pathlib import Path

from albert.errors import InputError
from albert.pretrained.hub import find_released

NAME = "nano"


def put_stand_in(folder: Path) -> None:
    """Put an untrained folder `nano` there, where the package was built without it: two narrow layers.

    What exists in the working directory wins over a released name, so that the guides need not know of it.
    """
    try:
        find_released(NAME)
    except InputError:
        _save_untrained(folder / NAME)


def _save_untrained(folder: Path) -> None:
    from pydoc_data.topics import topics

    from albert.model.albert_model import build_model
    from albert.model.config import build_preset
    from albert.pretrained.folder import save_model
    from albert.text.train_vocabulary import VocabularySettings, train_sentencepiece

    tokenizer = train_sentencepiece(list(topics.values())[:20], settings=VocabularySettings(size=500))
    shape = ["vocab_size=500", "hidden_size=64", "intermediate_size=128", "num_hidden_layers=2"]
    model = build_model(build_preset(NAME, overrides=shape), heads={"mlm": None, "sop": None}, seed=1)
    save_model(folder, model, tokenizer=tokenizer)
