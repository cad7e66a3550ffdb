"""`albert doctor`: each symptom is named where it is, and nowhere else."""

import dataclasses
import json
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from albert.app.doctor import machine
from albert.app.doctor.diagnosis import examine
from albert.app.doctor.findings import SEVERITIES
from albert.app.doctor.reading import open_run
from albert.app.doctor.stuck import check_learning_rate
from albert.corpus.corpus import open_corpus
from albert.files import hold
from albert.training.checkpoints import STATE_NAME, TENSORS_NAME, Checkpoint, CheckpointFolder
from albert.training.health import count_cores
from albert.training.metrics import METRICS_NAME, MetricsLog
from albert.training.pretrain_facts import PretrainFacts, identify_corpus
from albert.training.recipes import list_recipes, read_recipe
from albert.training.run_folder import LOCK_NAME, write_run
from tests.training import conftest as stories

one_thread, recipe, story_corpus = stories.one_thread, stories.recipe, stories.story_corpus

UNIGRAM = 6.0
NUM_STEPS, EVERY = 4000, 20
HEALTHY = "nothing is wrong"


@dataclass(frozen=True)
class Plan:
    """What a synthetic run is like; unchanged, it is healthy. Figures of `train` may depend on the step."""

    words: Callable[[int], float] = lambda step: 2.5 + 6.0 * float(np.exp(-step / 700))
    held_out: Callable[[int], float] | None = None
    pairs: Callable[[int], float] = lambda step: 0.5 + 0.3 * step / NUM_STEPS
    noise: float = 0.02
    train: dict[str, Any] = field(default_factory=dict)
    skips: tuple[int, ...] = ()
    num_done: int = NUM_STEPS
    overrides: tuple[str, ...] = ()
    threads: int = count_cores()
    evaluation_seconds: float = 4.0
    save_seconds: float = 0.5
    num_pieces: int = 20_000_000


@pytest.fixture
def build(tmp_path, story_corpus):
    """A run folder as `pretrain` leaves one, with the figures of a plan."""

    def build(**changes: Any) -> Path:
        folder = Path(tempfile.mkdtemp(dir=tmp_path)) / "run"
        return write_synthetic_run(folder, Plan(**changes), story_corpus)

    return build


# Spelled out, so that the symptoms do not change when the recipe finds a better way.
CONSTANT = (
    "batch_size=64", "micro_batch_tokens=4096", "optimizer.learning_rate=0.001", "depth_schedule=[]",
    "length_schedule=[]", "position_init=normal",
)  # fmt: skip


def write_synthetic_run(folder: Path, plan: Plan, corpus: Path) -> Path:
    overrides = (*CONSTANT, f"num_steps={NUM_STEPS}", f"log_every={EVERY}", *plan.overrides)
    settings = read_recipe("nano", overrides=overrides)
    facts = PretrainFacts(
        data=str(corpus),
        corpus=identify_corpus(open_corpus(corpus)),
        num_pieces=plan.num_pieces,
        vocabulary="",
        unigram_loss=UNIGRAM,
        num_threads=plan.threads,
    )
    write_run(folder, settings, facts)
    log = MetricsLog(folder, first_step=0, say=print, has_tensorboard=False)
    log.write("start", 0, threads=plan.threads, time=0.0)
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
        (folder / "model").mkdir()
        (folder / "model" / "config.json").write_text("{}", encoding="utf-8")
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


def diagnose(folder: Path):
    findings = examine(open_run(folder))
    ranks = [SEVERITIES.index(found.severity) for found in findings]
    assert ranks == sorted(ranks)
    assert all(found.cure or found.kind == "healthy" for found in findings)
    return findings


def test_a_healthy_run_has_nothing_but_its_figures(build):
    (found,) = diagnose(build())
    assert (found.kind, found.severity, found.title, found.cure) == ("healthy", "fine", HEALTHY, "")
    assert found.figures["mlm_loss"] == pytest.approx(2.52, abs=0.01)
    assert found.figures["below_unigram_share"] == pytest.approx(0.58, abs=0.01)
    assert found.figures["sop_accuracy"] == pytest.approx(0.8)
    assert found.figures["tokens_per_second"] == 8000.0
    assert found.figures["model_share"] == pytest.approx(0.9)
    assert found.figures["optimizer_share"] == pytest.approx(0.075)


def plateau(step: int) -> float:
    return UNIGRAM + 4.0 * float(np.exp(-step / 100))


def leaving(step: int) -> float:
    """On the plateau, and from step 3200 on its way down, not yet 3% below."""
    return UNIGRAM - max(0, step - 3200) * 2e-4


def jump(step: int) -> int:
    return 20 * step


# What is changed in the healthy run; then of the one finding that this makes: kind, severity, a word of its
# title, a word of its cure, and figures of it.
SYMPTOMS = {
    "plateau, ended there": (
        {"words": plateau, "overrides": ("optimizer.learning_rate=2e-4",)},
        ("stuck", "serious", "stuck since step", "(1) a higher peak learning rate: optimizer"),
        {"unigram_loss": UNIGRAM, "held_out_mlm_loss": pytest.approx(6.0, abs=0.02)},
    ),
    "plateau, not for long": (
        {"words": plateau, "num_done": 2000},
        ("stuck", "warning", "thousands of steps", "(1) smaller batches and more steps: --batch-size 32"),
        {"change_in_1000_steps": pytest.approx(0.0, abs=0.05)},
    ),
    "flat above the plateau": (
        {"words": lambda step: 1.3 * UNIGRAM},
        ("stuck", "serious", "the loss is above that of the mere frequency", "longer training"),
        {"since_step": 20},
    ),
    "too early": (
        {"words": plateau, "num_done": 240},
        ("stuck", "note", "too early", "after step 480"),
        {"warm_up_steps": 240},
    ),
    "too noisy": (
        {"words": plateau, "num_done": 1000, "noise": 0.4},
        ("stuck", "note", "too early", "after step 2,000"),
        {"step": 1000},
    ),
    "ended too soon": (
        {"words": lambda step: 9.0 - step / 2000, "pairs": lambda step: 0.7},
        ("stuck", "warning", "ended before masked words were learned", "num_steps=16000"),
        {},
    ),
    "order at chance": (
        {"pairs": lambda step: 0.51},
        ("stuck", "warning", "sop is at chance", "corpus show"),
        {"held_out_sop_accuracy": pytest.approx(0.51), "standard_error": pytest.approx(0.5 / 512**0.5)},
    ),
    "order at chance, words just begun": (
        {"words": lambda step: 9.0 - step / 600, "pairs": lambda step: 0.49, "num_done": 2200},
        ("stuck", "note", "sop is at chance", "wait: masked words have only just left"),
        {},
    ),
    "learning rate too high": (
        {"overrides": ("optimizer.learning_rate=0.05",)},
        ("stuck", "warning", "too high for adamw", "optimizer.learning_rate=0.001"),
        {"pieces_a_step": 8192, "times_outside": pytest.approx(0.05 / 3e-3)},
    ),
    "learning rate too low for LAMB": (
        {"overrides": ("optimizer.name=lamb", "optimizer.learning_rate=1e-5")},
        ("stuck", "warning", "too low for lamb", "optimizer.learning_rate=0.00011"),
        {"times_outside": pytest.approx(0.00176 / 16 / 1e-5)},
    ),
    "loss rises": (
        {"words": lambda step: 4.0 if step < 3000 else 4.0 + (step - 3000) / 500},
        ("stuck", "serious", "training loss rises", "optimizer.learning_rate=0.0005"),
        {"change_in_1000_steps": pytest.approx(2.0, abs=0.2)},
    ),
    "gradients grow": (
        {"words": lambda step: 4.0, "train": {"grad_norm": lambda step: 1.0 if step < 3000 else 8.0}},
        ("stuck", "warning", "gradients grow", "warmup_steps=480"),
        {"gradient_norm_to_earlier": 8.0},
    ),
    "steps left out": (
        {"skips": (3500, 3600, 3700)},
        ("stuck", "warning", "steps were left out", "half the learning rate"),
        {"steps_left_out": 3, "last_left_out": "step 3700, the loss was nan"},
    ),
    "two steps left out": (
        {"skips": (3500, 3600)},
        ("stuck", "note", "steps were left out", "nothing, while they stay few"),
        {"steps_left_out": 2},
    ),
    "stopped by the guard": (
        {"num_done": 2000, "skips": (1996, 1997, 1998, 1999, 2000)},
        ("stuck", "serious", "it was stopped", "half the learning rate"),
        {"steps_left_out": 5},
    ),
    "overfitting": (
        {"held_out": lambda step: 4.0 + abs(step - 2000) / 4000, "num_pieces": 1_000_000},
        ("stuck", "warning", "overfitting since step 2,000", "seen 32.8 times"),
        {"best_step": 2000, "epochs_seen": pytest.approx(32.768)},
    ),
    "waiting for data": (
        {"train": {"waited_seconds": 5.0, "model_seconds": 13.0}},
        ("slow", "warning", "wait for their examples", "num_workers=2"),
        {"waiting_for_data_share": pytest.approx(0.25), "model_share": pytest.approx(0.65)},
    ),
    "optimiser": (
        {"train": {"optimizer_seconds": 8.0, "model_seconds": 11.0}},
        ("slow", "warning", "optimiser", "--batch-size 128"),
        {"optimizer_share": pytest.approx(0.4)},
    ),
    "evaluation": (
        {"evaluation_seconds": 100.0},
        ("slow", "warning", "evaluations", "held_out.num_examples=512"),
        {"evaluation_share": pytest.approx(2000 / 6010)},
    ),
    "saving": (
        {"save_seconds": 40.0},
        ("slow", "warning", "saving", "save_minutes=30"),
        {"saving_share": pytest.approx(800 / 4880)},
    ),
    "too many threads": (
        {"threads": count_cores() + 2},
        ("slow", "warning", "threads and cores differ", f"OMP_NUM_THREADS={count_cores()}"),
        {"threads": count_cores() + 2},
    ),
    "load": (
        {"train": {"load": 3.0 * count_cores()}},
        ("slow", "warning", "other processes", "top"),
        {"load": 3.0 * count_cores()},
    ),
    "swapped": (
        {"train": {"swap_mb": 300.0}},
        ("slow", "note", "memory is short", "micro_batch_tokens=2048"),
        {"swapped_mb": 300.0},
    ),
    "pages from the disk": (
        {"train": {"major_faults": jump}},
        ("slow", "warning", "memory is short", "micro_batch_tokens=2048"),
        {"pages_from_disk_a_second": pytest.approx(20.0)},
    ),
    "slower than before": (
        {"train": {"tokens_per_second": lambda step: 8000.0 if step < 2800 else 4000.0}},
        ("slow", "warning", "50% slower", "top"),
        {"tokens_per_second": 4000.0, "earlier_tokens_per_second": 8000.0},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "wanted", "figures"), SYMPTOMS.values(), ids=SYMPTOMS)
def test_each_symptom_is_named_with_its_figures_and_its_cure(build, changes, wanted, figures):
    kind, severity, title, cure = wanted
    findings = diagnose(build(**changes))
    (found,) = [found for found in findings if title in found.title]
    assert (found.kind, found.severity) == (kind, severity)
    assert cure in found.cure
    assert {name: found.figures[name] for name in figures} == figures
    # Nothing else is the matter, but that a run may not be finished.
    others = {other.title for other in findings if other is not found}
    assert others <= {HEALTHY, "the run is unfinished"}
    assert (HEALTHY in others) == (severity == "note" and "the run is unfinished" not in others)


def test_since_when_the_loss_is_on_the_plateau(build):
    (found,) = diagnose(build(words=plateau))
    # Where 4·exp(-step/100) falls below 5% of it.
    assert found.figures["since_step"] == pytest.approx(100 * np.log(4.0 / 0.3), abs=2 * EVERY)


def test_a_loss_that_leaves_the_plateau_is_not_stuck(build):
    folder = build(words=leaving, num_done=3900)
    assert [found.title for found in diagnose(folder)] == ["the run is unfinished"]


def test_few_questions_do_not_make_chance_of_what_training_shows_to_be_learned(build):
    few = ("held_out.num_examples=16",)
    assert [found.title for found in diagnose(build(pairs=lambda step: 0.7, overrides=few))] == [HEALTHY]


def test_order_that_is_learned_by_heart_is_at_chance(build):
    (found,) = diagnose(build(pairs=lambda step: 0.51, train={"sop_accuracy": 0.95}))
    assert "sop is at chance" in found.title
    assert found.figures["train_sop_accuracy"] == pytest.approx(0.95)


def test_a_stage_that_changes_loss_and_speed_is_no_symptom(build):
    stages = ("depth_schedule=[{until: 0.8, value: 1}]",)
    findings = diagnose(
        build(
            overrides=stages,
            words=lambda step: 3.0 if step <= 3200 else 3.5,
            train={"tokens_per_second": lambda step: 16000.0 if step <= 3200 else 8000.0},
        )
    )
    assert [found.title for found in findings] == [HEALTHY]


def test_one_step_left_out_long_ago_is_forgotten(build):
    assert [found.title for found in diagnose(build(skips=(300,)))] == [HEALTHY]


def test_the_learning_rate_of_every_recipe_fits_its_batches(build):
    run = open_run(build())
    for name in list_recipes():
        assert check_learning_rate(dataclasses.replace(run, settings=read_recipe(name))) is None, name


def spoil_tensors(place: Path) -> None:
    path = place / TENSORS_NAME
    path.write_bytes(path.read_bytes()[:-10])


DAMAGES = {
    "cut": (spoil_tensors, "the checksum does not fit"),
    "no tensors": (lambda place: (place / TENSORS_NAME).unlink(), "missing"),
    "no state": (lambda place: (place / STATE_NAME).unlink(), "No such file"),
    "half a state": (lambda place: (place / STATE_NAME).write_text('{"step"'), "not valid JSON"),
}


@pytest.mark.parametrize(("spoil", "reason"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it(build, spoil, reason):
    folder = build(num_done=2000)
    spoil(folder / "checkpoints" / "step-2000")
    found = diagnose(folder)[0]
    assert (found.kind, found.severity, found.title) == (
        "damaged",
        "serious",
        "damaged: checkpoint step-2000",
    )
    assert reason in str(found.figures["step-2000"])
    assert "goes on from step 1000" in found.cure


def test_a_damaged_old_checkpoint_is_only_a_note(build):
    folder = build(num_done=2000)
    spoil_tensors(folder / "checkpoints" / "step-1000")
    (found,) = [found for found in diagnose(folder) if "checkpoint" in found.title]
    assert (found.severity, found.title) == ("note", "damaged: checkpoint step-1000")


def test_an_unfinished_run_is_told_how_to_go_on_unless_someone_is_at_work(build, story_corpus):
    folder = build(num_done=2000)
    (found,) = diagnose(folder)
    assert (found.kind, found.severity, found.title) == ("damaged", "warning", "the run is unfinished")
    assert (found.figures["step"], found.figures["of_steps"]) == (2000, 4000)
    assert f"--data {story_corpus} --out {folder} --resume" in found.cure
    with hold(folder / LOCK_NAME, busy=""):
        assert [found.title for found in diagnose(folder)] == [HEALTHY]
    assert [found.title for found in diagnose(folder)] == ["the run is unfinished"]


def test_a_run_that_the_guard_stopped_is_not_told_to_go_on_as_before(build):
    findings = diagnose(build(num_done=2000, skips=tuple(range(1996, 2001))))
    assert not [found for found in findings if "--resume" in found.cure]
    few = diagnose(build(num_done=2000, skips=tuple(range(1997, 2001))))
    assert [found for found in few if "--resume" in found.cure]


def test_a_finished_run_whose_model_was_not_written(build):
    folder = build()
    (folder / "model" / "config.json").unlink()
    (found,) = diagnose(folder)
    assert "the model was not written" in found.title
    assert "--resume" in found.cure


def test_what_a_killed_save_left_over_and_what_a_living_one_is_writing(build):
    folder = build()
    aside = folder / "checkpoints" / ".step-4000.abc"
    aside.mkdir()
    (aside / TENSORS_NAME).write_bytes(bytes(2_000_000))
    found = diagnose(folder)[0]
    assert (found.kind, found.severity, found.figures["megabytes"]) == ("damaged", "note", 2.0)
    with hold(folder / LOCK_NAME, busy=""):
        assert [found.title for found in diagnose(folder)] == [HEALTHY]


def test_lines_that_were_cut(build):
    folder = build()
    path = folder / METRICS_NAME
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines) + lines[5][:30], encoding="utf-8")
    at_the_end = diagnose(folder)[0]
    assert (at_the_end.severity, at_the_end.figures["line"]) == ("note", str(len(lines) + 1))
    with hold(folder / LOCK_NAME, busy=""):  # it is being written
        assert [found.title for found in diagnose(folder)] == [HEALTHY]
    path.write_text("".join([*lines[:5], lines[5][:30] + "\n", *lines[6:]]), encoding="utf-8")
    (inside,) = diagnose(folder)
    assert (inside.kind, inside.severity, inside.figures["line"]) == ("damaged", "warning", "6")


def change_facts(folder: Path, **values: Any) -> None:
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}), encoding="utf-8")


def test_a_corpus_that_is_gone_or_another(build, tmp_path):
    folder = build(num_done=2000)
    change_facts(folder, data=str(tmp_path / "gone"))
    found = diagnose(folder)[0]
    assert (found.kind, found.severity, found.title) == ("damaged", "serious", "the corpus cannot be opened")
    assert str(tmp_path / "gone") in str(found.figures["reason"])


def test_another_corpus(build):
    folder = build(num_done=2000)
    change_facts(folder, corpus="0" * 64)
    found = diagnose(folder)[0]
    assert "not the one that the run began with" in found.title
    assert found.figures["began_with"] == "0" * 12


def read_png_size(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    return width, height


def test_the_command_prints_a_table_or_the_same_as_data(build, run_albert):
    folder = build(words=plateau, skips=(3900,))
    done = run_albert("doctor", folder, "--json")
    assert (done.code, done.err) == (0, "")
    data = json.loads(done.out)
    assert (data["run"], data["plot"]) == (str(folder), str(folder / "doctor.png"))
    assert [found["severity"] for found in data["findings"]] == ["serious", "note"]
    assert set(data["findings"][0]) == {"kind", "severity", "title", "figures", "cure"}
    assert data["findings"][0]["figures"]["unigram_loss"] == UNIGRAM
    assert read_png_size(folder / "doctor.png") == (1200, 900)

    done = run_albert("doctor", folder, "--plot", folder / "pictures" / "mine.png")
    assert (done.code, done.err) == (0, "")
    assert "stuck: masked words are" in done.out
    assert "unigram loss 6" in done.out
    assert done.out.index("serious") < done.out.index("note")
    assert read_png_size(folder / "pictures" / "mine.png") == (1200, 900)


def test_a_run_without_a_record_has_no_picture(build, run_albert):
    folder = build()
    (folder / METRICS_NAME).unlink()
    data = json.loads(run_albert("doctor", folder, "--json").out)
    assert data["plot"] is None
    assert not (folder / "doctor.png").exists()
    assert [found["title"] for found in data["findings"]] == ["the run is unfinished"]


def test_a_picture_that_cannot_be_written_does_not_keep_the_diagnosis_back(build, run_albert):
    folder = build()
    (folder / "doctor.png").mkdir()
    done = run_albert("doctor", folder, "--json")
    assert (done.code, json.loads(done.out)["plot"]) == (0, None)
    assert done.err.startswith("no picture: ")
    assert "directory" in run_albert("doctor", folder, "--plot", folder / "doctor.png").error


def test_a_folder_that_is_no_run_is_one_line(tmp_path, run_albert):
    assert "no run.json" in run_albert("doctor", tmp_path).error
    assert "no such folder" in run_albert("doctor", tmp_path / "nowhere").error
    assert "name the run" in run_albert("doctor", "--plot", tmp_path / "a.png").error


def test_a_real_run_is_diagnosed_and_its_cure_is_a_command_that_works(
    recipe, story_corpus, tmp_path, run_albert
):
    folder = tmp_path / "out"
    words = ("pretrain", recipe, "--data", story_corpus, "--out", folder)
    assert run_albert(*words).code == 0
    data = json.loads(run_albert("doctor", folder, "--json").out)
    titles = [found["title"] for found in data["findings"]]
    assert any("ended before masked words were learned" in title for title in titles)
    assert not [found for found in data["findings"] if found["kind"] == "damaged"]
    assert read_png_size(folder / "doctor.png") == (1200, 900)

    spoil_tensors(folder / "checkpoints" / "step-20")
    (folder / "model" / "config.json").unlink()
    damaged = [found for found in diagnose(folder) if found.kind == "damaged"]
    assert {found.title for found in damaged} == {
        "damaged: checkpoint step-20",
        "all steps are done, but the model was not written",
    }
    command = next(found.cure for found in damaged if "--resume" in found.cure).split("`")[1]
    done = run_albert(*command.split()[1:])
    assert done.code == 0, done
    assert [found for found in diagnose(folder) if found.kind == "damaged"] == []


def test_the_machine_is_one_line_for_each_check(run_albert):
    done = run_albert("doctor")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    names = ["versions", "threads", "memory", "load", "arithmetic", "compiler", "disk"]
    assert [line.split()[1] for line in lines] == names
    assert f"torch: {torch.__version__}" in lines[0]
    data = json.loads(run_albert("doctor", "--json").out)
    assert (data["run"], data["plot"]) == (None, None)
    assert [found["title"] for found in data["findings"]] == names


def test_too_few_and_too_many_threads_are_seen_on_the_machine(monkeypatch):
    monkeypatch.setattr(machine, "count_cores", lambda: 8)
    monkeypatch.setattr(machine, "read_quota", lambda: None)
    for threads, variable, is_off in (
        (8, None, False),
        (4, None, False),
        (4, "4", True),
        (1, None, True),
        (9, "9", True),
    ):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        if variable is not None:
            monkeypatch.setenv("OMP_NUM_THREADS", variable)
        found = machine.check_threads()
        assert (found.severity == "warning", "OMP_NUM_THREADS=8" in found.cure) == (is_off, is_off), threads


def test_the_quota_of_a_container_counts(tmp_path, monkeypatch):
    path = tmp_path / "cpu.max"
    path.write_text("150000 100000\n")
    assert machine.read_quota(path) == 1.5
    path.write_text("max 100000\n")
    assert machine.read_quota(path) is None
    monkeypatch.setattr(machine, "count_cores", lambda: 8)
    monkeypatch.setattr(machine, "read_quota", lambda: 2.0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert "OMP_NUM_THREADS=2" in machine.check_threads().cure


def test_short_memory_is_seen(tmp_path, monkeypatch):
    path = tmp_path / "meminfo"
    lines = "MemTotal: 16000000 kB\nMemAvailable: {} kB\nSwapTotal: 8000000 kB\nSwapFree: {} kB\n"
    amounts = (9_000_000, 8_000_000, "fine"), (900_000, 8_000_000, "warning"), (3_000_000, 0, "warning")
    for free, swap_free, severity in amounts:
        path.write_text(lines.format(free, swap_free))
        with monkeypatch.context() as patch:
            memory = machine.read_memory(path)
            patch.setattr(machine, "read_memory", lambda memory=memory: memory)
            assert machine.check_memory().severity == severity
    assert machine.read_memory(tmp_path / "nothing") == {}
