"""What shared and unshared models answered comes in; whether sharing helps agreement goes out."""

from collections.abc import Sequence
from statistics import fmean

from albert.report.content import Finding, Verdict
from albert.study.agreement.answered import Answered
from albert.study.agreement.pairs import Pair
from albert.study.agreement.phenomena import PHENOMENA
from albert.study.agreement.significance import find_difference

_CLAIM = "Layers that share their weights agree subject and verb better than layers of their own."
_THEIRS = (
    "The paper tells in section 2.2 that Dehghani et al. (2019) found a transformer of shared layers better "
    "at subject–verb agreement than the standard one. They train and test on Linzen's (2016) sentences."
)

# What models must have in common, and what a person calls it.
_ALIKE = {
    "num_hidden_layers": "depth",
    "hidden_size": "width",
    "embedding_size": "embedding size",
    "intermediate_size": "inner width",
    "num_attention_heads": "attention heads",
    "hidden_act": "activation",
    "heads": "objectives",
    "vocabulary": "vocabulary",
}


def judge_sharing(answered: Sequence[Answered], pairs: Sequence[Pair], *, seed: int) -> Finding:
    """Models that share all against those that share nothing, on the pairs of subject and verb."""
    shared, unshared = (
        [each for each in answered if each.model.sharing == sharing] for sharing in ("all", "none")
    )
    if not shared or not unshared:
        kinds = ", ".join(sorted({each.model.sharing for each in answered}))
        ours = f"All models asked share {kinds}; give some that share all and some that share none."
        return Finding(_CLAIM, _THEIRS, ours, "not asked")
    gaps = _list_gaps(shared, unshared, pairs)
    if not gaps:
        ours = "No pair of subject and verb was asked of all of them."
        return Finding(_CLAIM, _THEIRS, ours, "cannot tell")
    found = find_difference(gaps, seed=seed)
    low, high = 100.0 * found.low, 100.0 * found.high
    ours = (
        f"{_name(shared)} {abs(100.0 * found.value):.1f} points {'above' if found.value >= 0 else 'below'} "
        f"{_name(unshared)} on {len(gaps):,} pairs (95% interval {low:+.1f} to {high:+.1f}). The interval is "
        "about the pairs; another seed of training may move the models by more."
    )
    unlike = _list_unlike([*shared, *unshared])
    if unlike:
        ours += f" The models differ in {', '.join(unlike)} as well: sharing is not what was compared."
        return Finding(_CLAIM, _THEIRS, ours, "cannot tell")
    if min(_count_models(shared), _count_models(unshared)) < 2:
        ours += " One model may be a lucky one; give at least two of either kind, of several seeds."
        return Finding(_CLAIM, _THEIRS, ours, "cannot tell")
    verdict: Verdict = "agrees" if found.low > 0 else "disagrees" if found.high < 0 else "cannot tell"
    return Finding(_CLAIM, _THEIRS, ours, verdict)


def _list_gaps(
    shared: Sequence[Answered], unshared: Sequence[Answered], pairs: Sequence[Pair]
) -> list[tuple[object, float]]:
    """For each pair that all were asked, how many more of the shared models are right."""
    ours, theirs = (list(zip(*(each.decisions for each in side), strict=True)) for side in (shared, unshared))
    gaps: list[tuple[object, float]] = []
    for pair, one, other in zip(pairs, ours, theirs, strict=True):
        if PHENOMENA[pair.phenomenon].is_subject_verb and None not in (*one, *other):
            gap = fmean(bool(each) for each in one) - fmean(bool(each) for each in other)
            gaps.append(((pair.phenomenon, pair.frame), gap))
    return gaps


def _list_unlike(answered: Sequence[Answered]) -> list[str]:
    """What they do not have in common, sharing apart."""
    return [name for key, name in _ALIKE.items() if len({getattr(each.model, key) for each in answered}) > 1]


def _count_models(answered: Sequence[Answered]) -> int:
    """The same weights in two folders are one model."""
    return len({each.model.identity for each in answered})


def _name(answered: Sequence[Answered]) -> str:
    names = ", ".join(each.name for each in answered)
    sharing = "all" if answered[0].model.sharing == "all" else "nothing"
    return f"{names} ({sharing} shared)"
