"""The card's sections on the run: architecture, time and training curve."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert.errors import InputError
from albert.files import read_json
from albert.model.config import count_parameters
from albert.progress import format_seconds
from albert.report.content import Cell, Chart, Column, Level, Section, Series, Table
from albert.training.checkpoints import STATE_NAME, CheckpointFolder
from albert.training.run_folder import (
    CHECKPOINTS_DIR,
    FREE_KEYS,
    PretrainMetadata,
    iter_records,
    read_pretrain_run,
)
from albert.training.settings import PretrainSettings, read_recipe

_NUM_ROWS = 12
# What the corpus decides, and what is named as a place.
_FILLED = {"model.vocab_size", "model.pad_token_id", "held_out.data"}


@dataclass(frozen=True)
class Run:
    """All that a finished run has written down."""

    settings: PretrainSettings
    facts: PretrainMetadata
    records: Sequence[Mapping[str, Any]]
    seconds: float
    num_tokens: int

    def list_records(self, kind: str) -> list[Mapping[str, Any]]:
        """The records of a kind, in order."""
        return [record for record in self.records if record["kind"] == kind]


def read_finished_run(run_dir: Path) -> Run:
    """Refused: a run that has not taken its last step."""
    settings, facts = read_pretrain_run(run_dir)
    checkpoints = CheckpointFolder(run_dir / CHECKPOINTS_DIR)
    steps = checkpoints.list_steps()
    if not steps or steps[-1] != settings.num_steps:
        raise InputError(
            f"{run_dir}: is at step {steps[-1] if steps else 0} of {settings.num_steps}; a card is written "
            "when the run is finished"
        )
    progress = read_json(checkpoints.step_dir(steps[-1]) / STATE_NAME)["progress"]
    return Run(settings, facts, list(iter_records(run_dir)), progress["seconds"], progress["num_tokens"])


def describe_shape(run: Run) -> Section:
    """What the model is, and how it is opened."""
    config = run.settings.model
    assert config is not None, "a finished run knows its shape"
    count = count_parameters(config).backbone
    rows = {
        "parameters": f"{count:,} without the heads",
        "layers": f"{config.num_hidden_layers} loops of one block, {config.hidden_size} wide, "
        f"{config.num_attention_heads} heads of attention",
        "embeddings": f"{config.embedding_size} wide, {config.vocab_size:,} pieces, lower case",
        "longest input": f"{config.max_position_embeddings} pieces, trained on up to "
        f"{run.settings.examples.max_length}",
        "heads": f"masked words, {run.settings.examples.objective.upper()}",
        "weights on the disk": "half precision; they compute in single precision",
    }
    return Section(
        "What it is",
        tables=[_lay_out("shape", rows)],
        code='import albert\nmodel = albert.load("nano")\n'
        'model.fill_mask(["The [MASK] was dark and cold."])\n'
        'model.sentence_order([("It rained.", "So we stayed in.")])\n'
        "# or from the shell\nalbert fill-mask --model nano 'The [MASK] was dark and cold.'\n"
        "albert finetune sst-2 --model nano --data GLUE --out RUN",
    )


def describe_training(run: Run, *, recipe: str, data: Mapping[str, Any]) -> Section:
    """Hours, machine, curve, and the commands that do it again."""
    settings, starts = run.settings, run.list_records("start")
    cores = max((record.get("cores", 1) for record in starts), default=1)
    optimizer = settings.optimizer
    rows = {
        "time": f"{format_seconds(run.seconds)} on {cores} CPU cores, {_list_stretches(starts)}",
        "steps": f"{settings.num_steps:,} of {settings.batch_size} × {settings.examples.max_length} pieces",
        "pieces seen": f"{run.num_tokens:,}, of a corpus of {run.facts.num_tokens:,}",
        "objectives": f"masked words ({settings.examples.mask_share:.0%}, "
        f"{settings.examples.masking}), {settings.examples.objective.upper()}",
        "optimiser": f"{optimizer.name}, peak {optimizer.learning_rate:g}, {settings.schedule.name}",
        "versions": ", ".join(f"{name} {version}" for name, version in run.facts.versions.items()),
    }
    return Section(
        "How it was trained",
        paragraphs=[
            _say_how_exactly(starts),
        ],
        tables=[_lay_out("training", rows), tabulate_curve(run)],
        charts=draw_curves(run),
        code="\n".join(list_commands(run, recipe=recipe, data=data)),
    )


def _say_how_exactly(starts: Sequence[Mapping[str, Any]]) -> str:
    """Sums are rounded by how they are shared among threads."""
    eye = "sums are rounded otherwise and the curve is the same to the eye."
    if len({start["threads"] for start in starts}) > 1:
        return (
            "The commands below give a model like it, not the same bits: the number of threads changed on "
            f"the way, and with another number of threads {eye}"
        )
    return (
        "The commands below give the same weights again, on the same machine with as many threads; with "
        f"another number of threads, {eye}"
    )


def _list_stretches(starts: Sequence[Mapping[str, Any]]) -> str:
    """With how many threads from which step on."""
    told = (f"threads {start['threads']} from step {start['step']:,}" for start in starts)
    return f"{len(starts)} stretch{'' if len(starts) == 1 else 'es'} ({', '.join(told)})"


def list_commands(run: Run, *, recipe: str, data: Mapping[str, Any]) -> list[str]:
    """From text to the half precision, with every setting that matters and is not its recipe's."""
    before = _flatten(read_recipe(recipe).model_dump(mode="json"))
    after = _flatten(run.settings.model_dump(mode="json"))
    changes = [
        shlex.quote(f"{key}={json.dumps(value)}")
        for key, value in after.items()
        if value != before.get(key) and key not in _FILLED | FREE_KEYS
    ]
    held_out = ["held_out.data=DIR/held-out"] if run.settings.held_out.data is not None else []
    return [
        f"python -m release.nano data --data DATA --out DIR --vocab-size {data['vocab_size']} "
        f"--passages {data['passages']}",
        " ".join([f"albert pretrain {Path(recipe).name} --data DIR/corpus --out RUN", *held_out, *changes]),
        "albert convert RUN HALF --half",
    ]


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        inner = _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
        found.update(inner)
    return found


def tabulate_curve(run: Run) -> Table:
    """What the model knew of held-out text on the way, in a dozen rows."""
    records = run.list_records("evaluate")
    stride = max(1, len(records) // _NUM_ROWS)
    kept = [*records[:-1:stride], *records[-1:]]
    columns = [Column("step", is_number=True), Column("word loss", is_number=True),
               Column("words", is_number=True), Column("order", is_number=True)]  # fmt: skip
    rows = [
        [
            Cell(f"{record['step']:,}", record["step"]),
            Cell(f"{record['mlm_loss']:.3f}", record["mlm_loss"]),
            format_share(record.get("mlm_accuracy")),
            format_share(record.get("sop_accuracy")),
        ]
        for record in kept
    ]
    return Table("curve", columns, rows, note="On held-out books, as deep as it then was.")


def draw_curves(run: Run) -> list[Chart]:
    """The loss of masked words and the order of segments, over the steps."""
    train, held_out = run.list_records("train"), run.list_records("evaluate")
    loss = Chart(
        "loss", "Masked words", "step", "loss, nats per piece",
        [_draw("training text", train, "mlm_loss"), _draw("held-out books", held_out, "mlm_loss")],
        levels=[Level(run.facts.unigram_loss, "frequencies alone")],
        caption=f"Held-out books: {held_out[-1]['mlm_loss']:.3f} at the end; frequencies alone would give "
        f"{run.facts.unigram_loss:.3f}.",
    )  # fmt: skip
    if "sop_accuracy" not in held_out[-1]:
        return [loss]
    order = Chart(
        "order", "The order of two segments", "step", "right answers, %",
        [_draw("held-out books", held_out, "sop_accuracy", scale=100.0)], levels=[Level(50.0, "chance")],
        caption=f"Held-out books: {held_out[-1]['sop_accuracy']:.1%} at the end; chance is 50%.",
    )  # fmt: skip
    return [loss, order]


def _draw(name: str, records: Sequence[Mapping[str, Any]], key: str, *, scale: float = 1.0) -> Series:
    """Draw at most about 200 points; the last one is kept."""
    known = [
        (float(record["step"]), scale * record[key]) for record in records if record.get(key) is not None
    ]
    stride = max(1, math.ceil(len(known) / 200))
    kept = [*known[:-1:stride], *known[-1:]]
    return Series(name, xs=[step for step, _ in kept], ys=[value for _, value in kept])


def format_share(value: float | None) -> Cell:
    """A share in percent."""
    return Cell("") if value is None else Cell(f"{value:.1%}", value)


def _lay_out(name: str, rows: Mapping[str, str]) -> Table:
    columns = [Column("what"), Column("how much")]
    return Table(name, columns, [[Cell(key), Cell(value)] for key, value in rows.items()])
