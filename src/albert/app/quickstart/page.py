"""What a quickstart found comes in; a page that a person reads goes out."""

import math
from collections.abc import Mapping
from pathlib import PurePath

from albert.app.quickstart.answers_tables import tabulate_masks, tabulate_orders
from albert.app.quickstart.curves import draw_loss, draw_order
from albert.app.quickstart.go_on import format_commands
from albert.app.quickstart.result import QuickstartResult
from albert.app.quickstart.scores import PRETRAINED, UNTRAINED, ReviewScores
from albert.app.quickstart.settings import RELEASED
from albert.report.content import Chart, Column, Finding, Page, Section, Series, Table, Verdict
from albert.reporting import format_seconds
from albert.study.cells import interval_cell, text_cell
from albert.tasks.metrics.intervals import Interval

_OBJECTIVES = {
    "none": "masked words",
    "sop": "masked words, and the order of two pieces of text",
    "nsp": "masked words, and whether one piece of text follows another",
}


def build_page(result: QuickstartResult) -> Page:
    """Findings first, then what was done and how it went."""
    sections = [
        Section("What came out", findings=_list_findings(result)),
        Section("What was done", paragraphs=_tell_story(result)),
        _show_learning(result),
        *(
            []
            if result.reviews is None
            else [_show_reviews(result.reviews, names=_name_answering(result.settings.model))]
        ),
        _show_answers(result),
        _show_layers(result),
        Section("Go on", paragraphs=["From here:"], code=format_commands(result)),
    ]
    return Page("ALBERT in minutes", _lead_in(result), sections)


def _lead_in(result: QuickstartResult) -> str:
    road = [
        "a vocabulary",
        "a corpus",
        "a model trained on from another's weights"
        if result.pretraining.is_warm
        else "a model pretrained from nothing",
        *(["stopped and resumed on the way"] if result.pretraining.resumed_at else []),
        *([] if result.reviews is None else ["fine-tuning"]),
    ]
    took = format_seconds(result.seconds)
    told = (
        f"Started again, it took {took} this time; what had been done before was kept where it could be."
        if result.has_gone_on
        else f"It took {took}."
    )
    return f"The road of ALBERT, walked on this machine: {', '.join(road)}, and a look inside. {told}"


def _name_answering(model: str) -> dict[str, str]:
    """Who answers the reviews, as a person is told; in the order of the table."""
    own = f"the model {PurePath(model).name or model}"
    return {
        "majority": "the more frequent answer",
        "bag_of_words": "a bag of words",
        UNTRAINED: "the same model, untrained",
        PRETRAINED: "the released model" if model == RELEASED else own,
    }


def _advise_longer(result: QuickstartResult) -> str:
    """Where the steps are given, minutes would be passed over."""
    if "num_steps" in result.settings.pretrain:
        return ""
    minutes = max(10, math.ceil(3 * result.pretraining.seconds / 60))
    return f" A longer run may get below that: `--minutes {minutes}`."


def _list_findings(result: QuickstartResult) -> list[Finding]:
    run = result.pretraining
    start, end, level = run.start.figures["mlm_loss"], run.end.figures["mlm_loss"], run.unigram_loss
    found = [
        Finding(
            "Pretraining teaches a model more than how frequent each piece of text is.",
            "",
            f"The loss of masked words in held-out text went from {start:.3f} to {end:.3f}; who knows the "
            f"frequencies and nothing else has {level:.3f}."
            + (_advise_longer(result) if level <= end < start else ""),
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
                f"Right answers on {result.reviews.num_test:,} reviews, pretrained minus untrained: "
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
        f"A model of {run.num_parameters:,} parameters was pretrained from "
        f"{'the weights of another' if run.is_warm else 'fresh weights'} for "
        f"{run.num_steps:,} steps ({run.num_tokens:,} pieces, {format_seconds(run.seconds)}): "
        f"{_OBJECTIVES[run.objective]}.",
    ]
    if run.resumed_at:
        steps = " and ".join(f"{step:,}" for step in run.resumed_at)
        told.append(
            f"On the way it was stopped, and it went on from step {steps}."
            + (
                " That changes nothing: the weights are, to the bit, those of a run that never stopped (the "
                "tests of the project compare them)."
                if run.is_exact
                else ""
            )
        )
    if result.reviews is not None:
        told.append(f"The reviews: {result.reviews_note}")
    return [*told, *(f"Left out: {reason}" for reason in result.left_out)]


def _show_learning(result: QuickstartResult) -> Section:
    words, order = draw_loss(result.pretraining), draw_order(result.pretraining)
    told = (
        "A model first learns how frequent each piece is, and stays at that level for a while; below it, "
        "it uses what stands around the mask."
    )
    if order is None:
        return Section("Learning", paragraphs=[told], charts=[words])
    told += (
        " What stands between two pieces of text is learned much later than words: minutes are too few for "
        "more than a beginning."
    )
    return Section("Learning", paragraphs=[told], charts=[words, order])


def _show_reviews(reviews: ReviewScores, *, names: Mapping[str, str]) -> Section:
    found = {told: reviews.scores[name].accuracy for name, told in names.items() if name in reviews.scores}
    table = Table(
        "reviews",
        [Column("who"), Column("right", is_number=True, hint="in 100 test reviews, with a 95% interval")],
        [[text_cell(told), interval_cell(accuracy)] for told, accuracy in found.items()],
        strong_rows=[list(found).index(names[PRETRAINED])],
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
                xs=list(range(len(found))),
                ys=[accuracy.value for accuracy in found.values()],
                lows=[accuracy.low for accuracy in found.values()],
                highs=[accuracy.high for accuracy in found.values()],
            )
        ],
        kind="points",
        x_names=list(found),
        told="; ".join(f"{told}: {accuracy.value:.1f}%" for told, accuracy in found.items()) + ".",
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
        "Sentences of text that was kept from the model just trained. Where a text says the same again "
        "and again, such a sentence may stand elsewhere, too."
        if tables
        else "The held-out text has no short sentence with a word to ask about."
    )
    return Section("Asked", paragraphs=[told], tables=tables)


def _show_layers(result: QuickstartResult) -> Section:
    charts = result.layers.charts
    trained = charts[0].series[0].name  # it is measured first
    return Section(
        "Layer by layer",
        paragraphs=[
            "How far each layer moves each token (figure 1 of the paper). In ALBERT all layers are one "
            f"block, run again and again. `{trained}` is the model that was just trained. "
            "More is in `layers/report.html`.",
        ],
        charts=charts,
    )
