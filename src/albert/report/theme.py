"""The style of charts: matplotlib's settings, and the looks of series. Pages have templates/report.css."""

from typing import Any

# The colors of Okabe and Ito without yellow. Series differ in color, marker and dashes, so that they remain
# distinct in grayscale.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "*")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (6, 1.5)),
    (0, (7, 1.5, 1.5, 1.5)),
    (0, (1.3, 1.3)),
    (0, (4, 1, 1, 1, 1, 1)),
)
INK, GRAY, PALE, PAPER = "#222222", "#666666", "#E4E4E4", "#FFFFFF"
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # text, not paths
    "svg.hashsalt": "albert",  # the same chart gives the same ids
    "text.parse_math": False,  # names may contain dollar signs
    "font.sans-serif": ["DejaVu Sans"],  # part of matplotlib, so that layouts agree between machines
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GRAY,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": PALE,
    "xtick.color": GRAY,
    "ytick.color": GRAY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.markersize": 5.5,
    "lines.linewidth": 1.7,
    "legend.frameon": False,
}
