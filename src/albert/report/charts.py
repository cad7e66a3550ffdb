"""A chart comes in; a picture goes out: SVG, for pages and files."""

from albert.report.content import Chart


def draw_chart(chart: Chart) -> str:
    """SVG without a prolog, as wide as its place: it can stand within a page, beside others, or in a file.

    The same chart gives the same text. Its ids begin with the chart's name.
    """
    # matplotlib takes half a second to import, which only those who draw should wait.
    from albert.report.drawing.figure import save_svg
    from albert.report.drawing.vector import polish_svg

    return polish_svg(save_svg(chart), chart=chart)
