"""The catalogue of task types and tasks: GLUE, SQuAD, RACE, and one for each type of a user's table.

A new task type is a module, a row in `TASK_TYPES` and one in `TABLE_TASKS`; a new task in GLUE's format is a
row in `PUBLISHED_TASKS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, cast

from albert.data.rows import (
    FORMATS,
    BadRow,
    Problems,
    Row,
    check_columns,
    find_format,
    iter_good,
    iter_lines,
    iter_tsv_rows,
    quote,
    read_tsv_header,
)
from albert.errors import FileFormatError, InputError, suggest
from albert.files import read_json, write_text
from albert.pretrained.folder import Pretrained
from albert.pretrained.huggingface import TASK_NAME
from albert.settings import build_settings
from albert.tasks.classification import ClassificationConfig, ClassificationTask, TextColumns, TextExample
from albert.tasks.embedding import EmbeddingConfig, EmbeddingTask, SimilarityColumns
from albert.tasks.multiple_choice import (
    RACE_LEVELS,
    ChoiceColumns,
    ChoiceExample,
    MultipleChoiceConfig,
    MultipleChoiceTask,
    find_lettered_option,
)
from albert.tasks.question_answering import (
    SQUAD_FILES,
    QuestionAnsweringConfig,
    QuestionAnsweringTask,
    SpanColumns,
    SpanExample,
    parse_answers,
)
from albert.tasks.tables import Columns, Labels, Numbered, check_named, find_labels, read_table
from albert.tasks.task import AnyTask, Example, Floats, TaskConfig
from albert.tasks.token_classification import TokenClassificationConfig, TokenClassificationTask, WordColumns

TASK_TYPES = cast(
    tuple[type[AnyTask], ...],
    (ClassificationTask, TokenClassificationTask, QuestionAnsweringTask, MultipleChoiceTask, EmbeddingTask),
)
_TYPES = {each.config_class.model_fields["task_type"].default: each for each in TASK_TYPES}
_FORMER_TYPES = {
    "texts": "classification",
    "words": "token-classification",
    "spans": "question-answering",
    "choices": "multiple-choice",
}
# Earlier versions wrote the keys of all task types to every task.json.
_CONFIG_KEYS = frozenset(
    {"label_kind", *(key for each in TASK_TYPES for key in each.config_class.model_fields)}
)
DEV_NAMES = ("dev", "validation", "valid", "val")
ID_COLUMNS = ("index", "id")
STSB_RANGE = (0.0, 5.0)


def build_task(config: TaskConfig) -> AnyTask:
    """Build the task of a config."""
    return _TYPES[config.task_type](config)


def parse_config(values: Any, *, source: str) -> TaskConfig:
    """Parse the content of a task.json."""
    values = dict(values) if isinstance(values, dict) else {}
    if "kind" in values:  # the key of earlier versions
        kind = values.pop("kind")
        values["task_type"] = _FORMER_TYPES.get(kind, kind)
    task_type = values.get("task_type")
    if task_type not in _TYPES:
        raise FileFormatError(f"{source}: unknown task type {task_type!r}; known: {', '.join(_TYPES)}")
    values["task"] = _ALIASES.get(values.get("task"), values.get("task"))
    config_class = _TYPES[task_type].config_class
    known = {
        key: value
        for key, value in values.items()
        if key in config_class.model_fields or key not in _CONFIG_KEYS
    }
    return build_settings(config_class, values=known, source=source)


def read_config(source: Path) -> TaskConfig | None:
    """Read the task.json of a model folder (or beside a weights file); None if it does not exist."""
    path = (source.parent if source.is_file() else source) / TASK_NAME
    return parse_config(read_json(path), source=str(path)) if path.exists() else None


def infer_config(loaded: Pretrained) -> TaskConfig | None:
    """Infer the config of a folder without task.json from its head; None if no head is fine-tuned."""
    for each in TASK_TYPES:
        if any(name in loaded.model.heads for name in each.head_names):
            return each.config_class.from_folder(loaded).adapt(loaded)
    return None


@dataclass(frozen=True)
class Split:
    """The examples of a split, its path, and the problems of its rows."""

    name: str
    path: Path
    examples: tuple[Example, ...]
    problems: tuple[str, ...]

    @property
    def is_labeled(self) -> bool:
        """Whether the examples have labels; raises `InputError` if only some have."""
        unlabeled = [example for example in self.examples if not example.is_labeled]
        if unlabeled and len(unlabeled) < len(self.examples):
            raise InputError(
                f"{self.path}: {len(unlabeled):,} of {len(self.examples):,} examples have no label (first: "
                f"{unlabeled[0].id!r}); give all examples a label, or none"
            )
        return not unlabeled


@dataclass(frozen=True)
class TaskDefinition(ABC):
    """A task by name: a published task, or a task type for a user's table."""

    name: str
    is_published: ClassVar[bool]

    @property
    @abstractmethod
    def config(self) -> TaskConfig:
        """The config of a model for this task, without recipe and data."""

    @property
    def model_task(self) -> str:
        """The task whose models are evaluated on this one."""
        return self.name

    @property
    def official_labels(self) -> tuple[str, ...]:
        """The labels as spelled in the files of a published task."""
        return ()

    @property
    def file_names(self) -> tuple[str, ...]:
        """The files that `write_files` may write."""
        return ()

    @abstractmethod
    def find_split(self, data: Path, split: str | None) -> tuple[str, Path]:
        """Find the name and path of a split, by default the dev set or the table itself."""

    @abstractmethod
    def read_split(
        self,
        data: Path,
        split: str | None,
        *,
        columns: Mapping[str, Any],
        labels: Sequence[str],
        named: Collection[str] = (),
    ) -> Split:
        """Read the examples of a split; the last three arguments are for a user's table only.

        Args:
            data: Task folder or table.
            split: The name of the split.
            columns: The columns of the table.
            labels: The labels of the models; others are rejected.
            named: The keys of `columns` that the user set; the table must have these columns.
        """

    def find_label_names(self, path: Path, *, columns: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the labels of the task, or of a table."""
        return self.config.labels

    def write_files(  # noqa: B027 - nothing to write by default
        self, out: Path, task: AnyTask, answers: Sequence[object], examples: Sequence[Example], *, split: str
    ) -> None:
        """Write predictions in the official format of a published task."""


@dataclass(frozen=True)
class TableTask(TaskDefinition):
    """A task type for a user's table; `fixed` are settings of its columns that cannot change."""

    columns: type[Columns]
    defaults: TaskConfig
    fixed: Mapping[str, Any] = field(default_factory=dict)
    is_published: ClassVar[bool] = False

    @property
    def config(self) -> TaskConfig:
        return self.defaults

    def build_columns(self, columns: Mapping[str, Any]) -> Columns:
        """Build the settings of the columns from those of the user and the fixed ones."""
        for key, value in self.fixed.items():
            given = columns.get(key, value)
            if given != value:
                others = [each.name for each in TABLE_TASKS.values() if each.fixed.get(key) == given]
                raise InputError(
                    f"columns.{key} is {given}, but {self.name} needs {value}; remove it, or use "
                    f"{' or '.join(others) or 'another task'}"
                )
        values = {**columns, **self.fixed}
        return build_settings(self.columns, values=values, source=f"columns of {self.name}")

    def find_split(self, data: Path, split: str | None) -> tuple[str, Path]:
        if data.is_file():
            if split is not None:
                raise InputError(f"--split {split}: {data} is a table; remove it, or give a folder of tables")
            return data.name, data
        if not data.exists():
            raise FileFormatError(f"{data}: does not exist; give a table, or a folder with dev.*")
        name = split or "dev"
        found = find_table(data, DEV_NAMES if name == "dev" else (name,))
        if found is None:
            raise FileFormatError(
                f"{data}: has no table {name}.*; give the table itself, or --split with the name of another"
            )
        return name, found

    def read_split(
        self,
        data: Path,
        split: str | None,
        *,
        columns: Mapping[str, Any],
        labels: Sequence[str],
        named: Collection[str] = (),
    ) -> Split:
        name, path = self.find_split(data, split)
        settings = self.build_columns(columns)
        table = read_table(path, settings, labels=Labels(tuple(labels)) if labels else None)
        check_named(settings, named=named, read=[table.problems])
        return Split(name, path, table.examples, tuple(table.problems.describe()))

    def find_label_names(self, path: Path, *, columns: Mapping[str, Any]) -> tuple[str, ...]:
        found = find_labels(path, self.build_columns(columns))
        return () if found is None else found.names


def find_table(folder: Path, names: Sequence[str]) -> Path | None:
    """Find the first table with one of these names; raise `FileFormatError` for two with the same name."""
    for name in names:
        found = sorted(
            path
            for path in folder.iterdir()
            if path.name.split(".")[0] == name and find_format(path) in FORMATS
        )
        if len(found) > 1:
            raise FileFormatError(
                f"{folder}: has both {found[0].name} and {found[1].name}; give the file, or remove one"
            )
        if found:
            return found[0]
    return None


@dataclass(frozen=True)
class PublishedTask(TaskDefinition):
    """A published task with official files; `files` maps splits to file names in `folder`."""

    folder: str
    files: Mapping[str, str] = field(
        default_factory=lambda: {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
    )
    is_published: ClassVar[bool] = True
    # The task type that reads a user's table of this task, and the unit in which problems are counted.
    table: ClassVar[str]
    unit: ClassVar[str] = "question"

    @property
    def table_columns(self) -> dict[str, Any]:
        """The default columns of a table of this task."""
        return {}

    def find_split(self, data: Path, split: str | None) -> tuple[str, Path]:
        """Find a split in the given folder, or in the folder of the task in it."""
        name = split or ("dev" if "dev" in self.files else next(iter(self.files)))
        if name not in self.files:
            raise InputError(f"{self.name} has no split {name!r}; splits: {', '.join(self.files)}")
        for folder in (data / self.folder, data, data / "glue" / self.folder):
            if (folder / self.files[name]).exists():
                return name, folder / self.files[name]
        raise FileFormatError(
            f"{data / self.folder / self.files[name]}: does not exist; give the folder that contains "
            f"{self.folder}/, or {self.folder}/ itself"
        )

    def read_split(
        self,
        data: Path,
        split: str | None,
        **_: Any,
    ) -> Split:
        name, path = self.find_split(data, split)
        problems = self.open_problems(path, split=name)
        examples = tuple(each.example for each in self.iter_examples(path, split=name, problems=problems))
        problems.check(len(examples))
        return Split(name, path, examples, tuple(problems.describe()))

    def open_problems(self, path: Path, *, split: str) -> Problems:
        """Open the counter of invalid rows, which are errors in a test set."""
        return Problems(path, unit=self.unit, is_strict=split.startswith("test"))

    @abstractmethod
    def iter_examples(
        self, path: Path, *, split: str, problems: Problems, is_labeled: bool = True
    ) -> Iterator[Numbered[Example]]:
        """Yield the examples of a split; labels may be missing without `is_labeled`, as for prediction."""


@dataclass(frozen=True)
class GlueTask(PublishedTask):
    """A task of GLUE.

    Args:
        metrics: The metrics whose mean is the score; f1 is that of class 1.
        first: The column of the first text.
        second: The column of the second text, if any.
        label: The column of the label.
        labels: The labels as spelled in the files, in the order of the outputs; empty for numbers.
        label_names: The names of the labels; by default as in the files.
        header: The columns of the files of the splits `headless`, which have no header.
        submissions: The names of the files for GLUE's server, by split.
        model_of: The task whose models are evaluated on this one.
    """

    metrics: tuple[str, ...] = ("accuracy",)
    first: str = "sentence1"
    second: str | None = "sentence2"
    label: str = "label"
    labels: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    headless: tuple[str, ...] = ()
    submissions: Mapping[str, str] = field(default_factory=dict)
    model_of: str | None = None
    table: ClassVar[str] = "classification"
    unit: ClassVar[str] = "line"

    @property
    def config(self) -> ClassificationConfig:
        return ClassificationConfig(
            task=self.name,
            label_kind="one" if self.labels else "number",
            labels=self.label_names or self.labels,
            metrics=self.metrics,
            max_length=512,
        )

    @property
    def model_task(self) -> str:
        return self.model_of or self.name

    @property
    def official_labels(self) -> tuple[str, ...]:
        return self.labels

    @property
    def file_names(self) -> tuple[str, ...]:
        return tuple(self.submissions.values())

    @property
    def table_columns(self) -> dict[str, Any]:
        return {"text": self.first, "text_pair": self.second}

    def iter_examples(
        self, path: Path, *, split: str, problems: Problems, is_labeled: bool = True
    ) -> Iterator[Numbered[TextExample]]:
        """Yield the examples of a GLUE file; only a test file may have no labels.

        Quotes are plain characters. Empty texts are kept, because the official scores count them. The id of a
        row is its index, or its number from 0 if the file has no such column.
        """
        lines = iter_lines(path, problems=problems)
        is_headless = split in self.headless
        header = list(self.header) if is_headless else read_tsv_header(lines, problems=problems)
        has_labels = is_labeled and (self.label in header or not split.startswith("test"))
        columns = TextColumns(
            text=self.first,
            text_pair=self.second,
            label=self.label,
            label_kind="one" if self.labels else "number",
            id=next((name for name in ID_COLUMNS if name in header), None),
        )
        wanted = columns.wanted(is_labeled=has_labels)
        hint = f"give the official file of {self.name}"
        check_columns(header, replace(wanted, hint=hint), problems=problems)
        first_line = 1 if is_headless else 2

        def build(row: Row) -> Numbered[TextExample]:
            example = columns.build(row, Labels(self.labels), is_labeled=has_labels, keeps_empty=True)
            if columns.id is None:
                example = replace(example, id=str(row.line - first_line))
            columns.note(example, row.line, problems)
            return Numbered(row.line, example)

        return iter_good(iter_tsv_rows(lines, header=header, problems=problems), build, problems=problems)

    def write_files(
        self, out: Path, task: AnyTask, answers: Sequence[object], examples: Sequence[Example], *, split: str
    ) -> None:
        """Write the file for GLUE's server; numbers are clipped to STS-B's 0 to 5, with three decimals."""
        if split not in self.submissions or task.config.task_type != self.config.task_type:
            return
        lines = ["index\tprediction"]
        for example, answer in zip(examples, cast(Sequence[Floats], answers), strict=True):
            if self.labels:
                lines.append(f"{example.id}\t{self.labels[int(answer.argmax())]}")
            else:
                lines.append(f"{example.id}\t{min(max(float(answer[0]), STSB_RANGE[0]), STSB_RANGE[1]):.3f}")
        write_text(out / self.submissions[split], "\n".join(lines) + "\n")


@dataclass(frozen=True)
class SquadTask(PublishedTask):
    """SQuAD 1.1, or 2.0 with impossible questions."""

    has_impossible: bool = False
    max_length: int = 512
    table: ClassVar[str] = "question-answering"

    @property
    def config(self) -> QuestionAnsweringConfig:
        return QuestionAnsweringConfig(
            task=self.name, max_length=self.max_length, has_impossible=self.has_impossible
        )

    @property
    def file_names(self) -> tuple[str, ...]:
        return SQUAD_FILES

    def iter_examples(
        self, path: Path, *, split: str, problems: Problems, is_labeled: bool = True
    ) -> Iterator[Numbered[SpanExample]]:
        """Yield the questions of a SQuAD file; count answers that are not at their start.

        In 1.1, impossible questions are skipped and counted, too.
        """
        has_impossible, columns = self.has_impossible or not is_labeled, SpanColumns()
        seen: set[str] = set()

        def build(row: Row) -> Numbered[SpanExample]:
            example = _build_question(row, has_impossible=has_impossible)
            if example.id in seen:
                raise BadRow("an id that occurs twice", quote(example.id), is_fatal=True)
            seen.add(example.id)
            columns.note(example, row.line, problems)
            return Numbered(row.line, example)

        return iter_good(_iter_questions(path), build, problems=problems)

    def write_files(
        self, out: Path, task: AnyTask, answers: Sequence[object], examples: Sequence[Example], *, split: str
    ) -> None:
        cast(QuestionAnsweringTask, task).write_predictions(out, answers, examples)  # type: ignore[arg-type]


def _iter_questions(path: Path) -> Iterator[Row]:
    number = 0
    for index, article in enumerate(_read_list(read_json(path), "data", where=str(path)), start=1):
        where = f"{path}: article {index}"
        for paragraph in _read_list(article, "paragraphs", where=where):
            context = paragraph.get("context") if isinstance(paragraph, dict) else None
            if not isinstance(context, str):
                raise FileFormatError(f"{where}: has a paragraph without a context; give a SQuAD file")
            for content in _read_list(paragraph, "qas", where=where):
                number += 1
                title = str(article.get("title", ""))
                yield Row({"title": title, "context": context, "content": content}, str(path), number)


def _read_list(value: Any, key: str, *, where: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise FileFormatError(f"{where}: has no list {key!r}; give a SQuAD file")
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
    # The plausible answers of an impossible question are not correct.
    answers = () if is_impossible else parse_answers(content.get("answers", []), context=context)
    title = row.values["title"]
    return SpanExample(content["id"], content["question"], context, answers, is_impossible, title)


@dataclass(frozen=True)
class RaceTask(PublishedTask):
    """RACE: for each split a folder `{middle,high}/*.txt` with a passage in each file."""

    table: ClassVar[str] = "multiple-choice"

    @property
    def config(self) -> MultipleChoiceConfig:
        return MultipleChoiceConfig(task=self.name, max_length=512)

    def iter_examples(
        self, path: Path, *, split: str, problems: Problems, is_labeled: bool = True
    ) -> Iterator[Numbered[ChoiceExample]]:
        """Yield the questions in the order of the file numbers; the id of a question is its file and index.

        Answers are letters; a file may have no answers, as in a test set.
        """
        number = 0
        for level in RACE_LEVELS:
            files = sorted((path / level).glob("*.txt"), key=lambda each: (len(each.name), each.name))
            if not files:
                raise FileFormatError(
                    f"{path / level}: has no passages (*.txt); give the folder that contains train/middle"
                )
            for file in files:
                for example in _read_passage(file, level=level):
                    number += 1
                    if not example.passage.strip() or not all(option.strip() for option in example.options):
                        problems.note("an empty passage or option", line=number, detail=example.id)
                    yield Numbered(number, example)


def _read_passage(path: Path, *, level: str) -> list[ChoiceExample]:
    content = read_json(path)
    article = content.get("article") if isinstance(content, dict) else None
    if not isinstance(article, str):
        raise FileFormatError(f"{path}: has no text 'article'; give a file of RACE")
    lists: list[list[Any]] = []
    for key in ("questions", "options", "answers"):
        found = content.get(key, [None] * len(lists[0]) if key == "answers" else None)
        if not isinstance(found, list):
            raise FileFormatError(f"{path}: has no list {key!r}; give a file of RACE")
        lists.append(found)
    if len(set(map(len, lists))) > 1:
        raise FileFormatError(
            f"{path}: has {len(lists[0])} questions, {len(lists[1])} lists of options and {len(lists[2])} "
            "answers; give as many of each"
        )
    examples = []
    for index, (question, options, answer) in enumerate(zip(*lists, strict=True)):
        where = f"{path}: question {index + 1}"
        texts = [question, *options] if isinstance(options, list) else []
        if len(texts) < 3 or not all(isinstance(text, str) for text in texts):
            raise FileFormatError(f"{where}: give a text and a list of at least two options")
        try:
            label = None if answer is None else find_lettered_option(str(answer), tuple(options))
        except BadRow as bad:
            raise FileFormatError(f"{where}: has {bad.reason} ({bad.detail})") from bad
        name = f"{level}/{path.name}/{index}"
        examples.append(ChoiceExample(name, article, question, tuple(options), label, level))
    return examples


_ENTAILMENT = ("entailment", "not_entailment")
_THREE_WAY = ("entailment", "neutral", "contradiction")
_BINARY = ("0", "1")
_PUBLISHED: tuple[PublishedTask, ...] = (
    GlueTask(
        "cola", "CoLA", metrics=("matthews",), first="sentence", second=None, labels=_BINARY,
        label_names=("unacceptable", "acceptable"), header=("source", "label", "mark", "sentence"),
        headless=("train", "dev"), submissions={"test": "CoLA.tsv"},
    ),
    GlueTask(
        "sst-2", "SST-2", first="sentence", second=None, labels=_BINARY,
        label_names=("negative", "positive"), submissions={"test": "SST-2.tsv"},
    ),
    GlueTask(
        "mrpc", "MRPC", metrics=("accuracy", "f1"), first="#1 String", second="#2 String", label="Quality",
        labels=_BINARY, label_names=("not_equivalent", "equivalent"), submissions={"test": "MRPC.tsv"},
    ),
    GlueTask(
        "qqp", "QQP", metrics=("accuracy", "f1"), first="question1", second="question2",
        label="is_duplicate", labels=_BINARY, label_names=("not_duplicate", "duplicate"),
        submissions={"test": "QQP.tsv"},
    ),
    GlueTask(
        "sts-b", "STS-B", metrics=("pearson", "spearman"), label="score", submissions={"test": "STS-B.tsv"}
    ),
    GlueTask(
        "mnli", "MNLI", label="gold_label", labels=_THREE_WAY,
        files={
            "train": "train.tsv", "dev": "dev_matched.tsv", "dev-mismatched": "dev_mismatched.tsv",
            "test": "test_matched.tsv", "test-mismatched": "test_mismatched.tsv",
        },
        submissions={"test": "MNLI-m.tsv", "test-mismatched": "MNLI-mm.tsv"},
    ),
    GlueTask(
        "qnli", "QNLI", first="question", second="sentence", labels=_ENTAILMENT,
        submissions={"test": "QNLI.tsv"},
    ),
    GlueTask("rte", "RTE", labels=_ENTAILMENT, submissions={"test": "RTE.tsv"}),
    GlueTask(
        "wnli", "WNLI", labels=_BINARY, label_names=("not_entailment", "entailment"),
        submissions={"test": "WNLI.tsv"},
    ),
    GlueTask(
        "ax", "diagnostic", metrics=("matthews",), labels=_THREE_WAY, files={"test": "diagnostic.tsv"},
        submissions={"test": "AX.tsv"}, model_of="mnli",
    ),
    SquadTask("squad-1.1", "squad", {"train": "train-v1.1.json", "dev": "dev-v1.1.json"}, max_length=384),
    SquadTask(
        "squad-2.0", "squad", {"train": "train-v2.0.json", "dev": "dev-v2.0.json"}, has_impossible=True
    ),
    RaceTask("race", "race", {"train": "train", "dev": "dev", "test": "test"}),
)  # fmt: skip
PUBLISHED_TASKS: Mapping[str, PublishedTask] = {task.name: task for task in _PUBLISHED}
_ALIASES = {
    "diagnostic": "ax",
    "words": "token-classification",
    "questions": "question-answering",
    "choice": "multiple-choice",
}
_TABLES = (
    TableTask(
        "classification",
        TextColumns,
        ClassificationConfig(task="classification", metrics=("accuracy", "macro_f1"), max_length=512),
        {"label_kind": "one"},
    ),
    TableTask(
        "multilabel",
        TextColumns,
        ClassificationConfig(
            task="multilabel",
            label_kind="several",
            metrics=("multilabel_micro_f1", "multilabel_macro_f1"),
            max_length=512,
        ),
        {"label_kind": "several"},
    ),
    TableTask(
        "regression",
        TextColumns,
        ClassificationConfig(
            task="regression", label_kind="number", metrics=("pearson", "spearman"), max_length=512
        ),
        {"label_kind": "number"},
    ),
    TableTask(
        "token-classification",
        WordColumns,
        TokenClassificationConfig(task="token-classification", max_length=512),
    ),
    TableTask(
        "question-answering", SpanColumns, QuestionAnsweringConfig(task="question-answering", max_length=512)
    ),
    TableTask("embedding", SimilarityColumns, EmbeddingConfig(task="embedding", max_length=512)),
    TableTask(
        "multiple-choice",
        ChoiceColumns,
        MultipleChoiceConfig(task="multiple-choice", metrics=("accuracy",), max_length=512),
    ),
)
TABLE_TASKS: Mapping[str, TableTask] = {task.name: task for task in _TABLES}


def list_tasks() -> list[str]:
    """List the names of all tasks: published tasks and task types."""
    return [*PUBLISHED_TASKS, *TABLE_TASKS]


def find_task(name: str) -> TaskDefinition:
    """Find a task by name, in any case; raise `InputError` with a suggestion for an unknown one."""
    key = _ALIASES.get(name.lower(), name.lower())
    task = PUBLISHED_TASKS.get(key) or TABLE_TASKS.get(key)
    if task is None:
        raise InputError(
            f"unknown task {name!r}; {suggest(key, ['pretraining', *list_tasks()], lead='tasks:')}"
        )
    return task


def find_trainable_task(name: str) -> TaskDefinition:
    """Find a task that has training examples; raise `InputError` for others."""
    task = find_task(name)
    if task.model_task != task.name:
        raise InputError(
            f"{task.name} has no training examples; fine-tune on {task.model_task} and evaluate that model"
        )
    return task
