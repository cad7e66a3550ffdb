"""A chart comes in with words of any kind; the same goes out with words that XML takes, each on one line."""

import re
import textwrap
from dataclasses import replace

from albert.report.content import Chart
from albert.report.markup import clean_text

_TOGETHER = re.compile(r" (?=[=<>≤≥±×→%])|(?<=[=<>≤≥±×→]) ")


def clean_chart(chart: Chart) -> Chart:
    """In place of characters that nobody could see, and of borders of lines, stand marks and spaces."""
    return replace(
        chart,
        title=_clean(chart.title),
        x_label=_clean(chart.x_label),
        y_label=_clean(chart.y_label),
        told=_clean(chart.told),
        series=[replace(each, name=_clean(each.name)) for each in chart.series],
        levels=[replace(each, name=_clean(each.name)) for each in chart.levels],
        x_names=None if chart.x_names is None else [_clean(name) for name in chart.x_names],
    )


def wrap_words(text: str, width: int) -> list[str]:
    """A text in lines of some `width`, at least one; E = 128 stays on one of them."""
    lines = textwrap.wrap(_TOGETHER.sub("\xa0", text), width)
    return [line.replace("\xa0", " ") for line in lines] or [""]


def _clean(text: str) -> str:
    return clean_text(" ".join(text.split()))
