"""Build the report of the layers study (figure 1): verdicts on the paper's claims, charts and tables."""

from collections.abc import Mapping, Sequence
from itertools import product

from albert.report.content import Cell, Chart, Column, Finding, Level, Page, Section, Series, Table, Verdict
from albert.study.cells import format_number, interval_cell, number_cell
from albert.study.layers.states import (
    DISTANCES,
    DRIFTING_CHANGE,
    LEVEL,
    MIN_LAYERS,
    NOTHING,
    SETTLING_CHANGE,
    Curve,
    Distance,
    ModelCurves,
    name_course,
)
from albert.tasks.metrics.intervals import Interval

Models = Mapping[str, ModelCurves]
TITLES: dict[Distance, str] = {
    "l2": "L2 distance between a layer's input and output",
    "cosine": "Cosine similarity of a layer's input and output",
    "angle": "Angle between a layer's input and output",
}
UNITS: dict[Distance, str] = {"l2": "L2 distance", "cosine": "cosine", "angle": "angle, degrees"}
JUDGED: dict[Distance, str] = {"l2": "L2 distance", "angle": "angle"}
SMOOTHER = "From layer to layer ALBERT changes more smoothly than BERT of the same depth."
OSCILLATES = "ALBERT's layers oscillate and do not settle at an equilibrium, where they would change nothing."
THEIR_SMOOTHER = "ALBERT-large's curves are much smoother than BERT-large's (figure 1)."
THEIR_OSCILLATES = "ALBERT-large's distances fall at first and then keep a level above 0 (figure 1)."
_MANY_UNKNOWN = 0.1
_RULES = (
    "Every line of the text is a sequence. The first layer reads the embeddings, mapped from E to H. For "
    "each token, with [CLS] and [SEP], a layer's input and output are compared. A figure is the mean over "
    "tokens; its 95% interval is a bootstrap over sequences.",
    "Roughness is the mean absolute second difference of a curve over its mean height: 0 for a straight "
    "line. It depends on the number of layers, so only models of equal depth are compared. It is given with "
    "the first layer, whose input BERT normalizes and ALBERT does not, and without it.",
    "The course of a curve is the height of its last third of layers over that of its middle third. The "
    "first third, which leads from the embeddings to where layers work, is left out. At most "
    f"{SETTLING_CHANGE:.2f}, or {NOTHING:.0%} of the maximum: it settles, like the steps of a deep "
    f"equilibrium model. At least {DRIFTING_CHANGE:.2f}: it drifts. Otherwise it keeps a level; it "
    f"oscillates if it also rises and falls by more than {NOTHING:.0%} of the maximum after the first third, "
    f"and may else be a slow decay. Fewer than {MIN_LAYERS} layers are too short to tell.",
)


def build_page(models: Models) -> Page:
    """Compare all models: findings, curves, and how they were measured."""
    courses = [f"{name} {found.curves['l2'].course} ({found.depth} layers)" for name, found in models.items()]
    return Page(
        title="What a layer does to its input",
        lead="Figure 1 of the paper, measured here: how far every layer moves every token. By L2 distance: "
        f"{'; '.join(courses)}.",
        sections=[
            Section(
                "What the paper found, and what was found here",
                paragraphs=_list_cautions(models),
                findings=list_findings(models),
                tables=[_build_model_table(models)],
            ),
            Section("Layer by layer", charts=[_draw(name, models) for name in DISTANCES]),
            Section("How it was measured", paragraphs=_RULES, tables=[_build_layer_table(models)]),
        ],
    )


def _list_cautions(models: Models) -> list[str]:
    told = []
    deeper = [name for name, found in models.items() if found.depth > found.num_hidden_layers]
    if deeper:
        told.append(
            f"Run for more layers than they were trained with: {', '.join(deeper)}. The extra layers are "
            "outside of what the model was trained for."
        )
    unknown = [
        f"{name} ({found.unknown_share:.0%})"
        for name, found in models.items()
        if found.unknown_share > _MANY_UNKNOWN
    ]
    if unknown:
        told.append(
            f"Many tokens are unknown to the vocabulary: {', '.join(unknown)}. Give a text in the model's "
            "language (texts={MODEL: FILE})."
        )
    return told


def _build_model_table(models: Models) -> Table:
    shapes = (
        ("roughness", "mean absolute second difference over the mean height; 0 is a straight line"),
        ("inner roughness", "the same without the first layer, which reads the embeddings"),
        ("change", "height of the last third of the layers over that of the middle third"),
    )
    courses = "settles, keeps a level or drifts"
    columns = [
        Column("model"),
        Column("shared", hint="what its layers share"),
        Column("layers", is_number=True, hint="that were run"),
        Column("of its own", is_number=True, hint="layers that the model was built with"),
        Column("width", is_number=True),
        Column("L2 distance", is_number=True, hint="mean over layers"),
        Column("angle", is_number=True, hint="degrees, mean over layers"),
        *(
            Column(f"{shape}, {name}", is_number=True, hint=hint)
            for shape, hint in shapes
            for name in ("L2", "angle")
        ),
        Column("L2 distance goes", hint=courses),
        Column("angle goes", hint=courses),
        Column("sequences", is_number=True),
        Column("tokens", is_number=True),
    ]
    rows = []
    for name, found in models.items():
        both = [found.curves[distance] for distance in JUDGED]
        rows.append(
            [
                Cell(name),
                Cell(found.sharing),
                *map(Cell.number, (found.depth, found.num_hidden_layers, found.hidden_size)),
                *(number_cell(sum(curve.means) / len(curve.means)) for curve in both),
                *(interval_cell(curve.roughness) for curve in both),
                *(interval_cell(curve.inner_roughness) for curve in both),
                *(interval_cell(curve.change) for curve in both),
                *(Cell(curve.course) for curve in both),
                *map(Cell.number, (found.num_sequences, found.num_pieces)),
            ]
        )
    return Table("models", columns, rows, note="In brackets: 95% intervals over sequences.")


def _draw(distance: Distance, models: Models) -> Chart:
    series = []
    for name, found in models.items():
        curve = found.curves[distance]
        is_deeper = found.depth > found.num_hidden_layers
        label = f"{name} (trained with {found.num_hidden_layers})" if is_deeper else name
        layers = [float(layer) for layer in range(1, found.depth + 1)]
        series.append(Series(label, layers, curve.means, curve.lows, curve.highs))
    told = "; ".join(
        f"{each.name}: from {each.ys[0]:.3g} at the first layer to {each.ys[-1]:.3g} at the last, between "
        f"{min(each.ys):.3g} and {max(each.ys):.3g}"
        for each in series
    )
    return Chart(
        f"layers-{distance}",
        TITLES[distance],
        "layer",
        UNITS[distance],
        series,
        levels=() if distance == "cosine" else [Level(0.0, "an equilibrium")],
        told=f"{told}.",
    )


def _build_layer_table(models: Models) -> Table:
    columns = [
        Column("model"),
        Column("layer", is_number=True),
        *(Column(UNITS[distance], is_number=True, hint=TITLES[distance]) for distance in DISTANCES),
    ]
    rows = []
    for name, found in models.items():
        curves = [found.curves[distance] for distance in DISTANCES]
        for layer in range(found.depth):
            points = [(curve.means[layer], curve.lows[layer], curve.highs[layer]) for curve in curves]
            cells = [interval_cell(Interval(value, low, high, LEVEL)) for value, low, high in points]
            rows.append([Cell(name), Cell.number(layer + 1), *cells])
    return Table("layers", columns, rows, note="Means over tokens; in brackets 95% intervals over sequences.")


def list_findings(models: Models) -> list[Finding]:
    """Judge the paper's two claims: one for each pair of equal depth, and one for each ALBERT."""
    alberts = {name: found for name, found in models.items() if found.sharing == "all"}
    berts = {name: found for name, found in models.items() if found.sharing == "none"}
    findings = [_judge_course(name, found) for name, found in alberts.items()]
    if not alberts:
        findings = [Finding(OSCILLATES, THEIR_OSCILLATES, "No ALBERT was given.", "not asked")]
    pairs = [
        (albert, bert)
        for albert, bert in product(alberts.items(), berts.items())
        if albert[1].depth == bert[1].depth > 2
    ]
    if pairs:
        return [*(_compare_roughness(*albert, *bert) for albert, bert in pairs), *findings]
    if not alberts or not berts:
        told = f"No {'BERT' if alberts else 'ALBERT'} was given to compare with."
        return [Finding(SMOOTHER, THEIR_SMOOTHER, told, "not asked"), *findings]
    depths = ", ".join(f"{name} {found.depth}" for name, found in {**alberts, **berts}.items())
    told = f"No two models have the same number of layers, three or more ({depths}); set depth."
    return [Finding(SMOOTHER, THEIR_SMOOTHER, told, "cannot tell"), *findings]


def _compare_roughness(albert_name: str, albert: ModelCurves, bert_name: str, bert: ModelCurves) -> Finding:
    """Agree if all intervals are apart in the paper's direction, disagree if all are in the other."""
    words, signs = [], []
    for distance, title in JUDGED.items():
        ours, theirs = albert.curves[distance], bert.curves[distance]
        for name, mine, other in (
            (title, ours.roughness, theirs.roughness),
            ("without the first layer", ours.inner_roughness, theirs.inner_roughness),
        ):
            if mine is not None and other is not None:
                words.append(f"{name} {_format_interval(mine)} against {_format_interval(other)}")
                signs.append((mine.low > other.high) - (mine.high < other.low))
    told = f"{albert_name} against {bert_name}, {albert.depth} layers, roughness: {'; '.join(words)}."
    verdict: Verdict = "cannot tell"
    if all(sign < 0 for sign in signs):
        verdict = "agrees"
    elif all(sign > 0 for sign in signs):
        verdict = "disagrees"
    return Finding(SMOOTHER, THEIR_SMOOTHER, told, verdict)


def _judge_course(name: str, found: ModelCurves) -> Finding:
    words = []
    for distance, title in JUDGED.items():
        curve = found.curves[distance]
        course: str = curve.course
        if course == "keeps a level":
            course += f" with{'' if curve.has_turn else 'out'} a turn"
        if curve.change is not None:
            course += f", last third over middle third {_format_interval(curve.change)}"
        words.append(f"{title} {course}")
    told = f"{name}, {found.depth} layers ({found.num_hidden_layers} of its own): {'; '.join(words)}."
    if found.depth < MIN_LAYERS:
        told += f" At least {MIN_LAYERS} layers are needed; set depth."
    verdict = _judge_curves([found.curves[distance] for distance in JUDGED])
    return Finding(OSCILLATES, THEIR_OSCILLATES, told, verdict)


def _judge_curves(curves: Sequence[Curve]) -> Verdict:
    """Agree if all curves keep a level and turn, disagree if all settle or all drift.

    A curve's courses are its own and those at the ends of its interval.
    """
    courses = {curve.course for curve in curves}
    for curve in curves:
        if curve.change is not None:
            courses |= {name_course(curve.change.low), name_course(curve.change.high)}
    if courses == {"keeps a level"} and all(curve.has_turn for curve in curves):
        return "agrees"
    return "disagrees" if courses in ({"settles"}, {"drifts"}) else "cannot tell"


def _format_interval(interval: Interval) -> str:
    value, low, high = map(format_number, (interval.value, interval.low, interval.high))
    return f"{value} ({low}–{high})"
