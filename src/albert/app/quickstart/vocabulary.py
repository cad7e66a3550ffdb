"""A text comes in; a vocabulary trained on it goes out, of a size that fits the text."""

from pathlib import Path
from typing import TYPE_CHECKING

from albert.app.quickstart.settings import QuickstartSettings
from albert.app.quickstart.sources import TextSource
from albert.reporting import Reporter

if TYPE_CHECKING:
    from albert.text.sentencepiece_tokenizer import SentencePieceTokenizer


def train_vocabulary(
    source: TextSource, *, settings: QuickstartSettings, reporter: Reporter
) -> "SentencePieceTokenizer":
    """A vocabulary of the wanted size, or of as many pieces as the text has, or as its characters need."""
    from albert.data.sources import iter_plain_texts
    from albert.text.train_vocabulary import (
        TooFewPiecesError,
        TooManyPiecesError,
        VocabularyProgress,
        VocabularySettings,
        train_sentencepiece,
    )

    def show(progress: VocabularyProgress) -> None:
        reporter.show(progress.stage, progress.message, fraction=progress.fraction)

    def train(number: int) -> "SentencePieceTokenizer":
        wanted = VocabularySettings(size=number, seed=settings.seed)
        texts = iter_plain_texts(source.places, layout=source.layout, warn=reporter.say)
        return train_sentencepiece(texts, settings=wanted, on_progress=show)

    size = settings.vocab_size
    try:
        return train(size)
    except TooManyPiecesError as error:
        reporter.say(f"the text is small: a vocabulary of {error.most:,} pieces instead of {size:,}")
        return train(error.most)
    except TooFewPiecesError as error:
        reporter.say(
            f"the text has many characters: a vocabulary of {error.least:,} pieces instead of {size:,}"
        )
        return train(error.least)


def save_vocabulary(tokenizer: "SentencePieceTokenizer", out: Path) -> None:
    """Write a vocabulary to a folder, whole or not at all."""
    from albert.files import atomic_dir
    from albert.text.folder import save_tokenizer

    with atomic_dir(out) as aside:
        save_tokenizer(tokenizer, aside)
