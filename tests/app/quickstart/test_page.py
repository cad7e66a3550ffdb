"""What the report claims follows from the figures, whatever they are."""

from dataclasses import replace

import pytest

from albert.app.quickstart.page import build_page
from albert.app.quickstart.questions import ModelAnswers
from albert.app.quickstart.result import QuickstartResult
from albert.app.quickstart.settings import QuickstartSettings
from albert.app.quickstart.sources import TextSource
from albert.report.content import Finding, Section, Table
from tests.app.quickstart.made_up import MASKS, make_answers, make_layers, make_result, make_reviews, make_run


def find_section(result: QuickstartResult, title: str) -> Section:
    (found,) = [section for section in build_page(result).sections if section.title == title]
    return found


def list_findings(result: QuickstartResult) -> list[Finding]:
    return list(find_section(result, "What came out").findings)


def tell_story(result: QuickstartResult) -> str:
    return "\n".join(find_section(result, "What was done").paragraphs)


def list_rows(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


@pytest.mark.parametrize(
    ("end", "verdict"), [(5.9, "agrees"), (6.0, "cannot tell"), (7.9, "cannot tell"), (8.1, "disagrees")]
)
def test_more_than_frequencies_is_learned_only_below_their_loss(end: float, verdict: str) -> None:
    finding, _ = list_findings(make_result(pretraining=make_run(start=8.0, end=end, level=6.0)))
    assert finding.verdict == verdict
    assert (
        f"went from 8.000 to {end:.3f}; who knows the frequencies and nothing else has 6.000" in finding.ours
    )


@pytest.mark.parametrize(
    ("low", "value", "high", "verdict"),
    [(0.1, 2.0, 4.0, "agrees"), (-0.1, 2.0, 4.0, "cannot tell"), (-4.0, -2.0, -0.1, "disagrees")],
)
def test_the_pretrained_model_is_better_only_where_the_whole_interval_says_so(
    low: float, value: float, high: float, verdict: str
) -> None:
    _, finding = list_findings(make_result(reviews=make_reviews(low, value, high)))
    assert finding.verdict == verdict
    assert f"pretrained minus untrained: {value:+.1f} points ({low:+.1f} to {high:+.1f})" in finding.ours
    assert "A bag of words has 73.6%." in finding.ours


def test_a_longer_run_is_advised_but_not_promised_where_one_helps_and_minutes_count() -> None:
    above = make_run(end=7.0, level=6.0, seconds=600.0)
    finding, _ = list_findings(make_result(pretraining=above))
    assert finding.ours.endswith(" A longer run may get below that: `--minutes 30`.")
    by_steps = QuickstartSettings(pretrain={"num_steps": 40})
    for result in (
        make_result(pretraining=above, settings=by_steps),
        make_result(pretraining=make_run(end=5.0)),
        make_result(pretraining=make_run(end=8.5)),
    ):
        assert "longer" not in list_findings(result)[0].ours


def test_a_run_that_was_stopped_is_told_with_the_step_it_went_on_from() -> None:
    page = build_page(make_result())
    assert "pretrained from nothing, stopped and resumed on the way, fine-tuning, and a look" in page.lead
    assert page.lead.endswith(" It took 6m 00s.")
    story = tell_story(make_result(pretraining=make_run(resumed_at=(16, 1200))))
    assert "On the way it was stopped, and it went on from step 16 and 1,200. That changes nothing" in story
    assert "to the bit" in story


def test_a_run_that_never_stopped_is_not_told_as_stopped() -> None:
    result = make_result(pretraining=make_run(resumed_at=()))
    assert "stopped" not in build_page(result).lead
    assert "stopped" not in tell_story(result)


def test_to_the_bit_is_said_only_where_it_is_known() -> None:
    story = tell_story(make_result(pretraining=make_run(is_exact=False)))
    assert "it went on from step 16." in story
    assert "to the bit" not in story


def test_what_an_earlier_start_did_is_not_counted_as_this_ones_time() -> None:
    lead = build_page(make_result(has_gone_on=True)).lead
    assert "it took 6m 00s this time; what had been done before was kept where it could be" in lead


def test_without_reviews_nothing_is_claimed_about_them_and_the_reason_is_told() -> None:
    why = "fine-tuning, since there are no labelled reviews (no network)"
    result = make_result(reviews=None, reviews_note="", left_out=(why,))
    page = build_page(result)
    assert len(list_findings(result)) == 1
    assert "fine-tuning" not in page.lead
    assert f"Left out: {why}" in tell_story(result)
    assert not [section for section in page.sections if section.title.startswith("Reviews")]
    assert "finetune" not in find_section(result, "Go on").code


def test_another_text_than_was_wished_for_is_told_in_its_own_words() -> None:
    note = "the documentation that comes with Python, since there was no network."
    text = TextSource("Python's documentation", [], None, note, "1", is_fallback=True)
    story = tell_story(make_result(text=text))
    assert f"The text: {note}" in story
    assert "King James" not in story


@pytest.mark.parametrize(
    ("objective", "told"),
    [
        ("none", "): masked words."),
        ("sop", "): masked words, and the order of two pieces of text."),
        ("nsp", "): masked words, and whether one piece of text follows another."),
    ],
)
def test_only_what_was_asked_of_the_model_is_told(objective: str, told: str) -> None:
    assert told in tell_story(make_result(pretraining=make_run(objective=objective)))


def test_a_model_that_began_with_anothers_weights_is_not_from_nothing() -> None:
    result = make_result(pretraining=make_run(is_warm=True))
    assert "from nothing" not in build_page(result).lead
    assert "was pretrained from the weights of another for" in tell_story(result)


def test_without_sentence_order_the_page_has_no_word_of_it() -> None:
    run = make_run(objective="none")
    start, end = (replace(point, figures={"mlm_loss": 6.5}) for point in (run.start, run.end))
    learning = find_section(make_result(pretraining=replace(run, start=start, held_out=(end,))), "Learning")
    assert [chart.name for chart in learning.charts] == ["loss"]
    assert "order" not in learning.paragraphs[0]


def test_guesses_are_shown_best_first_and_the_right_one_has_a_tick() -> None:
    words, _ = find_section(make_result(), "Asked").tables
    assert [column.name for column in words.columns] == [
        "sentence", "the word", "just trained", "released: nano",
    ]  # fmt: skip
    assert list_rows(words)[0] == ["The [MASK] was dark.", "night", "the 60% · ▁ 30%", "✓ night 60% · ▁ 30%"]


def test_an_answer_about_order_is_right_when_it_says_how_the_pair_was_shown() -> None:
    _, orders = find_section(make_result(), "Asked").tables
    assert [row[2:] for row in list_rows(orders)] == [
        ["in order", "in order (80%): right", "swapped (70%): wrong"],
        ["swapped", "in order (80%): wrong", "swapped (70%): right"],
    ]


def test_a_model_without_a_head_has_no_column() -> None:
    answers = {"just trained": make_answers("the", in_order=0.8), "given: mine": ModelAnswers(None, None)}
    words, orders = find_section(make_result(answers=answers), "Asked").tables
    assert [column.name for column in words.columns] == ["sentence", "the word", "just trained"]
    assert [column.name for column in orders.columns] == ["first", "second", "shown", "just trained"]


def test_held_out_sentences_are_not_told_as_never_seen() -> None:
    (told,) = find_section(make_result(), "Asked").paragraphs
    assert told.startswith("Sentences of text that was kept from the model just trained.")


def test_without_questions_the_page_says_so() -> None:
    asked = find_section(make_result(masks=[], orders=[]), "Asked")
    assert not asked.tables
    assert asked.paragraphs == ["The held-out text has no short sentence with a word to ask about."]
    (only,) = find_section(make_result(masks=MASKS, orders=[]), "Asked").tables
    assert only.name == "masked-words"


@pytest.mark.parametrize(
    ("model", "name"),
    [("nano", "the released model"), ("runs/mine", "the model mine"), (".", "the model .")],
)
def test_a_persons_own_model_is_not_called_released(model: str, name: str) -> None:
    section = find_section(
        make_result(settings=QuickstartSettings(model=model)), "Reviews: positive or negative"
    )
    (table,) = section.tables
    assert [row[0] for row in list_rows(table)] == [
        "the more frequent answer", "a bag of words", "the same model, untrained", name,
    ]  # fmt: skip
    assert list(table.strong_rows) == [3]
    assert section.charts[0].told.endswith(f"{name}: 72.3%.")


def test_the_model_just_trained_is_called_as_its_curve_is() -> None:
    result = make_result(layers=make_layers("out/pretrain", "other/pretrain"))
    (told,) = find_section(result, "Layer by layer").paragraphs
    assert "`out/pretrain` is the model that was just trained." in told
