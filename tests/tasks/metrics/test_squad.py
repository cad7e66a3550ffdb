"""SQuAD's scores are those of its official scripts, on real answers and on ones made to trip over."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.errors import InputError
from albert.tasks.metrics.squad import normalise_answer, score_questions, summarise_squad

from . import official_squad as official


def score_squad(predictions, *, golds, version):
    return summarise_squad(score_questions(predictions, golds=golds, version=version))


def normalise_by_hand(text: str) -> str:
    """Without regular expressions: an article is a whole run of letters and digits (punctuation is gone)."""
    kept = "".join(char for char in text.lower() if not 33 <= ord(char) <= 126 or char.isalnum())
    runs: list[str] = []
    for before, char in zip(" " + kept, kept, strict=False):
        if runs and before.isalnum() == char.isalnum():
            runs[-1] += char
        else:
            runs.append(char)
    return " ".join("".join(" " if run in ("a", "an", "the") else run for run in runs).split())


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("The Norman  Conquest.", "norman conquest"),
        ("the", ""),
        ("A, an; THE!", ""),
        ("a-the", "athe"),  # punctuation goes first, and the two grow together
        ("a - the b", "b"),
        ("Athens, theatre and Anna", "athens theatre and anna"),
        ("rock'n'roll", "rocknroll"),
        ("1,000.5", "10005"),
        ("the\u00a0end\u3000of\u2028it", "end of it"),
        ("a\u200bb", "\u200bb"),  # a zero-width space is no space, but it is a word border
        ("a\u0301", "\u0301"),  # an accent of its own leaves an article behind
        ("\u00e1", "\u00e1"),  # the composed letter is none
        ("the！", "！"),  # full-width punctuation stays, and ends a word
        ("ｔｈｅ", "ｔｈｅ"),
        ("“the” — ‘a’", "“ ” — ‘ ’"),
        ("İ", "i\u0307"),
        ("ΣΑΣ", "σας"),
        ("the_a", "thea"),
        ("a\x1cb", "b"),  # a control character that Unicode counts as a space
    ],
)
def test_normalisation_of_answers_written_out(text, normalised):
    assert normalise_answer(text) == normalised
    assert official.normalise(text) == normalised


def test_normalisation_of_ten_thousand_answers():
    rng = random.Random(1)
    answers = [official.draw_answer(rng) for _ in range(10_000)]
    assert len(set(answers)) > 5_000
    for answer in answers:
        assert normalise_answer(answer) == official.normalise(answer) == normalise_by_hand(answer), [answer]


@given(st.text(max_size=40))
def test_normalisation_of_any_text(text):
    assert normalise_answer(text) == official.normalise(text) == normalise_by_hand(text)


def test_both_versions_on_ten_thousand_questions_to_the_last_digit():
    rng = random.Random(2)
    num_between = 0
    for _ in range(10_000):
        prediction = official.draw_answer(rng)
        golds = draw = official.draw_golds(rng, prediction=prediction, least=1)
        first = score_questions([prediction], golds=[golds], version="1.1")
        assert first.exact.tolist() == [max(official.exact_of(gold, prediction) for gold in draw)]
        assert first.f1.tolist() == [max(official.f1_of_first_version(gold, prediction) for gold in draw)]
        golds = draw if rng.random() < 0.7 else []
        second = score_questions([prediction], golds=[golds], version="2.0")
        script = official.SecondVersion({"q": golds}, {"q": prediction}, {"q": 0.0})
        assert second.exact.tolist() == [script.raw["exact"]["q"]]
        assert second.f1.tolist() == [script.raw["f1"]["q"]]
        num_between += 0 < first.f1[0] < 1
    assert num_between > 1_000


def test_whole_reports_of_both_versions():
    rng = random.Random(3)
    for _ in range(300):
        predictions = [official.draw_answer(rng) for _ in range(rng.randint(1, 30))]
        golds = [official.draw_golds(rng, prediction=text, least=1) for text in predictions]
        keys = [f"question {number}" for number in range(len(predictions))]
        named, own = dict(zip(keys, predictions, strict=True)), dict(zip(keys, golds, strict=True))
        overall = score_squad(predictions, golds=golds, version="1.1").overall
        assert {"exact_match": overall.exact, "f1": overall.f1} == official.evaluate_first_version(own, named)
        golds = [texts if rng.random() < 0.6 else [] for texts in golds]
        own = dict(zip(keys, golds, strict=True))
        script = official.SecondVersion(own, named, dict.fromkeys(keys, 0.0))
        assert score_squad(predictions, golds=golds, version="2.0").official == script.report(1.0)


def test_empty_answers_are_where_the_versions_differ():
    # "the" and "a" are both nothing: equal in both versions, without a common word in the first.
    first = score_squad(["the"], golds=[["a"]], version="1.1").overall
    assert (first.exact, first.f1) == (100.0, 0.0)
    second = score_squad(["the"], golds=[["a"]], version="2.0").overall
    assert (second.exact, second.f1) == (100.0, 100.0)
    # A gold answer that is nothing does not count beside one that is something ...
    assert score_squad([""], golds=[["the", "end"]], version="2.0").overall.f1 == 0.0
    # ... and a question that has only such ones still belongs to the answerable.
    assert score_squad([""], golds=[["the"]], version="2.0").official["HasAns_exact"] == 100.0
    assert score_squad(["end"], golds=[[]], version="2.0").official["NoAns_f1"] == 0.0
    assert score_squad([""], golds=[["end"]], version="1.1").overall.exact == 0.0


def test_words_count_as_often_as_they_stand_there():
    scores = score_squad(["x x y"], golds=[["x y z w"]], version="1.1").overall
    assert scores.f1 == pytest.approx(100 * 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))


def test_the_best_gold_answer_counts_for_each_measure_by_itself():
    scores = score_squad(["x y z"], golds=[["q", "x y z w", "x"]], version="2.0").overall
    assert scores.exact == 0.0
    assert scores.f1 == pytest.approx(100 * 6 / 7)


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_gold_answers_as_predictions_give_100_on_real_questions(version, squad_files):
    (text,) = [text for path, text in squad_files.items() if f"v{version}" in path]
    paragraphs = [paragraph for article in json.loads(text)["data"] for paragraph in article["paragraphs"]]
    questions = [question for paragraph in paragraphs for question in paragraph["qas"]]
    golds = [[answer["text"] for answer in question["answers"]] for question in questions]
    assert len(golds) > 500
    for place in range(max(map(len, golds))):
        predictions = [texts[min(place, len(texts) - 1)] if texts else "" for texts in golds]
        found = score_squad(predictions, golds=golds, version=version).official
        totals = {name: found.pop(name) for name in list(found) if name.endswith("total")}
        assert set(found.values()) == {100.0}
        assert totals["total"] == len(golds)
        assert ("NoAns_total" in totals) == (version == "2.0")
    # Somebody else's answer to every question is worth little.
    shifted = score_squad(predictions[1:] + predictions[:1], golds=golds, version=version).overall
    assert shifted.exact < 60


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(InputError, match="2 predictions for 1 gold answers"):
        score_squad(["x", "y"], golds=[["x"]], version="2.0")
    with pytest.raises(InputError, match="question 1 has no gold answer"):
        score_squad(["x", ""], golds=[["x"], []], version="1.1")
    with pytest.raises(InputError, match="0 examples"):
        score_squad([], golds=[], version="2.0")
