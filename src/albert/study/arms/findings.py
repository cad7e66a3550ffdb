"""The paper's claims and the arms' results come in; whether they agree goes out, said plainly."""

from collections.abc import Mapping

from albert.pages.content import Finding, Verdict
from albert.study.arms.plan import ClaimSettings, StudySettings
from albert.study.arms.results import ArmSummary
from albert.study.arms.statistics import Comparison, compare_paired

# How a figure is called, and whether more of it is better.
FIGURES: dict[str, tuple[str, bool]] = {
    "average": ("average of the tasks", True),
    "mlm_accuracy": ("masked words right", True),
    "mlm_loss": ("loss of masked words", False),
    "sop_accuracy": ("sentence order right", True),
    "nsp_accuracy": ("next sentence right", True),
    "probe_sop": ("sentence order by a probe", True),
    "probe_nsp": ("next sentence by a probe", True),
    "agreement": ("minimal pairs right", True),
    "train_loss": ("loss on training text", False),
    "gap": ("held-out loss above training loss", False),
    "grad_norm": ("gradient norm", False),
    "grad_variation": ("gradient norm, deviation over mean", False),
}


def name_figure(figure: str) -> str:
    """What a reader calls it; a task is called by its name."""
    return FIGURES[figure][0] if figure in FIGURES else figure


def is_better_high(figure: str) -> bool:
    """Whether more of it is better."""
    return FIGURES[figure][1] if figure in FIGURES else True


def judge_claims(settings: StudySettings, summaries: Mapping[str, ArmSummary]) -> list[Finding]:
    """A finding for each claim."""
    return [judge_claim(claim, settings, summaries) for claim in settings.claims]


def judge_claim(
    claim: ClaimSettings, settings: StudySettings, summaries: Mapping[str, ArmSummary]
) -> Finding:
    """By the first of the claim's figures that both arms have."""
    theirs = _tell_theirs(claim)
    for figure in claim.by:
        found = _compare(claim, figure, summaries)
        if found is not None:
            ours = _tell_ours(claim, figure, found, settings)
            return Finding(claim.text, theirs, ours, _judge(claim, found))
    return Finding(claim.text, theirs, "one of the two arms has no result yet", "not asked")


def _compare(claim: ClaimSettings, figure: str, summaries: Mapping[str, ArmSummary]) -> Comparison | None:
    """How much better the one is than the other; also where less is better."""
    better, than = (summaries[arm].collect(figure) for arm in (claim.better, claim.than))
    if is_better_high(figure):
        return compare_paired(better, base=than)
    return compare_paired(than, base=better)


def _judge(claim: ClaimSettings, found: Comparison) -> Verdict:
    if found.low is None or found.high is None:
        return "cannot tell"
    if claim.is_equal:
        if -claim.margin <= found.low and found.high <= claim.margin:
            return "agrees"
        return "disagrees" if found.low > claim.margin or found.high < -claim.margin else "cannot tell"
    if found.is_positive:
        return "agrees"
    return "disagrees" if found.is_negative else "cannot tell"


def _tell_theirs(claim: ClaimSettings) -> str:
    if claim.is_equal:
        return f"no difference ({claim.paper or 0.0:+.1f})"
    return "better" if claim.paper is None else f"{claim.paper:+.1f} points"


def _tell_ours(claim: ClaimSettings, figure: str, found: Comparison, settings: StudySettings) -> str:
    better, than = (settings.arms[arm].label or arm for arm in (claim.better, claim.than))
    unit = "" if figure.endswith(("loss", "gap", "norm", "variation")) else " points"
    told = f"{found.difference:+.2f}{unit}"
    if found.low is None or found.high is None:
        told += ", one seed, no interval"
    else:
        told += f", 95% from {found.low:+.2f} to {found.high:+.2f} ({found.num_pairs} seeds, p = {_p(found)})"
    return f"{name_figure(figure)}, {better} against {than}: {told}"


def _p(found: Comparison) -> str:
    assert found.p_value is not None, "there is an interval"
    return "< 0.001" if found.p_value < 0.001 else f"{found.p_value:.3f}"
