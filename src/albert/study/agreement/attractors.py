"""What models answered comes in; how much nouns and words in between lead them astray goes out."""

from collections.abc import Callable, Sequence

from albert.report.content import Cell, Chart, Column, Level, Section, Series, Table
from albert.study.agreement.answered import Answered, Share, share_by
from albert.study.agreement.pairs import Pair
from albert.study.cells import MISSING

_TOLD = (
    "Agreement of subject and verb. An attractor is another noun before the verb that has the other number "
    "(Linzen et al. 2016); the distance is the number of words between subject and verb."
)


def describe_attractors(answered: Sequence[Answered], pairs: Sequence[Pair], *, chance: Level) -> Section:
    """Right decisions by the number of attractors, and by the distance."""
    by_attractors = _share(answered, pairs, lambda pair: pair.draft.num_attractors)
    by_distance = _share(answered, pairs, lambda pair: pair.draft.distance)
    return Section(
        "Attractors and distance",
        paragraphs=[_TOLD],
        tables=[_build_table("attractors", by_attractors), _build_table("distance", by_distance)],
        charts=[
            _draw("attractors", "attractors", by_attractors, chance),
            _draw("distance", "words between", by_distance, chance),
        ],
    )


Shares = dict[str, dict[int, Share]]


def _share(answered: Sequence[Answered], pairs: Sequence[Pair], key: Callable[[Pair], int]) -> Shares:
    return {each.name: share_by(each, pairs, key) for each in answered}


def _list_numbers(shares: Shares) -> list[int]:
    return sorted({number for found in shares.values() for number in found})


def _build_table(name: str, shares: Shares) -> Table:
    rows = [[Cell(str(number), number), *_show(number, shares)] for number in _list_numbers(shares)]
    return Table(name, [Column(name, True), *(Column(model, True, "% right") for model in shares)], rows)


def _show(number: int, shares: Shares) -> list[Cell]:
    return [found[number].show() if number in found else MISSING for found in shares.values()]


def _draw(name: str, x_label: str, shares: Shares, chance: Level) -> Chart:
    series = [draw_shares(model, list(found), list(found.values())) for model, found in shares.items()]
    return Chart(
        name=name,
        title=f"Right verbs by {x_label}",
        x_label=x_label,
        y_label="% right",
        series=series,
        levels=[chance],
        told=f"The share of right verbs by the number of {x_label}, a line for each model.",
    )


def draw_shares(name: str, xs: Sequence[float], shares: Sequence[Share]) -> Series:
    """Shares with their intervals."""
    return Series(
        name,
        xs=xs,
        ys=[share.percent for share in shares],
        lows=[share.low for share in shares],
        highs=[share.high for share in shares],
    )
