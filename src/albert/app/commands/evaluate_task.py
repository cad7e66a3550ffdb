"""Fine-tuned models and the data of their task come in; tables for a person and files go out."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from albert.app.progress import ProgressDisplay
from albert.app.results import CommandResult
from albert.errors import InputError
from albert.files import write_json

if TYPE_CHECKING:
    from albert.tasks.evaluation_result import Evaluation
    from albert.tasks.exit_curve import ExitCurve


@dataclass(frozen=True)
class TaskRequest:
    """What was typed."""

    task: str
    models: tuple[str, ...]
    data: str
    split: str | None
    out: Path | None
    report: Path | None
    select: bool
    select_on: str | None
    has_exits: bool
    depth: int | None
    device: str
    revision: str | None
    seed: int
    overrides: tuple[str, ...]


def evaluate_finetuned(request: TaskRequest) -> CommandResult:
    """Ask, score, write what is to be written, and show the figures."""
    from albert.tasks.evaluation import evaluate_task
    from albert.tasks.evaluation_files import EXITS_NAME, summarise_evaluation, write_evaluation
    from albert.tasks.report import write_report

    columns = _read_columns(request.overrides)
    _check_request(request)
    with ProgressDisplay() as display:
        found = evaluate_task(
            request.task,
            models=request.models,
            data=request.data,
            split=request.split,
            columns=columns,
            depth=request.depth,
            select=request.select,
            select_on=request.select_on,
            device=request.device,
            revision=request.revision,
            seed=request.seed,
            reporter=display,
        )
        files = [] if request.out is None else write_evaluation(request.out, found)
        curve = _measure_exits(request, found, display) if request.has_exits else None
    if request.report is not None and not found.scores:
        raise InputError(f"--report: {found.data} has no labels, so that there are no errors to show")
    if request.out is not None and curve is not None:
        files.append(request.out / EXITS_NAME)
        write_json(files[-1], asdict(curve))
    if request.report is not None:
        write_report(request.report, found)
        files.append(request.report)
    values = {**summarise_evaluation(found), "files": [str(path) for path in files]}
    if curve is not None:
        values["exits"] = asdict(curve)
    return CommandResult(values, lambda console: _render(console, found, curve, files))


def _read_columns(overrides: tuple[str, ...]) -> dict[str, Any]:
    """The names after `columns.`; nothing else can be set here."""
    from albert.settings import apply_overrides

    values = apply_overrides({}, overrides, literal="columns")
    columns = values.pop("columns", {})
    if values or not isinstance(columns, dict):
        raise InputError(
            f"{next(iter(values), 'columns')}: only the columns of an own table can be set, as in "
            "columns.text=review; the rest is in the model's folder"
        )
    return columns


def _check_request(request: TaskRequest) -> None:
    """What cannot be done or written is refused before the work, not after it."""
    from albert.tasks.evaluation_files import check_folder
    from albert.tasks.evaluation_goal import find_goal, find_questions

    goal = find_goal(request.task)
    split, _ = find_questions(goal, Path(request.data), split=request.split)
    if request.out is not None:
        check_folder(request.out, task=goal.name, split=split)
    if request.report is not None and request.report.is_dir():
        raise InputError(f"--report {request.report}: is a folder; give the name of an HTML file")
    if request.has_exits:
        _check_exits(request)


def _check_exits(request: TaskRequest) -> None:
    from albert.pretrained.hub import resolve_source
    from albert.tasks.task_facts import read_facts

    models = request.models
    if len(models) > 1:
        raise InputError(f"--exits: {len(models)} models, and the curve is that of one; give one --model")
    facts = read_facts(resolve_source(models[0], revision=request.revision))
    if facts is None or not facts.has_exits:
        raise InputError(f"--exits: {models[0]} has none; fine-tune a model with has_exits=true")


def _measure_exits(request: TaskRequest, found: "Evaluation", display: ProgressDisplay) -> "ExitCurve":
    from albert.pretrained.hub import resolve_source
    from albert.tasks.exit_curve import measure_folder

    if not found.scores:
        raise InputError(f"--exits: {found.data} has no labels to be right about")
    display.show("exits", "every depth and every patience, by the clock")
    path = resolve_source(found.models[0], revision=request.revision)
    return measure_folder(path, found.examples)  # type: ignore[arg-type]


def _render(console: Any, found: "Evaluation", curve: "ExitCurve | None", files: list[Path]) -> None:
    from albert.app.commands.evaluate_tables import render_evaluation, render_exits

    render_evaluation(console, found)
    if curve is not None:
        render_exits(console, curve)
    for path in files:
        console.print(str(path), markup=False, soft_wrap=True)
