"""SVG as matplotlib writes it comes in; SVG that can stand within a page beside others goes out."""

import re
from xml.etree import ElementTree

from albert.report.content import Chart
from albert.report.drawing.readable import clean_chart

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_HREF = f"{{{_XLINK}}}href"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_NAMED_FONTS = re.compile(r"'[^']*',\s*")
ElementTree.register_namespace("", _SVG)
ElementTree.register_namespace("xlink", _XLINK)


def polish_svg(svg: bytes, *, chart: Chart) -> str:
    """Take away what belongs to a file alone, make ids the chart's own, and say in words what is seen."""
    chart = clean_chart(chart)
    root = ElementTree.fromstring(svg)
    _own_ids(root, prefix=f"chart-{chart.name}-")
    _drop_style_sheet(root)
    for element in root.iter(f"{{{_SVG}}}text"):
        element.set("style", _NAMED_FONTS.sub("", element.get("style", "")))
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    title_id = f"chart-{chart.name}-title"
    root.attrib |= {"width": "100%", "role": "img", "aria-labelledby": title_id}
    title = ElementTree.Element(f"{{{_SVG}}}title", {"id": title_id})
    title.text = chart.title
    told = ElementTree.Element(f"{{{_SVG}}}desc")
    told.text = chart.told or _tell(chart)
    root[:0] = [title, told]
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _own_ids(root: ElementTree.Element, *, prefix: str) -> None:
    """Ids that are referred to begin with `prefix`; the others, which only name groups, go."""
    elements = list(root.iter())
    used = {value[1:] for each in elements if (value := each.get(_HREF, "")).startswith("#")}
    values = [value for each in elements for value in each.attrib.values()]
    used |= {found for value in values for found in _REFERENCE.findall(value)}
    for element in elements:
        own = element.attrib.pop("id", None)
        for name, value in element.attrib.items():
            element.attrib[name] = _REFERENCE.sub(rf"url(#{prefix}\1)", value)
        if _HREF in element.attrib:
            element.set(_HREF, f"#{prefix}{element.attrib[_HREF][1:]}")
        if own in used:
            element.set("id", f"{prefix}{own}")


def _drop_style_sheet(root: ElementTree.Element) -> None:
    """It would hold for the whole page; on the root element it holds for this picture."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{{{_SVG}}}style":
                parent.remove(child)
    root.attrib |= {"stroke-linejoin": "round", "stroke-linecap": "butt"}


def _tell(chart: Chart) -> str:
    names = "; ".join(each.name for each in chart.series)
    return f"{chart.y_label} by {chart.x_label or 'name'}: {names}."
