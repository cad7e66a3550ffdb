"""Pairs and what models answered come in; the page that tells of it goes out."""

from collections.abc import Sequence

from albert.report.content import Cell, Chart, Column, Level, Page, Section, Table
from albert.study.agreement.answered import Answered, Share, collect, count_share
from albert.study.agreement.attractors import describe_attractors, draw_shares
from albert.study.agreement.claim import judge_sharing
from albert.study.agreement.pairs import Pair
from albert.study.agreement.phenomena import PHENOMENA
from albert.study.agreement.results import ModelAnswers, Refusal
from albert.study.agreement.settings import AgreementSettings
from albert.study.agreement.significance import compare_decisions
from albert.study.cells import MISSING

CHANCE = Level(50.0, "chance")
_NUM_EXAMPLES, _NUM_WORST = 3, 10
_ASKED = (
    "The word in question is masked, and the model prefers the right one of two or the wrong one. Each frame "
    "is asked in every number there is, and each word of a choice is right as often as the other: whoever "
    "goes by how frequent a word is, or by the noun that stands nearest, is right in half of the pairs."
)
_LEFT_OUT = (
    "Left out are pairs whose two words the model's vocabulary cuts into unequal numbers of pieces, since "
    "sums of unlike length cannot be compared fairly, and pairs with a word that it does not know."
)


def build_page(
    settings: AgreementSettings,
    *,
    pairs: Sequence[Pair],
    models: Sequence[ModelAnswers],
    refused: Sequence[Refusal],
) -> Page:
    """The claim first, then every figure, then single sentences."""
    answered = collect(models, pairs)
    best = max(answered, key=lambda each: each.scores.mean)
    lead = (
        f"{len(pairs):,} minimal pairs of {len(settings.phenomena)} phenomena of English, from a grammar of "
        f"our own. Best is {best.name}: {100.0 * best.scores.mean:.1f}% right, each phenomenon counting "
        "alike; chance is 50%."
    )
    sections = [
        Section("Does sharing help?", findings=[judge_sharing(answered, pairs, seed=settings.seed)]),
        Section(
            "How often the right word is preferred",
            paragraphs=[_ASKED, _describe_left_out(answered), *(each.reason for each in refused)],
            tables=[_build_score_table(answered, settings)],
            charts=[_draw_scores(answered, settings)],
        ),
        describe_attractors(answered, pairs, chance=CHANCE),
        *_compare(answered, pairs, seed=settings.seed),
        Section(
            "Sure and wrong",
            paragraphs=["The widest margins: log p of the wrong word minus that of the right one."],
            tables=[_build_worst_table(each, pairs, number) for number, each in enumerate(answered, start=1)],
        ),
        Section("What was asked", paragraphs=[_tell_seed(settings)], tables=[_build_example_table(pairs)]),
    ]
    return Page("Subject–verb agreement and other minimal pairs", lead, sections)


def _describe_left_out(answered: Sequence[Answered]) -> str:
    counts = "; ".join(
        f"{each.name} was asked {each.scores.num_pairs:,} and spared {each.scores.num_left_out:,} "
        f"({each.model.seconds:.1f} s)"
        for each in answered
    )
    return f"{_LEFT_OUT} {counts}."


def _build_score_table(answered: Sequence[Answered], settings: AgreementSettings) -> Table:
    shares = [_list_shares(each) for each in answered]
    rows = [
        [Cell(PHENOMENA[name].title), *(found[name].show() if name in found else MISSING for found in shares)]
        for name in settings.phenomena
    ]
    means = (100.0 * each.scores.mean for each in answered)
    rows.append([Cell("mean of the phenomena"), *(Cell(f"{mean:.1f}", mean) for mean in means)])
    hint = "% right (95% interval)"
    columns = [Column("phenomenon"), *(Column(each.name, True, hint) for each in answered)]
    return Table("agreement", columns, rows, strong_rows=[len(rows) - 1], note="Intervals by Wilson.")


def _list_shares(answered: Answered) -> dict[str, Share]:
    return {
        each.name: count_share(each.num_right, each.num_pairs)
        for each in answered.scores.phenomena
        if each.num_pairs
    }


def _draw_scores(answered: Sequence[Answered], settings: AgreementSettings) -> Chart:
    series = []
    for each in answered:
        found = _list_shares(each)
        places = [place for place, name in enumerate(settings.phenomena) if name in found]
        shares = [found[settings.phenomena[place]] for place in places]
        series.append(draw_shares(each.name, places, shares))
    means = "; ".join(f"{each.name} {100.0 * each.scores.mean:.1f}%" for each in answered)
    return Chart(
        name="agreement",
        title="Right decisions by phenomenon",
        x_label="phenomenon",
        y_label="% right",
        series=series,
        kind="points",
        x_names=[PHENOMENA[name].title for name in settings.phenomena],
        levels=[CHANCE],
        told=f"The share of right decisions for each phenomenon; on average {means}.",
    )


def _compare(answered: Sequence[Answered], pairs: Sequence[Pair], *, seed: int) -> list[Section]:
    """Each model against the first, where there is more than one."""
    if len(answered) < 2:
        return []
    frames = [(pair.phenomenon, pair.frame) for pair in pairs]
    base, rows = answered[0], []
    for each in answered[1:]:
        found = compare_decisions(each.decisions, second=base.decisions, frames=frames, seed=seed)
        if found is None:
            rows.append([Cell(each.name), *[MISSING] * 5])
            continue
        between = found.difference
        gap, low, high = (100.0 * value for value in (between.value, between.low, between.high))
        counts = (found.num_pairs, found.num_first_only, found.num_second_only)
        rows.append(
            [
                Cell(each.name),
                *(Cell(f"{count:,}", count) for count in counts),
                Cell(f"{gap:+.1f} ({low:+.1f} to {high:+.1f})", gap, low, high),
                Cell(f"{found.p_value:.2g}", found.p_value),
            ]
        )
    columns = [
        Column("model"),
        Column("pairs", True, "asked of both"),
        Column("it alone is right", True),
        Column(f"{base.name} alone is right", True),
        Column("points more", True, "95% interval, bootstrap over frames"),
        Column("p", True, "exact sign-flip test over frames, two-sided"),
    ]
    told = f"Each model beside {base.name}, on the pairs that both were asked."
    return [Section("One model and another", paragraphs=[told], tables=[Table("comparison", columns, rows)])]


def _build_worst_table(answered: Answered, pairs: Sequence[Pair], number: int) -> Table:
    margins = answered.scores.margins
    wrong = [place for place, margin in enumerate(margins) if margin is not None and margin <= 0]
    worst = sorted(wrong, key=lambda place: margins[place] or 0.0)[:_NUM_WORST]
    rows = [
        [
            Cell(pairs[place].choice),
            Cell(PHENOMENA[pairs[place].phenomenon].title),
            Cell(f"{-(margins[place] or 0.0):.2f}", -(margins[place] or 0.0)),
        ]
        for place in worst
    ]
    columns = [Column(f"{answered.name}: [right | wrong]"), Column("phenomenon"), Column("margin", True)]
    return Table(f"worst-{number}", columns, rows, note="" if rows else "Nothing was wrong.")


def _build_example_table(pairs: Sequence[Pair]) -> Table:
    by_name: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_name.setdefault(pair.phenomenon, []).append(pair)
    rows = [
        [
            Cell(PHENOMENA[name].title),
            Cell(pair.choice),
            Cell(str(pair.draft.num_attractors), pair.draft.num_attractors),
        ]
        for name, own in by_name.items()
        for pair in (own[place * len(own) // _NUM_EXAMPLES] for place in range(_NUM_EXAMPLES))
    ]
    columns = [Column("phenomenon"), Column("[right | wrong]"), Column("attractors", True)]
    return Table("examples", columns, rows, note="All are in pairs.jsonl.")


def _tell_seed(settings: AgreementSettings) -> str:
    depth = "" if settings.depth is None else f" Models run at a depth of {settings.depth}."
    return f"{settings.num_pairs:,} pairs of each phenomenon, drawn from seed {settings.seed}.{depth}"
