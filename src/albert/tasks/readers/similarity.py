"""A row of a table of texts, or of pairs that mean the same, comes in; its example goes out."""

from albert.tasks.examples import TextExample
from albert.tasks.labels import Labels
from albert.tasks.problems import BadRow
from albert.tasks.readers.cells import read_id, read_number, read_text
from albert.tasks.readers.columns import SimilarityColumns
from albert.tasks.readers.kinds import TableKind, note_empty_text
from albert.tasks.readers.rows import Row, Wanted


def _build(row: Row, columns: SimilarityColumns, labels: Labels | None, is_labelled: bool) -> TextExample:
    first = read_text(row, columns.text)
    has_second = columns.text_pair is not None and columns.text_pair in row.values
    second = read_text(row, str(columns.text_pair)) if has_second else None
    if not first.strip() or (second is not None and not second.strip()):
        raise BadRow("an empty text")
    has_score = is_labelled and row.values.get(columns.score) not in (None, "")
    score = read_number(row, columns.score) if has_score else None
    return TextExample(read_id(row, columns.id), first, second, score)


SIMILARITY: TableKind[SimilarityColumns, TextExample] = TableKind(
    inputs=lambda columns: (columns.text, columns.id),
    more=lambda columns: (columns.text_pair,),  # single texts are asked about pairs of another table
    outputs=lambda columns: Wanted((), (columns.score,)),
    build=_build,
    note=note_empty_text,
)
