"""A stream of texts comes in, a SentencePiece tokenizer trained on a bounded sample of them goes out."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from albert.errors import AlbertError, InputError
from albert.settings import Settings
from albert.text.normalise import PUBLISHED, Normalisation
from albert.text.sentence_sample import MAX_SENTENCE_BYTES, SampleBounds, SentenceSample
from albert.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert.text.sentencepiece_trainer import TrainerError, run_trainer

CONTROL_SYMBOLS = ("[CLS]", "[SEP]", "[MASK]")
USER_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")
_REPORT_BYTES = 4_000_000
# What SentencePiece's log says at each step, and the share of the time that has passed by then.
_STEPS = (
    ("Normalizing sentences", "reading the sample", 0.0),
    ("Making suffix array", "sorting the sample", 0.1),
    ("Extracting frequent sub strings", "collecting candidates", 0.25),
)
_BEFORE_EM = 0.65
_EM = re.compile(r"EM sub_iter=\d+ size=(\d+)")
_TOO_MANY = re.compile(r"Vocabulary size too high \(\d+\)\. Please set it to a value <= (\d+)")
_TOO_FEW = re.compile(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)")


class TooManyPiecesError(InputError):
    """A size that the text cannot fill; `most` is the largest that it can."""

    def __init__(self, message: str, *, most: int) -> None:
        super().__init__(message)
        self.most = most


class TooFewPiecesError(InputError):
    """A size that the characters of the text alone exceed; `least` is the smallest that has them all."""

    def __init__(self, message: str, *, least: int) -> None:
        super().__init__(message)
        self.least = least


class VocabularySettings(Settings):
    """How a vocabulary is trained; the defaults are those of the published models, but for the sample.

    They were trained on a sample of ten million sentences. Ours has as many, and at most `max_sample_bytes`,
    which bounds the memory, whatever the size of the corpus: training takes 24 bytes for each byte of
    English. Measured at the default, 2.5 GB and 0.3 GB here on paragraphs; on ten million lines of two words,
    the worst, 3.0 GB and 1.5 GB.
    """

    size: int = Field(default=30_000, ge=16, le=1_000_000)
    normalisation: Normalisation = PUBLISHED
    character_coverage: float = Field(default=0.99995, ge=0.98, le=1.0)
    user_symbols: tuple[str, ...] = USER_SYMBOLS
    max_sample_sentences: int = Field(default=10_000_000, ge=1)
    max_sample_bytes: int = Field(default=100_000_000, ge=10 * MAX_SENTENCE_BYTES)
    seed: int = 0


@dataclass(frozen=True)
class VocabularyProgress:
    """How far it is; `fraction` is of the stage, and None where the end is not known."""

    stage: Literal["reading", "training"]
    message: str
    fraction: float | None = None


OnProgress = Callable[[VocabularyProgress], None]


def train_sentencepiece(
    texts: Iterable[str], *, settings: VocabularySettings | None = None, on_progress: OnProgress | None = None
) -> SentencePieceTokenizer:
    """Train a unigram vocabulary of exactly `settings.size` pieces on the lines of the texts.

    The same texts, in the same order, and settings give the same bytes. Refused are no text at all, and a
    size that the text cannot fill or that its characters alone exceed.
    """
    settings = settings or VocabularySettings()
    report = on_progress or (lambda progress: None)
    sentences = _read_sample(texts, settings=settings, report=report)
    if not sentences:
        raise InputError("the corpus has no text to train a vocabulary on; give files with lines of text")
    log = _TrainerLog(size=settings.size, report=report)
    num_sentences = len(sentences)
    try:
        model_bytes = run_trainer(sentences, options=build_options(settings), on_log=log.read)
    except TrainerError as error:
        raise _explain(error, settings=settings, num_sentences=num_sentences) from error
    return SentencePieceTokenizer(model_bytes, rules=settings.normalisation)


def build_options(settings: VocabularySettings) -> dict[str, Any]:
    """The settings in SentencePiece's own words."""
    return {
        "model_type": "unigram",
        "vocab_size": settings.size,
        "pad_id": 0,
        "unk_id": 1,
        "bos_id": -1,
        "eos_id": -1,
        "control_symbols": list(CONTROL_SYMBOLS),
        "user_defined_symbols": list(settings.user_symbols),
        "character_coverage": settings.character_coverage,
        # The sample is drawn already; these two are for the record, which the model carries.
        "input_sentence_size": max(settings.max_sample_sentences, 101),  # it refuses fewer
        "shuffle_input_sentence": True,
        "max_sentence_length": MAX_SENTENCE_BYTES,
        # Sums of floats depend on the number of threads: a fixed one gives the same bytes everywhere.
        "num_threads": 16,
    }


def _read_sample(texts: Iterable[str], *, settings: VocabularySettings, report: OnProgress) -> list[bytes]:
    bounds = SampleBounds(settings.max_sample_sentences, settings.max_sample_bytes)
    sample = SentenceSample(bounds=bounds, rules=settings.normalisation, seed=settings.seed)
    reported = 0
    for text in texts:
        sample.read(text)
        if sample.num_bytes_read - reported >= _REPORT_BYTES:
            reported = sample.num_bytes_read
            report(VocabularyProgress("reading", _count(sample)))
    message = _count(sample)
    sentences = sample.take()
    report(VocabularyProgress("reading", f"{message}; {len(sentences):,} in the sample", 1.0))
    return sentences


def _count(sample: SentenceSample) -> str:
    return f"{sample.num_bytes_read / 1e6:,.1f} MB, {sample.num_read:,} sentences"


class _TrainerLog:
    """Lines of SentencePiece's log come in, progress goes out: candidates shrink to 1.1 times the size."""

    def __init__(self, *, size: int, report: OnProgress) -> None:
        self._report = report
        self._target = 1.1 * size
        self._first = 0

    def read(self, line: str) -> None:
        for phrase, message, fraction in _STEPS:
            if phrase in line:
                self._report(VocabularyProgress("training", message, fraction))
        if found := _EM.search(line):
            size = int(found[1])
            self._first = self._first or size
            fraction = _BEFORE_EM + (1 - _BEFORE_EM) * self._shrunk(size)
            self._report(VocabularyProgress("training", f"{size:,} candidates left", fraction))

    def _shrunk(self, size: int) -> float:
        """How much of the way from the first number of candidates to the last is done, in logarithms."""
        whole = math.log(max(self._first / self._target, 1.0))
        return min(math.log(self._first / size) / whole, 1.0) if whole else 1.0


def _explain(error: TrainerError, *, settings: VocabularySettings, num_sentences: int) -> AlbertError:
    """The same error in the words of what was asked for, where its cause is known."""
    if found := _TOO_MANY.search(str(error)):
        return TooManyPiecesError(
            f"{settings.size:,} pieces are more than the {num_sentences:,} sentences of the corpus give, "
            f"which is at most {int(found[1]):,}; use --size {found[1]}, or more text",
            most=int(found[1]),
        )
    if found := _TOO_FEW.search(str(error)):
        return TooFewPiecesError(
            f"{settings.size:,} pieces are too few: the characters of the corpus and the special tokens are "
            f"{int(found[1]):,}; use --size {found[1]} or more",
            least=int(found[1]),
        )
    return error
