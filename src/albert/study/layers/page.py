"""Figure 1 as a page: the curves of models come in; charts, tables and what follows from them go out."""

from collections.abc import Mapping

from albert.report.content import Cell, Chart, Column, Level, Page, Section, Series, Table
from albert.study.cells import count_cell, interval_cell, number_cell, text_cell
from albert.study.layers.findings import list_findings
from albert.study.layers.shape import DRIFTING_CHANGE, MIN_LAYERS, NOTHING, SETTLING_CHANGE
from albert.study.layers.states import DISTANCES, LEVEL, Curve, Distance, ModelCurves
from albert.tasks.metrics.intervals import Interval

Models = Mapping[str, ModelCurves]
TITLES: dict[Distance, str] = {
    "l2": "L2 distance between a layer's input and output",
    "cosine": "Cosine similarity of a layer's input and output",
    "angle": "Angle between a layer's input and output",
}
UNITS: dict[Distance, str] = {"l2": "L2 distance", "cosine": "cosine", "angle": "angle, degrees"}
_MANY_UNKNOWN = 0.1
_COURSES = "settles, keeps a level or drifts"


def build_layers_page(models: Models) -> Page:
    """All models beside each other."""
    courses = [f"{name} {found.curves['l2'].course} ({found.depth} layers)" for name, found in models.items()]
    return Page(
        title="What a layer does to its input",
        lead=(
            "Figure 1 of the paper, measured here: how far every layer moves every token. By L2 distance: "
            f"{'; '.join(courses)}."
        ),
        sections=[
            Section(
                title="What the paper found, and what was found here",
                paragraphs=_list_cautions(models),
                findings=list_findings(models),
                tables=[_tabulate_models(models)],
            ),
            Section(title="Layer by layer", charts=[_draw(name, models) for name in DISTANCES]),
            Section(title="How it was measured", paragraphs=_tell_rules(), tables=[_tabulate_layers(models)]),
        ],
    )


def _list_cautions(models: Models) -> list[str]:
    told = []
    deeper = [name for name, found in models.items() if found.depth > found.num_hidden_layers]
    if deeper:
        told.append(
            f"Run with more loops than they were trained with: {', '.join(deeper)}. What the block does "
            "there it was never asked to do."
        )
    unknown = [
        f"{name} ({found.unknown_share:.0%})"
        for name, found in models.items()
        if found.unknown_share > _MANY_UNKNOWN
    ]
    if unknown:
        told.append(
            f"Pieces that the vocabulary does not know: {', '.join(unknown)}. Give a text in the "
            "model's language (texts={MODEL: FILE})."
        )
    return told


def _tabulate_models(models: Models) -> Table:
    columns = [
        Column("model"),
        Column("shared", hint="what its layers share"),
        Column("layers", is_number=True, hint="that were run"),
        Column("of its own", is_number=True, hint="layers that the model was built with"),
        Column("width", is_number=True),
        Column("L2 distance", is_number=True, hint="mean over layers"),
        Column("angle", is_number=True, hint="degrees, mean over layers"),
        *(
            Column(f"{figure}, {name}", is_number=True, hint=hint)
            for figure, hint in (
                ("roughness", "mean absolute second difference over the mean height; 0 is a straight line"),
                ("inner roughness", "the same without the first layer, which reads the embeddings"),
                ("change", "height of the last third of the layers over that of the middle third"),
            )
            for name in ("L2", "angle")
        ),
        Column("L2 distance goes", hint=_COURSES),
        Column("angle goes", hint=_COURSES),
        Column("sequences", is_number=True),
        Column("pieces", is_number=True),
    ]
    rows = []
    for name, found in models.items():
        l2, angle = found.curves["l2"], found.curves["angle"]
        both = (l2, angle)
        figures = [
            *(curve.roughness for curve in both),
            *(curve.inner_roughness for curve in both),
            *(curve.change for curve in both),
        ]
        rows.append(
            [
                text_cell(name),
                text_cell(found.sharing),
                count_cell(found.depth),
                count_cell(found.num_hidden_layers),
                count_cell(found.hidden_size),
                number_cell(_mean(l2)),
                number_cell(_mean(angle)),
                *map(interval_cell, figures),
                text_cell(l2.course),
                text_cell(angle.course),
                count_cell(found.num_sequences),
                count_cell(found.num_pieces),
            ]
        )
    return Table("models", columns, rows, note="In brackets: 95% intervals over sequences.")


def _mean(curve: Curve) -> float:
    return sum(curve.means) / len(curve.means)


def _draw(distance: Distance, models: Models) -> Chart:
    series = [
        _draw_series(_name_series(name, found), found.curves[distance]) for name, found in models.items()
    ]
    told = "; ".join(
        f"{each.name}: from {each.ys[0]:.3g} at the first layer to {each.ys[-1]:.3g} at the last, between "
        f"{min(each.ys):.3g} and {max(each.ys):.3g}"
        for each in series
    )
    return Chart(
        name=f"layers-{distance}",
        title=TITLES[distance],
        x_label="layer",
        y_label=UNITS[distance],
        series=series,
        levels=() if distance == "cosine" else [Level(0.0, "an equilibrium")],
        told=f"{told}.",
    )


def _name_series(name: str, found: ModelCurves) -> str:
    is_deeper = found.depth > found.num_hidden_layers
    return f"{name} (trained with {found.num_hidden_layers})" if is_deeper else name


def _draw_series(name: str, curve: Curve) -> Series:
    layers = [float(layer) for layer in range(1, len(curve.means) + 1)]
    return Series(name, xs=layers, ys=curve.means, lows=curve.lows, highs=curve.highs)


def _tabulate_layers(models: Models) -> Table:
    columns = [
        Column("model"),
        Column("layer", is_number=True),
        *(Column(UNITS[distance], is_number=True, hint=TITLES[distance]) for distance in DISTANCES),
    ]
    rows = [
        [text_cell(name), count_cell(layer + 1), *(_cut(found.curves[each], layer) for each in DISTANCES)]
        for name, found in models.items()
        for layer in range(found.depth)
    ]
    return Table("layers", columns, rows, note="Means over tokens; in brackets 95% intervals over sequences.")


def _cut(curve: Curve, layer: int) -> Cell:
    """One layer of a curve."""
    return interval_cell(Interval(curve.means[layer], curve.lows[layer], curve.highs[layer], LEVEL))


def _tell_rules() -> list[str]:
    return [
        "Every line of the text is a sequence. The first layer reads the embeddings, mapped from E to H; "
        "of every token, [CLS] and [SEP] among them, a layer's input and output are compared. A figure is "
        "the mean over tokens; its interval is what other sequences would make of it (95%, by drawing "
        "sequences with replacement).",
        "Roughness is the mean absolute second difference of a curve over its mean height: 0 for a "
        "straight line. It depends on the number of layers, so that models of equal depth are compared; and "
        "it is told with the first layer, whose input ALBERT has not normalised and BERT has, and without.",
        "Where a curve goes is told by the height of its last third of layers over that of its middle "
        "third; the first third, which leads from the embeddings to where layers work, is left out. At "
        f"most {SETTLING_CHANGE:.2f}, or {NOTHING:.0%} of the highest: it settles, as the steps of a deep "
        f"equilibrium model do. At least {DRIFTING_CHANGE:.2f}: it drifts. Between them it keeps a level; it "
        f"oscillates if it also turns there, rising as well as falling after the first third by more than "
        f"{NOTHING:.0%} of the highest, and may else be a slow decay. With fewer than {MIN_LAYERS} layers it "
        "cannot be told.",
    ]
