"""Baselines of every task type: they beat trivial ones and never see the labels of the dev set."""

import numpy as np
import pytest

from albert.tasks.classification import TextExample
from albert.tasks.data import TaskData, open_task_data
from albert.tasks.embedding import EmbeddingConfig
from albert.tasks.multiple_choice import ChoiceExample
from albert.tasks.question_answering import Answer, QuestionAnsweringConfig, SpanExample
from bench.baselines.score import TRIVIAL, predict_by_sliding_window, score_baselines
from bench.baselines.span_candidates import count_rarities, list_candidates
from tests.tasks.tables import NOUNS, OWN_TABLES, write_tables

QUESTIONS = QuestionAnsweringConfig(task="question-answering", has_impossible=True)


@pytest.mark.parametrize("task", OWN_TABLES)
def test_baselines_beat_trivial_ones_and_are_deterministic(tmp_path, task):
    data = open_task_data(task, write_tables(tmp_path, task), dev=None, columns={}, dev_share=0.1)
    found = score_baselines(data)
    assert found == score_baselines(data)
    trivial = [metrics["score"] for name, metrics in found.items() if name in TRIVIAL]
    others = [metrics["score"] for name, metrics in found.items() if name not in TRIVIAL]
    assert min(others) > max(trivial) + 10
    assert max(others) > 90


def test_leaving_all_questions_unanswered_scores_the_impossible_ones():
    context = "In the town Anna saw a ship . The old dog was in Bergen ."
    asked = (
        SpanExample("1", "Who saw a ship ?", context, (Answer("Anna", context.index("Anna")),)),
        SpanExample("2", "Where was the old dog ?", context, (Answer("Bergen", context.index("Bergen")),)),
        SpanExample("3", "When did it snow ?", context, is_impossible=True),
    )
    scores = score_baselines(TaskData(QUESTIONS, asked * 10, asked, ()))
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


def test_sliding_window_sums_the_rarities_of_matching_words():
    example = ChoiceExample("1", "a big old dog and a ship", "the _ .", ("big dog", "new man"), 0)
    (scores,) = predict_by_sliding_window([example], [example])
    # `the`, `.`, `big`, `dog`: a window of four words holds `big` and `dog`, of weight log 2 each.
    assert scores == pytest.approx([2 * np.log(2), 0.0])


def test_tfidf_embeddings_find_the_second_text():
    pairs = tuple(TextExample(str(index), f"the {noun}", f"a {noun}") for index, noun in enumerate(NOUNS))
    data = TaskData(EmbeddingConfig(task="embedding"), pairs, pairs, ())
    assert score_baselines(data)["cosine"]["score"] == 100.0
