"""SQuAD scores equal those of the official scripts."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.errors import InputError
from albert.tasks.metrics.squad import normalize_answer, score_questions, summarize_squad

from . import official_squad as official


def score_squad(predictions, *, golds, version):
    return summarize_squad(score_questions(predictions, golds=golds, version=version))


@given(st.lists(st.sampled_from(official.FRAGMENTS)).map("".join) | st.text(max_size=40))
def test_normalization_equals_the_official_one(text):
    assert normalize_answer(text) == official.normalize(text)


def test_question_scores_equal_both_scripts_exactly():
    rng = random.Random(2)
    num_between = 0
    for _ in range(3_000):
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
    assert num_between > 300


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


def test_invalid_input_is_rejected():
    for predictions, golds, version, value in (
        (["x", "y"], [["x"]], "2.0", "2 .* 1 "),
        (["x", ""], [["x"], []], "1.1", "question 1"),
        ([], [], "2.0", "no examples"),
    ):
        with pytest.raises(InputError, match=value):
            score_squad(predictions, golds=golds, version=version)
