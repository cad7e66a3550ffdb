"""What a quickstart found comes in; a page that a person reads goes out."""

import math

from albert.app.quickstart.answers_tables import tabulate_masks, tabulate_orders
from albert.app.quickstart.curves import draw_loss, draw_order
from albert.app.quickstart.go_on import format_commands
from albert.app.quickstart.result import QuickstartResult
from albert.app.quickstart.scores import RELEASED, UNTRAINED, ReviewScores
from albert.pages.content import Chart, Column, Finding, Page, Section, Series, Table, Verdict
from albert.reporting import format_seconds
from albert.study.cells import interval_cell, text_cell
from albert.tasks.metrics.intervals import Interval

NAMES = {
    "majority": "the more frequent answer",
    "bag_of_words": "a bag of words",
    UNTRAINED: "the same model, untrained",
    RELEASED: "the released model",
}


def build_page(result: QuickstartResult) -> Page:
    """Findings first, then what was done and how it went."""
    sections = [
        Section("What came out", findings=_list_findings(result)),
        Section("What was done", paragraphs=_tell_story(result)),
        _show_learning(result),
        *([] if result.reviews is None else [_show_reviews(result.reviews)]),
        _show_answers(result),
        _show_layers(result),
        Section("Go on", paragraphs=["From here:"], code=format_commands(result)),
    ]
    lead = (
        "The whole road of ALBERT, walked on this machine: a vocabulary, a corpus, a model pretrained from "
        "nothing, stopped and resumed on the way, fine-tuning, and a look inside. "
        f"{'What was left to do' if result.has_gone_on else 'It'} took {format_seconds(result.seconds)}."
    )
    return Page("ALBERT in minutes", lead, sections)


def _advise_longer(seconds: float) -> str:
    return f"A longer run gets below that: `--minutes {max(10, math.ceil(3 * seconds / 60))}`."


def _list_findings(result: QuickstartResult) -> list[Finding]:
    run = result.pretraining
    start, end, level = run.start.figures["mlm_loss"], run.end.figures["mlm_loss"], run.unigram_loss
    found = [
        Finding(
            "Pretraining teaches a model more than how frequent each piece of text is.",
            "",
            f"The loss of masked words in held-out text went from {start:.3f} to {end:.3f}; who knows the "
            f"frequencies and nothing else has {level:.3f}."
            + (f" {_advise_longer(run.seconds)}" if level <= end < start else ""),
            "agrees" if end < level else "cannot tell" if end < start else "disagrees",
        )
    ]
    if result.reviews is not None:
        gain = result.reviews.gain
        words = result.reviews.scores["bag_of_words"].accuracy
        found.append(
            Finding(
                "A pretrained model learns a task better than the same model with fresh weights.",
                "",
                f"Right answers on {result.reviews.num_test:,} reviews, released minus untrained: "
                f"{gain.value:+.1f} points ({gain.low:+.1f} to {gain.high:+.1f}). A bag of words has "
                f"{words.value:.1f}%.",
                _judge(gain),
            )
        )
    return found


def _judge(gain: Interval) -> Verdict:
    if gain.low > 0:
        return "agrees"
    return "disagrees" if gain.high < 0 else "cannot tell"


def _tell_story(result: QuickstartResult) -> list[str]:
    run = result.pretraining
    told = [
        f"The text: {result.text.note}",
        f"A vocabulary of {run.vocab_size:,} pieces was trained on it. Cleaned and cut, it has "
        f"{run.num_pieces:,} pieces to learn from.",
        f"A model of {run.num_parameters:,} parameters was pretrained from fresh weights for "
        f"{run.num_steps:,} steps ({run.num_tokens:,} pieces, {format_seconds(run.seconds)}): masked words"
        f"{'' if draw_order(run) is None else ', and the order of sentences'}.",
    ]
    if run.resumed_at:
        steps = " and ".join(f"{step:,}" for step in run.resumed_at)
        told.append(
            f"At step {steps} it was stopped by a signal and resumed. That changes nothing: the weights are, "
            "to the bit, those of a run that never stopped (the tests of the project compare them)."
        )
    if result.reviews is not None:
        told.append(f"The reviews: {result.reviews_note}")
    return [*told, *(f"Left out: {reason}" for reason in result.left_out)]


def _show_learning(result: QuickstartResult) -> Section:
    charts = [draw_loss(result.pretraining)]
    order = draw_order(result.pretraining)
    late = (
        " The order of two pieces of text is learned much later than words: minutes are too few for more "
        "than a beginning."
    )
    return Section(
        "Learning",
        paragraphs=[
            "A model first learns how frequent each piece is, and stays at that level for a while; below it, "
            f"it uses what stands around the mask.{'' if order is None else late}",
        ],
        charts=charts if order is None else [*charts, order],
    )


def _show_reviews(reviews: ReviewScores) -> Section:
    names = [name for name in NAMES if name in reviews.scores]
    accuracies = [reviews.scores[name].accuracy for name in names]
    table = Table(
        "reviews",
        [Column("who"), Column("right", is_number=True, hint="in 100 test reviews, with a 95% interval")],
        [
            [text_cell(NAMES[name]), interval_cell(accuracy)]
            for name, accuracy in zip(names, accuracies, strict=True)
        ],
        strong_rows=[names.index(RELEASED)],
        note="Intervals are over reviews, for one seed of training.",
    )
    chart = Chart(
        name="reviews",
        title="Positive or negative?",
        x_label="",
        y_label="right answers, %",
        series=[
            Series(
                "test reviews",
                xs=list(range(len(names))),
                ys=[accuracy.value for accuracy in accuracies],
                lows=[accuracy.low for accuracy in accuracies],
                highs=[accuracy.high for accuracy in accuracies],
            )
        ],
        kind="points",
        x_names=[NAMES[name] for name in names],
        told="; ".join(f"{NAMES[name]}: {reviews.scores[name].accuracy.value:.1f}%" for name in names) + ".",
    )
    told = (
        f"{reviews.num_train:,} reviews to learn from, {reviews.num_dev:,} to choose the best step by, and "
        f"{reviews.num_test:,} others to be asked about. Which is which follows from a hash of the text."
    )
    return Section("Reviews: positive or negative", paragraphs=[told], tables=[table], charts=[chart])


def _show_answers(result: QuickstartResult) -> Section:
    tables = [
        *([tabulate_masks(result)] if result.masks else []),
        *([tabulate_orders(result)] if result.orders else []),
    ]
    told = (
        "Sentences that the model just trained has never seen."
        if tables
        else "The text has no short sentences to ask about."
    )
    return Section("Asked", paragraphs=[told], tables=tables)


def _show_layers(result: QuickstartResult) -> Section:
    return Section(
        "Layer by layer",
        paragraphs=[
            "How far each layer moves each token (figure 1 of the paper). In ALBERT all layers are one "
            "block, run again and again. `pretrain` is the model that was just trained. "
            "More is in `layers/report.html`.",
        ],
        charts=result.layers.charts,
    )
