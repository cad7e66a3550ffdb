"""The figures of an evaluation come in; the tables of its page go out."""

from collections.abc import Mapping, Sequence

from albert.report.html_tables import build_table
from albert.report.markup import Html, join, section, tag
from albert.tasks.evaluation_result import Evaluation
from albert.tasks.metrics.classification import Confusion
from albert.tasks.metrics.intervals import Interval
from albert.tasks.report.plots import draw_range

MAX_MATRIX = 30  # classes that are still a picture
NUM_CONFUSED = 40
# Told elsewhere: what stands above the table, and what is no score.
_APART = frozenset({"score", "threshold"})


def show_scores(evaluation: Evaluation) -> Html:
    """Every metric with its interval; the one that the task is judged by is large above them."""
    scores, intervals = evaluation.scores, evaluation.intervals
    level = next((f"{each.level:.0%} interval" for each in intervals.values()), "")
    parts: list[str] = []
    if "score" in scores:
        whole = intervals.get("score")
        spread = "" if whole is None else f", {level} {whole.low:.2f} – {whole.high:.2f}"
        value = tag("span", f"{scores['score']:.2f}", class_="headline")
        parts.append(tag("p", value, tag("span", f" score{spread}", class_="soft")))
    rows = [_show_score(name, scores[name], intervals.get(name)) for name in scores if name not in _APART]
    return join(*parts, build_table(("", "of 100", level, ""), rows) if rows else "")


def _show_score(name: str, value: float, found: Interval | None) -> Html:
    limits = "" if found is None else f"{found.low:.2f} – {found.high:.2f}"
    picture = Html("") if found is None else draw_range(found)
    cells = (_number(f"{value:.2f}"), _number(limits), tag("td", picture))
    return tag("tr", tag("th", tell(name), scope="row"), *cells)


def show_members(evaluation: Evaluation) -> Html:
    """Each model by itself, and all together; nothing where there is but one."""
    if len(evaluation.member_scores) < 2:
        return Html("")
    members = evaluation.member_scores
    known = [name for name in evaluation.scores if any(name in each.scores for each in members)]
    names = [name for name in known if name != "threshold"]
    rows = [
        tag("tr", tag("th", "together", scope="row"), *_score_cells(evaluation.scores, names), class_="whole")
    ]
    for member in members:
        chosen = "" if member.is_chosen else " (not chosen)"
        cells = _score_cells(member.scores, names)
        rows.append(tag("tr", tag("th", f"{member.name}{chosen}", scope="row"), *cells))
    table = build_table(("model", *map(tell, names)), rows, is_numeric=True)
    selection = evaluation.selection
    if selection is None:
        return section("The models", table)
    steps = ", then ".join(f"{name} ({score:.2f})" for name, score in selection.steps)
    told = (
        f"Chosen on {selection.chosen_on} ({selection.num_chosen_on:,} examples, which have no part in the "
        f"scores): {steps}."
    )
    return section("The models", table, tag("p", told, class_="soft"))


def show_classes(evaluation: Evaluation) -> Html:
    """Precision, recall and F1 of each class."""
    if not evaluation.classes:
        return Html("")
    rows = [
        tag(
            "tr",
            tag("th", str(each.label), scope="row"),
            *(_number(f"{100 * value:.1f}") for value in (each.precision, each.recall, each.f1)),
            _number(f"{each.support:,}"),
        )
        for each in evaluation.classes
    ]
    table = build_table(("class", "precision", "recall", "F1", "examples"), rows, is_numeric=True)
    if len(rows) > MAX_MATRIX:
        table = tag("details", tag("summary", f"{len(rows)} classes"), table)
    return section("The classes", table)


def show_confusion(confusion: Confusion | None, *, is_linked: bool) -> Html:
    """What is taken for what: a shaded matrix, or of many classes the pairs that are confused most."""
    if confusion is None or not any(map(sum, confusion.counts)):
        return Html("")
    if len(confusion.labels) > MAX_MATRIX:
        return section("What is taken for what", _list_confused(confusion))
    labels = [str(label) for label in confusion.labels]
    rows = []
    for gold, counts in enumerate(confusion.counts):
        cells = [
            _shade(
                count, total=sum(counts), is_right=gold == given, link=(gold, given) if is_linked else None
            )
            for given, count in enumerate(counts)
        ]
        head = join(labels[gold], tag("span", f" {sum(counts):,}", class_="soft"))
        rows.append(tag("tr", tag("th", head, scope="row"), *cells))
    corner = tag("th", "right ↓ · given →")
    heads = (tag("th", label, scope="col") for label in labels)
    table = tag("table", tag("thead", tag("tr", corner, *heads)), tag("tbody", *rows), class_="matrix")
    told = "Each row is 100%: what became of the examples of one class."
    more = " A cell leads to its errors." if is_linked else ""
    return section(
        "What is taken for what", tag("p", told + more, class_="soft"), tag("div", table, class_="wide")
    )


def _shade(count: int, *, total: int, is_right: bool, link: tuple[int, int] | None) -> Html:
    share = count / total if total else 0.0
    if not count:
        return tag("td", "·")
    content = join(f"{share:.0%}" if share >= 0.005 else "<1%", tag("small", f"{count:,}"))
    if link is not None and not is_right:
        content = tag("a", content, href="#errors", data_gold=link[0], data_given=link[1])
    shade = 0.08 + 0.92 * share  # a single example is seen, too
    return tag("td", content, class_="right" if is_right else "wrong", style=f"--share:{shade:.3f}")


def _list_confused(confusion: Confusion) -> Html:
    labels = [str(label) for label in confusion.labels]
    found = [
        (count, count / sum(counts), labels[gold], labels[given])
        for gold, counts in enumerate(confusion.counts)
        for given, count in enumerate(counts)
        if count and gold != given
    ]
    found.sort(key=lambda each: each[:2], reverse=True)
    rows = [
        tag("tr", tag("td", gold), tag("td", given), _number(f"{count:,}"), _number(f"{share:.0%}"))
        for count, share, gold, given in found[:NUM_CONFUSED]
    ]
    return build_table(("right", "given", "examples", "of the class"), rows)


def tell(name: str) -> str:
    """A metric's name as a person says it."""
    return " ".join("F1" if word == "f1" else word for word in name.split("_"))


def _score_cells(scores: Mapping[str, float], names: Sequence[str]) -> list[Html]:
    found = [scores.get(name) for name in names]
    return [_number("–" if value is None else f"{value:.2f}") for value in found]


def _number(text: str) -> Html:
    return tag("td", text, class_="number")
