"""What words alone tell is found without a model, is scored like one, and never by a look at the answers."""

from dataclasses import replace

import numpy as np
import pytest

from albert.tasks.assignment import Assignment, open_assignment
from albert.tasks.baselines.choices import answer_by_sliding_window
from albert.tasks.baselines.features import fit_features
from albert.tasks.baselines.score import TRIVIAL, list_baselines, score_baseline
from albert.tasks.baselines.span_candidates import count_rarities, find_first_name, list_candidates
from albert.tasks.baselines.texts import STRENGTHS, answer_by_words, choose_strength
from albert.tasks.examples import Answer, ChoiceExample, SpanExample, TextExample
from albert.tasks.task_facts import TaskFacts
from tests.tasks.tables import NOUNS, OWN_TABLES, SIZES, write_tables

TEXTS = TaskFacts(task="classification", kind="texts", labels=("no", "yes"), metrics=("accuracy",))
NUMBERS = TaskFacts(task="regression", kind="texts", label_kind="number", metrics=("pearson",))
QUESTIONS = TaskFacts(task="questions", kind="spans", has_impossible=True)
CHOICES = TaskFacts(task="choice", kind="choices", metrics=("accuracy",))


def read_own(task: str, folder) -> Assignment:
    return open_assignment(task, write_tables(folder, task), dev=None, columns={}, dev_share=0.1)


def build(facts: TaskFacts, train, dev) -> Assignment:
    return Assignment(facts, tuple(train), tuple(dev), ())


def pair_words(number: int, *, words) -> list[TextExample]:
    """Pairs of two words each that are the same or not; which words they are tells nothing."""
    draw = np.random.default_rng(number)
    found = []
    for place in range(number):
        first, other = draw.choice(words, size=2, replace=False)
        label = int(draw.integers(2))
        found.append(TextExample(str(place), f"the {first}", f"a {first if label else other}", label))
    return found


@pytest.mark.parametrize("task", OWN_TABLES)
def test_words_beat_what_does_not_look_at_them(tmp_path, task):
    scores = {name: found["score"] for name, found in score_baseline(read_own(task, tmp_path)).items()}
    trivial = [score for name, score in scores.items() if name in TRIVIAL]
    looking = [score for name, score in scores.items() if name not in TRIVIAL]
    assert trivial
    assert min(looking) > max(trivial) + 10
    assert max(looking) > 90


@pytest.mark.parametrize("task", OWN_TABLES)
def test_always_the_same(tmp_path, task):
    assignment = read_own(task, tmp_path)
    assert score_baseline(assignment) == score_baseline(assignment)


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
def test_the_answers_to_the_development_set_have_no_say(tmp_path, task):
    """Whatever its labels are, the same is answered."""
    assignment = read_own(task, tmp_path)
    others = {"classification": 1, "multilabel": (0,), "regression": -5.0}
    blind = tuple(replace(example, label=others[task]) for example in assignment.dev)
    assert np.array_equal(answer_by_words(assignment), answer_by_words(replace(assignment, dev=blind)))


def test_the_strength_is_that_of_examples_kept_from_learning():
    """Among words that tell nothing weights are best kept small; a rare class needs large ones."""
    draw = np.random.default_rng(1)
    noise = [f"w{number}" for number in range(2000)]
    noisy, rare = [], []
    for place in range(400):
        label = int(draw.integers(2))
        told = label if draw.random() < 0.8 else 1 - label
        words = " ".join(draw.choice(noise, size=30))
        noisy.append(TextExample(str(place), f"{'good' if told else 'bad'} {words}", None, label))
        is_rare = place % 10 == 0
        rare.append(TextExample(str(place), f"{'rare' if is_rare else 'usual'} the a of", None, int(is_rare)))
    assert choose_strength(noisy, TEXTS) < STRENGTHS[-1]
    assert choose_strength(rare, TEXTS) > STRENGTHS[0]  # with which the usual class is all that is answered


def test_of_pairs_the_overlap_tells_even_of_words_that_are_new():
    train = pair_words(200, words=[f"a{number}" for number in range(60)])
    dev = pair_words(100, words=[f"b{number}" for number in range(60)])
    scores = score_baseline(build(TEXTS, train, dev))
    assert scores["bag_of_words"]["accuracy"] > 95
    assert scores["majority"]["accuracy"] < 65


def test_a_pair_has_more_to_tell_than_a_text():
    single = [TextExample("1", "the dog"), TextExample("2", "a man")]
    features = fit_features(single)
    assert not features.has_pairs
    assert features.build(single).shape == (2, 6)  # four words and two pairs of neighbours
    double = [replace(example, second="the house") for example in single]
    assert fit_features(double).build(double).shape == (2, 4 * 8 + 7)


def test_similarity_without_learning():
    """The more words two texts share, the more they are alike; what the labels are does not matter."""
    texts = [("big old dog", "big old dog"), ("big old dog", "big old man"), ("big old dog", "a new ship")]
    examples = [TextExample("", *pair, label) for pair, label in zip(texts, (5.0, 3.0, 0.0), strict=True)]
    scores = score_baseline(build(NUMBERS, examples * 5, examples))
    assert scores["cosine"]["pearson"] > 95
    assert scores["mean"]["pearson"] == 0.0


def test_a_label_that_nobody_has_is_never_given():
    facts = TEXTS.model_copy(update={"labels": ("no", "yes", "never")})
    train = [TextExample("", f"{size} {noun}", None, int(size == "big")) for size in SIZES for noun in NOUNS]
    answers = np.stack(answer_by_words(build(facts, train, train)))
    assert answers.shape == (16, 3)
    assert set(answers.argmax(1)) == {0, 1}


def test_without_an_answer_every_impossible_question_is_right():
    context = "In the town Anna saw a ship . The old dog was in Bergen ."
    asked = [
        SpanExample("1", "Who saw a ship ?", context, (Answer("Anna", context.index("Anna")),)),
        SpanExample("2", "Where was the old dog ?", context, (Answer("Bergen", context.index("Bergen")),)),
        SpanExample("3", "When did it snow ?", context, is_impossible=True),
    ]
    scores = score_baseline(build(QUESTIONS, asked * 10, asked))
    assert list(scores) == ["no_answer", "bag_of_words"]
    assert scores["no_answer"]["f1"] == pytest.approx(100 / 3)
    assert scores["bag_of_words"]["f1"] == 100.0


def test_candidates_are_slices_of_one_sentence():
    context = "He went (in 1900) to Bergen. Then home!"
    example = SpanExample("1", "When did he go?", context)
    found = list_candidates(example, count_rarities([example]))
    texts = {context[start:end] for start, end in zip(found.starts, found.ends, strict=True)}
    assert {"1900", "in 1900", "Bergen", "He went", "Then home"} <= texts
    assert not any("Bergen. Then" in text or text.endswith((".", ")", "!")) for text in texts)
    assert found.features.shape[0] == len(found.starts)
    assert np.isfinite(found.features).all()


@pytest.mark.parametrize(
    ("context", "name"),
    [("Then Anna Berg came", "Anna Berg"), ("nobody came", "nobody"), ("", ""), ("?!", "?")],
)
def test_the_first_name(context, name):
    start, end = find_first_name(context)
    assert context[start:end] == name


def test_contexts_without_words_are_answered():
    train = SpanExample("1", "Who ?", "Anna came", (Answer("Anna", 0),))
    asked = (
        SpanExample("2", "Who ?", "?!", (Answer("?!", 0),)),
        SpanExample("3", "", "", is_impossible=True),
    )
    assert set(score_baseline(build(QUESTIONS, [train] * 3, asked))) == {"no_answer", "bag_of_words"}


def test_a_sliding_window_by_hand():
    """Question and first option have 3 words: the window `big old dog` has two of them, each once there."""
    example = ChoiceExample("1", "a big old dog and a ship", "the _ .", ("big dog", "new man"), 0)
    (scores,) = answer_by_sliding_window(build(CHOICES, [example], [example]))
    # `the`, `.`, `big`, `dog`: a window of four words holds `big` and `dog`, of weight log 2 each.
    assert scores == pytest.approx([2 * np.log(2), 0.0])


def test_embeddings_of_words():
    facts = TaskFacts(task="embedding", kind="embedding")
    pairs = [TextExample(str(place), f"the {noun}", f"a {noun}") for place, noun in enumerate(NOUNS)]
    assert score_baseline(build(facts, pairs, pairs))["cosine"]["score"] == 100.0


def test_every_kind_has_baselines(tmp_path):
    for task in OWN_TABLES:
        names = set(list_baselines(read_own(task, tmp_path / task)))
        assert names & TRIVIAL
        assert names - TRIVIAL
