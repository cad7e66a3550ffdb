"""Questions with options come in, as many options as each has; how well each option answers goes out.

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
from albert.tasks.batches import Ints, TaskBatch, lay_out
from albert.tasks.encoding.choices import MAX_QUESTION_AND_OPTION, EncodedChoice, iter_encoded_choices
from albert.tasks.examples import ChoiceExample
from albert.tasks.kinds.kind import Terms
from albert.tasks.kinds.logits import UNKNOWN_LABEL, Floats, find_probabilities, merge_logits
from albert.tasks.metrics.race import LEVELS, score_race
from albert.tasks.metrics.task_score import score_task
from albert.text.tokenizer import Tokenizer

HEAD = "choice"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class ChoiceAnswers:
    """The right option of each question in a batch, and how many it has."""

    labels_Q: Ints
    num_options: tuple[int, ...]


@dataclass(frozen=True)
class ChoiceKind:
    """One of the options of each question; the options compete with each other and with no others.

    Question and option keep `max_ending` pieces of a sequence's `max_length`.
    """

    metrics: tuple[str, ...] = ("accuracy",)
    max_length: int = 512
    max_ending: int = MAX_QUESTION_AND_OPTION
    temperature: float = 1.0

    @property
    def heads(self) -> Heads:
        """A score on the first token."""
        return {HEAD: None}

    @property
    def names(self) -> tuple[str, ...]:
        """There is one question."""
        return ("task",)

    @property
    def is_whole(self) -> bool:
        """Every question is learned from by itself."""
        return False

    def encode(self, examples: Sequence[ChoiceExample], tokenizer: Tokenizer) -> list[EncodedChoice]:
        """`[CLS] passage [SEP] question + option [SEP]` for each option."""
        choices = iter_encoded_choices(
            examples, tokenizer=tokenizer, max_length=self.max_length, max_ending=self.max_ending
        )
        return list(choices)

    def teaches(self, item: EncodedChoice) -> bool:
        """Everything whose right option is known does."""
        return item.label is not None

    def is_cut(self, item: EncodedChoice) -> bool:
        """Where the passage loses its end, or a question with its option its beginning."""
        return item.num_cut > 0

    def measure(self, item: EncodedChoice) -> int:
        """The sequences of all options together: they cannot be parted, and are not made to be counted."""
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
        """Cross-entropy over the options of each question, added up."""
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
    ) -> list[tuple[float, ...]]:
        """The logits of each question's options."""
        return [tuple(options.tolist()) for options in self._ask(model, batch, depth=depth)]

    def conclude(self, items: Sequence[EncodedChoice], outputs: Sequence[tuple[float, ...]]) -> list[Floats]:
        """The logits, as they are: every question is one item."""
        return [np.array(output, dtype=np.float64) for output in outputs]

    def merge(self, answers: Sequence[Floats]) -> Floats:
        """The mean of the probabilities."""
        return merge_logits(answers, "one")

    def score(self, answers: Sequence[Floats], examples: Sequence[ChoiceExample]) -> dict[str, float]:
        """The metrics and their mean; of RACE also the accuracy in each level."""
        chosen = [int(answer.argmax()) for answer in answers]
        golds = [_find_gold(example) for example in examples]
        found = score_task(chosen, golds=golds, metrics=self.metrics)
        levels = [example.level for example in examples]
        by_level: dict[str, float | None] = {}
        if set(levels) <= set(LEVELS):
            race = score_race(chosen, golds=golds, levels=levels)
            by_level = {"middle": race.middle, "high": race.high}
        known = {name: value for name, value in by_level.items() if value is not None}
        return {**found.values, **known, "score": found.score}

    def describe(self, answer: Floats, example: ChoiceExample) -> dict[str, Any]:
        """The option as a letter (behind Z, as a number from 0) and as a text, and how likely each one is."""
        place = int(answer.argmax())
        found = find_probabilities(answer, "one", temperature=self.temperature)
        return {
            "id": example.id,
            "choice": LETTERS[place] if place < len(LETTERS) else str(place),
            "option": example.options[place],
            "probabilities": found.tolist(),
        }


def _find_gold(example: ChoiceExample) -> int:
    if example.label is None:
        raise InputError(f"the question {example.id!r} has no right option to be scored by; give one")
    return example.label
