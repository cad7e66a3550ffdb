"""The look of all reports: colors and fonts of pages, and the style of charts."""

from typing import Any

# Variables of report.css; good and bad are RGB values, so that their opacity can be set.
PAGE_FONT = "16px/1.5 system-ui, sans-serif"
LIGHT = {
    "paper": "#fff",
    "ink": "#1c2126",
    "soft": "#5b6570",
    "line": "#dbe0e5",
    "wash": "#f4f6f8",
    "good": "32 98 172",
    "bad": "189 62 38",
    "depth": ".7",
}
DARK = {
    "paper": "#14181c",
    "ink": "#e4e8ec",
    "soft": "#98a3ae",
    "line": "#2d343b",
    "wash": "#1c2227",
    "good": "116 176 245",
    "bad": "243 136 108",
    "depth": ".5",
}

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


def format_css_variables() -> str:
    """Format the colors and fonts of pages as CSS, for light and dark screens."""
    light, dark = (
        " ".join(f"--{name}: {value};" for name, value in colors.items()) for colors in (LIGHT, DARK)
    )
    return (
        f":root {{ color-scheme: light dark; --font: {PAGE_FONT}; {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
    )
