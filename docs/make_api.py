"""The public names of albert come in; docs/api.md, the Python reference, goes out: `make api`.

It reads the source and imports nothing, so that the page is the same under every version of Python and needs
no torch. Libraries that do this (griffe2md, pdoc) follow a package's modules or build a site; here the
public names are few, live in many modules and are loaded when first used, so that a table of them is simpler.
"""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "api.md"
PACKAGE = ROOT / "src" / "albert"
WIDTH = 100
# Called by the package or by pydantic, never by a user.
HIDDEN = ("staticmethod", "model_validator")

INTRODUCTION = """# The Python reference

Made from the docstrings by `make api`; a test keeps it true. `import albert` costs nothing: what it names is
loaded when it is first used. Other names are imported from the module that stands before them, as in
`from albert.model.runtime import RuntimeSettings`.
"""


@dataclass(frozen=True)
class Section:
    """A heading, a sentence, and the names below it, after the modules of albert that they live in."""

    title: str
    words: str
    modules: tuple[str, ...]


SECTIONS = (
    Section(
        "Ask a model",
        "`albert.load` opens any model for prediction; what it gives has a method for each question. `Texts` "
        "are a list or tuple of texts, and a `TextOrPair` is one text or a tuple of two.",
        (
            "tasks.task_predictor: load",
            "inference.predictor: Predictor",
            "tasks.task_predictor: TaskPredictor",
        ),
    ),
    Section(
        "What it answers",
        "Small frozen records; their fields are read, never set.",
        (
            "inference.predictor: Candidate OrderAnswer",
            "tasks.predicted: Classification LabelSet ContextAnswer Choice Tagging TaggedWord FoundEntity",
        ),
    ),
    Section(
        "Build on the encoder",
        "For those who want hidden states, and bring their own ids and losses. `Rows` are lists of ids for "
        "each sequence, or tensors or arrays of them.",
        (
            "inference.sequence_encoder: load_encoder SequenceEncoder",
            "inference.sequence_encoder: PaddedModel PaddedOutput",
        ),
    ),
    Section(
        "Train",
        "What the commands of these names do; more in [pretraining.md](pretraining.md) and "
        "[finetuning.md](finetuning.md).",
        (
            "training.pretrain: pretrain PretrainResult",
            "tasks.finetune: finetune FinetuneResult FinetuneScores",
            "training.loop: LoopOutcome Progress",
            "progress: Reporter",
        ),
    ),
    Section(
        "Score",
        "A fine-tuned model, or several as one, on a labelled split.",
        (
            "tasks.evaluation: evaluate evaluate_task",
            "tasks.evaluation_result: Evaluation",
            "tasks.metrics.intervals: Interval",
        ),
    ),
    Section(
        "Settings",
        'What a recipe holds, and what `overrides=["optimizer.learning_rate=1e-4"]` changes. All are frozen; '
        "an unknown key or a wrong type is refused.",
        (
            "model.runtime: RuntimeSettings",
            "model.config: ModelConfig",
            "examples.settings: ExampleSettings",
            "training.settings: LoopSettings OptimizerSettings LossSpikeSettings",
            "training.schedules: ScheduleSettings",
            "training.settings: HeldOutSettings",
            "training.settings: PretrainSettings",
            "tasks.finetune_settings: FinetuneSettings",
        ),
    ),
    Section(
        "Errors",
        "A mistake in what was asked for or handed in is one of these, with one line that names the hint.",
        ("errors: AlbertError InputError SettingsError FileFormatError WeightsError",),
    ),
)


@dataclass(frozen=True)
class Item:
    """A public class or function: its module, the text of its file, and the place of it there."""

    module: str
    source: str
    node: ast.ClassDef | ast.FunctionDef

    @property
    def title(self) -> str:
        """As a user finds it: what albert itself offers by that name, the rest by its module."""
        is_own = self.node.name in list_exports()
        return f"albert.{self.node.name}" if is_own else f"albert.{self.module}.{self.node.name}"

    @property
    def methods(self) -> dict[str, list[ast.FunctionDef]]:
        """The public ones of a class; where there are several signatures, the body comes last."""
        found: dict[str, list[ast.FunctionDef]] = {}
        for node in self.node.body if isinstance(self.node, ast.ClassDef) else []:
            if isinstance(node, ast.FunctionDef) and _is_public(node):
                found.setdefault(node.name, []).append(node)
        return found

    def write(self, node: ast.AST) -> str:
        """What stands in the source, on one line."""
        return " ".join((ast.get_source_segment(self.source, node) or "").split())


def _is_public(node: ast.FunctionDef) -> bool:
    decorators = [ast.unparse(each) for each in node.decorator_list]
    return not node.name.startswith("_") and not any(each.startswith(HIDDEN) for each in decorators)


@cache
def list_exports() -> tuple[str, ...]:
    """What `albert` itself offers, but for the version."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (names,) = [node.value for node in tree.body if isinstance(node, ast.Assign) and _assigns_all(node)]
    return tuple(name for name in ast.literal_eval(names) if not name.startswith("__"))


def _assigns_all(node: ast.Assign) -> bool:
    return ast.unparse(node.targets[0]) == "__all__"


def list_items(section: Section) -> list[Item]:
    """The names of a section, found in their files; one that is not there is an error."""
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
    """The whole page."""
    parts = [INTRODUCTION]
    for section in SECTIONS:
        links = [f"[`{item.node.name}`](#{_anchor(item.title)})" for item in list_items(section)]
        parts.append(f"- **{section.title}**: {' · '.join(links)}")
    for section in SECTIONS:
        parts.append(f"\n## {section.title}\n\n{section.words}")
        parts += map(_format_item, list_items(section))
    return "\n".join(parts) + "\n"


def _anchor(title: str) -> str:
    """How code forges name the place of a heading."""
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
    """A field with its values spelled out, where its type is a name for a choice of words."""
    choices = {
        ast.unparse(node.targets[0]): item.write(node.value)
        for node in ast.parse(item.source).body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("Literal[")
    }
    kind, written = item.write(field.annotation), item.write(field)
    return written.replace(f": {kind}", f": {choices[kind]}", 1) if kind in choices else written


def format_signature(item: Item, node: ast.ClassDef | ast.FunctionDef) -> str:
    """As it is written, without `self`; one argument a line where it is long. A property has none."""
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
    """Its paragraphs; an example becomes code."""
    paragraphs = (ast.get_docstring(node) or "").split("\n\n")
    return "\n\n".join(_format_example(each) if each.startswith(">>>") else each for each in paragraphs)


def _format_example(text: str) -> str:
    return _format_code("\n".join(line.removeprefix(">>> ") for line in text.splitlines())).rstrip()


def _format_code(text: str) -> str:
    return f"```python\n{text}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(format_api(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {sum(len(list_items(section)) for section in SECTIONS)} names")
