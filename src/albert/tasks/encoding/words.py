"""Words and their labels come in; windows of pieces with a label at each word's first go out, and back."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from albert.tasks.encoding.sequence import Frame, TaskSequence, check_length, iter_groups
from albert.tasks.encoding.windows import Slide, build_slides
from albert.tasks.examples import TokenExample
from albert.text.tokenizer import Encoding, Tokenizer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EncodedWords:
    """A text of words in pieces: `firsts` has each word's first piece, which carries its label.

    The windows are views of the pieces and made when asked for.
    """

    example: TokenExample
    pieces: tuple[int, ...]
    firsts: tuple[int, ...]
    frame: Frame
    slides: tuple[Slide, ...]

    @property
    def windows(self) -> tuple["WordWindow", ...]:
        """All windows, in the order of the words; each word is answered for by one of them."""
        return tuple(WordWindow(self, slide) for slide in self.slides)

    def join(self, answers: Sequence[Sequence[T]]) -> list[T]:
        """The answers at the windows' positions as one for each word."""
        joined = [answer for window in answers for answer in window]
        assert len(joined) == len(self.firsts), "one answer for each position of each window"
        return joined


@dataclass(frozen=True, slots=True)
class WordWindow:
    """A stretch of the text, `[CLS] stretch [SEP]`, and the words for which it has the most context."""

    text: EncodedWords
    slide: Slide

    @property
    def sequence(self) -> TaskSequence:
        """What the model reads."""
        return self.text.frame.join(self.text.pieces[self.slide.first : self.slide.end])

    @property
    def words(self) -> range:
        """The places of the words that this window answers for."""
        firsts = self.text.firsts
        return range(bisect_left(firsts, self.slide.own_first), bisect_left(firsts, self.slide.own_end))

    @property
    def positions(self) -> tuple[int, ...]:
        """Where the first pieces of these words stand in the sequence."""
        return tuple(1 + self.text.firsts[word] - self.slide.first for word in self.words)

    @property
    def labels(self) -> tuple[int, ...] | None:
        """The labels of these words."""
        labels = self.text.example.labels
        return None if labels is None else labels[self.words.start : self.words.stop]


def iter_encoded_words(
    examples: Iterable[TokenExample], *, tokenizer: Tokenizer, max_length: int, stride: int | None = None
) -> Iterator[EncodedWords]:
    """Each text in windows of at most `max_length` pieces, that overlap by half unless `stride` is given.

    Words are cut with a space between them. One for which no piece stands, such as a lone accent, is an
    unknown piece: every word has an answer.
    """
    check_length(max_length, least=4)
    frame = Frame.of(tokenizer)
    size = max_length - 2
    for group in iter_groups(examples, count_characters=lambda each: sum(map(len, each.words))):
        encodings = tokenizer.encode_batch([" ".join(example.words) for example in group])
        for example, encoding in zip(group, encodings, strict=True):
            groups = group_by_word(example.words, encoding, unk_id=tokenizer.unk_id)
            pieces = frame.share(piece for word in groups for piece in word)
            firsts = tuple(accumulate((len(word) for word in groups), initial=0))[:-1]
            slides = build_slides(len(pieces), size=size, stride=stride or size // 2)
            yield EncodedWords(example, pieces, firsts, frame, slides)


def group_by_word(words: Sequence[str], encoding: Encoding, *, unk_id: int) -> list[list[int]]:
    """The ids of each word, by the characters at which the pieces begin in the words joined by spaces."""
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))[:-1]
    groups: list[list[int]] = [[] for _ in words]
    for piece, (start, _) in zip(encoding.ids, encoding.spans, strict=True):
        groups[bisect_right(starts, start) - 1].append(piece)
    return [group or [unk_id] for group in groups]
