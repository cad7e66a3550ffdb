"""What the paper says of figure 1: curves of models come in; each claim with what was measured goes out."""

from collections.abc import Mapping, Sequence
from itertools import product

from albert.report.content import Finding, Verdict
from albert.study.cells import format_number
from albert.study.layers.shape import MIN_LAYERS, Course, name_course
from albert.study.layers.states import Curve, Distance, ModelCurves
from albert.tasks.metrics.intervals import Interval

JUDGED: tuple[Distance, ...] = ("l2", "angle")
NAMES: dict[Distance, str] = {"l2": "L2 distance", "angle": "angle", "cosine": "cosine"}
SMOOTHER = "From layer to layer ALBERT changes more smoothly than BERT of the same depth."
OSCILLATES = "ALBERT's layers oscillate and do not settle at an equilibrium, where they would change nothing."
THEIR_SMOOTHER = "ALBERT-large's curves are much smoother than BERT-large's (figure 1)."
THEIR_OSCILLATES = "ALBERT-large's distances fall at first and then keep a level above 0 (figure 1)."


def list_findings(models: Mapping[str, ModelCurves]) -> list[Finding]:
    """The paper's two claims: one for each pair of equal depth, and one for each ALBERT."""
    alberts = {name: found for name, found in models.items() if found.sharing == "all"}
    berts = {name: found for name, found in models.items() if found.sharing == "none"}
    return [
        *_judge_smoothness(alberts, berts),
        *(_judge_course(name, found) for name, found in alberts.items()),
        *([] if alberts else [Finding(OSCILLATES, THEIR_OSCILLATES, "No ALBERT was given.", "not asked")]),
    ]


def _judge_smoothness(alberts: Mapping[str, ModelCurves], berts: Mapping[str, ModelCurves]) -> list[Finding]:
    if not alberts or not berts:
        missing = "BERT" if alberts else "ALBERT"
        return [Finding(SMOOTHER, THEIR_SMOOTHER, f"No {missing} was given to compare with.", "not asked")]
    pairs = [
        (albert, bert)
        for albert, bert in product(alberts.items(), berts.items())
        if albert[1].depth == bert[1].depth and albert[1].depth > 2
    ]
    if not pairs:
        depths = ", ".join(f"{name} {found.depth}" for name, found in {**alberts, **berts}.items())
        ours = f"No two of them have the same number of layers, from three on ({depths}); set depth."
        return [Finding(SMOOTHER, THEIR_SMOOTHER, ours, "cannot tell")]
    return [_compare_roughness(*albert, *bert) for albert, bert in pairs]


def _compare_roughness(albert_name: str, albert: ModelCurves, bert_name: str, bert: ModelCurves) -> Finding:
    words, signs = [], []
    for distance in JUDGED:
        ours, theirs = albert.curves[distance], bert.curves[distance]
        for name, mine, other in (
            (NAMES[distance], ours.roughness, theirs.roughness),
            ("without the first layer", ours.inner_roughness, theirs.inner_roughness),
        ):
            if mine is not None and other is not None:
                words.append(f"{name} {_tell(mine)} against {_tell(other)}")
                signs.append((mine.low > other.high) - (mine.high < other.low))
    told = f"{albert_name} against {bert_name}, {albert.depth} layers, roughness: {'; '.join(words)}."
    return Finding(SMOOTHER, THEIR_SMOOTHER, told, _judge_signs(signs))


def _judge_signs(signs: Sequence[int]) -> Verdict:
    """All intervals apart in the paper's direction, all in the other, or neither."""
    if all(sign < 0 for sign in signs):
        return "agrees"
    return "disagrees" if all(sign > 0 for sign in signs) else "cannot tell"


def _judge_course(name: str, found: ModelCurves) -> Finding:
    words = []
    for distance in JUDGED:
        curve = found.curves[distance]
        change = "" if curve.change is None else f", last third over middle third {_tell(curve.change)}"
        words.append(f"{NAMES[distance]} {_name_course(curve)}{change}")
    told = f"{name}, {found.depth} layers ({found.num_hidden_layers} of its own): {'; '.join(words)}."
    if found.depth < MIN_LAYERS:
        told += f" From {MIN_LAYERS} layers on it can be told; set depth."
    return Finding(
        OSCILLATES, THEIR_OSCILLATES, told, _judge_curves([found.curves[distance] for distance in JUDGED])
    )


def _name_course(curve: Curve) -> str:
    """A level is told with what makes it an oscillation, or does not."""
    turn = f" with{'' if curve.has_turn else 'out'} a turn" if curve.course == "keeps a level" else ""
    return f"{curve.course}{turn}"


def _list_courses(curve: Curve) -> set[Course]:
    """Its course, and those that other sequences might have given it."""
    change = curve.change
    ends = () if change is None else (change.low, change.high)
    return {curve.course, *(name_course(end) for end in ends)}


def _judge_curves(curves: Sequence[Curve]) -> Verdict:
    """All keep a level and turn; all do the same other thing; or they differ, or may yet come to rest."""
    courses = {course for curve in curves for course in _list_courses(curve)}
    if courses == {"keeps a level"} and all(curve.has_turn for curve in curves):
        return "agrees"
    return "disagrees" if courses in ({"settles"}, {"drifts"}) else "cannot tell"


def _tell(interval: Interval) -> str:
    value, low, high = (format_number(each) for each in (interval.value, interval.low, interval.high))
    return f"{value} ({low}–{high})"
