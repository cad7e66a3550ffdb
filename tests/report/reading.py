"""Parse a page into its elements and its visible text."""

from html.parser import HTMLParser

VOID = {"meta", "input"}


class ReadPage(HTMLParser):
    """The elements of a page, with their attributes, and its visible text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == [], "every element is closed"

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, text):
        if not {"script", "style"} & set(self.open):
            self.text += text

    def find(self, name):
        return [attributes for found, attributes in self.elements if found == name]
