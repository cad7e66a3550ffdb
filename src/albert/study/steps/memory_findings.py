"""What the paper says of memory: peaks come in; each claim with what was measured goes out. No torch."""

from collections.abc import Sequence

from albert.model.parameters import count_parameters
from albert.model.presets import build_preset
from albert.report.content import Finding, Verdict
from albert.study.parameters import PAPER_SIZES
from albert.study.steps.memory_results import ShapeMemory

_NOTICEABLE = 1.05


def list_findings(found: Sequence[ShapeMemory]) -> list[Finding]:
    """Fewer parameters; and less memory, by how much at each shape."""
    return [_judge_parameters(), *(_judge_memory(each) for each in found)]


def _judge_parameters() -> Finding:
    """Counted, not measured: the shapes are the paper's own."""
    sizes = {name: count_parameters(build_preset(name)).backbone for name in ("albert-large", "bert-large")}
    paper = PAPER_SIZES["bert-large"] / PAPER_SIZES["albert-large"]
    ratio = sizes["bert-large"] / sizes["albert-large"]
    return Finding(
        claim="ALBERT-large has 18 times fewer parameters than BERT-large.",
        theirs=f"{PAPER_SIZES['albert-large']}M against {PAPER_SIZES['bert-large']}M, {paper:.1f}×.",
        ours=f"{sizes['albert-large']:,} against {sizes['bert-large']:,}, {ratio:.1f}×, counted.",
        verdict="agrees" if int(ratio) == int(paper) else "disagrees",
    )


def _judge_memory(found: ShapeMemory) -> Finding:
    claim = f"Fewer parameters lower the memory of training ({found.shape})."
    theirs = "“Two parameter-reduction techniques to lower memory consumption” (abstract); no figure."
    ratios = found.list_ratios(is_checkpointed=False) or found.list_ratios(is_checkpointed=True)
    if not ratios:
        return Finding(claim, theirs, "No batch was measured on both sides.", "not asked")
    verdict: Verdict = "cannot tell"
    if all(ratio > _NOTICEABLE for ratio in ratios.values()):
        verdict = "agrees"
    elif all(ratio < _NOTICEABLE for ratio in ratios.values()):
        verdict = "disagrees"
    told = ", ".join(f"{ratio:.2f} with batches of {size}" for size, ratio in ratios.items())
    ours = (
        f"BERT's peak over ALBERT's, one measurement each: {told}; their parameters: "
        f"{found.parameter_ratio:.1f}."
    )
    return Finding(claim, theirs, ours, verdict)
