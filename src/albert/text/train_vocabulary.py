"""Train a SentencePiece vocabulary on a bounded random sample of the sentences of a corpus.

SentencePiece runs in a child process, because it ignores Ctrl-C for minutes and logs to the terminal.
Progress is read from its log.
"""

import io
import json
import math
import random
import re
import subprocess
import sys
import tempfile
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from threading import Thread
from typing import IO, Any, Literal
from unicodedata import combining, normalize

import numpy as np
from pydantic import Field

from albert.errors import AlbertError, InputError, one_line
from albert.progress import build_command
from albert.settings import Settings
from albert.text.normalize import BASES, PUBLISHED, Normalization, normalize_text
from albert.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert.text.tokenizer import replace_surrogates

CONTROL_SYMBOLS = ("[CLS]", "[SEP]", "[MASK]")
USER_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")
MAX_SENTENCE_BYTES = 4192  # SentencePiece skips longer sentences
_REPORT_BYTES = 4_000_000
_SLACK = 1.25  # how far the sample may exceed its bounds before it is trimmed
# SentencePiece skips sentences with these characters.
_RESERVED = str.maketrans({"\0": " ", "\t": " ", "▅": " "})
_NOT_ASCII_LETTERS = bytes(code for code in range(256) if not chr(code).isalpha() or code > 127)
_NOT_ASCII = re.compile("[^\0-\x7f]")
_MAX_CHANGED_LETTERS = 0.005
# Shorter sentences are not counted as copies. Copies are removed if they exceed this share of the text.
_MIN_COPY_BYTES, _MAX_REPEATED = 40, 0.1
# Spaces before words chosen by their second byte, so that each copy of a text is split at the same words.
_SPLIT = re.compile(b" (?=.[" + re.escape(bytes(range(20, 256, 32))) + b"])", re.DOTALL)
# Phrases in SentencePiece's log, and the fraction of the training time at which they appear.
_STEPS = (
    ("Normalizing sentences", "reading the sample", 0.0),
    ("Making suffix array", "sorting the sample", 0.1),
    ("Extracting frequent sub strings", "collecting candidates", 0.25),
)
_BEFORE_EM = 0.65
_EM = re.compile(r"EM sub_iter=\d+ size=(\d+)")
_TOO_MANY = re.compile(r"Vocabulary size too high \(\d+\)\. Please set it to a value <= (\d+)")
_FAILED = "failed: "
_TOO_FEW = re.compile(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)")


class VocabularySizeError(InputError):
    """The vocabulary size is too large or too small for the corpus; `nearest` is a size that works."""

    def __init__(self, message: str, *, nearest: int) -> None:
        super().__init__(message)
        self.nearest = nearest


class TrainerError(AlbertError):
    """An error of SentencePiece, or its process was killed."""


class VocabularySettings(Settings):
    """Settings of vocabulary training; the defaults are ALBERT's, with a smaller sample.

    Training takes 24 bytes of memory per byte of English in the sample: 2.5 GB by default.
    """

    size: int = Field(default=30_000, ge=16, le=1_000_000)
    normalization: Normalization = PUBLISHED
    character_coverage: float = Field(default=0.99995, ge=0.98, le=1.0)
    user_symbols: tuple[str, ...] = USER_SYMBOLS
    max_sample_sentences: int = Field(default=10_000_000, ge=1)
    max_sample_bytes: int = Field(default=100_000_000, ge=10 * MAX_SENTENCE_BYTES)
    seed: int = 0


@dataclass(frozen=True)
class VocabularyProgress:
    """Progress of training; `fraction` of the stage is None if its end is unknown."""

    stage: Literal["reading", "training"]
    message: str
    fraction: float | None = None


OnProgress = Callable[[VocabularyProgress], None]


def train_sentencepiece(
    texts: Iterable[str],
    *,
    settings: VocabularySettings | None = None,
    on_progress: OnProgress = lambda progress: None,
    warn: Callable[[str], None] = lambda message: None,
) -> SentencePieceTokenizer:
    """Train a unigram vocabulary on the lines of texts; equal texts and settings give equal bytes."""
    settings = settings or VocabularySettings()
    sample = SentenceSample(settings)
    reported = 0
    for text in texts:
        sample.read(text)
        if sample.num_bytes_read - reported >= _REPORT_BYTES:
            reported = sample.num_bytes_read
            on_progress(VocabularyProgress("reading", sample.describe()))
    message = sample.describe()
    sentences = limit_copies(sample.take())
    on_progress(VocabularyProgress("reading", f"{message}; {len(sentences):,} in the sample", 1.0))
    if not sentences:
        raise InputError("the corpus contains no text; give files with lines of text")
    if changes := sample.describe_changes():
        warn(changes)
    log = _TrainerLog(size=settings.size, report=on_progress)
    num_sentences = len(sentences)
    try:
        model_bytes = run_trainer(sentences, options=build_options(settings), on_log=log.read)
    except TrainerError as error:
        raise _explain(error, settings=settings, num_sentences=num_sentences) from error
    return SentencePieceTokenizer(model_bytes, options=settings.normalization)


def build_options(settings: VocabularySettings) -> dict[str, Any]:
    """Convert the settings to SentencePiece's options."""
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
        # These two are only recorded in the model: the sample is already drawn.
        "input_sentence_size": max(settings.max_sample_sentences, 101),  # SentencePiece rejects fewer
        "shuffle_input_sentence": True,
        "max_sentence_length": MAX_SENTENCE_BYTES,
        # Fixed, because sums of floats depend on the number of threads.
        "num_threads": 16,
    }


class SentenceSample:
    """A uniform sample of sentences: each draws a random number, and those with the smallest are kept.

    It depends only on the sentences, their order and the seed, and most sentences need no normalization.
    """

    def __init__(self, settings: VocabularySettings) -> None:
        self.num_read = 0
        self.num_bytes_read = 0
        self._settings = settings
        self._random = random.Random(settings.seed)
        self._limit = 1.0
        self._draws = array("d")
        self._kept: list[bytes] = []
        self._num_kept_bytes = 0
        self._num_ascii_letters = 0
        self._other_characters: Counter[str] = Counter()

    def read(self, text: str) -> None:
        for line in replace_surrogates(text.splitlines()):
            raw = line.encode()
            self.num_bytes_read += len(raw)
            for part in cut_bytes(raw, MAX_SENTENCE_BYTES):
                self.num_read += 1
                if (draw := self._random.random()) < self._limit:
                    self._keep(part, draw)

    def take(self) -> list[bytes]:
        """Return the sentences in random order, and clear the sample."""
        self._trim()
        kept, self._kept = self._kept, []
        return kept

    def describe(self) -> str:
        return f"{self.num_bytes_read / 1e6:,.1f} MB, {self.num_read:,} sentences"

    def describe_changes(self) -> str | None:
        """Return a warning if normalization changes more than 0.5% of the letters, apart from case."""
        if self._settings.normalization.keep_accents:
            return None
        seen = self._other_characters.items()
        counts = {char: count for char, count in seen if char.isalpha() or combining(char)}
        # SentencePiece composes Korean syllables again.
        changed = Counter(
            {char: count for char, count in counts.items() if normalize("NFC", BASES[ord(char)]) != char}
        )
        num_letters, num_changed = self._num_ascii_letters + sum(counts.values()), changed.total()
        if num_changed <= _MAX_CHANGED_LETTERS * num_letters:
            return None
        examples = ", ".join(
            f"{char} → {BASES[ord(char)] or 'nothing'}" for char, _ in changed.most_common(3)
        )
        share = num_changed / num_letters
        return f"normalization changes {share:.1%} of the letters ({examples}); use --accents to keep them"

    def _keep(self, sentence: bytes, draw: float) -> None:
        text = sentence.decode()
        self._num_ascii_letters += len(sentence.translate(None, _NOT_ASCII_LETTERS))
        if len(text) < len(sentence):
            self._other_characters.update(_NOT_ASCII.findall(text))
        normalized = normalize_text(text, rules=self._settings.normalization).translate(_RESERVED)
        for part in cut_bytes(normalized.encode(), MAX_SENTENCE_BYTES):  # normalization may lengthen it
            self._draws.append(draw)
            self._kept.append(part)
            self._num_kept_bytes += len(part)
        max_bytes, max_sentences = self._settings.max_sample_bytes, self._settings.max_sample_sentences
        if self._num_kept_bytes > _SLACK * max_bytes or len(self._kept) > _SLACK * max_sentences:
            self._trim()

    def _trim(self) -> None:
        """Keep as many sentences with the smallest draws as the bounds allow; skip larger draws later."""
        order = np.argsort(np.array(self._draws), kind="stable")
        lengths = np.fromiter(map(len, self._kept), dtype=np.int64, count=len(self._kept))
        is_within = np.cumsum(lengths[order]) <= self._settings.max_sample_bytes
        num_kept = min(int(is_within.sum()), self._settings.max_sample_sentences)
        if num_kept < len(order):
            self._limit = self._draws[int(order[num_kept])]
        self._num_kept_bytes = int(lengths[order[:num_kept]].sum())
        self._kept = [self._kept[i] for i in order[:num_kept].tolist()]
        self._draws = array("d", np.array(self._draws)[order[:num_kept]].tobytes())


def cut_bytes(text: bytes, limit: int) -> Iterator[bytes]:
    """Split a UTF-8 text into non-empty parts of at most `limit` bytes, at spaces if possible."""
    start = 0
    while len(text) - start > limit:
        end = text.rfind(b" ", start, start + limit + 1)
        if end <= start:  # a long word is split between two characters
            end = start + limit
            while text[end] & 0xC0 == 0x80:
                end -= 1
        if part := text[start:end].strip():
            yield part
        start = end
    if part := text[start:].strip():
        yield part


def limit_copies(sentences: list[bytes]) -> list[bytes]:
    """Remove duplicate sentences if they are more than 10% of the text; else return the list itself.

    SentencePiece enumerates repeated substrings: a few copies of a long text take minutes, many take hours.
    Long sentences are split at words chosen by content, which also finds copies that begin at another word.
    """
    parts = []
    for sentence in sentences:
        is_long = len(sentence) > 1000
        parts += (
            [p for part in _SPLIT.split(sentence) for p in cut_bytes(part, 200)] if is_long else [sentence]
        )
    lengths = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
    hashes = np.fromiter(map(hash, parts), dtype=np.int64, count=len(parts))
    is_kept = lengths < _MIN_COPY_BYTES
    is_kept[np.unique(hashes, return_index=True)[1]] = True
    if lengths[~is_kept].sum() <= _MAX_REPEATED * lengths.sum():
        return sentences
    return [parts[i] for i in np.flatnonzero(is_kept).tolist()]


class _TrainerLog:
    """Report progress from SentencePiece's log: candidates shrink to 1.1 times the size."""

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
            total = math.log(max(self._first / self._target, 1.0))
            shrunk = min(math.log(self._first / size) / total, 1.0) if total else 1.0
            fraction = _BEFORE_EM + (1 - _BEFORE_EM) * shrunk
            self._report(VocabularyProgress("training", f"{size:,} candidates left", fraction))


def _explain(error: TrainerError, *, settings: VocabularySettings, num_sentences: int) -> AlbertError:
    if found := _TOO_MANY.search(str(error)):
        return VocabularySizeError(
            f"vocabulary size {settings.size:,} is too large: the {num_sentences:,} sentences of the corpus "
            f"yield at most {int(found[1]):,} tokens; use --size {found[1]}, or more text",
            nearest=int(found[1]),
        )
    if found := _TOO_FEW.search(str(error)):
        return VocabularySizeError(
            f"vocabulary size {settings.size:,} is too small: the characters of the corpus and the special "
            f"tokens are {int(found[1]):,}; use --size {found[1]} or more",
            nearest=int(found[1]),
        )
    return error


def run_trainer(
    sentences: list[bytes], *, options: Mapping[str, Any], on_log: Callable[[str], None] = lambda line: None
) -> bytes:
    """Train on the sentences with SentencePiece's options; the list is emptied to save memory."""
    command = [*build_command(__name__), json.dumps(options)]
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile() as model:
        child = subprocess.Popen(command, stdin=pipe, stdout=model, stderr=pipe)
        assert child.stdin is not None
        assert child.stderr is not None
        feeder = Thread(target=_feed, args=(child.stdin, sentences), daemon=True)
        feeder.start()
        last: deque[str] = deque([""], maxlen=20)
        try:
            for line in io.TextIOWrapper(child.stderr, encoding="utf-8", errors="replace"):
                last.append(line.rstrip())
                on_log(last[-1])
            child.wait()
        finally:
            child.kill()  # after Ctrl-C or an error
            child.wait()
            feeder.join()
        if child.returncode < 0:
            raise TrainerError(
                f"SentencePiece was killed by signal {-child.returncode}, perhaps for lack of memory; use a "
                "smaller sample"
            )
        if child.returncode:
            reasons = [line.removeprefix(_FAILED) for line in last if line.startswith(_FAILED)] or last
            raise TrainerError(f"SentencePiece cannot train on this corpus: {reasons[-1]}")
        model.seek(0)
        return model.read()


def _feed(pipe: IO[bytes], sentences: list[bytes]) -> None:
    sentences.reverse()
    try:
        with pipe:
            while sentences:
                pipe.write(sentences.pop() + b"\n")
    except BrokenPipeError:
        pass  # the process failed; its log has the reason


def main() -> None:
    """Train in this process: options are the first argument, sentences on stdin, the model on stdout."""
    from sentencepiece import SentencePieceTrainer

    writer = io.BytesIO()
    lines = (line.rstrip(b"\n") for line in sys.stdin.buffer)
    try:
        SentencePieceTrainer.train(sentence_iterator=lines, model_writer=writer, **json.loads(sys.argv[1]))
    except (RuntimeError, OSError, MemoryError) as error:
        sys.exit(_FAILED + one_line(error))
    sys.stdout.buffer.write(writer.getvalue())
