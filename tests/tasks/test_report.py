"""The report of an evaluation: what it shows for each task type."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from albert.report.write import format_html
from albert.tasks.report import NUM_OF_EACH, NUM_WORST, build_page, write_report
from tests.report.reading import ReadPage
from tests.tasks.evaluations import (
    HOSTILE,
    LABELS,
    RIGHT_TO_LEFT,
    WORDS,
    evaluate_numbers,
    evaluate_texts,
    make_ensemble,
)

TEXTS = [" ".join(WORDS[index % 7 :]) for index in range(300)]


def read(evaluation):
    return ReadPage(format_html(build_page(evaluation)))


def find_table(evaluation, name):
    (table,) = [table for table in build_page(evaluation).tables if table.name == name]
    return [[cell.text for cell in row] for row in table.rows]


def find_cards(evaluation):
    return build_page(evaluation).sections[-1].cards


def test_texts_and_names_are_escaped():
    evaluation = evaluate_texts([HOSTILE] * 60, labels=("<b>one</b>", '"two" onload=x', "three"))
    evaluation = make_ensemble(replace(evaluation, task=HOSTILE, data=HOSTILE, split="<dev>"))
    page = read(replace(evaluation, problems=(HOSTILE,), models=(HOSTILE,)))
    assert len(page.find("script")) == 1
    assert not page.find("img")
    assert not page.find("b")
    assert not [attributes for _, attributes in page.elements if {"onerror", "onload"} & set(attributes)]
    assert page.text.count('<script>alert("1")</script>') > 10
    assert "<b>one</b>" in page.text


def test_the_report_is_one_file(tmp_path):
    evaluation = evaluate_texts([RIGHT_TO_LEFT, "\ud800"] * 20)
    write_report(tmp_path / "report.html", evaluation)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert {"class": "text", "dir": "auto"} in ReadPage(text).find("bdi")
    assert text.count("<svg ") == 1


def test_rows_of_the_confusion_matrix_are_shares_of_a_class():
    evaluation = evaluate_texts(TEXTS)
    rows = find_table(evaluation, "confusion")
    for label, row, counts in zip(LABELS, rows, evaluation.confusion.counts, strict=True):
        shares = [f"{count / sum(counts):.0%} ({count:,})" for count in counts]
        assert row == [label, f"{sum(counts):,}", *shares]


def test_errors_are_sorted_by_loss():
    evaluation = evaluate_texts(TEXTS)
    losses = [float(re.search(r"loss ([\d.]+)", card.note)[1]) for card in find_cards(evaluation)]
    wrong = sorted((each.loss for each in evaluation.results if not each.is_correct), reverse=True)
    assert losses == pytest.approx(wrong, abs=0.006)
    assert f"{len(wrong)} of 300 predictions are wrong" in read(evaluation).text


def test_many_errors_show_the_worst_and_some_of_each_pair():
    evaluation = evaluate_texts(TEXTS * 6, scale=0.5)
    cards = find_cards(evaluation)
    assert len(cards) >= NUM_WORST
    pairs = Counter(tuple(card.keys) for card in cards)
    for gold, counts in zip(LABELS, evaluation.confusion.counts, strict=True):
        for predicted, count in zip(LABELS, counts, strict=True):
            if gold != predicted:
                assert pairs[gold, predicted] >= min(NUM_OF_EACH, count)
    (matrix,) = [table for table in build_page(evaluation).tables if table.name == "confusion"]
    assert {tuple(cell.keys) for row in matrix.rows for cell in row if cell.keys} == set(pairs)


def test_regression_is_a_scatter_plot_without_label_filters():
    page = build_page(evaluate_numbers())
    (chart,) = page.charts
    assert (chart.kind, len(chart.series[0].xs), chart.has_diagonal) == ("points", 60, True)
    assert page.sections[-1].filters == ()
