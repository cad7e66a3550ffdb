"""What is measured of an arm: how a figure is called, and whether more of it is better."""

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
