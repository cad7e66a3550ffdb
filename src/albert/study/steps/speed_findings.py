"""What the paper says of speed: rounds come in; each claim with what was measured goes out. No torch."""

from collections.abc import Sequence

from albert.report.content import Finding, Verdict
from albert.study.cells import format_bytes, format_number, summarise_ratios
from albert.study.steps.equal_shapes import Family
from albert.study.steps.exchange import BYTES_EACH
from albert.study.steps.speed_exchange import Network, predict_speedup
from albert.study.steps.speed_results import ShapeSpeed, Time, find_largest, read_model, read_step
from albert.tasks.metrics.intervals import Interval

# Table 2: training speed where BERT-large's is 1.
PAPER_SPEEDS: dict[tuple[Family, str], float] = {
    ("BERT", "base"): 4.7,
    ("BERT", "large"): 1.0,
    ("ALBERT", "base"): 5.6,
    ("ALBERT", "large"): 1.7,
    ("ALBERT", "xlarge"): 0.6,
    ("ALBERT", "xxlarge"): 0.3,
}
PAIRED = ("base", "large")  # the shapes of which the paper timed both
_NOTICEABLE = 1.05  # less is noise, or a matter of kernels
_MIN_ROUNDS = 3  # the least and the most of fewer say next to nothing of what another round would be
_REASON = "“Because of less communication and fewer computations” (section 4.3)."


def find_paper_ratio(shape: str) -> float | None:
    """How many times as fast the paper's ALBERT was as its BERT of that shape."""
    albert, bert = PAPER_SPEEDS.get(("ALBERT", shape)), PAPER_SPEEDS.get(("BERT", shape))
    return None if albert is None or bert is None else albert / bert


def list_findings(measured: Sequence[ShapeSpeed], *, network: Network) -> list[Finding]:
    """Faster at base and at large; fewer computations; less communication."""
    return [
        *(_judge_shape(shape, measured) for shape in PAIRED),
        _judge_computations(measured),
        _judge_communication(measured, network),
    ]


def _judge_shape(shape: str, measured: Sequence[ShapeSpeed]) -> Finding:
    claim = f"ALBERT-{shape} trains faster than BERT-{shape}."
    speeds = [PAPER_SPEEDS[family, shape] for family in ("ALBERT", "BERT")]
    theirs = f"{speeds[0] / speeds[1]:.2f}×, {speeds[0]:g} over {speeds[1]:g} of table 2, on TPU pods."
    found = next((each for each in measured if each.shape == shape), None)
    if found is None:
        return Finding(claim, theirs, f"{shape} was not measured; add it to shapes.", "not asked")
    verdict = _judge([found], [found.find_ratio(read_step)], limit=1.0)
    return Finding(claim, theirs, f"{_tell(found, read_step)} by one process on a CPU.", verdict)


def _judge_computations(measured: Sequence[ShapeSpeed]) -> Finding:
    claim = "ALBERT computes less than BERT of the same shape."
    if not measured:
        return Finding(claim, _REASON, "Nothing was measured.", "not asked")
    told = "; ".join(f"{each.shape} {_tell(each, read_model)}" for each in measured)
    verdict = _judge(measured, [each.find_ratio(read_model) for each in measured], limit=_NOTICEABLE)
    ours = f"Forward and backward, BERT's time over ALBERT's: {told}. Below {_NOTICEABLE} they are equal."
    return Finding(claim, _REASON, ours, verdict)


def _judge_communication(measured: Sequence[ShapeSpeed], network: Network) -> Finding:
    claim = "ALBERT communicates less, and gains by it in data-parallel training."
    if not measured:
        return Finding(claim, _REASON, "Nothing was measured.", "not asked")
    largest, link = find_largest(measured), min(network.links_gbit)
    sizes = {family: found.num_parameters for family, found in largest.rounds[0].footprints.items()}
    gained = predict_speedup(largest, network, link)
    alone = largest.find_ratio(read_step).value
    more = summarise_ratios(
        [
            predict_speedup(each, network, link) / each.find_ratio(read_step).value
            for each in largest.iter_rounds()
        ]
    )
    ours = (
        f"{largest.shape}: {format_bytes(BYTES_EACH * sizes['ALBERT'])} of gradients a step instead of "
        f"{format_bytes(BYTES_EACH * sizes['BERT'])}, counted. With {network.num_processes} processes on "
        f"{link:g} Gbit/s, {format_number(gained)}× instead of {format_number(alone)}× alone; in each round "
        f"{format_number(more.low)} to {format_number(more.high)} times as much, computed from the measured "
        "times."
    )
    return Finding(claim, _REASON, ours, _judge([largest], [more], limit=_NOTICEABLE))


def _judge(measured: Sequence[ShapeSpeed], ratios: Sequence[Interval], *, limit: float) -> Verdict:
    """Every round of every shape above the limit, every one below it, or neither."""
    if any(len(each.rounds) < _MIN_ROUNDS for each in measured):
        return "cannot tell"
    if all(ratio.low > limit for ratio in ratios):
        return "agrees"
    return "disagrees" if all(ratio.high < limit for ratio in ratios) else "cannot tell"


def _tell(found: ShapeSpeed, time: Time) -> str:
    ratio = found.find_ratio(time)
    return f"{ratio.value:.2f}× ({ratio.low:.2f}–{ratio.high:.2f} in {found.told_rounds})"
