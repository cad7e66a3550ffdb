"""The paper's claims and the arms' results come in; whether they agree goes out, said plainly."""

from collections.abc import Mapping

from albert.report.content import Finding, Verdict
from albert.study.arms.figures import is_better_high, name_figure
from albert.study.arms.plan import ClaimSettings, StudySettings
from albert.study.arms.results import ArmSummary
from albert.study.arms.statistics import Comparison, compare_paired, format_p


def judge_claims(settings: StudySettings, summaries: Mapping[str, ArmSummary]) -> list[Finding]:
    """A finding for each claim."""
    return [judge_claim(claim, settings, summaries) for claim in settings.claims]


def judge_claim(
    claim: ClaimSettings, settings: StudySettings, summaries: Mapping[str, ArmSummary]
) -> Finding:
    """By the first of the claim's figures that was measured."""
    theirs = _tell_theirs(claim)
    for figure in claim.by:
        found = _compare(claim, figure, summaries)
        if found is not None:
            ours = _tell_ours(claim, figure, found, settings)
            return Finding(claim.text, theirs, ours, _judge(claim, found))
    waiting = [settings.arms[arm].label or arm for arm in claim.arms if not summaries[arm].results]
    if waiting:
        ours = f"not finished: {', '.join(waiting)}"
    else:
        cure = "; give tasks, as in tasks=[sst-2], and --task-data" if claim.by == ("average",) else ""
        ours = f"{' and '.join(name_figure(figure) for figure in claim.by)}: not measured{cure}"
    return Finding(claim.text, theirs, ours, "not asked")


def _compare(claim: ClaimSettings, figure: str, summaries: Mapping[str, ArmSummary]) -> Comparison | None:
    """How much better the one is than the other; also where less is better."""
    better = summaries[claim.better].collect(figure)
    if isinstance(claim.than, str):
        than = summaries[claim.than].collect(figure)
    else:
        than = dict.fromkeys(better, claim.than)
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
    if claim.paper is None:
        return "no difference" if claim.is_equal else "better"
    told = f"{claim.paper:+.1f} points ({name_figure(claim.by[0])})"
    return f"no difference: {told}" if claim.is_equal else told


def _tell_ours(claim: ClaimSettings, figure: str, found: Comparison, settings: StudySettings) -> str:
    better, *than = (settings.arms[arm].label or arm for arm in claim.arms)
    unit = "" if figure.endswith(("loss", "gap", "norm", "variation")) else " points"
    is_turned = not is_better_high(figure)
    if is_turned:  # what is told is the figure itself, as in the tables
        found = found.turned_round
    told = f"{found.difference:+.2f}{unit}"
    if found.low is None or found.high is None or found.p_value is None:
        told += ", no interval" if found.num_pairs > 1 else ", one seed, no interval"
    else:
        p_value = format_p(found.p_value)
        sign = "" if p_value.startswith("<") else "= "
        told += (
            f", 95% from {found.low:+.2f} to {found.high:+.2f} ({found.num_pairs} seeds, p {sign}{p_value})"
        )
    if is_turned:
        told += "; less is better"
    return f"{name_figure(figure)}, {better} against {than[0] if than else f'{claim.than:g}'}: {told}"
