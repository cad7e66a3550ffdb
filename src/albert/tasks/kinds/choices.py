"""Multiple choice: questions with any number of options, of which one is right.

Shapes: B sequences, one for each option; Q questions, C the most options of one; D hidden width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from albert.errors import InputError
from albert.model.albert_model import AlbertModel, Heads
from albert.tasks.encoding.choices import MAX_QUESTION_AND_OPTION, EncodedChoice, iter_encoded_choices
from albert.tasks.examples import RACE_LEVELS, ChoiceExample
from albert.tasks.kinds.kind import Ints, Kind, TaskBatch, Terms, lay_out
from albert.tasks.kinds.logits import UNKNOWN_LABEL, Floats, find_probabilities, merge_logits
from albert.tasks.metrics.intervals import Interval, bootstrap_mean
from albert.tasks.metrics.task_score import WeightedScores, prepare_task
from albert.text.tokenizer import Tokenizer

HEAD = "choice"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class ChoiceAnswers:
    """The right option of each question in a batch, and how many it has."""

    labels_Q: Ints
    num_options: tuple[int, ...]


@dataclass(frozen=True)
class ChoiceKind(Kind[ChoiceExample, EncodedChoice, ChoiceAnswers, Floats, Floats]):
    """One of the options of each question; a softmax runs over the options of one question.

    Question and option keep `max_ending` tokens of a sequence's `max_length`.
    """

    metrics: tuple[str, ...] = ("accuracy",)
    max_length: int = 512
    max_ending: int = MAX_QUESTION_AND_OPTION
    temperature: float = 1.0

    @property
    def heads(self) -> Heads:
        """A score on the first token."""
        return {HEAD: None}

    def encode(self, examples: Sequence[ChoiceExample], tokenizer: Tokenizer) -> list[EncodedChoice]:
        """`[CLS] passage [SEP] question + option [SEP]` for each option."""
        choices = iter_encoded_choices(
            examples, tokenizer=tokenizer, max_length=self.max_length, max_ending=self.max_ending
        )
        return list(choices)

    def teaches(self, item: EncodedChoice) -> bool:
        """Whether the right option is known."""
        return item.label is not None

    def measure(self, item: EncodedChoice) -> int:
        """The tokens of all options together, counted without building the sequences."""
        passage = len(item.passage)
        return sum(min(passage + len(ending), item.room) + 3 for ending in item.endings)

    def build_batch(self, items: Sequence[EncodedChoice]) -> TaskBatch[ChoiceAnswers]:
        """The options of the first question, then those of the next."""
        labels = [UNKNOWN_LABEL if item.label is None else item.label for item in items]
        answers = ChoiceAnswers(
            labels_Q=np.array(labels, dtype=np.int64),
            num_options=tuple(len(item.endings) for item in items),
        )
        return lay_out([sequence for item in items for sequence in item.sequences], answers)

    def count(self, batch: TaskBatch[ChoiceAnswers]) -> Mapping[str, int]:
        """The questions whose right option is known."""
        return {"task": int((batch.answers.labels_Q != UNKNOWN_LABEL).sum())}

    def compute_terms(
        self, model: AlbertModel, batch: TaskBatch[ChoiceAnswers], *, depth: int | None = None
    ) -> Terms:
        """Sum the cross-entropy over the options of each question."""
        options = self._ask(model, batch, depth=depth)
        # An option that is not there has the probability 0, and no gradient.
        logits_QC = pad_sequence(options, batch_first=True, padding_value=-torch.inf)
        labels_Q = torch.from_numpy(batch.answers.labels_Q).to(logits_QC.device, non_blocking=True)
        total = F.cross_entropy(logits_QC, labels_Q, ignore_index=UNKNOWN_LABEL, reduction="sum")
        return {"task": (total, (logits_QC.argmax(1) == labels_Q).sum())}

    def _ask(self, model: AlbertModel, batch: TaskBatch[ChoiceAnswers], *, depth: int | None) -> list[Tensor]:
        """For each question the logits of its options; the last layer computes first tokens alone."""
        tokens = batch.build_tokens(model.device)
        first_BD = model(tokens, depth=depth, first_only=True).last_TD
        logits_B: Tensor = model.head(HEAD)(model.pool_first(first_BD)).squeeze(1).float()
        return list(logits_B.split(batch.answers.num_options))

    def predict(
        self, model: AlbertModel, batch: TaskBatch[ChoiceAnswers], *, depth: int | None = None
    ) -> list[Floats]:
        """Compute the logits of each question's options."""
        found = self._ask(model, batch, depth=depth)
        return [options.detach().cpu().numpy().astype(np.float64) for options in found]

    def merge(self, answers: Sequence[Floats]) -> Floats:
        """The mean of the probabilities."""
        return merge_logits(answers, "one")

    def prepare_scores(self, answers: Sequence[Floats], examples: Sequence[ChoiceExample]) -> WeightedScores:
        """Prepare the metrics and their mean."""
        for example in examples:
            if example.label is None:
                raise InputError(f"question {example.id!r} has no right option to be scored by; give one")
        chosen = [int(answer.argmax()) for answer in answers]
        return prepare_task(chosen, golds=[each.label for each in examples], metrics=self.metrics)

    def score(self, answers: Sequence[Floats], examples: Sequence[ChoiceExample]) -> dict[str, float]:
        """Score all examples; of RACE also the accuracy in each level."""
        found = super().score(answers, examples)
        levels = {
            level: 100.0 * float(np.mean([answers[row].argmax() == examples[row].label for row in rows]))
            for level, rows in group_levels(examples).items()
        }
        score = found.pop("score")
        return {**found, **levels, "score": score}

    def find_intervals(
        self, answers: Sequence[Floats], examples: Sequence[ChoiceExample], *, seed: int
    ) -> dict[str, Interval]:
        """Estimate the intervals of the metrics and of the accuracy in each level of RACE."""
        levels = {
            level: bootstrap_mean([answers[row].argmax() == examples[row].label for row in rows], seed=seed)
            for level, rows in group_levels(examples).items()
        }
        points = {level: interval.in_points() for level, interval in levels.items()}
        return {**super().find_intervals(answers, examples, seed=seed), **points}

    def describe(self, answer: Floats, example: ChoiceExample) -> dict[str, Any]:
        """The option as a letter (behind Z, as a number from 0) and as a text, and how likely each one is."""
        place = int(answer.argmax())
        found = find_probabilities(answer, "one", temperature=self.temperature)
        return {
            "id": example.id,
            "choice": name_option(place),
            "option": example.options[place],
            "probabilities": found.tolist(),
        }


def group_levels(examples: Sequence[ChoiceExample]) -> dict[str, list[int]]:
    """The rows of RACE's questions by their level; empty for other questions."""
    if not {example.level for example in examples} <= set(RACE_LEVELS):
        return {}
    rows = {level: [row for row, each in enumerate(examples) if each.level == level] for level in RACE_LEVELS}
    return {level: own for level, own in rows.items() if own}


def name_option(place: int) -> str:
    """The letter of an option; behind Z, its number from 0."""
    return LETTERS[place] if place < len(LETTERS) else str(place)
