"""Question answering: find the span of a context that answers a question, or that there is no answer.

A long context is split into overlapping windows. Tokens keep their character offsets, so that an answer is a
slice of the raw context. Without unanswerable questions the head is SQuAD 1.1's; with them it is SQuAD 2.0's,
whose end depends on the start and which predicts whether there is an answer.

Positions count from the start of each window. Shapes: T tokens, B windows, L the longest of them, D hidden
width, W lengths of a span, N candidates, S starts, Z ends of each; a pair is `first, last` of an answer and
`first, end` of a range.
"""

import json
import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from scipy.special import softmax
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from typing_extensions import Self

from albert.data.rows import BadRow, Problems, Row, Wanted, quote
from albert.errors import FileFormatError, InputError
from albert.files import write_text
from albert.model.albert_model import AlbertModel
from albert.model.heads import BeamSpanHead, Heads, SpanBeam
from albert.model.tokens import Tokens
from albert.pretrained.folder import Pretrained
from albert.tasks.finetune_settings import FinetuneSettings
from albert.tasks.metrics.classification import Confusion, count_confusions
from albert.tasks.metrics.intervals import Interval, bootstrap_mean
from albert.tasks.metrics.scores import find_median
from albert.tasks.metrics.squad import (
    QuestionScores,
    ThresholdReport,
    apply_threshold,
    choose_threshold,
    find_best_thresholds,
    report_elsewhere,
    score_questions,
    summarize_squad,
)
from albert.tasks.sequences import Frame, TaskSequence, TokenWindow, build_windows, check_length, iter_groups
from albert.tasks.splits import halve_examples
from albert.tasks.tables import Columns, Labels, read_id, read_text, select_columns
from albert.tasks.task import (
    Baseline,
    Example,
    ExampleResult,
    Ints,
    Losses,
    Task,
    TaskBatch,
    TaskConfig,
    build_task_batch,
    require_texts,
)
from albert.text.tokenizer import Encoding, Span, Tokenizer

SPAN = "span"
ANSWERABLE = "answerable"
BEAM_HEAD = "beam_span"
MAX_QUESTION = 64
NO_ANSWER = "(no answer)"
NUM_BEST, NUM_STARTS, NUM_ENDS = 20, 5, 5  # spans of a question, and the beam of SQuAD 2.0's head
SQUAD_FILES = PREDICTIONS_NAME, BEST_NAME, ODDS_NAME = (
    "predictions.json",
    "nbest_predictions.json",
    "null_odds.json",
)
_CLS_SPAN = (0, 0)  # the label of a window without the answer: its [CLS], as in the published code
_DEFAULT_LENGTH = 384
_TEXT, _START = "text", "answer_start"


@dataclass(frozen=True, slots=True)
class Answer:
    """A gold answer, and the character of the context at which it starts."""

    text: str
    start: int

    def is_in(self, context: str) -> bool:
        """Return whether the context has this text, which is not empty, at `start`."""
        return self.start >= 0 and self.text != "" and context.startswith(self.text, self.start)


@dataclass(frozen=True, slots=True)
class SpanExample(Example):
    """A question whose answer is a span of the context.

    If it has no answers and is not `is_impossible`, the answer is unknown. Answers with a wrong start are
    kept, because the metrics compare their texts only.
    """

    question: str
    context: str
    answers: tuple[Answer, ...] = ()
    is_impossible: bool = False
    title: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.context,)

    @property
    def num_characters(self) -> int:
        return len(self.question) + len(self.context)

    @property
    def is_labeled(self) -> bool:
        return bool(self.answers) or self.is_impossible

    @property
    def article(self) -> str:
        return self.title

    @property
    def has_passage(self) -> bool:
        return True

    @property
    def stratum(self) -> bool:
        return self.is_impossible


class SpanColumns(Columns):
    """The columns of questions on contexts. `answers` is a text, a list as in SQuAD or `datasets`, or empty.

    A text starts at `answer_start`; if the table has no such column, at its first occurrence.
    """

    question: str = "question"
    context: str = "context"
    answers: str = "answers"
    answer_start: str = "answer_start"
    title: str | None = None
    id: str | None = None

    def wanted(self, *, is_labeled: bool) -> Wanted:
        inputs = self.question, self.context, self.title, self.id
        if not is_labeled:
            return select_columns(inputs)
        return select_columns((*inputs, self.answers), (self.answer_start,))

    def build(self, row: Row, labels: Labels | None, *, is_labeled: bool) -> SpanExample:
        question, context = read_text(row, self.question), read_text(row, self.context)
        if not question.strip() or not context.strip():
            raise BadRow("an empty question or context")
        found = self._read_answers(row, context) if is_labeled else ()
        title = read_text(row, self.title) if self.title is not None else ""
        is_impossible = is_labeled and not found
        return SpanExample(read_id(row, self.id), question, context, found, is_impossible, title)

    def _read_answers(self, row: Row, context: str) -> tuple[Answer, ...]:
        """Read a text and its start, or lists as in SQuAD or `datasets`; skip answers of white space."""
        value = row.values.get(self.answers)
        if not isinstance(value, str):
            answers = () if value is None else parse_answers(value, context=context)
            return tuple(answer for answer in answers if answer.text.strip())
        if not value.strip():
            return ()
        start = row.values.get(self.answer_start)
        try:
            return (Answer(value, _parse_start(start, text=value, context=context)),)
        except (TypeError, ValueError, OverflowError) as error:
            reason = f"no whole number in column {self.answer_start!r}"
            raise BadRow(reason, f"it holds {quote(str(start))}") from error

    def note(self, example: SpanExample, line: int, problems: Problems) -> None:
        """Count answers that are not at their start in the context."""
        for answer in example.answers:
            if answer.is_in(example.context):
                continue
            elsewhere = example.context.find(answer.text) if answer.text else -1
            detail = f"question {quote(example.id)}, answer {quote(answer.text)} at {answer.start}"
            if elsewhere >= 0:
                reason = "an answer that is elsewhere in the context than its start says"
                problems.note(reason, line=line, detail=f"{detail}, found at {elsewhere}")
            else:
                problems.note("an answer that is not in the context", line=line, detail=detail)
        if not example.question.strip() or not example.context.strip():
            problems.note("an empty question or context", line=line, detail=f"question {quote(example.id)}")


def parse_answers(value: Any, *, context: str) -> tuple[Answer, ...]:
    """Parse `[{text, answer_start}, …]` as in SQuAD, or `{text: […], answer_start: […]}` as in `datasets`."""
    reason = "answers that are not understood"
    if isinstance(value, dict):
        texts, starts = value.get(_TEXT), value.get(_START)
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise BadRow(reason, f"lists of {_TEXT} and {_START} expected")
        value = [{_TEXT: text, _START: start} for text, start in zip(texts, starts, strict=True)]
    if not isinstance(value, list):
        raise BadRow(reason, f"a list expected, and it is a {type(value).__name__}")
    answers: list[Answer] = []
    for answer in value:
        text = answer.get(_TEXT) if isinstance(answer, dict) else None
        try:
            if not isinstance(text, str) or _START not in answer:
                raise ValueError
            answers.append(Answer(text, _parse_start(answer[_START], text=text, context=context)))
        except (TypeError, ValueError, OverflowError) as error:
            raise BadRow(reason, f"each needs a {_TEXT} and a number {_START}") from error
    return tuple(answers)


def _parse_start(value: Any, *, text: str, context: str) -> int:
    """Parse a whole number, which may be written as 3.0; if it is missing, find the first occurrence."""
    if isinstance(value, bool):
        raise ValueError(value)
    number = math.nan if value is None or value == "" else float(value)
    if math.isnan(number):
        return context.find(text)
    if not number.is_integer():
        raise ValueError(value)
    return int(number)


@dataclass(frozen=True, slots=True)
class ContextTokens:
    """The tokens of a context; token i has the characters `[starts[i], ends[i])` of the raw text.

    It takes a sixth of the memory of an `Encoding`, because all contexts of a data set are kept.
    """

    ids: tuple[int, ...]
    starts: "array[int]"
    ends: "array[int]"

    @staticmethod
    def of(encoding: Encoding, *, frame: Frame) -> "ContextTokens":
        starts, ends = (array("i", (span[side] for span in encoding.spans)) for side in (0, 1))
        return ContextTokens(frame.intern(encoding.ids), starts, ends)

    def locate(self, answer: Answer) -> tuple[int, int] | None:
        """Find the first and last token of an answer; None if no token has any of its characters.

        Tokens that the answer covers in part are included.
        """
        start, end = answer.start, answer.start + len(answer.text)
        first = bisect_right(self.ends, start)  # the first token that ends after the start
        last = bisect_left(self.starts, end) - 1  # the last that starts before the end
        while last >= first and self.starts[last] == self.ends[last]:  # a word border without characters
            last -= 1
        return (first, last) if first <= last else None


@dataclass(frozen=True, slots=True)
class EncodedQuestion:
    """The tokens of a question and its context.

    `head` is `[CLS] question [SEP]`, without the last `num_truncated` tokens of a long question. `gold` is
    the first and the last context token of the first answer with a correct start, if any.
    """

    example: SpanExample
    head: tuple[int, ...]
    context: ContextTokens
    sep_id: int
    windows: tuple[TokenWindow, ...]
    gold: tuple[int, int] | None
    num_truncated: int


@dataclass(frozen=True, slots=True)
class QuestionWindow:
    """A question with one window of its context: `[CLS] question [SEP] context [SEP]`.

    The context is at the positions from `context_start` to `context_end`. Spans that start between
    `own_start` and `own_end` are predicted by this window only.
    """

    question: EncodedQuestion
    window: TokenWindow

    @property
    def num_tokens(self) -> int:
        return self.context_end + 1

    @property
    def is_truncated(self) -> bool:
        """Whether the question was truncated; true for its first window only."""
        return self.question.num_truncated > 0 and self.window.first == 0

    @property
    def sequence(self) -> TaskSequence:
        head = self.question.head
        tokens = self.question.context.ids[self.window.first : self.window.end]
        return TaskSequence((*head, *tokens, self.question.sep_id), len(head))

    @property
    def context_start(self) -> int:
        return len(self.question.head)

    @property
    def context_end(self) -> int:
        return len(self.question.head) + self.window.num_tokens

    @property
    def own_start(self) -> int:
        return self.context_start + self.window.own_first - self.window.first

    @property
    def own_end(self) -> int:
        return self.context_start + self.window.own_end - self.window.first

    @property
    def answer(self) -> tuple[int, int] | None:
        """The first and last position of the gold answer, if this window contains all of it."""
        gold = self.question.gold
        if gold is None or gold[0] < self.window.first or gold[1] >= self.window.end:
            return None
        shift = self.context_start - self.window.first
        return gold[0] + shift, gold[1] + shift

    def find_characters(self, first: int, last: int) -> Span:
        """Find the characters of the raw context for the positions `first` to `last`."""
        shift = self.window.first - self.context_start
        context = self.question.context
        return context.starts[first + shift], context.ends[last + shift]


def iter_encoded_questions(
    examples: Iterable[SpanExample], *, tokenizer: Tokenizer, max_length: int, stride: int, max_question: int
) -> Iterator[EncodedQuestion]:
    """Encode each question with windows of at most `max_length` tokens; equal contexts are encoded once."""
    check_length(max_length, minimum=max_question + 4, hint=", or lower max_question")
    frame = Frame.of(tokenizer)
    for group in iter_groups(examples, count_characters=lambda each: len(each.context)):
        texts = list(dict.fromkeys(example.context for example in group))
        encodings = (ContextTokens.of(each, frame=frame) for each in tokenizer.encode_batch(texts))
        contexts = dict(zip(texts, encodings, strict=True))
        questions = tokenizer.encode_ids([example.question for example in group])
        for example, question in zip(group, questions, strict=True):
            context = contexts[example.context]
            head = frame.join(frame.intern(question[:max_question])).ids
            windows = build_windows(len(context.ids), size=max_length - len(head) - 1, stride=stride)
            valid = (answer for answer in example.answers if answer.is_in(example.context))
            gold = next((context.locate(answer) for answer in valid), None)
            num_truncated = max(0, len(question) - max_question)
            yield EncodedQuestion(example, head, context, frame.sep_id, windows, gold, num_truncated)


class QuestionAnsweringConfig(TaskConfig):
    """The config of a question-answering model.

    Args:
        stride: The distance between the starts of two windows, in tokens.
        max_question: The maximum number of tokens of a question.
        max_answer: The maximum number of tokens of a predicted answer.
        has_impossible: Questions may have no answer (SQuAD 2.0).
        threshold: Questions with higher null odds are left unanswered. Without it every question is answered,
            and scored at the best threshold.
    """

    task_type: Literal["question-answering"] = "question-answering"
    stride: PositiveInt = 128
    max_question: PositiveInt = MAX_QUESTION
    max_answer: PositiveInt = 30
    has_impossible: bool = False
    threshold: float | None = None

    def fit_length(self, length: int) -> dict[str, Any]:
        """Return the changes for `length`: short windows have shorter questions and still overlap."""
        return {
            "max_length": length,
            "max_question": min(self.max_question, length // 2),
            "stride": min(self.stride, max(1, length // 3)),
        }

    def complete(self, settings: FinetuneSettings, *, train: Sequence[Example], max_positions: int) -> Self:
        completed = super().complete(settings, train=train, max_positions=max_positions)
        return completed.model_copy(update={"max_answer": settings.max_answer})

    def fit_table(self, train: Sequence[Example]) -> Self:
        has_impossible = any(each.is_impossible for each in train if isinstance(each, SpanExample))
        return self.model_copy(update={"has_impossible": has_impossible})

    def check_data(
        self, train: Sequence[Example], dev: Sequence[Example], *, source: str, dev_source: str
    ) -> Iterator[str]:
        questions, held_out = (
            [each for each in examples if isinstance(each, SpanExample)] for examples in (train, dev)
        )
        if not any(each.answers for each in questions):
            number = len(questions)
            raise FileFormatError(f"{source}: none of {number:,} questions has an answer; check the columns")
        unanswered = [each.id for each in held_out if each.is_impossible]
        if unanswered and not self.has_impossible:
            raise FileFormatError(
                f"{dev_source}: question {quote(unanswered[0])} has no answer, but all training questions "
                "have one; remove it, or add such questions to the training data"
            )
        if self.has_impossible and len(unanswered) in (0, len(held_out)):
            which = "all" if not unanswered else "none"
            yield (
                f"{dev_source}: {which} of {len(held_out):,} questions have an answer, so the no-answer "
                "threshold cannot be tuned and is 0; give questions with and without an answer with --dev"
            )

    def adapt(self, loaded: Pretrained) -> Self:
        adapted, heads = super().adapt(loaded), loaded.model.heads
        has_beam = BEAM_HEAD in heads and SPAN not in heads
        return adapted.model_copy(update={"has_impossible": True}) if has_beam else adapted

    def check_answers(self, target: TaskConfig, *, source: str, model_task: str) -> None:
        super().check_answers(target, source=source, model_task=model_task)
        assert isinstance(target, QuestionAnsweringConfig)
        if target.has_impossible and not self.has_impossible:
            raise InputError(
                f"{source}: was fine-tuned for {self.task} and answers every question, but {target.task} has "
                f"questions without an answer; give a model of {model_task}"
            )

    def check_teacher(self, teacher: TaskConfig, *, source: str, has_same_tokens: bool) -> None:
        super().check_teacher(teacher, source=source, has_same_tokens=has_same_tokens)
        assert isinstance(teacher, QuestionAnsweringConfig)
        if teacher.has_impossible != self.has_impossible:
            theirs, ours = (
                f"{each.task} {'with' if each.has_impossible else 'without'} unanswerable questions"
                for each in (teacher, self)
            )
            raise InputError(
                f"{source}: was fine-tuned for {theirs}, but the student is for {ours}; give a teacher of "
                "the same task"
            )
        if not has_same_tokens:
            raise InputError(
                f"{source}: has another vocabulary than the student, or fewer positions than "
                f"max_length={self.max_length}, so their tokens cannot be compared; give a teacher with the "
                "student's vocabulary, or lower max_length"
            )

    def merge(self, members: Sequence[TaskConfig], target: TaskConfig, *, is_published: bool) -> Self:
        """Build the config of an ensemble; its threshold is the median of the members'."""
        merged = super().merge(members, target, is_published=is_published)
        configs = [member for member in members if isinstance(member, QuestionAnsweringConfig)]
        assert isinstance(target, QuestionAnsweringConfig)
        for config, member in zip(configs, members, strict=True):
            if config.has_impossible != self.has_impossible:
                raise InputError(
                    f"models of {member.task} and {self.task} cannot be an ensemble: only one of them "
                    "can leave a question unanswered; give models of one task"
                )
        known = [config.threshold for config in configs if config.threshold is not None]
        has_threshold = target.has_impossible or not is_published
        return merged.model_copy(
            update={
                "has_impossible": self.has_impossible and has_threshold,
                "threshold": find_median(known) if len(known) == len(members) else None,
            }
        )

    @classmethod
    def from_folder(cls, loaded: Pretrained) -> Self:
        return cls(task="question-answering", max_length=_DEFAULT_LENGTH)


@dataclass(frozen=True, slots=True)
class FoundSpan:
    """A span `[start, end)` of the characters of the raw context, its text and its score."""

    text: str
    start: int
    end: int
    score: float


NO_SPAN = FoundSpan("", 0, 0, 0.0)


@dataclass(frozen=True, slots=True)
class SpanAnswer:
    """The best spans of a question, best first, each text once, and the null odds of SQuAD 2.0 models.

    `spans` is empty if the context has no tokens or the beam search found nothing.
    """

    spans: tuple[FoundSpan, ...]
    null_odds: float = 0.0

    @property
    def best(self) -> FoundSpan:
        """The best span, before any threshold."""
        return self.spans[0] if self.spans else NO_SPAN

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The softmax of the scores of the spans."""
        scores = np.array([span.score for span in self.spans], dtype=np.float64)
        return tuple(softmax(scores).tolist()) if self.spans else ()

    def choose(self, threshold: float | None) -> FoundSpan:
        """Return the best span, or `NO_SPAN` if the null odds are above the threshold."""
        return NO_SPAN if threshold is not None and self.null_odds > threshold else self.best


@dataclass(frozen=True)
class ContextAnswer:
    """The answer to a question: characters `[start, end)` of the context, and their probability.

    Without an answer, `text` is "", and `start`, `end` and `probability` are None. `null_odds` are the odds
    that there is no answer, for a model of SQuAD 2.0.
    """

    text: str
    start: int | None
    end: int | None
    probability: float | None
    null_odds: float | None = None

    @property
    def is_found(self) -> bool:
        return self.start is not None


@dataclass(frozen=True)
class SpanLabels:
    """The windows of a batch, with the positions of their answers, contexts and own parts."""

    answers_B2: Ints
    contexts_B2: Ints
    owns_B2: Ints
    windows: Sequence[QuestionWindow] = ()

    @staticmethod
    def of(windows: Sequence[QuestionWindow]) -> "SpanLabels":
        pairs = (
            [window.answer or _CLS_SPAN for window in windows],
            [(window.context_start, window.context_end) for window in windows],
            [(window.own_start, window.own_end) for window in windows],
        )
        answers, contexts, owns = (np.array(part, dtype=np.int64).reshape(-1, 2) for part in pairs)
        return SpanLabels(answers, contexts, owns, windows)


Batch = TaskBatch[SpanLabels]
Examples = Sequence[SpanExample]
Answers = Sequence[SpanAnswer]


@dataclass(frozen=True)
class QuestionAnsweringTask(Task[SpanExample, QuestionWindow, SpanLabels, SpanAnswer]):
    """Finds the span of a context that answers a question; answers are the best spans."""

    config: QuestionAnsweringConfig
    config_class: ClassVar[type[TaskConfig]] = QuestionAnsweringConfig
    head_names: ClassVar[tuple[str, ...]] = (SPAN, BEAM_HEAD)

    method = "answer"
    error_order = "Sorted by F1, the lowest first."

    @property
    def heads(self) -> Heads:
        return {BEAM_HEAD if self.config.has_impossible else SPAN: None}

    @property
    def objectives(self) -> tuple[str, ...]:
        return (SPAN, ANSWERABLE) if self.config.has_impossible else (SPAN,)

    def encode(self, examples: Examples, tokenizer: Tokenizer) -> list[QuestionWindow]:
        questions = iter_encoded_questions(
            examples,
            tokenizer=tokenizer,
            max_length=self.config.max_length,
            stride=self.config.stride,
            max_question=self.config.max_question,
        )
        return [QuestionWindow(question, window) for question in questions for window in question.windows]

    def has_label(self, item: QuestionWindow) -> bool:
        """Return whether the answer is known, in this window or another, or known not to exist."""
        question = item.question
        return self.config.has_impossible if question.example.is_impossible else question.gold is not None

    def describe_truncated(self, num_truncated: int, num_examples: int, *, max_positions: int) -> str:
        """Format the warning about truncated questions; contexts are split into windows instead."""
        limit = self.config.max_question
        message = f"Truncated {num_truncated:,} of {num_examples:,} questions to {limit} tokens."
        length = min(max_positions, 2 * MAX_QUESTION)  # a question takes at most half a window
        hint = f" Set max_length={length} to keep more." if self.config.max_length < length else ""
        return message + hint

    def build_batch(self, items: Sequence[QuestionWindow]) -> Batch:
        return build_task_batch([item.sequence for item in items], SpanLabels.of(items))

    def count_labels(self, batch: Batch) -> Mapping[str, int]:
        return dict.fromkeys(self.objectives, len(batch.lengths))

    def compute_outputs(
        self, model: AlbertModel, batch: Batch, *, target: Tensor | None = None, depth: int | None = None
    ) -> Tensor:
        """Compute rows of logits, padded with −inf: [N, L], N = 2B starts and ends, in 2.0 N = 3B.

        The last B rows of 2.0 are the logits 0 (there is an answer) and x (there is none). Its ends are those
        of the true start or, without labels, of the most probable one, for a student that of its teacher.
        """
        tokens = batch.build_tokens(model.device)
        last_TD = model(tokens, depth=depth).last_TD
        if not self.config.has_impossible:
            return torch.cat([_pad_rows(part_T.float(), tokens) for part_T in model.head(SPAN)(last_TD)])
        starts_B: Tensor | None = None
        if batch.has_labels:
            starts_B = torch.from_numpy(batch.labels.answers_B2)[:, 0].to(last_TD.device, non_blocking=True)
        elif target is not None:
            starts_B = target[: len(tokens.lengths)].argmax(1)
        allowed_T = mark_allowed(tokens, batch.labels)
        output = model.head(BEAM_HEAD)(last_TD, tokens, allowed_T=allowed_T, true_starts_B=starts_B)
        ends_NL = torch.cat([_pad_rows(each.float(), tokens) for each in (output.start_T, output.end_T)])
        logits_B = output.unanswerable_B.float()
        choices_B2 = torch.stack([torch.zeros_like(logits_B), logits_B], 1)
        return torch.cat([ends_NL, F.pad(choices_B2, (0, ends_NL.shape[1] - 2), value=-torch.inf)])

    def compare_labels(self, outputs: Tensor, batch: Batch) -> Losses:
        """Sum half the cross-entropies of start and end and, in 2.0, half that of whether there is an answer.

        The sum of these terms is the published loss. As published, start and end of a window without the
        answer are its [CLS], compared with all tokens of the window in 1.1 and with its context in 2.0.
        """
        answers_2B = torch.from_numpy(batch.labels.answers_B2).to(outputs.device, non_blocking=True).T
        ends_NL = outputs[: answers_2B.numel()]
        is_correct_N = ends_NL.argmax(1) == answers_2B.flatten()
        span = F.cross_entropy(ends_NL, answers_2B.flatten(), reduction="sum") / 2
        losses = {SPAN: (span, is_correct_N.view_as(answers_2B).all(0).sum())}
        if self.config.has_impossible:
            logits_B, is_missing_B = outputs[len(ends_NL) :, 1], answers_2B[0] == 0
            total = F.binary_cross_entropy_with_logits(logits_B, is_missing_B.float(), reduction="sum") / 2
            losses[ANSWERABLE] = (total, ((logits_B > 0) == is_missing_B).sum())
        return losses

    def count_outputs(self, batch: Batch) -> int:
        """Count start and end of each window and, in 2.0, whether there is an answer."""
        return len(batch.lengths) * (3 if self.config.has_impossible else 2)

    def predict(self, model: AlbertModel, batch: Batch, *, depth: int | None = None) -> list[SpanAnswer]:
        """Find the best spans of each window and its null odds."""
        tokens = batch.build_tokens(model.device)
        last_TD = model(tokens, depth=depth).last_TD
        max_answer = self.config.max_answer
        if not self.config.has_impossible:
            start_T, end_T = model.head(SPAN)(last_TD)
            best = search_spans(start_T, end_T, tokens, labels=batch.labels, max_answer=max_answer)
            odds = [0.0] * len(best)
        else:
            head = model.head(BEAM_HEAD)
            assert isinstance(head, BeamSpanHead)
            # In float32, because many log-probabilities are equal in bf16.
            with torch.autocast(last_TD.device.type, enabled=False):
                beam = head.search(
                    last_TD.float(),
                    tokens,
                    allowed_T=mark_allowed(tokens, batch.labels),
                    num_starts=NUM_STARTS,
                    num_ends=NUM_ENDS,
                )
            best = list_beam(beam, labels=batch.labels, max_answer=max_answer)
            odds = beam.unanswerable_B.float().tolist()
        return [
            SpanAnswer(tuple(_read_span(window, *span) for span in spans), null_odds)
            for window, spans, null_odds in zip(batch.labels.windows, best, odds, strict=True)
        ]

    def aggregate(self, items: Sequence[QuestionWindow], answers: Answers) -> list[SpanAnswer]:
        """Aggregate the windows of each question: the best of all spans and the lowest null odds."""
        aggregated = []
        pairs = zip(items, answers, strict=True)
        for _, group in groupby(pairs, key=lambda pair: id(pair[0].question)):
            own = [answer for _, answer in group]
            spans = _list_best(span for answer in own for span in answer.spans)
            aggregated.append(SpanAnswer(spans, min(answer.null_odds for answer in own)))
        return aggregated

    def ensemble(self, members: Sequence[Answers]) -> list[SpanAnswer]:
        """Average the scores of each text and the null odds."""
        return [merge_answers(answers) for answers in zip(*members, strict=True)]

    def describe(self, answer: SpanAnswer, example: SpanExample) -> dict[str, Any]:
        """Describe the answer, its characters and its probability; `""` and None if there is none."""
        chosen = answer.choose(self.config.threshold if self.config.has_impossible else None)
        is_given = chosen.text != ""
        found = {
            "id": example.id,
            "answer": chosen.text,
            "start": chosen.start if is_given else None,
            "end": chosen.end if is_given else None,
            "score": chosen.score if is_given else None,
            "probability": answer.probabilities[0] if is_given else None,
        }
        return {**found, "null_odds": answer.null_odds} if self.config.has_impossible else found

    def parse_inputs(self, *inputs: Any) -> list[SpanExample]:
        questions, contexts = inputs
        firsts, seconds = require_texts(questions, "question"), require_texts(contexts, "context")
        seconds = seconds * len(firsts) if isinstance(contexts, str) else seconds
        if len(firsts) != len(seconds):
            counts = f"{len(firsts)} questions and {len(seconds)} contexts"
            raise InputError(f"{counts}; give one context for each question, or one for all")
        pairs = zip(firsts, seconds, strict=True)
        return [SpanExample(str(index), question, context) for index, (question, context) in enumerate(pairs)]

    def build_record(self, row: Mapping[str, Any], example: SpanExample) -> ContextAnswer:
        return ContextAnswer(
            row["answer"], row["start"], row["end"], row["probability"], row.get("null_odds")
        )

    def score(self, answers: Answers, examples: Examples) -> dict[str, float]:
        """Compute exact match and F1, which is the main score.

        For SQuAD 2.0, also for questions with and without an answer, and `best_exact` and `best_f1` by the
        official script's threshold search.
        """
        questions, used = self.score_questions(answers, examples)
        scores = summarize_squad(questions)
        found = {"exact": scores.overall.exact, "f1": scores.overall.f1}
        if used is not None:
            for name, part in (("has_answer", scores.has_answer), ("no_answer", scores.no_answer)):
                if part is not None:
                    found |= {f"{name}_exact": part.exact, f"{name}_f1": part.f1}
            best = find_best_thresholds(score_possible(answers, examples))
            found |= {"best_exact": best.best_exact, "best_f1": best.best_f1, "threshold": used}
        return {**found, "score": found["f1"]}

    def score_questions(self, answers: Answers, examples: Examples) -> tuple[QuestionScores, float | None]:
        """Score each question as SQuAD 1.1, or as 2.0 with a threshold; return the threshold, too.

        The default threshold is the best one for these questions, which is slightly optimistic.
        """
        if self.config.has_impossible:
            questions, threshold = score_possible(answers, examples), self.config.threshold
            threshold = choose_threshold(questions) if threshold is None else threshold
            return apply_threshold(questions, threshold), threshold
        golds = [_list_golds(example, has_impossible=False) for example in examples]
        return score_questions([answer.best.text for answer in answers], golds=golds, version="1.1"), None

    def find_intervals(self, answers: Answers, examples: Examples, *, seed: int) -> dict[str, Interval]:
        """Estimate the intervals of the means; scores at the best threshold are maxima and have none."""
        questions, used = self.score_questions(answers, examples)
        parts = {"": np.ones(len(examples), np.bool_)}
        if used is not None:
            parts |= {"has_answer_": questions.is_answerable, "no_answer_": ~questions.is_answerable}
        found = {
            f"{prefix}{name}": bootstrap_mean(getattr(questions, name)[rows], seed=seed).in_points()
            for prefix, rows in parts.items()
            if rows.any()
            for name in ("exact", "f1")
        }
        return {**found, "score": found["f1"]}

    def tune(self, answers: Answers, examples: Examples) -> TaskConfig:
        """Choose the no-answer threshold; it is 0 if all questions have an answer, or none has."""
        if not self.config.has_impossible:
            return self.config
        is_one_sided = len({example.is_impossible for example in examples}) == 1
        threshold = 0.0 if is_one_sided else choose_threshold(score_possible(answers, examples))
        return self.config.model_copy(update={"threshold": threshold})

    def count_confusions(self, answers: Answers, examples: Examples) -> Confusion | None:
        """Count how many questions with and without an answer are answered."""
        if not self.config.has_impossible:
            return None
        questions, _ = self.score_questions(answers, examples)
        labels = ("no answer", "answer")
        return count_confusions(questions.is_answered, golds=questions.is_answerable, labels=labels)

    def report_threshold(
        self, answers: Answers, examples: Examples, *, num_models: int, is_tuned_here: bool, seed: int
    ) -> ThresholdReport | None:
        if not self.config.has_impossible:
            return None
        questions = score_possible(answers, examples)
        source = "from the model" if num_models == 1 else "the median of the models' thresholds"
        if is_tuned_here:
            source += ", chosen on these questions, which is optimistic"
        threshold = self.config.threshold
        if threshold is None:
            threshold = choose_threshold(questions)
            source = "the best for these questions, which is optimistic"
        best = find_best_thresholds(questions)
        try:
            first, second = halve_examples(examples, seed=seed)
        except InputError:  # questions on a single article cannot be halved
            return ThresholdReport(threshold, source, best)
        elsewhere = report_elsewhere(questions.keep(second), chosen_on=questions.keep(first))
        return ThresholdReport(threshold, source, best, elsewhere, len(first), len(second))

    def explain(self, answers: Answers, examples: Examples) -> tuple[ExampleResult, ...]:
        scores, _ = self.score_questions(answers, examples)
        results = []
        for row, (answer, example) in enumerate(zip(answers, examples, strict=True)):
            is_given = bool(scores.is_answered[row])
            golds = dict.fromkeys(gold.text for gold in example.answers)
            results.append(
                ExampleResult(
                    id=example.id,
                    texts={"question": example.question, "context": example.context},
                    gold=" | ".join(golds) or NO_ANSWER,
                    predicted=answer.best.text if is_given else NO_ANSWER,
                    is_correct=bool(scores.exact[row] == 1.0),
                    loss=1.0 - float(scores.f1[row]),
                    confidence=answer.probabilities[0] if is_given else None,
                )
            )
        return tuple(results)

    def list_baselines(self) -> dict[str, Baseline[SpanExample, SpanAnswer]]:
        return {"majority": self.predict_majority} if self.config.has_impossible else {}

    def predict_majority(self, train: Examples, dev: Examples) -> list[SpanAnswer]:
        """Predict that no question has an answer."""
        return [SpanAnswer(())] * len(dev)

    def write_predictions(self, folder: Path, answers: Answers, examples: Examples) -> None:
        """Write SQuAD's official files: answers, best spans and, for 2.0, null odds, by question id.

        Answers depend on the threshold of the config. For the official script's search of the best threshold,
        write them without one and pass the odds with `--na-prob-file`.
        """
        ids = [example.id for example in examples]
        for name, number in Counter(ids).items():
            if number > 1:
                raise InputError(f"{number} questions have the id {name!r}; give each question its own id")
        threshold = self.config.threshold if self.config.has_impossible else None
        found = dict(zip(ids, answers, strict=True))
        values: dict[str, dict[str, Any]] = {
            BEST_NAME: {name: _describe_spans(each) for name, each in found.items()}
        }
        if self.config.has_impossible:
            values[ODDS_NAME] = {name: each.null_odds for name, each in found.items()}
        # Written last: if it exists, all files do.
        values[PREDICTIONS_NAME] = {name: each.choose(threshold).text for name, each in found.items()}
        for name, value in values.items():
            # In ASCII, as in the published code, because a context may have half a surrogate pair.
            write_text(folder / name, json.dumps(value, indent=2) + "\n")


def _describe_spans(answer: SpanAnswer) -> list[dict[str, Any]]:
    """Describe the spans and their probabilities; at least one, as in the published code."""
    rows = zip(answer.spans or (NO_SPAN,), answer.probabilities or (1.0,), strict=True)
    return [
        {
            "text": span.text,
            "probability": probability,
            "score": span.score,
            "start": span.start,
            "end": span.end,
        }
        for span, probability in rows
    ]


def mark_range(tokens: Tokens, ranges_B2: Ints) -> Tensor:
    """Return for each token whether it is in the range of its window."""
    lengths_B = torch.tensor(tokens.lengths)
    ranges_T2 = torch.from_numpy(ranges_B2).repeat_interleave(lengths_B, dim=0).to(tokens.ids_T.device)
    positions_T = tokens.positions_T
    return (positions_T >= ranges_T2[:, 0]) & (positions_T < ranges_T2[:, 1])


def mark_allowed(tokens: Tokens, labels: SpanLabels) -> Tensor:
    """Return for each token whether it may start or end an answer: context and [CLS] (no answer)."""
    return mark_range(tokens, labels.contexts_B2) | (tokens.positions_T == 0)


def _pad_rows(values_T: Tensor, tokens: Tokens) -> Tensor:
    """Return a row [L] for each window, padded with −inf."""
    return pad_sequence(list(values_T.split(tokens.lengths)), batch_first=True, padding_value=-torch.inf)


Spans = list[tuple[int, int, float]]  # first and last position in the window, and the score


def search_spans(
    start_T: Tensor, end_T: Tensor, tokens: Tokens, *, labels: SpanLabels, max_answer: int
) -> list[Spans]:
    """Find the best of all spans of each window, scored by the sum of their two logits.

    As in the published code, a span starts in the window's own part, so that no two windows propose the same
    span. The published code considers only pairs of the 20 best starts and ends; here all ends within
    `max_answer` tokens of each start are scored, at little cost.
    """
    start_BL = _pad_rows(_mask(start_T, mark_range(tokens, labels.owns_B2)), tokens)
    end_BL = _pad_rows(_mask(end_T, mark_range(tokens, labels.contexts_B2)), tokens)
    num_lengths = min(max_answer, end_BL.shape[1])
    ends_BLW = F.pad(end_BL, (0, num_lengths - 1), value=-torch.inf).unfold(1, num_lengths, 1)
    scores_BN = (start_BL.unsqueeze(2) + ends_BLW).flatten(1)
    candidates_N = torch.arange(scores_BN.shape[1], device=scores_BN.device)
    firsts_N = candidates_N // num_lengths
    lasts_N = firsts_N + candidates_N % num_lengths
    return _list_top(scores_BN, firsts_N.expand_as(scores_BN), lasts_N.expand_as(scores_BN))


def list_beam(beam: SpanBeam, *, labels: SpanLabels, max_answer: int) -> list[Spans]:
    """List the spans of a beam, scored by the sum of the two log-probabilities, without [CLS]."""
    lasts_BSZ = beam.end_indices_BSZ
    firsts_BSZ = beam.start_indices_BS.unsqueeze(2).expand_as(lasts_BSZ)
    own_B2 = torch.from_numpy(labels.owns_B2).to(lasts_BSZ.device)
    is_own_BSZ = (firsts_BSZ >= own_B2[:, 0, None, None]) & (firsts_BSZ < own_B2[:, 1, None, None])
    offsets_BSZ = lasts_BSZ - firsts_BSZ
    is_span_BSZ = is_own_BSZ & (offsets_BSZ >= 0) & (offsets_BSZ < max_answer)
    scores_BSZ = _mask(beam.start_log_probs_BS.unsqueeze(2) + beam.end_log_probs_BSZ, is_span_BSZ)
    return _list_top(scores_BSZ.flatten(1), firsts_BSZ.flatten(1), lasts_BSZ.flatten(1))


def _mask(values: Tensor, is_kept: Tensor) -> Tensor:
    return values.float().masked_fill(~is_kept, -torch.inf)


def _list_top(scores_BN: Tensor, firsts_BN: Tensor, lasts_BN: Tensor) -> list[Spans]:
    """List the candidates with the highest scores, without those of −inf."""
    best = scores_BN.topk(min(NUM_BEST, scores_BN.shape[1]), dim=1)
    ends = (part_BN.gather(1, best.indices).tolist() for part_BN in (firsts_BN, lasts_BN))
    rows = zip(*ends, best.values.tolist(), strict=True)
    return [[span for span in zip(*row, strict=True) if span[2] > -math.inf] for row in rows]


def _read_span(window: QuestionWindow, first: int, last: int, score: float) -> FoundSpan:
    """Read the text of a span without white space around it; it may be empty."""
    start, end = window.find_characters(first, last)
    raw = window.question.example.context[start:end]
    text = raw.strip()
    start += len(raw) - len(raw.lstrip())
    return FoundSpan(text, start, start + len(text), score)


def _list_best(spans: Iterable[FoundSpan]) -> tuple[FoundSpan, ...]:
    """Sort by score, then by position; keep the best of each text, and no empty one."""
    by_text: dict[str, FoundSpan] = {}
    for span in sorted(spans, key=lambda span: (-span.score, span.start, span.end)):
        by_text.setdefault(span.text, span)
    by_text.pop("", None)
    return tuple(by_text.values())[:NUM_BEST]


def merge_answers(answers: Answers) -> SpanAnswer:
    """Average several models' scores of each text, and their null odds.

    A text that is not among a model's best spans gets the lowest score of these. Equal texts at different
    positions count as one, at the position with the highest score.
    """
    members = [{span.text: span for span in answer.spans} for answer in answers if answer.spans]
    lowest = [min(span.score for span in member.values()) for member in members]
    merged = []
    for text in dict.fromkeys(text for member in members for text in member):
        scores = [
            member[text].score if text in member else minimum
            for member, minimum in zip(members, lowest, strict=True)
        ]
        best = max((member[text] for member in members if text in member), key=lambda span: span.score)
        merged.append(replace(best, score=sum(scores) / len(scores)))
    odds = sum(answer.null_odds for answer in answers) / len(answers)
    return SpanAnswer(_list_best(merged), odds)


def score_possible(answers: Answers, examples: Examples) -> QuestionScores:
    """Score the best spans as SQuAD 2.0, with their null odds, before any threshold."""
    golds = [_list_golds(example, has_impossible=True) for example in examples]
    odds = [answer.null_odds for answer in answers]
    return score_questions([each.best.text for each in answers], golds=golds, version="2.0", null_odds=odds)


def _list_golds(example: SpanExample, *, has_impossible: bool) -> tuple[str, ...]:
    """Return the texts of the gold answers; none for an impossible question."""
    if has_impossible and example.is_impossible:
        return ()
    if not example.answers:
        needed = "an answer or is_impossible" if has_impossible else "an answer"
        raise InputError(f"question {example.id!r} has no gold answer to score with; give {needed}")
    return tuple(answer.text for answer in example.answers)
