"""Token classification: a label for each word, and entities if the labels are O, B-… and I-….

A long text is split into overlapping windows. Shapes: T tokens, P words, D hidden width, K labels.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, groupby
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import log_softmax
from torch import Tensor
from typing_extensions import Self

from albert.data.rows import BadRow, Row, Wanted
from albert.errors import InputError
from albert.model.albert_model import AlbertModel
from albert.model.heads import Heads
from albert.pretrained.folder import Pretrained
from albert.tasks.classification import MAX_CONFUSED, NO_LABEL
from albert.tasks.metrics.calibration import calibrate, merge_softmax
from albert.tasks.metrics.classification import (
    ClassScore,
    Confusion,
    CountClasses,
    count_classes,
    count_confusions,
    count_entities,
    find_entities,
)
from albert.tasks.metrics.intervals import Interval
from albert.tasks.metrics.scores import WeightedScores, add_score
from albert.tasks.sequences import Frame, TaskSequence, TokenWindow, build_windows, check_length, iter_groups
from albert.tasks.tables import Columns, Labels, read_id, read_label_list, read_text_list, select_columns
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
    choose_label_names,
    require_list,
)
from albert.text.tokenizer import Encoding, Tokenizer

HEAD = "token_classification"
WORD_METRICS = ("word_accuracy", "macro_f1")
ENTITY_METRICS = ("entity_f1", "entity_precision", "entity_recall")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class TokenExample(Example):
    """A text split into words, and the indices of their labels, None if unknown."""

    words: tuple[str, ...]
    labels: tuple[int, ...] | None = None

    @property
    def texts(self) -> tuple[tuple[str, ...]]:
        return (self.words,)

    @property
    def num_characters(self) -> int:
        return sum(map(len, self.words))

    @property
    def is_labeled(self) -> bool:
        return self.labels is not None

    @property
    def label_indices(self) -> tuple[int, ...]:
        return self.labels or ()


class WordColumns(Columns):
    """The columns of words and labels, as lists or separated by white space; CoNLL files have these two."""

    text_format: ClassVar[str] = "txt"

    words: str = "words"
    labels: str = "labels"
    id: str | None = None

    def wanted(self, *, is_labeled: bool) -> Wanted:
        return select_columns((self.words, self.id, self.labels if is_labeled else None))

    def build(self, row: Row, labels: Labels | None, *, is_labeled: bool) -> TokenExample:
        value = row.values.get(self.words)
        words = tuple(value.split()) if isinstance(value, str) else read_text_list(row, self.words)
        if not words:
            raise BadRow("an empty text")
        name = read_id(row, self.id)
        if not is_labeled:
            return TokenExample(name, words)
        assert labels is not None
        names = self.list_labels(row)
        if len(names) != len(words):
            raise BadRow("another number of labels than words", f"{len(words)} words and {len(names)} labels")
        return TokenExample(name, words, tuple(labels.index(each) for each in names))

    def list_labels(self, row: Row) -> list[str]:
        return read_label_list(row, self.labels, separator=None)

    @property
    def min_labels(self) -> int:
        return 2


@dataclass(frozen=True, slots=True)
class EncodedWords:
    """The tokens of a text; `firsts` are the indices of the words' first tokens, which have their labels."""

    example: TokenExample
    tokens: tuple[int, ...]
    firsts: tuple[int, ...]
    frame: Frame
    windows: tuple[TokenWindow, ...]


@dataclass(frozen=True, slots=True)
class WordWindow:
    """A window of a text, `[CLS] tokens [SEP]`; it predicts the words whose first tokens it owns."""

    text: EncodedWords
    window: TokenWindow

    @property
    def num_tokens(self) -> int:
        return self.window.num_tokens + 2

    @property
    def is_truncated(self) -> bool:
        return False

    @property
    def sequence(self) -> TaskSequence:
        return self.text.frame.join(self.text.tokens[self.window.first : self.window.end])

    @property
    def words(self) -> range:
        """The indices of the words that this window predicts."""
        firsts = self.text.firsts
        return range(bisect_left(firsts, self.window.own_first), bisect_left(firsts, self.window.own_end))

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions of the first tokens of these words in the sequence."""
        return tuple(1 + self.text.firsts[word] - self.window.first for word in self.words)

    @property
    def labels(self) -> tuple[int, ...] | None:
        labels = self.text.example.labels
        return None if labels is None else labels[self.words.start : self.words.stop]


def iter_encoded_words(
    examples: Iterable[TokenExample], *, tokenizer: Tokenizer, max_length: int, stride: int | None = None
) -> Iterator[EncodedWords]:
    """Encode each text in windows of at most `max_length` tokens that overlap by half, or by `stride`.

    Words are tokenized with a space between them. A word without a token, such as a combining accent, becomes
    an unknown token, so that every word has a prediction.
    """
    check_length(max_length, minimum=4)
    frame, size = Frame.of(tokenizer), max_length - 2
    for group in iter_groups(examples, count_characters=lambda each: each.num_characters):
        encodings = tokenizer.encode_batch([" ".join(example.words) for example in group])
        for example, encoding in zip(group, encodings, strict=True):
            words = group_by_word(example.words, encoding, unk_id=tokenizer.unk_id)
            tokens = frame.intern(token for word in words for token in word)
            firsts = tuple(accumulate((len(word) for word in words), initial=0))[:-1]
            windows = build_windows(len(tokens), size=size, stride=stride or size // 2)
            yield EncodedWords(example, tokens, firsts, frame, windows)


def group_by_word(words: Sequence[str], encoding: Encoding, *, unk_id: int) -> list[list[int]]:
    """Group the ids of tokens by the words (joined by spaces) in which they start."""
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))[:-1]
    groups: list[list[int]] = [[] for _ in words]
    for token, (start, _) in zip(encoding.ids, encoding.spans, strict=True):
        groups[bisect_right(starts, start) - 1].append(token)
    return [group or [unk_id] for group in groups]


def _reduce_windows(windows: Iterable[WordWindow], words: range) -> Iterator[WordWindow]:
    """Yield the windows that predict some of the words, changed to predict only these."""
    for each in windows:
        first, end = max(each.words.start, words.start), min(each.words.stop, words.stop)
        if first < end:
            firsts = each.text.firsts
            window = replace(each.window, own_first=firsts[first], own_end=firsts[end - 1] + 1)
            yield WordWindow(each.text, window)


class TokenClassificationConfig(TaskConfig):
    """The config of a token classifier.

    The default score is the F1 of entities if the labels are O, B-… and I-…, else the mean of the accuracy
    and the macro F1 of words.

    Args:
        class_weights: The weight of each label in the loss, with a mean of 1 over the training words.
    """

    task_type: Literal["token-classification"] = "token-classification"
    class_weights: tuple[float, ...] | None = None

    @property
    def has_entities(self) -> bool:
        """Whether all labels are O, B-… or I-…, and not only O."""
        try:
            return bool(find_entities(self.labels))
        except InputError:
            return False

    @property
    def has_classes(self) -> bool:
        return True

    def adapt(self, loaded: Pretrained) -> Self:
        labels = choose_label_names(self.labels, loaded, head=HEAD)
        return super().adapt(loaded).model_copy(update={"labels": labels})

    def merge(self, members: Sequence[TaskConfig], target: TaskConfig, *, is_published: bool) -> Self:
        merged = super().merge(members, target, is_published=is_published)
        return merged.model_copy(update={"class_weights": None})

    def list_folder_options(self, model: AlbertModel, *, labels: Sequence[str]) -> dict[str, Any]:
        return {"labels": self.labels or labels}

    @classmethod
    def from_folder(cls, loaded: Pretrained) -> Self:
        return cls(task="token-classification", max_length=max(8, loaded.config.max_position_embeddings))


@dataclass(frozen=True)
class TaggedWord:
    """A word, its characters `[start, end)` in the text, and its most probable label."""

    text: str
    start: int
    end: int
    label: str
    probability: float


@dataclass(frozen=True)
class FoundEntity:
    """An entity: adjacent words, and their characters `[start, end)` in the text.

    `probability` is the product of the probabilities of its labels.
    """

    type: str
    text: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True)
class Tagging:
    """The words of a text with their labels, and the entities if the labels are O, B-… and I-…."""

    words: tuple[TaggedWord, ...]
    entities: tuple[FoundEntity, ...] = ()


@dataclass(frozen=True, slots=True)
class WordText(TokenExample):
    """An input of the predictor, with the raw text and the characters at which its words start."""

    text: str = ""
    starts: tuple[int, ...] = ()


@dataclass(frozen=True)
class WordLabels:
    """The indices of the words' first tokens in a batch, their labels, and their number in each window."""

    indices_P: Ints
    labels_P: Ints
    num_words: tuple[int, ...]


Batch = TaskBatch[WordLabels]
Examples = Sequence[TokenExample]
Answers = Sequence[Floats]


@dataclass(frozen=True)
class TokenClassificationTask(Task[TokenExample, WordWindow, WordLabels, Floats]):
    """Predicts a label for each word; answers are logits [words, K]."""

    config: TokenClassificationConfig
    config_class: ClassVar[type[TaskConfig]] = TokenClassificationConfig
    head_names: ClassVar[tuple[str, ...]] = (HEAD,)
    method = "tag"

    def __post_init__(self) -> None:
        known = (*ENTITY_METRICS, *WORD_METRICS) if self.config.has_entities else WORD_METRICS
        for name in self.config.metrics:
            if name not in known:
                hint = "; entity metrics need labels O, B-… and I-…" if name in ENTITY_METRICS else ""
                raise InputError(f"no metric {name!r} for these labels; known: {', '.join(known)}{hint}")

    @property
    def heads(self) -> Heads:
        return {HEAD: len(self.config.labels)}

    def encode(self, examples: Examples, tokenizer: Tokenizer) -> list[WordWindow]:
        texts = iter_encoded_words(examples, tokenizer=tokenizer, max_length=self.config.max_length)
        return [WordWindow(text, window) for text in texts for window in text.windows]

    def has_label(self, item: WordWindow) -> bool:
        """Return whether the window has labels; a window inside a long word has none."""
        return bool(item.labels)

    def build_batch(self, items: Sequence[WordWindow]) -> Batch:
        starts = accumulate((item.num_tokens for item in items), initial=0)
        indices = [start + p for start, item in zip(starts, items, strict=False) for p in item.positions]
        num_words = tuple(len(item.words) for item in items)
        labels = [
            (UNKNOWN_LABEL,) * number if item.labels is None else item.labels
            for item, number in zip(items, num_words, strict=True)
        ]
        word_labels = WordLabels(
            indices_P=np.array(indices, dtype=np.int64),
            labels_P=np.fromiter(chain.from_iterable(labels), np.int64, len(indices)),
            num_words=num_words,
        )
        return build_task_batch([item.sequence for item in items], word_labels)

    def count_labels(self, batch: Batch) -> Mapping[str, int]:
        return {"task": int((batch.labels.labels_P != UNKNOWN_LABEL).sum())}

    def compute_outputs(
        self, model: AlbertModel, batch: Batch, *, target: Tensor | None = None, depth: int | None = None
    ) -> Tensor:
        """Compute the logits [P, K] of words; the last layer runs on their first tokens only."""
        indices_P = torch.from_numpy(batch.labels.indices_P).to(model.device, non_blocking=True)
        words_PD = model(batch.build_tokens(model.device), depth=depth, indices_P=indices_P).last_TD
        logits_PK: Tensor = model.head(HEAD)(words_PD).float()
        return logits_PK

    def compare_labels(self, outputs: Tensor, batch: Batch) -> Losses:
        """Sum the cross-entropy over words; without words it is 0, with a gradient for all weights."""
        labels_P = torch.from_numpy(batch.labels.labels_P).to(outputs.device, non_blocking=True)
        weights = self.config.class_weights
        weights_K = None if weights is None else outputs.new_tensor(weights)
        total = F.cross_entropy(
            outputs, labels_P, weight=weights_K, ignore_index=UNKNOWN_LABEL, reduction="sum"
        )
        return {"task": (total, (outputs.argmax(1) == labels_P).sum())}

    def match_items(
        self, items: Sequence[WordWindow], others: Sequence[WordWindow]
    ) -> list[tuple[WordWindow, ...]]:
        """Find the teacher's windows that predict the words of each window, reduced to these words."""
        texts = (groupby(windows, key=lambda each: id(each.text)) for windows in (items, others))
        matched = []
        for (_, ours), (_, group) in zip(*texts, strict=True):
            theirs = tuple(group)
            matched += [tuple(_reduce_windows(theirs, item.words)) for item in ours]
        return matched

    def count_outputs(self, batch: Batch) -> int:
        return len(batch.labels.indices_P)

    def predict(self, model: AlbertModel, batch: Batch, *, depth: int | None = None) -> list[Floats]:
        logits_PK = self.compute_outputs(model, batch, depth=depth).cpu().numpy().astype(np.float64)
        return np.split(logits_PK, np.cumsum(batch.labels.num_words)[:-1])

    def aggregate(self, items: Sequence[WordWindow], answers: Answers) -> list[Floats]:
        """Concatenate the windows of each text; each word is predicted by one of them."""
        joined, start = [], 0
        while start < len(items):
            end = start + len(items[start].text.windows)
            joined.append(np.concatenate(answers[start:end]))
            start = end
        return joined

    def align(self, answer: Floats, order: Sequence[int] | None) -> Floats:
        return (answer if order is None else answer[:, list(order)]) / self.config.temperature

    def ensemble(self, members: Sequence[Answers]) -> list[Floats]:
        """Average the probabilities of each word."""
        merged = merge_softmax([np.concatenate(answers) for answers in members])
        return np.split(merged, np.cumsum([len(answer) for answer in members[0]])[:-1])

    def describe(self, answer: Floats, example: TokenExample) -> dict[str, Any]:
        """Describe the label of each word with its probability, and the entities."""
        labels = self._name_labels(answer.argmax(-1))
        probabilities = calibrate(answer, temperature=self.config.temperature).max(-1)
        described: dict[str, Any] = {"id": example.id, "words": list(example.words), "labels": labels}
        described["probabilities"] = probabilities.tolist()
        if self.config.has_entities:
            described["entities"] = [
                {
                    "type": entity.type,
                    "text": " ".join(example.words[entity.start : entity.stop]),
                    "first": entity.start,
                    "last": entity.stop - 1,
                    "probability": float(probabilities[entity.start : entity.stop].prod()),
                }
                for entity in find_entities(labels)
            ]
        return described

    def _name_labels(self, indices: Iterable[int]) -> list[str]:
        return [self.config.labels[index] for index in indices]

    def parse_inputs(self, *inputs: Any) -> list[WordText]:
        """Convert texts, which are split at white space, or lists of words, which are joined by spaces."""
        examples = []
        for number, text in enumerate(require_list(inputs[0], "texts, or of lists of words"), start=1):
            if isinstance(text, str):
                matches = list(_WORD.finditer(text))
                words, starts = tuple(each[0] for each in matches), tuple(each.start() for each in matches)
                examples.append(WordText(str(number), words, None, text, starts))
                continue
            words = tuple(text) if isinstance(text, Iterable) else (text,)
            for word in words:
                if not isinstance(word, str) or not word.strip():
                    raise InputError(f"text {number} has the word {word!r}; give non-empty words (str)")
            starts = tuple(accumulate((len(word) + 1 for word in words), initial=0))[: len(words)]
            examples.append(WordText(str(number), words, None, " ".join(words), starts))
        return examples

    def build_record(self, row: Mapping[str, Any], example: TokenExample) -> Tagging:
        assert isinstance(example, WordText)
        parts = zip(example.words, example.starts, row["labels"], row["probabilities"], strict=True)
        words = tuple(
            TaggedWord(word, start, start + len(word), label, probability)
            for word, start, label, probability in parts
        )
        entities = []
        for entity in row.get("entities", ()):
            start, end = words[entity["first"]].start, words[entity["last"]].end
            text = example.text[start:end]
            entities.append(FoundEntity(entity["type"], text, start, end, entity["probability"]))
        return Tagging(words, tuple(entities))

    def prepare_scores(self, answers: Answers, examples: Examples) -> WeightedScores:
        for example in examples:
            if example.labels is None:
                raise InputError(f"text {example.id!r} has no labels to score; give labeled texts")
        logits, golds = self.list_decisions(answers, examples)
        rows = np.repeat(np.arange(len(examples)), [len(answer) for answer in answers])
        num_classes = len(self.config.labels)
        count_words = count_classes(logits.argmax(1), golds, num_classes=num_classes, rows=rows)
        count_found = self._count_entities(answers, examples)[1] if self.config.has_entities else None
        default_metrics = ENTITY_METRICS[:1] if self.config.has_entities else WORD_METRICS

        def measure(weights: Floats) -> dict[str, float]:
            words = count_words(weights)
            scores = {"word_accuracy": float(words.total.recall[0]), "macro_f1": words.macro_f1}
            if count_found is not None:
                total = count_found(weights).total
                parts = (float(part[0]) for part in (total.f1, total.precision, total.recall))
                scores = {**dict(zip(ENTITY_METRICS, parts, strict=True)), **scores}
            return add_score(scores, score_metrics=self.config.metrics or default_metrics)

        return measure

    def _count_entities(self, answers: Answers, examples: Examples) -> tuple[list[str], CountClasses]:
        return count_entities(
            [self._name_labels(answer.argmax(-1)) for answer in answers],
            [self._name_labels(example.labels or ()) for example in examples],
        )

    def find_intervals(self, answers: Answers, examples: Examples, *, seed: int) -> dict[str, Interval]:
        """Estimate the intervals, with the order of keys in scores.json of earlier versions."""
        intervals = super().find_intervals(answers, examples, seed=seed)
        return {**{name: intervals.pop(name) for name in WORD_METRICS}, **intervals}

    def list_decisions(self, answers: Answers, examples: Examples) -> Decisions:
        golds = np.fromiter(chain.from_iterable(each.labels or () for each in examples), np.int64)
        return np.concatenate(answers), golds

    def score_classes(self, answers: Answers, examples: Examples) -> tuple[ClassScore, ...]:
        if self.config.has_entities:
            names, count = self._count_entities(answers, examples)
            return count(np.ones(len(examples))).list_scores(names)
        logits, labels = self.list_decisions(answers, examples)
        count = count_classes(logits.argmax(1), labels, num_classes=len(self.config.labels))
        return count(np.ones(len(labels))).list_scores(self.config.labels)

    def count_confusions(self, answers: Answers, examples: Examples) -> Confusion | None:
        if len(self.config.labels) > MAX_CONFUSED:
            return None
        logits, golds = self.list_decisions(answers, examples)
        return count_confusions(logits.argmax(1), golds=golds, labels=self.config.labels)

    def explain(self, answers: Answers, examples: Examples) -> tuple[ExampleResult, ...]:
        """Compare labels and entities; loss and confidence are those of the worst word of a text."""
        results = []
        for answer, example in zip(answers, examples, strict=True):
            golds, predicted = np.array(example.labels), answer.argmax(-1)
            logs = log_softmax(answer, axis=-1)
            rows = np.arange(len(golds))
            results.append(
                ExampleResult(
                    id=example.id,
                    texts={"text": " ".join(example.words)},
                    gold=self._format_labels(golds, example),
                    predicted=self._format_labels(predicted, example),
                    is_correct=bool((golds == predicted).all()),
                    loss=-float(logs[rows, golds].min()),
                    confidence=float(np.exp(logs[rows, predicted].min())),
                )
            )
        return tuple(results)

    def _format_labels(self, indices: Iterable[int], example: TokenExample) -> str:
        labels = self._name_labels(indices)
        if not self.config.has_entities:
            return " ".join(f"{word}/{label}" for word, label in zip(example.words, labels, strict=True))
        entities = [f"{e.type}: {' '.join(example.words[e.start : e.stop])}" for e in find_entities(labels)]
        return "; ".join(entities) or NO_LABEL

    def list_baselines(self) -> dict[str, Baseline[TokenExample, Floats]]:
        return {"majority": self.predict_majority}

    def predict_majority(self, train: Examples, dev: Examples) -> list[Floats]:
        """Predict the most frequent label for every word."""
        counts = Counter(label for each in train for label in each.label_indices)
        best = max(counts, key=lambda label: (counts[label], -label))
        row = np.eye(len(self.config.labels))[best]
        return [np.tile(row, (len(each.words), 1)) for each in dev]
