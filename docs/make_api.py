"""Write docs/api.md, the Python reference, from the docstrings of the public names: `make api`.

The source is parsed, not imported, so the page does not depend on the version of Python and needs no torch.
Libraries for this (griffe2md, pdoc) document whole modules or build a site. The public names are few and in
many modules, so a table of them is simpler.
"""

import ast
import re
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "api.md"
PACKAGE = ROOT / "src" / "albert"
WIDTH = 100
PAGE_WIDTH = 120
SECTION = re.compile(r"(Args|Returns|Raises):\n")  # of a docstring
# Called by the package or by pydantic, never by a user.
HIDDEN = ("staticmethod", "model_validator")

INTRODUCTION = """# Python reference

Generated from the docstrings by `make api`. `import albert` is fast, because its names are loaded on first
use. Import other names from their module, as in `from albert.model.runtime import RuntimeSettings`.
"""


@dataclass(frozen=True)
class Section:
    """A heading, its description, and the names below it by module."""

    title: str
    description: str
    modules: tuple[str, ...]


SECTIONS = (
    Section(
        "Predict",
        "`albert.load` opens any model for prediction; the predictor has a method for each task. `Texts` is "
        "a list or tuple of texts; `TextOrPair` is one text or a tuple of two.",
        (
            "tasks.predictor: load",
            "inference.predictor: Predictor",
            "tasks.predictor: TaskPredictor",
            "tasks.many_texts: embed_files predict_files ShardSummary",
        ),
    ),
    Section(
        "Predictions",
        "The results of prediction: frozen dataclasses.",
        (
            "inference.predictor: Candidate OrderAnswer",
            "tasks.classification: Classification LabelSet",
            "tasks.question_answering: ContextAnswer",
            "tasks.multiple_choice: Choice",
            "tasks.token_classification: Tagging TaggedWord FoundEntity",
        ),
    ),
    Section(
        "Build on the encoder",
        "Compute hidden states of your own token ids, and train with your own losses. `Rows` are lists of "
        "ids, tensors or arrays, one for each sequence, or one rectangular tensor or array.",
        (
            "inference.sequence_encoder: load_encoder SequenceEncoder",
            "inference.sequence_encoder: PaddedModel PaddedOutput",
        ),
    ),
    Section(
        "Accelerate",
        "Models of other libraries, faster: see [accelerate.md](accelerate.md).",
        ("integrations.accelerate: accelerate",),
    ),
    Section(
        "Train",
        "The same as the commands `pretrain` and `finetune`: see [pretraining.md](pretraining.md) and "
        "[finetuning.md](finetuning.md).",
        (
            "training.pretrain: pretrain distill PretrainResult",
            "tasks.finetune: finetune FinetuneResult FinetuneScores",
            "training.loop: LoopOutcome Progress",
            "progress: Reporter",
        ),
    ),
    Section(
        "Evaluate",
        "Evaluate a fine-tuned model, or several as an ensemble, on a labeled split.",
        (
            "tasks.evaluate: evaluate Evaluation MemberScore Selection Calibration",
            "tasks.task: ExampleResult",
            "tasks.metrics.intervals: Interval",
        ),
    ),
    Section(
        "Export",
        "Write a model for other runtimes: see [int8.md](int8.md) and [onnx.md](onnx.md).",
        ("export.int8: export_int8 Int8Export Agreement", "export.onnx: export_onnx OnnxExport Agreement"),
    ),
    Section(
        "Settings",
        'The keys of a recipe. Change them with `overrides=["optimizer.learning_rate=1e-4"]`; unknown keys '
        "and wrong types are rejected.",
        (
            "model.runtime: RuntimeSettings",
            "model.config: ModelConfig",
            "examples.settings: ExampleSettings",
            "training.settings: LoopSettings OptimizerSettings LossSpikeSettings",
            "training.schedules: ScheduleSettings",
            "training.settings: HeldOutSettings",
            "training.settings: PretrainSettings",
            "tasks.finetune_settings: FinetuneSettings TeacherSettings",
        ),
    ),
    Section(
        "Threads",
        "Speed beside other programs and in containers: see [threads.md](threads.md).",
        ("threads: tune_threads",),
    ),
    Section(
        "Errors",
        "Raised for invalid arguments, files and settings. The message is one line and suggests a fix.",
        ("errors: AlbertError InputError SettingsError FileFormatError WeightsError",),
    ),
)


@dataclass(frozen=True)
class Item:
    """A public class or function: its module, the source of the module, and its syntax tree."""

    module: str
    source: str
    node: ast.ClassDef | ast.FunctionDef

    @property
    def title(self) -> str:
        """Its full name for imports."""
        is_own = self.node.name in list_exports()
        return f"albert.{self.node.name}" if is_own else f"albert.{self.module}.{self.node.name}"

    @property
    def methods(self) -> dict[str, list[ast.FunctionDef]]:
        """The public methods of a class; of several overloads, the implementation comes last."""
        found: dict[str, list[ast.FunctionDef]] = {}
        for node in self.node.body if isinstance(self.node, ast.ClassDef) else []:
            if isinstance(node, ast.FunctionDef) and _is_public(node):
                found.setdefault(node.name, []).append(node)
        return found

    def write(self, node: ast.AST) -> str:
        """The source of a node, on one line."""
        return " ".join((ast.get_source_segment(self.source, node) or "").split())


def _is_public(node: ast.FunctionDef) -> bool:
    decorators = [ast.unparse(each) for each in node.decorator_list]
    return not node.name.startswith("_") and not any(each.startswith(HIDDEN) for each in decorators)


@cache
def list_exports() -> tuple[str, ...]:
    """List the names that `albert` exports, without the version."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (names,) = [node.value for node in tree.body if isinstance(node, ast.Assign) and _assigns_all(node)]
    return tuple(name for name in ast.literal_eval(names) if not name.startswith("__"))


def _assigns_all(node: ast.Assign) -> bool:
    return ast.unparse(node.targets[0]) == "__all__"


def list_items(section: Section) -> list[Item]:
    """Find the names of a section; raise a `KeyError` for one that does not exist."""
    items = []
    for module, _, names in (row.partition(": ") for row in section.modules):
        source = PACKAGE.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
        known = {
            node.name: node
            for node in ast.parse(source).body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
        }
        items += [Item(module, source, known[name]) for name in names.split()]
    return items


def format_api() -> str:
    """Format the page."""
    parts = [INTRODUCTION]
    for section in SECTIONS:
        links = [f"[`{item.node.name}`](#{_anchor(item.title)})" for item in list_items(section)]
        parts.append(_wrap(f"- **{section.title}**: {' · '.join(links)}", indent="  "))
    for section in SECTIONS:
        parts.append(f"\n## {section.title}\n\n{_wrap(section.description)}")
        parts += map(_format_item, list_items(section))
    return "\n".join(parts) + "\n"


def _anchor(title: str) -> str:
    """The anchor of a heading on GitHub."""
    return re.sub(r"[^\w-]", "", title.lower())


def _format_item(item: Item) -> str:
    opening = _format_class(item, item.node) if isinstance(item.node, ast.ClassDef) else ""
    parts = [f"\n### {item.title}\n", _format_code(opening or format_signature(item, item.node))]
    parts.append(_format_docstring(item.node))
    for name, nodes in item.methods.items():
        signatures = [format_signature(item, node) for node in nodes[:-1] or nodes]
        parts += [f"\n#### {item.node.name}.{name}\n", _format_code("\n".join(signatures))]
        parts.append(_format_docstring(nodes[-1]))
    return "\n".join(parts)


def _format_class(item: Item, node: ast.ClassDef) -> str:
    bases = ", ".join(map(item.write, node.bases))
    fields = [f"    {_write_field(item, each)}" for each in node.body if isinstance(each, ast.AnnAssign)]
    return "\n".join([f"class {node.name}({bases})" if bases else f"class {node.name}", *fields])


def _write_field(item: Item, field: ast.AnnAssign) -> str:
    """Write a field; an alias of a `Literal` is replaced by its values."""
    choices = {
        ast.unparse(node.targets[0]): item.write(node.value)
        for node in ast.parse(item.source).body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("Literal[")
    }
    kind, written = item.write(field.annotation), item.write(field)
    return written.replace(f": {kind}", f": {choices[kind]}", 1) if kind in choices else written


def format_signature(item: Item, node: ast.ClassDef | ast.FunctionDef) -> str:
    """Format a signature without `self`, long ones with an argument on each line."""
    assert isinstance(node, ast.FunctionDef), "classes are shown by their fields"
    returned = "Any" if node.returns is None else item.write(node.returns)
    if any(ast.unparse(each) == "property" for each in node.decorator_list):
        return f"{node.name}: {returned}"
    arguments = _list_arguments(item, node.args)
    line = f"{node.name}({', '.join(arguments)}) -> {returned}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{node.name}(", *(f"    {each}," for each in arguments), f") -> {returned}"])


def _list_arguments(item: Item, found: ast.arguments) -> list[str]:
    def write(argument: ast.arg, default: ast.expr | None = None) -> str:
        written = argument.arg + (f": {item.write(argument.annotation)}" if argument.annotation else "")
        return written if default is None else f"{written} = {item.write(default)}"

    defaults = [None] * (len(found.args) - len(found.defaults)) + list(found.defaults)
    listed = [write(*pair) for pair in zip(found.args, defaults, strict=True) if pair[0].arg != "self"]
    keywords = [write(*pair) for pair in zip(found.kwonlyargs, found.kw_defaults, strict=True)]
    rest = [f"**{write(found.kwarg)}"] if found.kwarg else []
    return [*listed, *(["*", *keywords] if keywords else []), *rest]


def _format_docstring(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Format the paragraphs of a docstring; examples become code, arguments and errors lists."""
    return "\n\n".join(map(_format_paragraph, (ast.get_docstring(node) or "").split("\n\n")))


def _format_paragraph(text: str) -> str:
    if text.startswith(">>>"):
        return _format_code("\n".join(line.removeprefix(">>> ") for line in text.splitlines())).rstrip()
    if not SECTION.match(text):
        return text
    title, _, body = text.partition(":\n")
    if title == "Returns":
        return _wrap(f"**Returns**: {' '.join(body.split())}")
    rows = [line.strip().partition(": ") for line in re.sub(r"\n {5,}", " ", body).splitlines()]
    return "\n".join(
        [f"**{title}**:\n", *(_wrap(f"- `{name}`: {what}", indent="  ") for name, _, what in rows)]
    )


def _wrap(text: str, *, indent: str = "") -> str:
    return textwrap.fill(
        text, PAGE_WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _format_code(text: str) -> str:
    return f"```python\n{text}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(format_api(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {sum(len(list_items(section)) for section in SECTIONS)} names")
