"""Questions on contexts of any length come in; windows go out whose pieces know their characters.

An answer is read back by slicing the raw context: nothing is searched for, and no example is dropped.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.tasks.encoding.sequence import Frame, TaskSequence, check_length, iter_groups
from albert.tasks.examples import Answer, SpanExample
from albert.text.tokenizer import Encoding, Span, Tokenizer

STRIDE = 128
MAX_QUESTION = 64


@dataclass(frozen=True, slots=True)
class ContextPieces:
    """The pieces of a context, and the characters `[starts[i], ends[i])` of the raw text for piece i.

    An `Encoding` in a sixth of the memory: of a large data set, every context stays.
    """

    ids: tuple[int, ...]
    starts: "array[int]"
    ends: "array[int]"

    @staticmethod
    def of(encoding: Encoding, *, frame: Frame) -> "ContextPieces":
        """The same pieces."""
        starts, ends = (array("i", (span[side] for span in encoding.spans)) for side in (0, 1))
        return ContextPieces(frame.share(encoding.ids), starts, ends)


@dataclass(frozen=True, slots=True)
class Placement:
    """The pieces `first` to `last` of a context.

    An answer that begins or ends inside a piece takes the whole piece; white space at its ends, for which no
    piece stands, is lost.
    """

    first: int
    last: int


def place_answer(answer: Answer, context: ContextPieces) -> Placement | None:
    """The pieces of the characters from the answer's start on; None where no piece stands for any of them."""
    start, end = answer.start, answer.start + len(answer.text)
    first = bisect_right(context.ends, start)  # the first piece that ends behind the start
    last = bisect_left(context.starts, end) - 1  # the last that starts before the end
    while last >= first and context.starts[last] == context.ends[last]:  # a lone border of a word
        last -= 1
    return Placement(first, last) if first <= last else None


@dataclass(frozen=True, slots=True)
class Slide:
    """A window over the pieces `[first, end)`; for those in `[own_first, own_end)` it has the most context.

    Every piece is some window's own, and no other's.
    """

    first: int
    end: int
    own_first: int
    own_end: int

    @property
    def num_pieces(self) -> int:
        """How many pieces the window holds."""
        return self.end - self.first


def build_slides(num_pieces: int, *, size: int, stride: int) -> tuple[Slide, ...]:
    """Windows of `size` pieces, each `stride` further, until one reaches the end; an empty text has one.

    A stride longer than a window would leave pieces out, and is shortened. The time is linear in the number
    of pieces: each lies in at most `size / stride` windows, rounded up.
    """
    if num_pieces <= size:
        return (Slide(0, num_pieces, 0, num_pieces),)
    step = min(stride, size)
    firsts = np.arange(0, num_pieces - size + step, step)
    ends = np.minimum(firsts + size, num_pieces)
    owners = _find_owners(firsts, ends)
    places = np.arange(len(firsts))
    # The owners go up with the pieces: what a window owns is one range.
    own_firsts, own_ends = (np.searchsorted(owners, places, side=side) for side in ("left", "right"))
    rows = zip(*(each.tolist() for each in (firsts, ends, own_firsts, own_ends)), strict=True)
    return tuple(Slide(*row) for row in rows)


def _find_owners(firsts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each piece the window with the most context, by the score of the published code.

    That is the shorter of the ways to both ends, and 0.01 for each piece of the window, so that a whole one
    goes before the last, shorter one; the first of equals has it.
    """
    best = np.full(ends[-1], -1.0)
    owners = np.zeros(ends[-1], np.int64)
    for place, (first, end) in enumerate(zip(firsts.tolist(), ends.tolist(), strict=True)):
        ways = np.arange(end - first)
        scores = np.minimum(ways, ways[::-1]) + 0.01 * (end - first)
        is_better = scores > best[first:end]
        best[first:end][is_better] = scores[is_better]
        owners[first:end][is_better] = place
    return owners


@dataclass(frozen=True, slots=True)
class EncodedQuestion:
    """A question and its context in pieces; the windows are views of them and made when asked for.

    `head` is `[CLS] question [SEP]`, with as much of the question as fits: `num_cut` pieces do not. `gold` is
    the place of the answer among the context's pieces: that of the first answer that stands where it says, if
    any.
    """

    example: SpanExample
    head: tuple[int, ...]
    context: ContextPieces
    sep_id: int
    slides: tuple[Slide, ...]
    gold: Placement | None
    num_cut: int

    @property
    def windows(self) -> tuple["Window", ...]:
        """All windows, in the order of the context."""
        return tuple(Window(self, slide) for slide in self.slides)


@dataclass(frozen=True, slots=True)
class Window:
    """A question with one stretch of its context: `[CLS] question [SEP] stretch [SEP]`.

    Positions count in this sequence; those from `context_start` up to `context_end` may be part of an answer.
    """

    question: EncodedQuestion
    slide: Slide

    @property
    def sequence(self) -> TaskSequence:
        """What the model reads."""
        head = self.question.head
        stretch = self.question.context.ids[self.slide.first : self.slide.end]
        return TaskSequence((*head, *stretch, self.question.sep_id), len(head))

    @property
    def context_start(self) -> int:
        """The position of the first piece of the context."""
        return len(self.question.head)

    @property
    def context_end(self) -> int:
        """The position behind the last piece of the context."""
        return len(self.question.head) + self.slide.num_pieces

    @property
    def own_start(self) -> int:
        """The first position for which no other window has more context."""
        return self.context_start + self.slide.own_first - self.slide.first

    @property
    def own_end(self) -> int:
        """The position behind the last of these."""
        return self.context_start + self.slide.own_end - self.slide.first

    @property
    def answer(self) -> tuple[int, int] | None:
        """The first and the last position of the gold answer, where the whole of it lies in this window."""
        gold = self.question.gold
        if gold is None or gold.first < self.slide.first or gold.last >= self.slide.end:
            return None
        shift = self.context_start - self.slide.first
        return gold.first + shift, gold.last + shift

    def span(self, first: int, last: int) -> Span:
        """The characters of the raw context behind the positions `first` to `last`."""
        shift = self.slide.first - self.context_start
        context = self.question.context
        return context.starts[first + shift], context.ends[last + shift]

    def read(self, first: int, last: int) -> str:
        """The raw text behind the positions `first` to `last`."""
        start, end = self.span(first, last)
        return self.question.example.context[start:end]


def iter_encoded_questions(
    examples: Iterable[SpanExample],
    *,
    tokenizer: Tokenizer,
    max_length: int,
    stride: int = STRIDE,
    max_question: int = MAX_QUESTION,
) -> Iterator[EncodedQuestion]:
    """Each question with its windows of at most `max_length` pieces; time and memory are linear in the text.

    Neighbouring questions on the same context share its pieces.
    """
    check_length(max_length, least=max_question + 4, hint=", or max_question shorter")
    frame = Frame.of(tokenizer)
    for group in iter_groups(examples, count_characters=lambda each: len(each.context)):
        texts = list(dict.fromkeys(example.context for example in group))
        encodings = (ContextPieces.of(each, frame=frame) for each in tokenizer.encode_batch(texts))
        contexts = dict(zip(texts, encodings, strict=True))
        questions = tokenizer.encode_ids([example.question for example in group])
        for example, question in zip(group, questions, strict=True):
            context = contexts[example.context]
            head = frame.join(frame.share(question[:max_question])).ids
            size = max_length - len(head) - 1
            slides = build_slides(len(context.ids), size=size, stride=stride)
            gold = next((place_answer(answer, context) for answer in example.places), None)
            num_cut = max(0, len(question) - max_question)
            yield EncodedQuestion(example, head, context, frame.sep_id, slides, gold, num_cut)
