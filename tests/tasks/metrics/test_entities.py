"""Entities are those of conlleval and of seqeval's default, in good tags and in bad ones."""

import random
from itertools import product

import pytest

from albert.errors import InputError
from albert.tasks.metrics.classification import Entity, find_entities, score_entities, word_accuracy

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def entities_by_borders(tags):
    """seqeval's definition: between any two neighbours a chunk may end and a chunk may start."""
    found, begin = set(), 0
    before, before_kind = "O", ""
    for place, tag in enumerate([*tags, "O"]):
        prefix, kind = tag[0], tag[1:].split("-", maxsplit=1)[-1] or "_"
        is_end = before in "BI" and (prefix in "BO" or kind != before_kind)
        is_start = prefix == "B" or (prefix == "I" and (before == "O" or kind != before_kind))
        if is_end:
            found.add((before_kind, begin, place))
        if is_start:
            begin = place
        before, before_kind = prefix, kind
    return found


def test_every_sequence_of_up_to_six_tags():
    num_sequences = 0
    for size in range(7):
        for tags in product(TAGS, repeat=size):
            found = find_entities(tags)
            assert {(e.kind, e.start, e.stop) for e in found} == entities_by_borders(tags), tags
            assert len(set(found)) == len(found)
            num_sequences += 1
    assert num_sequences == sum(5**size for size in range(7))


def test_what_becomes_of_badly_formed_tags():
    assert find_entities(["O", "I-PER", "I-PER"]) == (Entity("PER", 1, 3),)
    assert find_entities(["B-PER", "I-LOC", "I-LOC"]) == (Entity("PER", 0, 1), Entity("LOC", 1, 3))
    assert find_entities(["B-PER", "B-PER"]) == (Entity("PER", 0, 1), Entity("PER", 1, 2))
    assert find_entities(["B", "I", "O"]) == (Entity("_", 0, 2),)
    assert find_entities(["B-per-son", "I-per-son"]) == (Entity("per-son", 0, 2),)


def test_two_thousand_random_texts():
    rng = random.Random(1)
    for _ in range(2_000):
        golds = [rng.choices(TAGS, k=rng.randint(0, 8)) for _ in range(rng.randint(1, 4))]
        predictions = [[t if rng.random() < 0.7 else rng.choice(TAGS) for t in tags] for tags in golds]
        wanted, found = (
            {(number, *entity) for number, tags in enumerate(texts) for entity in entities_by_borders(tags)}
            for texts in (golds, predictions)
        )
        scores = score_entities(predictions, golds=golds)
        for kind, score in [(None, scores.overall), *scores.by_kind.items()]:
            own_gold = {e for e in wanted if kind in (None, e[1])}
            own_found = {e for e in found if kind in (None, e[1])}
            num_right = len(own_gold & own_found)
            precision = num_right / len(own_found) if own_found else 0.0
            recall = num_right / len(own_gold) if own_gold else 0.0
            f1 = 2 * precision * recall / (precision + recall) if num_right else 0.0
            assert (score.precision, score.recall, score.f1) == pytest.approx((precision, recall, f1))
        assert set(scores.by_kind) == {e[1] for e in wanted | found}


def test_a_worked_example():
    golds = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    predictions = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    scores = score_entities(predictions, golds=golds)
    assert scores.overall.f1 == 0.5
    assert scores.by_kind["MISC"].f1 == 0.0
    assert scores.by_kind["PER"].f1 == 1.0
    assert word_accuracy(predictions, golds=golds) == 0.8


def test_golds_as_predictions_are_perfect_and_nothing_at_all_is_0():
    golds = [["B-PER", "I-PER", "O", "B-LOC"], ["O"], [], ["I-LOC"]]
    scores = score_entities(golds, golds=golds)
    assert {scores.overall.f1, *(score.f1 for score in scores.by_kind.values())} == {1.0}
    assert word_accuracy(golds, golds=golds) == 1.0
    nothing = score_entities([["O", "O"]], golds=[["O", "O"]]).overall
    assert (nothing.precision, nothing.recall, nothing.f1) == (0.0, 0.0, 0.0)


def test_entities_do_not_cross_sentences():
    scores = score_entities([["B-PER"], ["I-PER"]], golds=[["B-PER"], ["I-PER"]])
    assert scores.overall.num_gold == 2


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(InputError, match="tag 'NOUN' is neither O nor"):
        score_entities([["NOUN"]], golds=[["O"]])
    with pytest.raises(InputError, match="tag 'BPER'"):
        find_entities(["BPER"])
    with pytest.raises(InputError, match="tag ''"):
        find_entities([""])
    with pytest.raises(InputError, match="sentence 1: 1 tags for 2 words"):
        score_entities([["O"], ["O"]], golds=[["O"], ["O", "O"]])
    with pytest.raises(InputError, match="0 words"):
        word_accuracy([[], []], golds=[[], []])
    assert word_accuracy([["NOUN", "VERB"]], golds=[["NOUN", "NOUN"]]) == 0.5
