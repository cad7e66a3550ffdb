"""A chart comes in; a picture goes out: SVG for pages and files, PNG to be looked at alone."""

from albert.pages.content import Chart


def draw_chart(chart: Chart) -> str:
    """SVG without a prolog, as wide as its place: it can stand within a page, beside others, or in a file.

    The same chart gives the same text. Its ids begin with the chart's name.
    """
    # matplotlib takes half a second to import, which only those who draw should wait.
    from albert.pages.drawing.figure import save_figure
    from albert.pages.drawing.vector import polish_svg

    return polish_svg(save_figure(chart, file_format="svg"), chart=chart)


def draw_png(chart: Chart) -> bytes:
    """The same picture in pixels."""
    from albert.pages.drawing.figure import save_figure

    return save_figure(chart, file_format="png")
