"""Predicted and gold tags (O, B-KIND, I-KIND) of sentences come in; scores of entities and of words go out.

An entity counts if kind, first and last word are all right, as in conlleval and in seqeval's default. Badly
formed tags are read as these two read them, on both sides: an I-KIND that continues no entity of its kind
begins one. So IOB1 tags are understood as well, and no prediction is thrown away. Nothing over nothing is 0.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from albert.errors import InputError
from albert.tasks.metrics.pairs import check_pairs

Tags = Sequence[str]
UNNAMED = "_"  # the kind of a bare B or I, as in seqeval


@dataclass(frozen=True)
class Entity:
    """Words [start, stop) of a sentence, and what they are."""

    kind: str
    start: int
    stop: int


@dataclass(frozen=True)
class EntityScore:
    """How many entities there are, how many were predicted, and how many of these are right."""

    num_gold: int
    num_predicted: int
    num_right: int

    @property
    def precision(self) -> float:
        """The share of the predicted that are right."""
        return self.num_right / self.num_predicted if self.num_predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of the gold that were found."""
        return self.num_right / self.num_gold if self.num_gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        total = self.num_predicted + self.num_gold
        return 2 * self.num_right / total if total else 0.0


@dataclass(frozen=True)
class EntityScores:
    """All entities together (conlleval's and seqeval's micro average), and each kind by its name."""

    overall: EntityScore
    by_kind: dict[str, EntityScore]


def score_entities(predictions: Sequence[Tags], *, golds: Sequence[Tags]) -> EntityScores:
    """Score all sentences; refused: other tags than O, B-… and I-…, and sentences of unequal length."""
    num_gold: Counter[str] = Counter()
    num_predicted: Counter[str] = Counter()
    num_right: Counter[str] = Counter()
    for predicted, gold in _iter_sentences(predictions, golds):
        found, wanted = find_entities(predicted), find_entities(gold)
        num_predicted.update(entity.kind for entity in found)
        num_gold.update(entity.kind for entity in wanted)
        num_right.update(entity.kind for entity in set(found) & set(wanted))
    kinds = sorted(num_gold.keys() | num_predicted.keys())
    return EntityScores(
        EntityScore(num_gold.total(), num_predicted.total(), num_right.total()),
        {kind: EntityScore(num_gold[kind], num_predicted[kind], num_right[kind]) for kind in kinds},
    )


def word_accuracy(predictions: Sequence[Tags], *, golds: Sequence[Tags]) -> float:
    """The share of words with the right tag, of any tag set."""
    num_right = num_words = 0
    for predicted, gold in _iter_sentences(predictions, golds):
        num_right += sum(one == other for one, other in zip(predicted, gold, strict=True))
        num_words += len(gold)
    if num_words == 0:
        raise InputError("0 words to score; there must be at least 1")
    return num_right / num_words


def find_entities(tags: Tags) -> tuple[Entity, ...]:
    """The entities of one sentence, in order."""
    entities: list[Entity] = []
    kind, start = None, 0
    for place, tag in enumerate([*tags, "O"]):
        prefix, own_kind = _read_tag(tag)
        if prefix == "I" and own_kind == kind:
            continue
        if kind is not None:
            entities.append(Entity(kind, start, place))
        kind, start = own_kind, place
    return tuple(entities)


def _read_tag(tag: str) -> tuple[str, str | None]:
    """B or I and the kind of entity; O has none."""
    if tag == "O":
        return "O", None
    if tag[:1] not in ("B", "I") or tag[1:2] not in ("", "-"):
        raise InputError(f"tag {tag!r} is neither O nor B-… nor I-…; score such tags by the words")
    return tag[0], tag[2:] or UNNAMED


def _iter_sentences(predictions: Sequence[Tags], golds: Sequence[Tags]) -> Iterator[tuple[Tags, Tags]]:
    check_pairs(predictions, golds=golds)
    for number, (predicted, gold) in enumerate(zip(predictions, golds, strict=True)):
        if len(predicted) != len(gold):
            raise InputError(f"sentence {number}: {len(predicted)} tags for {len(gold)} words; one for each")
        yield predicted, gold
