"""Multiple choice: questions with options, of which one is correct, with or without a passage.

Shapes: B sequences, one for each option; Q questions, C the most options of one; D hidden width.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from typing_extensions import Self

from albert.data.rows import BadRow, Problems, Row, Wanted, quote
from albert.errors import InputError
from albert.model.albert_model import AlbertModel
from albert.model.heads import Heads
from albert.pretrained.folder import Pretrained
from albert.tasks import tables
from albert.tasks.classification import explain_choice
from albert.tasks.metrics.calibration import calibrate, merge_softmax
from albert.tasks.metrics.intervals import Interval, bootstrap_mean
from albert.tasks.metrics.scores import WeightedScores, prepare_metrics
from albert.tasks.sequences import Frame, TaskSequence, check_length, iter_groups
from albert.tasks.task import (
    UNKNOWN_LABEL,
    Baseline,
    Decisions,
    Example,
    ExampleResult,
    Floats,
    Ints,
    Losses,
    Task,
    TaskBatch,
    TaskConfig,
    build_task_batch,
    require_texts,
)
from albert.text.tokenizer import Tokenizer

HEAD = "choice"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
RACE_LEVELS = ("middle", "high")
_BLANK = re.compile("_+")
_FREE_BLANK = re.compile(r"(?<!\w)_+|(?<!_)_+(?!\w)")
_MAX_INDEX_DIGITS = 9  # longer numbers are not the index of an option
_PADDING_LOGIT = -1e9  # of an option that a question does not have


@dataclass(frozen=True, slots=True)
class ChoiceExample(Example):
    """A question on a passage, its options, and the index of the correct one, None if unknown."""

    passage: str
    question: str
    options: tuple[str, ...]
    label: int | None = None
    level: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.passage or self.question,)

    @property
    def num_characters(self) -> int:
        return len(self.passage) + len(self.question) + sum(map(len, self.options))

    @property
    def is_labeled(self) -> bool:
        return self.label is not None

    @property
    def has_passage(self) -> bool:
        return bool(self.passage)


class ChoiceColumns(tables.Columns):
    """The columns of questions with options: one column of lists, or one column for each option.

    The label is a letter from A, an index from 0, or the text of the option.
    """

    passage: str | None = "passage"
    question: str = "question"
    options: tuple[str, ...] = Field(default=("options",), min_length=1)
    label: str = "label"
    level: str | None = None
    id: str | None = None

    def wanted(self, *, is_labeled: bool) -> Wanted:
        label = self.label if is_labeled else None
        return tables.select_columns((self.passage, self.question, *self.options, self.level, self.id, label))

    def build(self, row: Row, labels: tables.Labels | None, *, is_labeled: bool) -> ChoiceExample:
        if len(self.options) == 1:
            options = tables.read_text_list(row, self.options[0])
        else:
            options = tuple(tables.read_text(row, name) for name in self.options)
        if len(options) < 2:
            raise BadRow("fewer than two options", f"{len(options)}")
        passage = tables.read_text(row, self.passage) if self.passage is not None else ""
        question = tables.read_text(row, self.question)
        if not f"{passage}{question}".strip():
            raise BadRow("an empty passage and question")
        label, level = None, ""
        if is_labeled:
            label = find_option(tables.read_label(row.values.get(self.label), self.label), options)
        if self.level is not None:
            level = tables.normalize_label(tables.read_label(row.values.get(self.level), self.level))
        return ChoiceExample(tables.read_id(row, self.id), passage, question, options, label, level)

    def note(self, example: ChoiceExample, line: int, problems: Problems) -> None:
        if not all(option.strip() for option in example.options):
            problems.note("an empty option", line=line)


def find_option(name: str, options: tuple[str, ...]) -> int:
    """Find the index of an option by its letter from A, its index from 0 or its text."""
    by_text = next((index for index, option in enumerate(options) if option.strip() == name), None)
    by_name = _parse_index(name, options)
    if by_text is not None and by_name is not None and by_text != by_name:
        raise BadRow(
            "an ambiguous label",
            f"{quote(name)} is the text of option {by_text} and the index of option {by_name}, from 0; use "
            "letters from A, or texts of options that are neither letters nor numbers",
            is_fatal=True,
        )
    index = by_text if by_name is None else by_name
    # 1.0 is read as 1, unless it is the text of an option.
    return find_lettered_option(tables.normalize_label(name), options) if index is None else index


def find_lettered_option(name: str, options: tuple[str, ...]) -> int:
    """Find the index of an option by its letter from A, as in RACE, or its index from 0."""
    index = _parse_index(name, options)
    if index is None:
        detail = f"{quote(name)} of {len(options)} options; give letters from A, or indices from 0"
        raise BadRow("an unknown option as label", detail)
    return index


def _parse_index(name: str, options: tuple[str, ...]) -> int | None:
    if len(name) == 1 and name.isascii() and name.isalpha():
        index = ord(name.upper()) - ord("A")
    elif name.isdecimal() and len(name) <= _MAX_INDEX_DIGITS:
        index = int(name)
    else:
        return None
    return index if index < len(options) else None


@dataclass(frozen=True, slots=True)
class EncodedChoice:
    """The tokens of a passage, and of the question with each option; sequences are built on demand.

    The passage, which questions share, is truncated so that it fits into `max_tokens` with each option.
    `num_lost` is the number of truncated tokens of questions and options.
    """

    id: str
    passage: tuple[int, ...]
    endings: tuple[tuple[int, ...], ...]
    frame: Frame
    max_tokens: int
    label: int | None
    num_lost: int

    @property
    def num_tokens(self) -> int:
        passage = len(self.passage)
        return sum(min(passage + len(ending), self.max_tokens) + 3 for ending in self.endings)

    @property
    def is_truncated(self) -> bool:
        longest = max(len(ending) for ending in self.endings)
        return self.num_lost > 0 or len(self.passage) + longest > self.max_tokens

    @property
    def sequences(self) -> tuple[TaskSequence, ...]:
        """`[CLS] passage [SEP] question + option [SEP]` for each option."""
        return tuple(
            self.frame.join(self.passage[: self.max_tokens - len(ending)], ending) for ending in self.endings
        )


def iter_encoded_choices(
    examples: Iterable[ChoiceExample], *, tokenizer: Tokenizer, max_length: int, max_ending: int
) -> Iterator[EncodedChoice]:
    """Encode each question with its options; endings are truncated at the start, the passage at its end."""
    check_length(max_length, minimum=max_ending + 4, hint=", or lower max_ending")
    frame = Frame.of(tokenizer)
    for group in iter_groups(examples, count_characters=lambda each: len(each.passage)):
        texts = list(dict.fromkeys(example.passage for example in group))
        passages = dict(zip(texts, map(frame.intern, tokenizer.encode_ids(texts)), strict=True))
        filled = [
            fill_blank(example.question, option, is_race=example.level in RACE_LEVELS)
            for example in group
            for option in example.options
        ]
        endings = iter(tokenizer.encode_ids(filled))
        for example in group:
            full_endings = [next(endings) for _ in example.options]
            yield EncodedChoice(
                id=example.id,
                passage=passages[example.passage],
                endings=tuple(frame.intern(ending[-max_ending:]) for ending in full_endings),
                frame=frame,
                max_tokens=max_length - 3,
                label=example.label,
                num_lost=sum(max(0, len(ending) - max_ending) for ending in full_endings),
            )


def fill_blank(question: str, option: str, *, is_race: bool = False) -> str:
    """Insert the option at each blank (`_`), or append it to a question without blanks.

    An underscore within a word (`my_var`) is not a blank, except in RACE, where white space may be missing.
    """
    filled, num_blanks = (_BLANK if is_race else _FREE_BLANK).subn(lambda match: option, question)
    return filled if num_blanks else f"{question} {option}"


class MultipleChoiceConfig(TaskConfig):
    """The config of a multiple-choice model.

    Args:
        max_ending: The maximum number of tokens of question and option together.
    """

    task_type: Literal["multiple-choice"] = "multiple-choice"
    max_ending: PositiveInt = 128

    def fit_length(self, length: int) -> dict[str, Any]:
        return {"max_length": length, "max_ending": min(self.max_ending, length // 2)}

    @classmethod
    def from_folder(cls, loaded: Pretrained) -> Self:
        return cls(task="multiple-choice", max_length=max(8, loaded.config.max_position_embeddings))


@dataclass(frozen=True)
class Choice:
    """The index of the most probable option, its text, and the probability of each option."""

    index: int
    option: str
    probability: float
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class ChoiceLabels:
    """The index of the correct option of each question, and its number of options."""

    labels_Q: Ints
    num_options: tuple[int, ...]


Batch = TaskBatch[ChoiceLabels]
Examples = Sequence[ChoiceExample]
Answers = Sequence[Floats]


@dataclass(frozen=True)
class MultipleChoiceTask(Task[ChoiceExample, EncodedChoice, ChoiceLabels, Floats]):
    """Chooses one of the options of each question by a softmax over them; answers are logits [options]."""

    config: MultipleChoiceConfig
    config_class: ClassVar[type[TaskConfig]] = MultipleChoiceConfig
    head_names: ClassVar[tuple[str, ...]] = (HEAD,)
    method = "choose"

    @property
    def heads(self) -> Heads:
        return {HEAD: None}

    def encode(self, examples: Examples, tokenizer: Tokenizer) -> list[EncodedChoice]:
        lengths = {"max_length": self.config.max_length, "max_ending": self.config.max_ending}
        return list(iter_encoded_choices(examples, tokenizer=tokenizer, **lengths))

    def has_label(self, item: EncodedChoice) -> bool:
        return item.label is not None

    def build_batch(self, items: Sequence[EncodedChoice]) -> Batch:
        """Collate the options of the first question, then those of the next."""
        labels = [UNKNOWN_LABEL if item.label is None else item.label for item in items]
        num_options = tuple(len(item.endings) for item in items)
        sequences = [sequence for item in items for sequence in item.sequences]
        return build_task_batch(sequences, ChoiceLabels(np.array(labels, dtype=np.int64), num_options))

    def count_labels(self, batch: Batch) -> Mapping[str, int]:
        return {"task": int((batch.labels.labels_Q != UNKNOWN_LABEL).sum())}

    def compute_outputs(
        self, model: AlbertModel, batch: Batch, *, target: Tensor | None = None, depth: int | None = None
    ) -> Tensor:
        """Compute logits [Q, C]; padding of −inf has a probability of 0 and no gradient."""
        options = self._compute_logits(model, batch, depth=depth)
        return pad_sequence(options, batch_first=True, padding_value=-torch.inf)

    def compare_labels(self, outputs: Tensor, batch: Batch) -> Losses:
        """Sum the cross-entropy over the options of each question."""
        labels_Q = torch.from_numpy(batch.labels.labels_Q).to(outputs.device, non_blocking=True)
        total = F.cross_entropy(outputs, labels_Q, ignore_index=UNKNOWN_LABEL, reduction="sum")
        return {"task": (total, (outputs.argmax(1) == labels_Q).sum())}

    def count_outputs(self, batch: Batch) -> int:
        return len(batch.labels.labels_Q)

    def _compute_logits(self, model: AlbertModel, batch: Batch, *, depth: int | None) -> list[Tensor]:
        """Compute the logits of the options of each question; the last layer runs on [CLS] only."""
        first_BD = model(batch.build_tokens(model.device), depth=depth, first_only=True).last_TD
        logits_B: Tensor = model.head(HEAD)(model.pool_first(first_BD)).squeeze(1).float()
        return list(logits_B.split(batch.labels.num_options))

    def predict(self, model: AlbertModel, batch: Batch, *, depth: int | None = None) -> list[Floats]:
        logits = self._compute_logits(model, batch, depth=depth)
        return [options.detach().cpu().numpy().astype(np.float64) for options in logits]

    def align(self, answer: Floats, order: Sequence[int] | None) -> Floats:
        return answer / self.config.temperature

    def ensemble(self, members: Sequence[Answers]) -> list[Floats]:
        """Average the probabilities."""
        return [merge_softmax(answers) for answers in zip(*members, strict=True)]

    def describe(self, answer: Floats, example: ChoiceExample) -> dict[str, Any]:
        """Describe the option by its letter (after Z, its index from 0) and text, and all probabilities."""
        index = int(answer.argmax())
        return {
            "id": example.id,
            "choice": name_option(index),
            "option": example.options[index],
            "probabilities": calibrate(answer, temperature=self.config.temperature).tolist(),
        }

    def parse_inputs(self, *inputs: Any) -> list[ChoiceExample]:
        questions, options, passages = inputs
        texts, contexts = require_texts(questions, "question"), require_texts(passages, "passage")
        rows = [options] if isinstance(questions, str) else list(options)
        contexts = contexts * len(texts) if isinstance(passages, str) else contexts
        if not len(texts) == len(rows) == len(contexts):
            counts = f"{len(texts)} questions, {len(rows)} lists of options and {len(contexts)} passages"
            raise InputError(f"{counts}; give as many of each, or one passage for all")
        examples = []
        for number, (question, row, passage) in enumerate(zip(texts, rows, contexts, strict=True), start=1):
            if isinstance(row, str) or not isinstance(row, Iterable):
                raise InputError(f"options of question {number}: {repr(row)[:80]}; give a list of texts")
            listed = tuple(require_texts(tuple(row), f"of question {number}, option"))
            if len(listed) < 2:
                raise InputError(f"question {number} has {len(listed)} options; give at least 2")
            examples.append(ChoiceExample(str(number - 1), passage, question, listed))
        return examples

    def build_record(self, row: Mapping[str, Any], example: ChoiceExample) -> Choice:
        probabilities = tuple(row["probabilities"])
        index = probabilities.index(max(probabilities))
        return Choice(index, example.options[index], probabilities[index], probabilities)

    def prepare_scores(self, answers: Answers, examples: Examples) -> WeightedScores:
        for example in examples:
            if example.label is None:
                raise InputError(f"question {example.id!r} has no correct option to score with; give one")
        chosen = [int(answer.argmax()) for answer in answers]
        golds = [each.label for each in examples]
        return prepare_metrics(chosen, golds=golds, metrics=self.config.metrics or ("accuracy",))

    def score(self, answers: Answers, examples: Examples) -> dict[str, float]:
        """Compute the metrics and, for RACE, the accuracy of each level."""
        scores = super().score(answers, examples)
        levels = {
            level: 100.0 * float(np.mean(is_correct))
            for level, is_correct in _group_by_level(answers, examples).items()
        }
        score = scores.pop("score")
        return {**scores, **levels, "score": score}

    def find_intervals(self, answers: Answers, examples: Examples, *, seed: int) -> dict[str, Interval]:
        levels = {
            level: bootstrap_mean(is_correct, seed=seed).in_points()
            for level, is_correct in _group_by_level(answers, examples).items()
        }
        return {**super().find_intervals(answers, examples, seed=seed), **levels}

    def list_decisions(self, answers: Answers, examples: Examples) -> Decisions:
        width = max(len(answer) for answer in answers)
        rows = [np.pad(each, (0, width - len(each)), constant_values=_PADDING_LOGIT) for each in answers]
        return np.stack(rows), np.array([example.label for example in examples], dtype=np.int64)

    def explain(self, answers: Answers, examples: Examples) -> tuple[ExampleResult, ...]:
        results = []
        for answer, example in zip(answers, examples, strict=True):
            assert example.label is not None
            options = {name_option(index): option for index, option in enumerate(example.options)}
            passage = {"passage": example.passage} if example.passage else {}
            texts = {**passage, "question": example.question, **options}
            names = [f"{letter}: {option}" for letter, option in options.items()]
            results.append(explain_choice(example.id, texts, names, answer, example.label))
        return tuple(results)

    def list_baselines(self) -> dict[str, Baseline[ChoiceExample, Floats]]:
        return {"majority": self.predict_majority}

    def predict_majority(self, train: Examples, dev: Examples) -> list[Floats]:
        """Choose the option that is most often correct."""
        labels = [each.label for each in train if each.label is not None]
        best = Counter(labels).most_common(1)[0][0]
        counts = [len(each.options) for each in dev]
        return [np.eye(count)[min(best, count - 1)] for count in counts]


def _group_by_level(answers: Answers, examples: Examples) -> dict[str, list[bool]]:
    """Group by level of RACE whether the answers are correct; empty for other questions."""
    if not {example.level for example in examples} <= set(RACE_LEVELS):
        return {}
    groups: dict[str, list[bool]] = {level: [] for level in RACE_LEVELS}
    for answer, example in zip(answers, examples, strict=True):
        groups[example.level].append(bool(answer.argmax() == example.label))
    return {level: is_correct for level, is_correct in groups.items() if is_correct}


def name_option(index: int) -> str:
    """Return the letter of an option; after Z, its index from 0."""
    return LETTERS[index] if index < len(LETTERS) else str(index)
