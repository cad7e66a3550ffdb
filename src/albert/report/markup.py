"""Texts come in, of any kind; HTML goes out in which they can do no harm, and hide nothing."""

import html
import re
from collections.abc import Iterator

# What is not seen, or turns its surroundings round: control, zero-width and direction marks, half surrogates.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0e\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
_JOINERS = "\u200c\u200d"
SHORT, LONG = 320, 20_000


class Html(str):
    """Markup, which goes onto the page as it is; every other text is escaped."""

    __slots__ = ()


def tag(name: str, *parts: str, **attributes: object) -> Html:
    """An element. `class_` stands for class and `data_gold` for data-gold; None and False are left out."""
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    shown = "".join(
        f" {key}" if value is True else f' {key}="{_escape_value(str(value))}"'
        for key, value in named.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{shown}>{join(*parts)}</{name}>")


def join(*parts: str) -> Html:
    """The parts one behind the other, those that are no markup escaped."""
    return Html("".join(part if isinstance(part, Html) else show_text(part) for part in parts))


def show_text(text: str) -> Html:
    """A text for a page; characters that nobody could see are shown by their number."""
    pieces, end = [], 0
    for found in _iter_unseen(text):
        pieces += [html.escape(text[end : found.start()])]
        pieces += [f'<span class="mark">U+{ord(found[0]):04X}</span>']
        end = found.end()
    return Html("".join([*pieces, html.escape(text[end:])]))


def show_long(text: str) -> Html:
    """A text in its own direction; what is long is folded, and what is endless is cut."""
    if len(text) <= SHORT:
        return tag("bdi", text or Html("<i>empty</i>"), class_="text", dir="auto")
    left = f"… and {len(text) - LONG:,} more characters" if len(text) > LONG else ""
    return tag(
        "details",
        tag(
            "summary",
            tag("bdi", f"{text[:SHORT]}…", dir="auto", class_="text"),
            _note(f" {len(text):,} characters"),
        ),
        tag("bdi", text[:LONG], class_="text", dir="auto"),
        _note(left),
    )


def clean_text(text: str) -> str:
    """A text for what is no page; in place of each character that nobody could see stands U+FFFD."""
    characters = list(text)
    for found in _iter_unseen(text):
        characters[found.start()] = "\ufffd"
    return "".join(characters)


def section(title: str, *parts: str, id: str | None = None) -> Html:
    """A part of the page under its title."""
    return tag("section", tag("h2", title), *parts, id=id)


def _iter_unseen(text: str) -> Iterator[re.Match[str]]:
    for found in _UNSEEN.finditer(text):
        place = found.start()
        # Between letters of other scripts and in emoji, joiners are spelling.
        if found[0] not in _JOINERS or not place or text[place - 1].isascii():
            yield found


def _note(text: str) -> Html:
    return tag("span", text, class_="soft") if text else Html("")


def _escape_value(value: str) -> str:
    return html.escape(clean_text(value), quote=True)
