"""Questions on contexts of any length come in; windows go out whose pieces know their characters.

An answer is read back by slicing the raw context: nothing is searched for, and no example is dropped.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from albert.tasks.encoding.placement import ContextPieces, Placement, place_answer
from albert.tasks.encoding.sequence import Frame, TaskSequence, check_length, iter_groups
from albert.tasks.encoding.slides import Slide, build_slides
from albert.tasks.examples import SpanExample
from albert.text.encoding import Span
from albert.text.tokenizer import Tokenizer

STRIDE = 128
MAX_QUESTION = 64


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
