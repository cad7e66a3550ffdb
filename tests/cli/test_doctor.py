"""`albert doctor`: synthetic and real runs with one problem each, and the machine."""

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from albert.cli import doctor
from albert.cli.doctor import SEVERITIES, Finding, load_run
from albert.data.corpus import open_corpus
from albert.files import hold
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.pretrained.folder import save_model
from albert.tasks.finetune import finetune
from albert.text.folder import load_tokenizer
from albert.threads import count_cores
from albert.training.checkpoints import STATE_NAME, TENSORS_NAME, Checkpoint, CheckpointFolder
from albert.training.run_folder import (
    LOCK_NAME,
    METRICS_NAME,
    MetricsLog,
    PretrainMetadata,
    identify_corpus,
    iter_records,
    write_run,
)
from albert.training.settings import read_recipe
from tests.conftest import WORDS, write_vocabulary
from tests.tasks.tables import write_tables
from tests.training.conftest import one_thread, recipe, story_corpus

__all__ = ["one_thread", "recipe", "story_corpus"]

TINY = ModelConfig(
    vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=16, max_position_embeddings=16,
)  # fmt: skip
UNIGRAM = 6.0
NUM_STEPS, EVERY = 4000, 20


@dataclass(frozen=True)
class Plan:
    """Metrics of a synthetic run, healthy by default; values of `train` may be functions of the step."""

    words: Callable[[int], float] = lambda step: 2.5 + 6.0 * float(np.exp(-step / 700))
    held_out: Callable[[int], float] | None = None
    pairs: Callable[[int], float] = lambda step: 0.5 + 0.3 * step / NUM_STEPS
    noise: float = 0.02
    train: dict[str, Any] = field(default_factory=dict)
    skips: tuple[int, ...] = ()
    num_done: int = NUM_STEPS
    overrides: tuple[str, ...] = ()
    start: dict[str, Any] = field(default_factory=lambda: {"threads": count_cores()})
    evaluation_seconds: float = 4.0
    save_seconds: float = 0.5
    num_tokens: int = 20_000_000


# Spelled out, so that the findings do not change with the recipe.
CONSTANT = (
    "batch_size=64", "micro_batch_tokens=4096", "optimizer.learning_rate=0.001", "depth_schedule=[]",
    "length_schedule=[]", "position_init=normal", "optimizer.name=adamw", "schedule.name=linear",
    "schedule.warmup_share=0.06",
)  # fmt: skip


def write_synthetic_run(folder: Path, plan: Plan, corpus: Path) -> Path:
    overrides = (*CONSTANT, f"num_steps={NUM_STEPS}", f"log_every={EVERY}", *plan.overrides)
    settings = read_recipe("nano", overrides=overrides)
    metadata = PretrainMetadata(
        data=str(corpus),
        corpus=identify_corpus(open_corpus(corpus)),
        num_tokens=plan.num_tokens,
        vocabulary="",
        unigram_loss=UNIGRAM,
        num_threads=plan.start["threads"],
    )
    write_run(folder, settings, metadata)
    log = MetricsLog(folder, say=print)
    log.open(first_step=0, has_tensorboard=False)
    log.write("start", 0, **plan.start, time=0.0)
    draw = np.random.default_rng(0)
    assert settings.model is not None
    curriculum = settings.build_curriculum(settings.model)
    for step in range(1, plan.num_done + 1):
        if step in plan.skips:
            log.write("skip", step, reason="the loss was nan", num_skipped=1)
        if step % EVERY == 0:
            write_train_record(log, step, plan, curriculum.find(step - 1), draw)
        if step % (NUM_STEPS // settings.num_evaluations) == 0:
            loss = (plan.held_out or plan.words)(step)
            log.write(
                "evaluate", step, mlm_loss=loss, mlm_accuracy=0.3, sop_accuracy=plan.pairs(step),
                seconds=plan.evaluation_seconds,
            )  # fmt: skip
            log.write("save", step, seconds=plan.save_seconds)
    checkpoints = CheckpointFolder(folder / "checkpoints")
    for step in (plan.num_done // 2, plan.num_done):
        checkpoints.save(Checkpoint(step, {"model.w": torch.arange(100.0)}, {}))
    if plan.num_done == NUM_STEPS:
        log.write("end", NUM_STEPS, is_finished=True, signal=None)
        vocabulary = write_vocabulary(folder.parent / "vocab.txt", WORDS[: TINY.vocab_size])
        model = build_model(TINY, heads={"mlm": None}, seed=0)
        save_model(folder / "model", model, tokenizer=load_tokenizer(vocabulary))
    log.close()
    return folder


def write_train_record(log, step, plan, shape, draw) -> None:
    words = plan.words(step) + draw.normal(scale=plan.noise)
    figures = {
        "mlm_loss": words, "mlm_accuracy": 0.3, "sop_loss": 0.6, "sop_accuracy": plan.pairs(step),
        "loss": words + 0.6, "grad_norm": 1.0, "learning_rate": 1e-3, "tokens_per_second": 8000.0,
        "seconds": 20.0, "waited_seconds": 0.2, "model_seconds": 18.0, "optimizer_seconds": 1.5,
        "major_faults": 9, "peak_mb": 900.0, "load": 1.0, "swap_mb": 0.0,
    }  # fmt: skip
    changes = {key: value(step) if callable(value) else value for key, value in plan.train.items()}
    log.write(
        "train", step, **{**figures, **changes}, depth=shape.depth, length=shape.length,
        batch_size=shape.batch_size, tokens=step * 8192,
    )  # fmt: skip


def diagnose(folder: Path) -> list[Finding]:
    findings = doctor.diagnose(load_run(folder))
    ranks = [SEVERITIES.index(found.severity) for found in findings]
    assert ranks == sorted(ranks)
    assert all(found.hint or found.kind == "healthy" for found in findings)
    return findings


def plateau(step: int) -> float:
    return UNIGRAM + 4.0 * float(np.exp(-step / 100))


def truncate_tensors(checkpoint: Path) -> None:
    path = checkpoint / TENSORS_NAME
    path.write_bytes(path.read_bytes()[:-10])


@pytest.fixture
def build(tmp_path, story_corpus):
    """Build a run folder with the metrics of a plan."""

    def build(**changes: Any) -> Path:
        folder = Path(tempfile.mkdtemp(dir=tmp_path)) / "run"
        return write_synthetic_run(folder, Plan(**changes), story_corpus)

    return build


def test_a_healthy_run_has_only_its_results(build):
    (found,) = diagnose(build())
    assert (found.kind, found.severity, found.hint) == ("healthy", "fine", "")
    assert found.figures["held_out_mlm_loss"] == pytest.approx(2.52, abs=0.01)
    assert found.figures["sop_accuracy"] == pytest.approx(0.8)
    assert found.figures["tokens_per_second"] == 8000.0
    assert found.figures["model_share"] == pytest.approx(0.9)
    assert found.figures["optimizer_share"] == pytest.approx(0.075)


# Changes of the healthy run; the kind and severity of the only finding, a part of its hint, and its values.
SYMPTOMS = {
    "plateau, ended there": (
        {"words": plateau}, ("stuck", "serious", "optimizer.name=muon"),
        {"unigram_loss": UNIGRAM, "held_out_mlm_loss": pytest.approx(6.0, abs=0.02)},
    ),
    "plateau, not for long": (
        {"words": plateau, "num_done": 2000}, ("stuck", "warning", "--batch-size 32"),
        {"since_step": pytest.approx(100 * np.log(4.0 / 0.3), abs=2 * EVERY)},  # within 5% of the plateau
    ),
    "too early": ({"words": plateau, "num_done": 240}, ("stuck", "note", "step 480"), {"step": 240}),
    "ended too soon": (
        {"words": lambda step: 9.0 - step / 2000, "pairs": lambda step: 0.7},
        ("stuck", "warning", "num_steps=16000"), {},
    ),
    "order at chance": (
        {"pairs": lambda step: 0.51}, ("stuck", "warning", "corpus show"),
        {"held_out_sop_accuracy": pytest.approx(0.51), "standard_error": pytest.approx(0.5 / 512**0.5)},
    ),
    "learning rate too high": (
        {"overrides": ("optimizer.learning_rate=0.05",)}, ("stuck", "warning", "learning_rate=0.001"),
        {"tokens_per_step": 8192, "highest": pytest.approx(3e-3)},
    ),
    "learning rate too low for LAMB": (
        {"overrides": ("optimizer.name=lamb", "optimizer.learning_rate=1e-5")},
        ("stuck", "warning", "learning_rate=0.00011"), {"lowest": pytest.approx(0.00176 / 16)},
    ),
    "loss rises": (
        {"words": lambda step: 4.0 if step < 3000 else 4.0 + (step - 3000) / 500},
        ("stuck", "serious", "learning_rate=0.0005"), {},
    ),
    "steps left out": ({"skips": (3500, 3600, 3700)}, ("stuck", "warning", ""), {"steps_skipped": 3}),
    "two steps left out": ({"skips": (3500, 3600)}, ("stuck", "note", ""), {"steps_skipped": 2}),
    "stopped by the filter": (
        {"num_done": 2000, "skips": (1996, 1997, 1998, 1999, 2000)}, ("stuck", "serious", ""),
        {"steps_skipped": 5},
    ),
    "overfitting": (
        {"held_out": lambda step: 4.0 + abs(step - 2000) / 4000, "num_tokens": 1_000_000},
        ("stuck", "warning", "32.8"), {"best_step": 2000, "epochs_seen": pytest.approx(32.768)},
    ),
    "waiting for data": (
        {"train": {"waited_seconds": 5.0, "model_seconds": 13.0}}, ("slow", "warning", "num_workers=2"),
        {"waiting_for_data_share": pytest.approx(0.25)},
    ),
    "evaluation": (
        {"evaluation_seconds": 100.0}, ("slow", "warning", "num_evaluations=10"),
        {"evaluation_share": pytest.approx(2000 / 6010)},
    ),
    "saving": (
        {"save_seconds": 40.0}, ("slow", "warning", "save_minutes=30"),
        {"saving_share": pytest.approx(800 / 4880)},
    ),
    "too many threads": (
        {"start": {"threads": count_cores() + 2}}, ("slow", "warning", f"OMP_NUM_THREADS={count_cores()}"),
        {"threads": count_cores() + 2},
    ),
    "few threads": (
        {"start": {"threads": 8, "cores": 64}}, ("slow", "note", "OMP_NUM_THREADS=64"), {"threads": 8},
    ),
    "load": ({"train": {"load": 3.0 * count_cores()}}, ("slow", "warning", "top"), {}),
    "swapped": (
        {"train": {"swap_mb": 300.0}}, ("slow", "note", "micro_batch_tokens=2048"), {"swapped_mb": 300.0},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "wanted", "values"), SYMPTOMS.values(), ids=SYMPTOMS)
def test_each_problem_is_found_alone(build, changes, wanted, values):
    kind, severity, hint = wanted
    findings = [each for each in diagnose(build(**changes)) if each.kind not in ("healthy", "damaged")]
    (found,) = findings
    assert (found.kind, found.severity) == (kind, severity)
    assert hint in found.hint
    assert {name: found.figures[name] for name in values} == values


@pytest.mark.parametrize(
    "changes",
    [
        {
            "overrides": ("depth_schedule=[{until: 0.8, value: 1}]",),
            "words": lambda step: 3.0 if step <= 3200 else 3.5,  # a new stage changes the loss
        },
        {"skips": (300,)},
    ],
    ids=["a new stage", "an early skipped step"],
)
def test_what_is_no_problem(build, changes):
    assert [found.kind for found in diagnose(build(**changes))] == ["healthy"]


def test_a_damaged_checkpoint_is_named_and_the_one_before_it(build):
    folder = build(num_done=2000)
    (folder / "checkpoints" / "step-2000" / STATE_NAME).unlink()
    found = diagnose(folder)[0]
    assert (found.kind, found.severity) == ("damaged", "serious")
    assert "step-2000" in found.figures
    assert "step 1000" in found.hint


def test_a_damaged_old_checkpoint_is_only_a_note(build):
    folder = build(num_done=2000)
    truncate_tensors(folder / "checkpoints" / "step-1000")
    assert [found.severity for found in diagnose(folder) if "step-1000" in found.title] == ["note"]


def test_an_unfinished_run_has_a_command_to_resume_unless_it_is_active(build, story_corpus):
    folder = build(num_done=2000)
    (found,) = diagnose(folder)
    assert (found.kind, found.severity) == ("damaged", "warning")
    assert (found.figures["step"], found.figures["of_steps"]) == (2000, 4000)
    assert f"--data {story_corpus} --out {folder} --resume" in found.hint
    with hold(folder / LOCK_NAME, busy=""):
        assert [found.kind for found in diagnose(folder)] == ["healthy"]


def test_the_error_that_ended_a_run_is_shown(build):
    folder = build(num_done=2000)
    log = MetricsLog(folder, say=print)
    log.open(first_step=2000, has_tensorboard=False)
    log.write("end", 2000, is_finished=False, error="No space left on device")
    log.close()
    (found,) = diagnose(folder)
    assert found.figures["ended_by"] == "No space left on device"


def test_a_run_of_several_processes_is_resumed_with_as_many(build):
    (found,) = diagnose(build(num_done=2000, start={"threads": 1, "cores": 2, "processes": 2}))
    assert "`torchrun --nproc-per-node=2 -m albert pretrain " in found.hint


def test_a_run_that_was_stopped_for_skipped_steps_is_not_to_be_resumed(build):
    findings = diagnose(build(num_done=2000, skips=tuple(range(1996, 2001))))
    assert not [found for found in findings if "--resume" in found.hint]
    few = diagnose(build(num_done=2000, skips=tuple(range(1997, 2001))))
    assert [found for found in few if "--resume" in found.hint]


def test_the_command_prints_text_or_the_same_as_data(build, run_albert):
    folder = build(words=plateau, skips=(3900,))
    done = run_albert("doctor", folder, "--json")
    assert (done.code, done.err) == (0, "")
    data = json.loads(done.out)
    assert (data["run"], data["plot"]) == (str(folder), str(folder / "doctor.png"))
    assert [found["severity"] for found in data["findings"]] == ["serious", "note"]
    assert set(data["findings"][0]) == {"kind", "severity", "title", "figures", "hint"}
    assert data["findings"][0]["figures"]["unigram_loss"] == UNIGRAM
    done = run_albert("doctor", folder, "--plot", folder / "pictures" / "mine.png")
    assert (done.code, done.err) == (0, "")
    assert done.out.index("serious") < done.out.index("note")
    for path in (folder / "doctor.png", folder / "pictures" / "mine.png"):
        assert path.read_bytes().startswith(b"\x89PNG")


def test_a_folder_that_is_no_run_is_one_line(tmp_path, run_albert):
    assert "run.json" in run_albert("doctor", tmp_path).error
    assert "nowhere" in run_albert("doctor", tmp_path / "nowhere").error
    assert "--plot" in run_albert("doctor", "--plot", tmp_path / "a.png").error


def test_the_hints_of_a_real_run_are_commands_that_work(recipe, story_corpus, tmp_path, run_albert):
    folder = tmp_path / "out"
    words = ("pretrain", recipe, "--data", story_corpus, "--out", folder)
    assert run_albert(*words).code == 0
    data = json.loads(run_albert("doctor", folder, "--json").out)
    longer = next(each["hint"] for each in data["findings"] if " num_steps=" in each["hint"])
    assert run_albert(*longer.split("`")[1].split()[1:]).code == 0
    assert (tmp_path / "out-2" / "model").is_dir()
    assert not [found for found in data["findings"] if found["kind"] == "damaged"]

    truncate_tensors(folder / "checkpoints" / "step-20")
    (folder / "model" / "config.json").unlink()
    damaged = [found for found in diagnose(folder) if found.kind == "damaged"]
    assert len(damaged) == 2
    command = next(found.hint for found in damaged if "--resume" in found.hint).split("`")[1]
    assert run_albert(*command.split()[1:]).code == 0
    assert [found for found in diagnose(folder) if found.kind == "damaged"] == []


OVERRIDES = (
    "num_steps=200", "batch_size=16", "optimizer.learning_rate=3e-3", "num_evaluations=8", "log_every=5",
    "rename_share=0", "has_tensorboard=false",
)  # fmt: skip
QUIET = {"major_faults": 0, "swap_mb": 0.0, "load": 0.5, "tokens_per_second": 1000.0, "grad_norm": 1.0}


@pytest.fixture(scope="module")
def healthy(tiny_folder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run that learns its task; what the machine was doing at the time is taken out of its records."""
    folder = tmp_path_factory.mktemp("healthy")
    data = write_tables(folder / "data", "classification", num_train=200, num_dev=100)
    finetune("classification", model=tiny_folder, data=data, out=folder / "run", overrides=OVERRIDES)
    rewrite(folder / "run", lambda record: record)
    return folder / "run"


def rewrite(run: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Other records than the run has told; None takes one out."""
    quiet: dict[str, dict[str, Any]] = {
        "train": {
            **QUIET, "seconds": 1.0, "waited_seconds": 0.0, "model_seconds": 0.9, "optimizer_seconds": 0.05,
        },
        "evaluate": {"seconds": 0.3},
        "save": {"seconds": 0.1},
        "start": {"threads": count_cores()},
    }  # fmt: skip
    records = [change({**record, **quiet.get(record["kind"], {})}) for record in iter_records(run)]
    kept = [record for record in records if record is not None]
    (run / METRICS_NAME).write_text("".join(json.dumps(record) + "\n" for record in kept))


@pytest.fixture
def run(healthy: Path, tmp_path: Path) -> Path:
    """A copy of the healthy run that a test may change."""
    return shutil.copytree(healthy, tmp_path / "run")


def find_one(run: Path) -> Finding:
    """The only finding, beside that nothing is worse than a note."""
    found = [finding for finding in doctor.diagnose(load_run(run)) if finding.kind != "healthy"]
    assert len(found) == 1, found
    return found[0]


def set_figures(kind: str, **figures: Callable[[int], float]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Figures of a kind of record as functions of the step."""

    def change(record: dict[str, Any]) -> dict[str, Any]:
        new = {name: figure(record["step"]) for name, figure in figures.items()}
        return {**record, **new} if record["kind"] == kind else record

    return change


def test_a_healthy_run_has_nothing_but_its_figures(healthy):
    (found,) = doctor.diagnose(load_run(healthy))
    assert found.kind == "healthy"
    assert found.figures["of_steps"] == 200
    guess, best = found.figures["score_of_constant"], found.figures["best_score"]
    assert 30 < guess < 60 < best  # the majority's accuracy and macro F1, on average


def test_a_run_at_its_beginning_is_not_judged(run):
    rewrite(run, lambda record: record if record["step"] <= 75 and record["kind"] != "end" else None)
    rewrite(run, set_figures("evaluate", score=lambda step: 41.0))
    assert not [found for found in diagnose(run) if found.kind == "stuck"]


@pytest.mark.parametrize(
    ("score", "loss", "severity", "hint"),
    [
        (lambda step: 41.0, lambda step: 0.69, "serious", "optimizer.learning_rate=0.001"),
        (lambda step: 41.0, lambda step: 0.7 - step / 400, "serious", "200"),
        (lambda step: 95.0 - step / 5, lambda step: 0.7 - step / 400, "note", "patience=3"),
        (lambda step: 40.0 + step / 4, lambda step: 0.7 - step / 400, "note", " num_steps=400 "),
    ],
    ids=["no better than a constant", "only the loss falls", "overfitting", "still rises"],
)
def test_problems_of_a_score(run, score, loss, severity, hint):
    rewrite(run, set_figures("evaluate", score=score))
    rewrite(run, set_figures("train", loss=loss))
    found = find_one(run)
    assert found.severity == severity
    assert hint in found.hint


def test_a_damaged_model_is_named_with_the_command_that_writes_it_again(run, run_albert):
    path = run / "model" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    found = find_one(run)
    assert found.severity == "serious"
    assert "model.safetensors" in found.figures["reason"]
    words = found.hint.split("`")[1].split()
    assert words[:3] == ["albert", "finetune", "classification"]
    assert run_albert(*words[1:]).code == 0
    assert not [finding for finding in diagnose(run) if finding.kind == "damaged"]


def test_a_folder_of_seeds_leads_to_one(run, tmp_path, run_albert):
    (tmp_path / "seeds").mkdir()
    run.rename(tmp_path / "seeds" / "seed-0")
    assert str(tmp_path / "seeds" / "seed-0") in run_albert("doctor", tmp_path / "seeds").error


def test_the_machine_is_one_line_for_each_check(run_albert):
    done = run_albert("doctor")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    names = ["versions", "threads", "memory", "load", "arithmetic", "compiler", "disk"]
    assert [line.split()[1] for line in lines] == names
    assert torch.__version__ in lines[0]
    data = json.loads(run_albert("doctor", "--json").out)
    assert (data["run"], data["plot"]) == (None, None)
    assert [found["title"] for found in data["findings"]] == names


def find_part(title: str) -> Finding:
    return next(found for found in doctor.diagnose_machine() if found.title == title)


def test_too_few_and_too_many_threads_are_seen_on_the_machine(monkeypatch):
    monkeypatch.setattr(doctor, "count_cores", lambda: 8)
    for threads, variable, is_off in ((8, None, False), (4, "4", True), (1, None, True), (9, "9", True)):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        if variable is not None:
            monkeypatch.setenv("OMP_NUM_THREADS", variable)
        found = find_part("threads")
        assert (found.severity == "warning", "OMP_NUM_THREADS=8" in found.hint) == (is_off, is_off), threads
