"""Verdicts come in; the worst errors go out, the worst first, with ways to look among them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from albert.report.markup import Html, join, section, show_long, tag
from albert.tasks.evaluation_result import Evaluation, Verdict

NUM_WORST = 200
NUM_OF_EACH = 5  # of a pair of labels, so that every cell of the matrix leads to some
MAX_SHOWN = 600
MAX_NAMES = 60  # labels that one still chooses from


@dataclass(frozen=True)
class Errors:
    """The errors that are shown, how many there are in all, and the labels to look for them by.

    Answers that are texts or numbers of their own have no `names`. `order` says why they stand as they do.
    """

    shown: tuple[Verdict, ...]
    num_wrong: int
    names: tuple[str, ...]
    order: str


def choose_errors(evaluation: Evaluation) -> Errors:
    """The worst of all, and the worst of each pair of labels that is confused."""
    wrong = sorted(
        (verdict for verdict in evaluation.verdicts if not verdict.is_right),
        key=lambda verdict: verdict.loss,
        reverse=True,
    )
    names = _list_names(evaluation, wrong)
    seen: Counter[tuple[str, str]] = Counter()
    shown: list[Verdict] = []
    for place, verdict in enumerate(wrong):
        pair = (verdict.gold, verdict.given)
        if place < NUM_WORST or (names and seen[pair] < NUM_OF_EACH and len(shown) < MAX_SHOWN):
            seen[pair] += 1
            shown.append(verdict)
    return Errors(tuple(shown), len(wrong), names, _tell_order(evaluation))


def _tell_order(evaluation: Evaluation) -> str:
    facts = evaluation.facts
    if facts.kind == "spans":
        return "The less an answer has in common with the right one, the further up it stands."
    if facts.kind == "embedding" or facts.label_kind == "number":
        return "The further off a number is, the further up it stands."
    return "The surer the model was of something wrong, the further up it stands."


def _list_names(evaluation: Evaluation, wrong: Sequence[Verdict]) -> tuple[str, ...]:
    """All labels in their order, and sets of them, where they are few; of other answers none."""
    facts = evaluation.facts
    if facts.kind != "texts" or facts.label_kind == "number":
        return ()
    known: dict[str, None] = dict.fromkeys(facts.labels)
    known |= dict.fromkeys(name for verdict in wrong for name in (verdict.gold, verdict.given))
    return tuple(known) if len(known) <= MAX_NAMES else ()


def show_errors(errors: Errors, *, num_scored: int) -> Html:
    """The errors as cards, and the filters."""
    if not errors.num_wrong:
        return section("Errors", tag("p", f"None of {num_scored:,} answers is wrong."), id="errors")
    told = f"{errors.num_wrong:,} of {num_scored:,} answers are wrong"
    if len(errors.shown) < errors.num_wrong:
        told += f"; here are the {len(errors.shown):,} worst"
        told += " and some of each kind" if errors.names else ""
    places = {name: place for place, name in enumerate(errors.names)}
    cards = [_show_card(verdict, rank, places) for rank, verdict in enumerate(errors.shown, start=1)]
    words = tag("p", f"{told}. {errors.order}", class_="soft")
    return section("Errors, the worst first", words, _show_filters(errors), *cards, id="errors")


def _show_card(verdict: Verdict, rank: int, places: dict[str, int]) -> Html:
    parts = [
        tag("div", tag("span", name, class_="soft"), show_long(text), class_="part")
        for name, text in verdict.texts.items()
    ]
    sure = "" if verdict.confidence is None else f" (sure to {verdict.confidence:.1%})"
    answers = tag(
        "div",
        tag("span", "right: ", tag("span", show_long(verdict.gold), class_="gold")),
        tag("span", "given: ", tag("span", show_long(verdict.given), class_="given"), sure),
        tag("span", f"loss {verdict.loss:.2f} · {rank}. · id ", tag("bdi", verdict.id), class_="soft"),
        class_="verdict",
    )
    return tag(
        "article",
        *parts,
        answers,
        data_gold=places.get(verdict.gold),
        data_given=places.get(verdict.given),
    )


def _show_filters(errors: Errors) -> Html:
    boxes = []
    if errors.names:
        for name, title in (("gold", "right"), ("given", "given")):
            count = Counter(getattr(verdict, name) for verdict in errors.shown)
            options = [
                tag("option", f"{label} ({count[label]})", value=place)
                for place, label in enumerate(errors.names)
                if count[label]
            ]
            chooser = tag("select", tag("option", "any", value=""), *options, id=name)
            boxes.append(tag("label", title, chooser))
    search = tag("label", "with the words", Html('<input id="words" type="search">'))
    end = join(tag("button", "all", id="all", type="button"), tag("span", "", id="shown", class_="soft"))
    return tag("div", *boxes, search, end, class_="filters", id="filters", hidden=True)
