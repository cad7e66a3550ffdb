"""The page of an evaluation: what it shows, and that no text on it can do harm or hide."""

import base64
import hashlib
import re
from collections import Counter
from dataclasses import replace

import pytest
from albert.report.markup import LONG, SHORT
from albert.tasks.report.page import format_report, write_report
from albert.tasks.report.tables import MAX_MATRIX
from albert.tasks.report.worst_errors import NUM_OF_EACH, NUM_WORST

from albert.tasks.metrics.squad_threshold import ANSWER_NOTHING
from tests.report.reading import ReadPage
from tests.tasks.report.evaluations import (
    HOSTILE,
    LABELS,
    RIGHT_TO_LEFT,
    WORDS,
    evaluate_numbers,
    evaluate_spans,
    evaluate_texts,
    make_ensemble,
)

TEXTS = [" ".join(WORDS[place % 7 :]) for place in range(300)]


def read(evaluation):
    return ReadPage(format_report(evaluation))


def test_the_page_needs_nothing_from_elsewhere():
    html = format_report(make_ensemble(evaluate_texts(TEXTS)))
    page = ReadPage(html)
    assert not re.search(r"https?:|url\(|@import|<link", html)
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert attributes.get("href", "#errors") == "#errors"
    assert "prefers-color-scheme: dark" in html
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.find("meta")


def test_no_script_may_run_but_the_pages_own():
    html = format_report(evaluate_texts(TEXTS))
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html


def test_texts_and_names_are_shown_and_never_obeyed():
    evaluation = evaluate_texts([HOSTILE] * 60, labels=("<b>one</b>", '"two" onload=x', "three"))
    evaluation = make_ensemble(replace(evaluation, task=HOSTILE, data=HOSTILE, split="<dev>"))
    page = read(replace(evaluation, problems=(HOSTILE,), models=(HOSTILE,)))
    assert len(page.find("script")) == 1
    assert not page.find("img")
    assert all(set(each) == {"style"} for each in page.find("b"))  # marks of intervals, and nothing else
    assert not [attributes for _, attributes in page.elements if {"onerror", "onload"} & set(attributes)]
    assert page.text.count('<script>alert("1")</script>') > 10
    assert "<b>one</b>" in page.text


def test_a_text_runs_in_its_own_direction():
    page = read(evaluate_texts([RIGHT_TO_LEFT] * 40))
    assert {"class": "text", "dir": "auto"} in page.find("bdi")


def test_the_scores_have_their_intervals():
    evaluation = evaluate_texts(TEXTS)
    page = read(evaluation)
    for name in ("accuracy", "macro F1"):
        assert name in page.text
    for interval in evaluation.intervals.values():
        assert f"{interval.low:.2f} – {interval.high:.2f}" in page.text


def test_an_ensemble_shows_its_members_and_how_they_were_chosen():
    page = read(make_ensemble(evaluate_texts(TEXTS)))
    for words in (
        "an ensemble of 2 models",
        "together",
        "runs/seed-3 (not chosen)",
        "Chosen on one half of dev (200 examples, which have no part in the scores): "
        "runs/seed-1 (80.20), then runs/seed-2 (81.90).",
        "left out 2 lines",
    ):
        assert words in page.text
    assert "together" not in read(evaluate_texts(TEXTS)).text


def test_the_rows_of_the_matrix_are_shares_of_a_class():
    evaluation = evaluate_texts(TEXTS)
    html = format_report(evaluation)
    matrix = html[html.index('<table class="matrix">') :].split("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", matrix)[1:]
    for row, counts in zip(rows, evaluation.confusion.counts, strict=True):
        shares = re.findall(r">(\d+%)<small>([\d,]+)<", row)
        assert shares == [(f"{count / sum(counts):.0%}", f"{count:,}") for count in counts]


def test_errors_are_wrong_answers_and_the_worst_stand_first():
    evaluation = evaluate_texts(TEXTS)
    html = format_report(evaluation)
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+) ·", html)]
    wrong = sorted((each.loss for each in evaluation.verdicts if not each.is_right), reverse=True)
    assert losses == pytest.approx(wrong, abs=0.006)
    assert f"{len(wrong)} of 300 answers are wrong" in html


def test_of_many_errors_the_worst_are_shown_and_some_of_each_kind():
    evaluation = evaluate_texts(TEXTS * 6, scale=0.5)
    page = read(evaluation)
    cards = page.find("article")
    assert len(cards) >= NUM_WORST
    pairs = Counter((each["data-gold"], each["data-given"]) for each in cards)
    counts = evaluation.confusion.counts
    for gold in range(3):
        for given in range(3):
            if gold != given:
                assert pairs[str(gold), str(given)] >= min(NUM_OF_EACH, counts[gold][given])
    links = {(link["data-gold"], link["data-given"]) for link in page.find("a")}
    assert links == set(pairs)


def test_errors_can_be_looked_through_by_label():
    page = read(evaluate_texts(TEXTS))
    assert [each["id"] for each in page.find("select")] == ["gold", "given"]
    values = [each["value"] for each in page.find("option")]
    assert sorted(values) == sorted(["", "0", "1", "2"] * 2)
    for label in LABELS:
        assert f"{label} (" in page.text


def test_a_long_text_is_folded_and_an_endless_one_is_cut():
    page = read(evaluate_texts(["ab " * 40_000] * 40))
    folded = page.find("details")
    assert len(folded) == len(page.find("article"))
    assert "120,000 characters" in page.text
    assert "… and 100,000 more characters" in page.text
    assert len(page.text) < len(folded) * (LONG + SHORT + 500) + 10_000


def test_many_classes_are_a_list_of_what_is_confused_most():
    page = read(evaluate_texts(TEXTS, labels=tuple(f"class {place}" for place in range(MAX_MATRIX + 1))))
    assert "matrix" not in [each.get("class") for each in page.find("table")]
    assert "of the class" in page.text


def test_probabilities_are_drawn_and_judged():
    page = read(evaluate_texts(TEXTS, scale=5.0))
    assert "surer than it should be" in page.text
    assert page.find("svg")[0]["role"] == "img"
    evaluation = evaluate_texts(TEXTS)
    honest = replace(evaluation, calibration=replace(evaluation.calibration, best_temperature=1.02))
    assert "can be taken at their word" in read(honest).text


def test_probabilities_are_not_judged_by_what_they_were_tempered_with():
    evaluation = evaluate_texts(TEXTS)
    tuned = replace(evaluation.calibration, is_tuned_here=True)
    page = read(replace(evaluation, calibration=tuned))
    assert "of halves, each at a temperature chosen on the other" in page.text
    page = read(replace(evaluation, calibration=replace(tuned, temperature=None)))
    assert "Temperatures of these models were chosen on these very examples" in page.text
    assert "of halves, each at a temperature for each model chosen on the other" in page.text


def test_numbers_are_points_and_have_no_labels_to_look_for():
    page = read(evaluate_numbers())
    assert len(page.find("circle")) == 60
    assert not page.find("select")
    assert "The further off a number is" in page.text


def test_questions_tell_of_their_threshold():
    page = read(evaluate_spans())
    assert "above 0.000 is left unanswered (the model's own)" in page.text
    assert "no answer" in page.text
    assert not page.find("select")


def test_a_threshold_that_answers_nothing_is_told_in_words():
    evaluation = evaluate_spans()
    page = read(replace(evaluation, threshold=replace(evaluation.threshold, threshold=ANSWER_NOTHING)))
    assert "Every question is left unanswered: no answer was worth giving (the model's own)" in page.text
    assert "000000000" not in page.text


def test_nothing_wrong_is_said_so():
    evaluation = evaluate_texts(TEXTS)
    right = tuple(replace(each, is_right=True) for each in evaluation.verdicts)
    assert "None of 300 answers is wrong." in read(replace(evaluation, verdicts=right)).text


def test_the_page_is_written_as_utf8(tmp_path):
    evaluation = evaluate_texts([RIGHT_TO_LEFT, "\ud800"] * 20)
    write_report(tmp_path / "report.html", evaluation)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == format_report(evaluation)
