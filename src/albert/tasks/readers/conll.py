"""The lines of a CoNLL-like file come in, one word and its label each; its sentences go out as two lists."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from albert.tasks.problems import BadRow, Problems, iter_good
from albert.tasks.readers.lines import Line, check_decoded

WORDS, LABELS = "words", "labels"
_DOCUMENT_MARK = "-DOCSTART-"


@dataclass(frozen=True, slots=True)
class Sentence:
    """Lists by column: the words, and their labels where the file has any."""

    line: int
    columns: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class _Block:
    """Neighbouring lines that are not blank."""

    line: int
    lines: tuple[Line, ...]


def iter_sentences(lines: Iterable[Line], *, problems: Problems) -> Iterator[Sentence]:
    """A sentence for each block of lines; of a line, the first field is the word and the last its label.

    Tabs stand between the fields, or else white space. A block that is broken is left out and counted.
    """
    return iter_good(_iter_blocks(lines), _build_sentence, problems=problems)


def _iter_blocks(lines: Iterable[Line]) -> Iterator[_Block]:
    waiting: list[Line] = []
    for line in lines:
        if line.text.strip() and not line.text.startswith(_DOCUMENT_MARK):
            waiting.append(line)
        elif waiting:
            yield _Block(waiting[0].line, tuple(waiting))
            waiting = []
    if waiting:
        yield _Block(waiting[0].line, tuple(waiting))


def _build_sentence(block: _Block) -> Sentence:
    fields = [_split(line) for line in block.lines]
    words = [each[0] for each in fields]
    if all(len(each) == 1 for each in fields):
        return Sentence(block.line, {WORDS: words})
    for line, each in zip(block.lines, fields, strict=True):
        if len(each) == 1:
            raise BadRow("a word without a label", f"line {line.line}")
    return Sentence(block.line, {WORDS: words, LABELS: [each[-1] for each in fields]})


def _split(line: Line) -> list[str]:
    text = check_decoded(line.text)
    return text.rstrip("\t").split("\t") if "\t" in text else text.split()
