"""Question answering: the span of a context that answers a question, or that there is none.

Positions count from the start of each window. Shapes: T tokens, B windows, L the longest of them, D hidden
width, W lengths of a span, N candidates, S starts, Z ends of each; a pair is `first, last` of an answer and
`first, end` of a range.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from albert.model.albert_model import AlbertModel, Heads
from albert.model.heads import BeamSpanHead, SpanBeam
from albert.model.tokens import Tokens
from albert.tasks.encoding.windows import MAX_QUESTION, STRIDE, Window, iter_encoded_questions
from albert.tasks.examples import SpanExample
from albert.tasks.kinds.kind import Ints, Kind, TaskBatch, Terms, lay_out
from albert.tasks.kinds.span_answers import (
    PlacedSpan,
    SpanAnswer,
    WindowSpans,
    conclude_windows,
    merge_answers,
    score_spans,
    summarise_spans,
)
from albert.tasks.metrics.intervals import Interval, bootstrap_mean
from albert.text.tokenizer import Tokenizer

SPAN = "span"
ANSWERABLE = "answerable"
BEAM_HEAD = "beam_span"
NOWHERE = (0, 0)  # an answer that is not in the window is at its [CLS], as in the published code


@dataclass(frozen=True)
class SpanPlaces:
    """Of each window: its answer, its context, and the part for which no other window has more context."""

    answers_B2: Ints
    contexts_B2: Ints
    owns_B2: Ints

    @staticmethod
    def of(windows: Sequence[Window]) -> "SpanPlaces":
        """Read the positions of some windows, in their order."""
        pairs = (
            [window.answer or NOWHERE for window in windows],
            [(window.context_start, window.context_end) for window in windows],
            [(window.own_start, window.own_end) for window in windows],
        )
        return SpanPlaces(*(np.array(part, dtype=np.int64).reshape(-1, 2) for part in pairs))


@dataclass(frozen=True)
class SpanKind(Kind[SpanExample, Window, SpanPlaces, WindowSpans, SpanAnswer]):
    """A question whose answer is a span of the context, or, with `has_impossible`, may not be there.

    Without it every question has an answer, and the head is SQuAD 1.1's; with it, SQuAD 2.0's, whose end
    depends on the start and which predicts whether there is an answer. Odds for none above `threshold` leave
    a question unanswered; without a threshold every question is answered, and scored at the best threshold.
    """

    has_impossible: bool = False
    max_length: int = 384
    stride: int = STRIDE
    max_question: int = MAX_QUESTION
    max_answer: int = 30
    threshold: float | None = None
    num_best: int = 20
    num_starts: int = 5
    num_ends: int = 5

    @property
    def heads(self) -> Heads:
        """SQuAD 2.0's head or SQuAD 1.1's."""
        return {BEAM_HEAD if self.has_impossible else SPAN: None}

    @property
    def names(self) -> tuple[str, ...]:
        """Where the answer is, and whether there is one."""
        return (SPAN, ANSWERABLE) if self.has_impossible else (SPAN,)

    def encode(self, examples: Sequence[SpanExample], tokenizer: Tokenizer) -> list[Window]:
        """`[CLS] question [SEP] stretch [SEP]` for as many stretches as it takes to read the context."""
        questions = iter_encoded_questions(
            examples,
            tokenizer=tokenizer,
            max_length=self.max_length,
            stride=self.stride,
            max_question=self.max_question,
        )
        return [window for question in questions for window in question.windows]

    def teaches(self, item: Window) -> bool:
        """Whether the answer is known, in this window or another, or known not to exist."""
        question = item.question
        return self.has_impossible if question.example.is_impossible else question.gold is not None

    def is_cut(self, item: Window) -> bool:
        """Whether the question was truncated; only of its first window, so that each question counts once."""
        return item.question.num_cut > 0 and item.slide.first == 0

    def measure(self, item: Window) -> int:
        """The tokens up to the [SEP] behind the context."""
        return item.context_end + 1

    def build_batch(self, items: Sequence[Window]) -> TaskBatch[SpanPlaces]:
        """Answers are positions; [CLS] where the window has none."""
        return lay_out([item.sequence for item in items], SpanPlaces.of(items))

    def count(self, batch: TaskBatch[SpanPlaces]) -> Mapping[str, int]:
        """One label per window, for each objective."""
        return dict.fromkeys(self.names, len(batch.lengths))

    def compute_terms(
        self, model: AlbertModel, batch: TaskBatch[SpanPlaces], *, depth: int | None = None
    ) -> Terms:
        """Sum half the cross-entropy of both ends and, in 2.0, half that of there being no answer.

        The plain sum of the terms is the published loss. As there, a window without the answer has both ends
        at [CLS], which competes with every token of the window in 1.1, and with its context in 2.0.
        """
        tokens, last_TD = _read(model, batch, depth=depth)
        answers_B2 = torch.from_numpy(batch.answers.answers_B2).to(last_TD.device, non_blocking=True)
        if not self.has_impossible:
            ends = model.head(SPAN)(last_TD)
            return {SPAN: _compare_ends(ends, tokens=tokens, answers_B2=answers_B2)}
        found = model.head(BEAM_HEAD)(
            last_TD, tokens, allowed_T=mark_allowed(tokens, batch.answers), true_starts_B=answers_B2[:, 0]
        )
        logits_B, is_missing_B = found.unanswerable_B.float(), answers_B2[:, 0] == 0
        unanswerable = F.binary_cross_entropy_with_logits(logits_B, is_missing_B.float(), reduction="sum") / 2
        return {
            SPAN: _compare_ends((found.start_T, found.end_T), tokens=tokens, answers_B2=answers_B2),
            ANSWERABLE: (unanswerable, ((logits_B > 0) == is_missing_B).sum()),
        }

    def predict(
        self, model: AlbertModel, batch: TaskBatch[SpanPlaces], *, depth: int | None = None
    ) -> list[WindowSpans]:
        """Find the best spans of each window and the odds for no answer."""
        tokens, last_TD = _read(model, batch, depth=depth)
        places = batch.answers
        if not self.has_impossible:
            start_T, end_T = model.head(SPAN)(last_TD)
            rows = search_spans(
                start_T, end_T, tokens, places=places, max_answer=self.max_answer, num_best=self.num_best
            )
            return [WindowSpans(spans) for spans in rows]
        head = model.head(BEAM_HEAD)
        assert isinstance(head, BeamSpanHead)
        # In full precision whatever the encoder ran in: log-probabilities in bf16 make equals of good spans.
        with torch.autocast(last_TD.device.type, enabled=False):
            beam = head.search(
                last_TD.float(),
                tokens,
                allowed_T=mark_allowed(tokens, places),
                num_starts=self.num_starts,
                num_ends=self.num_ends,
            )
        rows = list_beam(beam, places=places, max_answer=self.max_answer, num_best=self.num_best)
        odds = beam.unanswerable_B.float().tolist()
        return [WindowSpans(spans, odd) for spans, odd in zip(rows, odds, strict=True)]

    def conclude(self, items: Sequence[Window], outputs: Sequence[WindowSpans]) -> list[SpanAnswer]:
        """Aggregate the windows of each question."""
        return conclude_windows(items, outputs, num_best=self.num_best)

    def merge(self, answers: Sequence[SpanAnswer]) -> SpanAnswer:
        """Average the scores and the odds for no answer."""
        return merge_answers(answers, num_best=self.num_best)

    def score(self, answers: Sequence[SpanAnswer], examples: Sequence[SpanExample]) -> dict[str, float]:
        """Score exact match and F1, which is the score."""
        return summarise_spans(
            answers, examples, has_impossible=self.has_impossible, threshold=self.threshold
        )

    def find_intervals(
        self, answers: Sequence[SpanAnswer], examples: Sequence[SpanExample], *, seed: int
    ) -> dict[str, Interval]:
        """Estimate the intervals of the means, not of the best threshold's: a maximum over what is drawn."""
        questions, used = score_spans(
            answers, examples, has_impossible=self.has_impossible, threshold=self.threshold
        )
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

    def describe(self, answer: SpanAnswer, example: SpanExample) -> dict[str, Any]:
        """The answer and its characters, `""` and null where there is none, and its probability."""
        chosen = answer.choose(self.threshold if self.has_impossible else None)
        is_given = chosen.text != ""
        found = {
            "id": example.id,
            "answer": chosen.text,
            "start": chosen.start if is_given else None,
            "end": chosen.end if is_given else None,
            "score": chosen.score if is_given else None,
            "probability": answer.probabilities[0] if is_given else None,
        }
        return {**found, "null_odds": answer.null_odds} if self.has_impossible else found


def _read(model: AlbertModel, batch: TaskBatch[SpanPlaces], *, depth: int | None) -> tuple[Tokens, Tensor]:
    tokens = batch.build_tokens(model.device)
    return tokens, model(tokens, depth=depth).last_TD


def _compare_ends(
    ends: tuple[Tensor, Tensor], *, tokens: Tokens, answers_B2: Tensor
) -> tuple[Tensor, Tensor]:
    """Half the cross-entropies of both ends, added up over windows, and how many windows have both right."""
    logits_2BL = torch.stack([pad_rows(part_T.float(), tokens) for part_T in ends])
    answers_2B = answers_B2.T
    total = F.cross_entropy(logits_2BL.flatten(0, 1), answers_2B.flatten(), reduction="sum") / 2
    return total, (logits_2BL.argmax(-1) == answers_2B).all(0).sum()


def mark_range(tokens: Tokens, ranges_B2: Ints) -> Tensor:
    """Of each token, whether it lies in its window's range."""
    lengths_B = torch.tensor(tokens.lengths)
    ranges_T2 = torch.from_numpy(ranges_B2).repeat_interleave(lengths_B, dim=0).to(tokens.ids_T.device)
    places_T = tokens.positions_T
    return (places_T >= ranges_T2[:, 0]) & (places_T < ranges_T2[:, 1])


def mark_allowed(tokens: Tokens, places: SpanPlaces) -> Tensor:
    """Of each token, whether it may be an end of an answer: the context, and [CLS], which means none."""
    return mark_range(tokens, places.contexts_B2) | (tokens.positions_T == 0)


def pad_rows(values_T: Tensor, tokens: Tokens) -> Tensor:
    """One row [L] for each window; behind its end −inf, where nothing is ever found."""
    return pad_sequence(list(values_T.split(tokens.lengths)), batch_first=True, padding_value=-torch.inf)


def search_spans(
    start_T: Tensor, end_T: Tensor, tokens: Tokens, *, places: SpanPlaces, max_answer: int, num_best: int
) -> list[tuple[PlacedSpan, ...]]:
    """Find the best of all spans, scored by the sum of their two logits.

    A span begins where no other window has more context, so that no two windows propose the same one: the
    rule of the published code, which looks at pairs of the 20 best starts and ends only. A band of
    `max_answer` ends for each start costs next to nothing, and misses none.
    """
    start_BL = pad_rows(_keep(start_T, mark_range(tokens, places.owns_B2)), tokens)
    end_BL = pad_rows(_keep(end_T, mark_range(tokens, places.contexts_B2)), tokens)
    num_lengths = min(max_answer, end_BL.shape[1])
    ends_BLW = F.pad(end_BL, (0, num_lengths - 1), value=-torch.inf).unfold(1, num_lengths, 1)
    scores_BN = (start_BL.unsqueeze(2) + ends_BLW).flatten(1)
    candidates_N = torch.arange(scores_BN.shape[1], device=scores_BN.device)
    firsts_N = candidates_N // num_lengths
    lasts_N = firsts_N + candidates_N % num_lengths
    return _list_best(
        scores_BN, firsts_N.expand_as(scores_BN), lasts_N.expand_as(scores_BN), num_best=num_best
    )


def list_beam(
    beam: SpanBeam, *, places: SpanPlaces, max_answer: int, num_best: int
) -> list[tuple[PlacedSpan, ...]]:
    """List what a beam found, scored by the sum of the two log-probabilities; [CLS] is left out."""
    lasts_BSZ = beam.end_indices_BSZ
    firsts_BSZ = beam.start_indices_BS.unsqueeze(2).expand_as(lasts_BSZ)
    own_B2 = torch.from_numpy(places.owns_B2).to(lasts_BSZ.device)
    is_own_BSZ = (firsts_BSZ >= own_B2[:, 0, None, None]) & (firsts_BSZ < own_B2[:, 1, None, None])
    num_more_BSZ = lasts_BSZ - firsts_BSZ
    is_span_BSZ = is_own_BSZ & (num_more_BSZ >= 0) & (num_more_BSZ < max_answer)
    scores_BSZ = _keep(beam.start_log_probs_BS.unsqueeze(2) + beam.end_log_probs_BSZ, is_span_BSZ)
    return _list_best(scores_BSZ.flatten(1), firsts_BSZ.flatten(1), lasts_BSZ.flatten(1), num_best=num_best)


def _keep(values: Tensor, is_kept: Tensor) -> Tensor:
    return values.float().masked_fill(~is_kept, -torch.inf)


def _list_best(
    scores_BN: Tensor, firsts_BN: Tensor, lasts_BN: Tensor, *, num_best: int
) -> list[tuple[PlacedSpan, ...]]:
    """Take the candidates with the highest scores; those of −inf are none."""
    best = scores_BN.topk(min(num_best, scores_BN.shape[1]), dim=1)
    places = (part_BN.gather(1, best.indices).tolist() for part_BN in (firsts_BN, lasts_BN))
    rows = zip(*places, best.values.tolist(), torch.isfinite(best.values).tolist(), strict=True)
    return [
        tuple(
            PlacedSpan(first, last, score)
            for first, last, score, is_real in zip(*row, strict=True)
            if is_real
        )
        for row in rows
    ]
