"""Questions on contexts come in; the pieces of the contexts that answer them go out, or that none does.

Shapes: T tokens, B windows, L the longest of them, D hidden width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from albert.model.albert_model import AlbertModel, Heads
from albert.model.heads import BeamSpanHead
from albert.model.tokens import Tokens
from albert.tasks.batches import TaskBatch, lay_out
from albert.tasks.encoding.windows import MAX_QUESTION, STRIDE, Window, iter_encoded_questions
from albert.tasks.examples import SpanExample
from albert.tasks.kinds.kind import Terms
from albert.tasks.kinds.span_answers import SpanAnswer, conclude_windows, merge_answers
from albert.tasks.kinds.span_places import SpanPlaces, mark_allowed, pad_rows
from albert.tasks.kinds.span_scores import score_answered, score_possible
from albert.tasks.kinds.span_search import WindowSpans, list_beam, search_spans
from albert.text.tokenizer import Tokenizer

SPAN = "span"
ANSWERABLE = "answerable"
BEAM_HEAD = "beam_span"


@dataclass(frozen=True)
class SpanKind:
    """A question whose answer is a piece of the context, or, where it `has_impossible`, may not be there.

    Without it every question has an answer, and the head is SQuAD 1.1's; with it, SQuAD 2.0's, whose end
    depends on the start and which says how likely no answer is. Odds for none above `threshold` leave a
    question unanswered; without a threshold every question is answered, and scored at its best threshold.
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

    @property
    def is_whole(self) -> bool:
        """Every window is learned from by itself."""
        return False

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
        """Windows of questions whose answer is known, at its place, or known not to be there.

        So do windows that the answer lies outside of: that it is not there is to be learned as well.
        """
        question = item.question
        return self.has_impossible if question.example.is_impossible else question.gold is not None

    def is_cut(self, item: Window) -> bool:
        """Where the question lost its end; told of the first window, so that each question counts once.

        Never a context: what one window has no room for is in the next.
        """
        return item.question.num_cut > 0 and item.slide.first == 0

    def measure(self, item: Window) -> int:
        """The length of its sequence; a [SEP] stands behind the context."""
        return item.context_end + 1

    def build_batch(self, items: Sequence[Window]) -> TaskBatch[SpanPlaces]:
        """The answers as places; [CLS] where the window has none."""
        return lay_out([item.sequence for item in items], SpanPlaces.of(items))

    def count(self, batch: TaskBatch[SpanPlaces]) -> Mapping[str, int]:
        """One answer a window, to each question."""
        return dict.fromkeys(self.names, len(batch.lengths))

    def compute_terms(
        self, model: AlbertModel, batch: TaskBatch[SpanPlaces], *, depth: int | None = None
    ) -> Terms:
        """Half the cross-entropy of both ends and, in 2.0, half that of there being none; added up.

        The halves are within the terms: their plain sum is the published loss. As there, a window without
        the answer has both ends at [CLS], which competes with every token of the window in 1.1, and with its
        context in 2.0.
        """
        tokens, last_TD = _read(model, batch, depth=depth)
        answers_B2 = torch.from_numpy(batch.answers.answers_B2).to(last_TD.device, non_blocking=True)
        if not self.has_impossible:
            ends = model.head(SPAN)(last_TD)
            return {SPAN: _compare_ends(ends, tokens=tokens, answers_B2=answers_B2)}
        found = model.head(BEAM_HEAD)(
            last_TD, tokens, allowed_T=mark_allowed(tokens, batch.answers), true_starts_B=answers_B2[:, 0]
        )
        return {
            SPAN: _compare_ends((found.start_T, found.end_T), tokens=tokens, answers_B2=answers_B2),
            ANSWERABLE: _compare_answerable(found.unanswerable_B, answers_B2=answers_B2),
        }

    def predict(
        self, model: AlbertModel, batch: TaskBatch[SpanPlaces], *, depth: int | None = None
    ) -> list[WindowSpans]:
        """The best spans of each window, always in its context, and the odds for no answer."""
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
        """The best spans of all windows of a question."""
        return conclude_windows(items, outputs, num_best=self.num_best)

    def merge(self, answers: Sequence[SpanAnswer]) -> SpanAnswer:
        """The mean of the scores and of the odds for no answer."""
        return merge_answers(answers, num_best=self.num_best)

    def score(self, answers: Sequence[SpanAnswer], examples: Sequence[SpanExample]) -> dict[str, float]:
        """Exact match and F1, which is the score."""
        if self.has_impossible:
            return score_possible(answers, examples, threshold=self.threshold)
        return score_answered(answers, examples)

    def describe(self, answer: SpanAnswer, example: SpanExample) -> dict[str, Any]:
        """The answer and its characters, `""` and null where there is none, and how sure the model is."""
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


def _compare_answerable(unanswerable_B: Tensor, *, answers_B2: Tensor) -> tuple[Tensor, Tensor]:
    """Half the cross-entropy of there being no answer, added up, and how often the sign is right."""
    logits_B = unanswerable_B.float()
    is_missing_B = answers_B2[:, 0] == 0
    total = F.binary_cross_entropy_with_logits(logits_B, is_missing_B.float(), reduction="sum") / 2
    return total, ((logits_B > 0) == is_missing_B).sum()
