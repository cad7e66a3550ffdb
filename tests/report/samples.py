"""A page like that of a study: findings, tables with intervals, and a chart of each type."""

import math

from albert.report.content import Cell, Chart, Column, Finding, Level, Page, Section, Series, Table

VARIANTS = ("none", "attention", "feed-forward", "all, E = 128", "all, E = 768", "all, warm start")


def curve(name: str, *, end: float, spread: float = 0.1) -> Series:
    """A loss that falls towards `end`, between the lowest and the highest of three seeds."""
    steps = [float(step) for step in range(0, 12_501, 250)]
    ys = [end + (9.2 - end) * math.exp(-step / 2500) + 0.06 * math.sin(step / 700) for step in steps]
    return Series(name, steps, ys, [y - spread for y in ys], [y + 1.3 * spread for y in ys])


CURVES = Chart(
    "curves", "Held-out loss of masked words", "step", "loss of masked words",
    [
        curve("nothing shared, E = 768 (as BERT)", end=4.1),
        curve("all layers shared, E = 128 (as ALBERT)", end=4.9),
        curve("attention shared, E = 128", end=4.4, spread=0.2),
    ],
    levels=[Level(7.2, "unigram entropy")], caption="All fall; variants that share more stay higher.",
)  # fmt: skip

POINTS = Chart(
    "sharing", "Average score by what is shared", "", "average score",
    [
        Series("here, base", [0, 1, 2, 3, 4, 5], [62.3, 61.8, 60.2, 60.1, 59.8, 61.0],
               [61.5, 61.1, 59.6, 59.0, 58.8, 60.1], [63.0, 62.6, 60.9, 61.3, 60.8, 61.9]),
        Series("the paper", [0, 1, 2, 3, 4], [61.6, 61.7, 60.2, 60.1, 59.8], is_reference=True),
    ],
    kind="points", x_names=VARIANTS, levels=[Level(59.0, "a bag of words")],
    caption="Sharing the feed-forward blocks costs most.",
)  # fmt: skip

SPEED = Chart(
    "speed", "Time of a step by the number of tokens", "tokens in a batch", "seconds",
    [
        Series("flat", [128, 512, 2048, 8192, 32768], [0.011, 0.034, 0.12, 0.47, 1.9]),
        Series("padded", [128, 512, 2048, 8192, 32768], [0.014, 0.06, 0.23, 1.0, 4.3]),
    ],
    has_log_x=True, has_log_y=True, caption="Both grow with the tokens; padding doubles the time.",
)  # fmt: skip


SCORES = Table(
    "scores",
    [
        Column("variant"),
        Column("parameters", is_number=True),
        Column("average", is_number=True, hint="mean over five tasks, with its 95% interval"),
        Column("difference", is_number=True, hint="from the base, seed by seed"),
        Column("p", is_number=True),
        Column("the paper", is_number=True),
    ],
    [
        [Cell("none"), Cell("89.0M", 89e6), Cell("62.30 ± 0.75", 62.3, 61.5, 63.0), Cell("–"), Cell("–"),
         Cell("81.6", 81.6)],
        [Cell("attention"), Cell("64.1M", 64.1e6), Cell("61.80 ± 0.74", 61.8, 61.1, 62.6),
         Cell("-0.50 (-1.32 … +0.31)", -0.5, -1.32, 0.31), Cell("0.154", 0.154), Cell("81.7", 81.7)],
        [Cell("all, E = 128"), Cell("11.7M", 11.7e6), Cell("60.10 ± 1.15", 60.1, 59.0, 61.3),
         Cell("-2.20 (-3.40 … -1.00)", -2.2, -3.4, -1.0), Cell("0.008", 0.008), Cell("80.1", 80.1)],
        [Cell("all, warm start"), Cell("11.7M", 11.7e6), Cell("61.00 ± 0.90", 61.0, 60.1, 61.9),
         Cell("-1.30 (-2.20 … -0.40)", -1.3, -2.2, -0.4), Cell("0.021", 0.021), Cell("")],
    ],
    strong_rows=[0], note="Means over three seeds.",
)  # fmt: skip

COSTS = Table(
    "costs",
    [Column("variant"), Column("step, ms", is_number=True), Column("memory, MB", is_number=True)],
    [
        [Cell("none"), Cell("410", 410.0, 402.0, 419.0), Cell("1,830", 1830.0)],
        [Cell("all, E = 128"), Cell("377", 377.0, 371.0, 384.0), Cell("640", 640.0)],
    ],
)  # fmt: skip

FINDINGS = (
    Finding("Sharing everything costs little.", "-1.5 points", "-2.2 points (p = 0.008)", "agrees"),
    Finding("Sharing attention costs nothing.", "+0.1 points", "-0.5 points (p = 0.15)", "inconclusive"),
    Finding("A shared model trains faster.", "1.2 times", "0.9 times, in ten runs side by side", "disagrees"),
    Finding("More data helps.", "+0.7 points", "", "not tested"),
)

PAGE = Page(
    "Sharing across layers (table 4)",
    "A small copy of the paper's experiment: 6 variants, 3 seeds, 11.7 million parameters, 12,500 steps.",
    [
        Section(
            "Claims of the paper and results",
            paragraphs=["All variants used the same examples in order; `study.json` has the settings."],
            findings=FINDINGS,
        ),
        Section("The variants", tables=[SCORES, COSTS], charts=[POINTS, CURVES]),
        Section(
            "Layers and speed",
            paragraphs=["What a layer does to its input, and how long a step takes."],
            charts=[SPEED],
            code="albert study sharing --out studies/sharing num_seeds=3",
        ),
    ],
)
