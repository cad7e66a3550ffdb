"""SQuAD scores equal those of the official scripts."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.errors import InputError
from albert.tasks.metrics.squad import normalize_answer, score_questions, summarize_squad

from . import official_squad as official


def score_squad(predictions, *, golds, version):
    return summarize_squad(score_questions(predictions, golds=golds, version=version))


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("The Norman  Conquest.", "norman conquest"),
        ("the", ""),
        ("A, an; THE!", ""),
        ("a-the", "athe"),  # punctuation is removed first
        ("a - the b", "b"),
        ("Athens, theatre and Anna", "athens theatre and anna"),
        ("rock'n'roll", "rocknroll"),
        ("1,000.5", "10005"),
        ("the\u00a0end\u3000of\u2028it", "end of it"),
        ("a\u200bb", "\u200bb"),  # a zero-width space is no space, but it is a word border
        ("a\u0301", "\u0301"),
        ("\u00e1", "\u00e1"),
        ("the！", "！"),  # full-width punctuation stays
        ("ｔｈｅ", "ｔｈｅ"),
        ("“the” — ‘a’", "“ ” — ‘ ’"),
        ("İ", "i\u0307"),
        ("ΣΑΣ", "σας"),
        ("the_a", "thea"),
        ("a\x1cb", "b"),  # a control character that Unicode counts as a space
    ],
)
def test_normalization_of_chosen_answers(text, normalized):
    assert normalize_answer(text) == normalized
    assert official.normalize(text) == normalized


@given(st.text(max_size=40))
def test_normalization_of_any_text(text):
    assert normalize_answer(text) == official.normalize(text)


def test_question_scores_equal_both_scripts_exactly():
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


def test_reports_equal_both_scripts():
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
        scores = score_squad(predictions, golds=golds, version="2.0")
        assert official.name_scores(scores) == script.report(1.0)


def test_the_versions_differ_for_empty_answers():
    # "the" and "a" are both nothing: equal in both versions, without a common word in the first.
    first = score_squad(["the"], golds=[["a"]], version="1.1").overall
    assert (first.exact, first.f1) == (100.0, 0.0)
    second = score_squad(["the"], golds=[["a"]], version="2.0").overall
    assert (second.exact, second.f1) == (100.0, 100.0)
    # A gold answer that is nothing does not count beside one that is something ...
    assert score_squad([""], golds=[["the", "end"]], version="2.0").overall.f1 == 0.0
    # ... and a question that has only such ones still belongs to the answerable.
    assert score_squad([""], golds=[["the"]], version="2.0").has_answer.exact == 100.0
    assert score_squad(["end"], golds=[[]], version="2.0").no_answer.f1 == 0.0
    assert score_squad([""], golds=[["end"]], version="1.1").overall.exact == 0.0


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_golds_score_100_on_real_questions(version, squad_files):
    (text,) = [text for path, text in squad_files.items() if f"v{version}" in path]
    paragraphs = [paragraph for article in json.loads(text)["data"] for paragraph in article["paragraphs"]]
    questions = [question for paragraph in paragraphs for question in paragraph["qas"]]
    golds = [[answer["text"] for answer in question["answers"]] for question in questions]
    assert len(golds) > 500
    for place in range(max(map(len, golds))):
        predictions = [texts[min(place, len(texts) - 1)] if texts else "" for texts in golds]
        found = official.name_scores(score_squad(predictions, golds=golds, version=version))
        totals = {name: found.pop(name) for name in list(found) if name.endswith("total")}
        assert set(found.values()) == {100.0}
        assert totals["total"] == len(golds)
        assert ("NoAns_total" in totals) == (version == "2.0")
    shifted = score_squad(predictions[1:] + predictions[:1], golds=golds, version=version).overall
    assert shifted.exact < 60


def test_invalid_input_is_rejected():
    with pytest.raises(InputError, match="2 predictions for 1 gold labels"):
        score_squad(["x", "y"], golds=[["x"]], version="2.0")
    with pytest.raises(InputError, match="question 1 has no gold answer"):
        score_squad(["x", ""], golds=[["x"], []], version="1.1")
    with pytest.raises(InputError, match="no examples"):
        score_squad([], golds=[], version="2.0")
