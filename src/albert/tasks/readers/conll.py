"""The lines of a CoNLL-like file come in, one word and its label each; its sentences go out as two lists."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from albert.errors import FileFormatError
from albert.tasks.problems import BadRow, Problems, iter_good, quote
from albert.tasks.readers.lines import Line, check_decoded

WORDS, LABELS = "words", "labels"
MAX_SENTENCE_LINES = 10_000  # as many as a record of CSV may have; more are a file without blank lines
_DOCUMENT_MARK = "-DOCSTART-"
_COMMENT_MARK = "# "
# What stands between fields. Unicode has more spaces, which occur inside words: 10\u00a0000.
_BLANKS = " \t\r"


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

    Tabs stand between the fields, or else spaces. Comments above the words are passed over and counted. A
    block that is broken is left out and counted. Refused: a block of more than `MAX_SENTENCE_LINES`.
    """
    blocks = (_drop_comments(block, problems) for block in _iter_blocks(lines, problems))
    return iter_good(blocks, _build_sentence, problems=problems)


def _iter_blocks(lines: Iterable[Line], problems: Problems) -> Iterator[_Block]:
    waiting: list[Line] = []
    for line in lines:
        # A line of white space looks blank, whichever space it is: a word of it could not be told from none.
        if line.text.strip() and not line.text.startswith(_DOCUMENT_MARK):
            waiting.append(line)
            if len(waiting) > MAX_SENTENCE_LINES:
                raise FileFormatError(
                    f"{problems.path}: line {waiting[0].line}: a sentence of more than "
                    f"{MAX_SENTENCE_LINES:,} lines; put a blank line between sentences"
                )
        elif waiting:
            yield _Block(waiting[0].line, tuple(waiting))
            waiting = []
    if waiting:
        yield _Block(waiting[0].line, tuple(waiting))


def _drop_comments(block: _Block, problems: Problems) -> _Block:
    """The block without the comments at its start; where # is a word, its line has the form of the others."""
    marked = list(takewhile(lambda line: line.text.startswith(_COMMENT_MARK), block.lines))
    others = block.lines[len(marked) :]
    if not marked or not others:
        return block
    forms = {_find_form(line) for line in others}
    words = []
    for line in marked:
        if _find_form(line) in forms:
            words.append(line)
        else:
            problems.note("a comment, which is passed over", line=line.line, detail=quote(line.text))
    kept = (*words, *others)
    return _Block(kept[0].line, kept)


def _find_form(line: Line) -> tuple[bool, int]:
    """Whether tabs are between the fields, and how many fields there are."""
    return "\t" in line.text, len(_split(line.text))


def _build_sentence(block: _Block) -> Sentence:
    fields = [_split(check_decoded(line.text)) for line in block.lines]
    words = [each[0] for each in fields]
    if all(len(each) == 1 for each in fields):
        return Sentence(block.line, {WORDS: words})
    for line, each in zip(block.lines, fields, strict=True):
        if len(each) == 1:
            raise BadRow("a word without a label", f"line {line.line}")
    return Sentence(block.line, {WORDS: words, LABELS: [each[-1] for each in fields]})


def _split(text: str) -> list[str]:
    if "\t" in text:
        return text.rstrip("\t").split("\t")
    return [field for field in text.strip(_BLANKS).split(" ") if field]
