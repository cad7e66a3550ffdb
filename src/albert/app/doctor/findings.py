"""What the doctor says: symptoms with their figures and cures come in, and go out worst first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["damaged", "stuck", "slow", "machine", "healthy"]
Severity = Literal["serious", "warning", "note", "fine"]
Figure = float | int | str

KINDS: tuple[Kind, ...] = ("damaged", "stuck", "slow", "machine", "healthy")
SEVERITIES: tuple[Severity, ...] = ("serious", "warning", "note", "fine")


@dataclass(frozen=True)
class Finding:
    """One symptom: what is the matter, the figures it was seen by, and what to do about it."""

    kind: Kind
    severity: Severity
    title: str
    figures: Mapping[str, Figure] = field(default_factory=dict)
    cure: str = ""


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Worst first; of equals, what is damaged, then what is stuck, then what is slow."""
    return sorted(findings, key=lambda found: (SEVERITIES.index(found.severity), KINDS.index(found.kind)))


def format_figure(name: str, value: Figure) -> str:
    """`unigram_loss` and 6.31 as `unigram loss 6.31`; what ends in `_share` is a percentage."""
    words = name if name.isupper() else name.removesuffix("_share").replace("_", " ")
    if isinstance(value, str):
        return f"{words}: {value}"
    if name.endswith("_share"):
        return f"{words} {value:.1%}"
    is_whole = isinstance(value, int) or abs(value) >= 1000
    return f"{words} {value:,.0f}" if is_whole else f"{words} {value:.4g}"


def number_cures(cures: Iterable[str]) -> str:
    """Cures in the order in which to try them, a line each."""
    listed = list(cures)
    return listed[0] if len(listed) == 1 else "\n".join(f"({n}) {cure}" for n, cure in enumerate(listed, 1))
