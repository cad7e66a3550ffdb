"""Read the official files of GLUE, SQuAD and RACE."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from albert.data.rows import (
    BadRow,
    Problems,
    Row,
    check_columns,
    iter_good,
    iter_lines,
    iter_tsv_rows,
    quote,
    read_tsv_header,
)
from albert.errors import FileFormatError
from albert.files import read_json
from albert.tasks.catalogue import Task, find_split
from albert.tasks.examples import RACE_LEVELS, ChoiceExample, Example, Numbered, SpanExample, TextExample
from albert.tasks.readers.columns import TextColumns, note_answers, parse_answers, place_letter

E = TypeVar("E", bound=Example)
ID_COLUMNS = ("index", "id")


@dataclass(frozen=True)
class Split(Generic[E]):
    """The examples of a split in the order of its file, and what was wrong with its rows."""

    path: Path
    examples: tuple[E, ...]
    problems: Problems


def read_split(task: Task, data: Path, *, split: str) -> Split[Any]:
    """Read all examples of a split of a task, from the folder of its data."""
    path = find_split(task, data, split=split)
    problems = open_problems(task, path, split=split)
    found = iter_split(task, path, split=split, problems=problems)
    examples = tuple(each.example for each in found)
    problems.check(len(examples))
    return Split(path, examples, problems)


def open_problems(task: Task, path: Path, *, split: str) -> Problems:
    """Return where the bad rows of a split are counted; of a test set, every row must be answered."""
    unit = "line" if task.kind == "texts" else "question"
    return Problems(path, unit=unit, is_strict=split.startswith("test"))


def iter_split(
    task: Task, path: Path, *, split: str, problems: Problems, is_labelled: bool = True
) -> Iterator[Numbered[Any]]:
    """Yield the examples of a split; without `is_labelled`, as for prediction, labels are not needed."""
    if task.kind == "texts":
        return iter_glue(path, task, split=split, problems=problems, is_labelled=is_labelled)
    if task.kind == "spans":
        has_impossible = task.has_impossible or not is_labelled
        return iter_squad(path, has_impossible=has_impossible, problems=problems)
    return iter_race(path, problems=problems)


def iter_glue(
    path: Path, task: Task, *, split: str, problems: Problems, is_labelled: bool = True
) -> Iterator[Numbered[TextExample]]:
    """Yield the examples of a GLUE file; a test file may have no labels, every row of the others must.

    Quotes are plain characters, columns are found by name, and an empty text is kept: the official scores
    count it. The id of a row is its index, or its number from 0 if the file has none.
    """
    lines = iter_lines(path, problems=problems)
    is_headless = split in task.headless
    header = list(task.header) if is_headless else read_tsv_header(lines, problems=problems)
    has_labels = is_labelled and (task.label in header or not split.startswith("test"))
    columns = TextColumns(
        text=task.first,
        text_pair=task.second,
        label=task.label,
        label_kind="one" if task.labels else "number",
        id=next((name for name in ID_COLUMNS if name in header), None),
    )
    wanted = columns.wanted(is_labelled=has_labels)
    check_columns(header, replace(wanted, hint=f"give the official file of {task.name}"), problems=problems)
    first_line = 1 if is_headless else 2

    def build(row: Row) -> Numbered[TextExample]:
        example = columns.build(row, task.labels, is_labelled=has_labels, keeps_empty=True)
        if columns.id is None:
            example = replace(example, id=str(row.line - first_line))
        columns.note(example, row.line, problems)
        return Numbered(row.line, example)

    return iter_good(iter_tsv_rows(lines, header=header, problems=problems), build, problems=problems)


def iter_squad(path: Path, *, has_impossible: bool, problems: Problems) -> Iterator[Numbered[SpanExample]]:
    """Yield the questions of a SQuAD file, 1.1 or 2.0, in order; `problems` counts questions.

    Answers stay as they are; those that are not where they should be in the context are counted. Without
    `has_impossible`, as in 1.1, impossible questions are skipped and counted.
    """
    seen: set[str] = set()

    def build(row: Row) -> Numbered[SpanExample]:
        example = _build_question(row, has_impossible=has_impossible)
        if example.id in seen:
            raise BadRow("an id that occurs twice", quote(example.id), is_fatal=True)
        seen.add(example.id)
        note_answers(example, row.line, problems)
        return Numbered(row.line, example)

    return iter_good(_iter_questions(path), build, problems=problems)


def _iter_questions(path: Path) -> Iterator[Row]:
    number = 0
    for place, article in enumerate(_read_list(read_json(path), "data", where=str(path)), start=1):
        where = f"{path}: article {place}"
        for paragraph in _read_list(article, "paragraphs", where=where):
            context = paragraph.get("context") if isinstance(paragraph, dict) else None
            if not isinstance(context, str):
                raise FileFormatError(f"{where} has a paragraph without a context; is it a SQuAD file?")
            for content in _read_list(paragraph, "qas", where=where):
                number += 1
                title = str(article.get("title", ""))
                yield Row({"title": title, "context": context, "content": content}, str(path), number)


def _read_list(value: Any, key: str, *, where: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise FileFormatError(f"{where} has no list {key!r}; is it a SQuAD file?")
    return found


def _build_question(row: Row, *, has_impossible: bool) -> SpanExample:
    content, context = row.values["content"], row.values["context"]
    keys = ("id", "question")
    if not isinstance(content, dict) or not all(isinstance(content.get(key), str) for key in keys):
        raise BadRow("a question without an id or a text")
    is_impossible = content.get("is_impossible", False)
    if not isinstance(is_impossible, bool):
        raise BadRow("is_impossible is neither true nor false", quote(content["id"]))
    if is_impossible and not has_impossible:
        raise BadRow("a question without an answer, which SQuAD 1.1 does not have", quote(content["id"]))
    # An impossible question may have plausible answers, which answer another one.
    answers = () if is_impossible else parse_answers(content.get("answers", []), context=context)
    return SpanExample(
        content["id"], content["question"], context, answers, is_impossible, row.values["title"]
    )


def iter_race(
    folder: Path, *, problems: Problems, levels: Sequence[str] = RACE_LEVELS
) -> Iterator[Numbered[ChoiceExample]]:
    """Yield the questions of a RACE folder, `{middle,high}/*.txt`; `problems` counts questions.

    Files are read in the order of their numbers. The id of a question is its file and its index in it. The
    answers are letters, and may be missing altogether, as in a test set.
    """
    number = 0
    for level in levels:
        for path in find_passages(folder, level=level):
            for example in _read_passage(path, level=level):
                number += 1
                if not example.passage.strip() or not all(option.strip() for option in example.options):
                    problems.note("an empty passage or option", line=number, detail=example.id)
                yield Numbered(number, example)


def find_passages(folder: Path, *, level: str) -> list[Path]:
    """List the files of one level, one passage each, in the order of their numbers."""
    paths = sorted((Path(folder) / level).glob("*.txt"), key=lambda path: (len(path.name), path.name))
    if not paths:
        raise FileFormatError(
            f"{Path(folder) / level}: no passages (*.txt) there; give the folder that has train/middle"
        )
    return paths


def _read_passage(path: Path, *, level: str) -> list[ChoiceExample]:
    content = read_json(path)
    article = content.get("article") if isinstance(content, dict) else None
    if not isinstance(article, str):
        raise FileFormatError(f"{path}: has no text 'article'; is it a passage of RACE?")
    lists: list[list[Any]] = []
    for key in ("questions", "options", "answers"):
        found = content.get(key, [None] * len(lists[0]) if key == "answers" else None)
        if not isinstance(found, list):
            raise FileFormatError(f"{path}: has no list {key!r}; is it a passage of RACE?")
        lists.append(found)
    if len(set(map(len, lists))) > 1:
        raise FileFormatError(
            f"{path}: has {len(lists[0])} questions, {len(lists[1])} lists of options and {len(lists[2])} "
            "answers; there should be as many of each"
        )
    examples = []
    for place, (question, options, answer) in enumerate(zip(*lists, strict=True)):
        where = f"{path}: question {place + 1}"
        texts = [question, *options] if isinstance(options, list) else []
        if len(texts) < 3 or not all(isinstance(text, str) for text in texts):
            raise FileFormatError(
                f"{where} is not a text with a list of at least two options; fetch it again"
            )
        try:
            label = None if answer is None else place_letter(str(answer), tuple(options))
        except BadRow as bad:
            raise FileFormatError(f"{where} has {bad.reason} ({bad.detail}); mend it") from bad
        name = f"{level}/{path.name}/{place}"
        examples.append(ChoiceExample(name, article, question, tuple(options), label, level))
    return examples
