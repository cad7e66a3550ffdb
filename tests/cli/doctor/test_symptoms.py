"""The checks of slow and stuck pretraining runs."""

import dataclasses

import numpy as np
import pytest

from albert.cli.doctor.checks import check_learning_rate
from albert.cli.doctor.checks import diagnose as diagnose_run
from albert.cli.doctor.run import load_run
from albert.training.run_folder import count_cores
from albert.training.settings import RecipeFolder, read_recipe
from tests.cli.doctor.synthetic import EVERY, HEALTHY, UNFINISHED, UNIGRAM, diagnose, plateau


def test_a_healthy_run_has_only_its_results(build):
    (found,) = diagnose(build())
    assert (found.kind, found.severity, found.title, found.hint) == ("healthy", "fine", HEALTHY, "")
    assert found.figures["mlm_loss"] == pytest.approx(2.52, abs=0.01)
    assert found.figures["below_unigram_share"] == pytest.approx(0.58, abs=0.01)
    assert found.figures["sop_accuracy"] == pytest.approx(0.8)
    assert found.figures["tokens_per_second"] == 8000.0
    assert found.figures["model_share"] == pytest.approx(0.9)
    assert found.figures["optimizer_share"] == pytest.approx(0.075)


def leaving(step: int) -> float:
    """On the plateau, and from step 3200 on its way down, not yet 3% below."""
    return UNIGRAM - max(0, step - 3200) * 2e-4


def jump(step: int) -> int:
    return 20 * step


# Changes of the healthy run; kind, severity and parts of title and hint of the only finding; values of it.
SYMPTOMS = {
    "plateau, ended there": (
        {"words": plateau, "overrides": ("optimizer.learning_rate=2e-4",)},
        ("stuck", "serious", "at the unigram loss since step", "(2) optimizer.learning_rate=0.001"),
        {"unigram_loss": UNIGRAM, "held_out_mlm_loss": pytest.approx(6.0, abs=0.02)},
    ),
    "plateau, not for long": (
        {"words": plateau, "num_done": 2000},
        ("stuck", "warning", "at the unigram loss since step", "(2) --batch-size 32"),
        {"change_in_1000_steps": pytest.approx(0.0, abs=0.05)},
    ),
    "flat above the plateau": (
        {"words": lambda step: 1.3 * UNIGRAM},
        ("stuck", "serious", "above the unigram loss", "num_steps=16000"),
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
        ("stuck", "warning", "ended at the unigram loss", "num_steps=16000"),
        {},
    ),
    "order at chance": (
        {"pairs": lambda step: 0.51},
        ("stuck", "warning", "sop accuracy is at chance", "corpus show"),
        {"held_out_sop_accuracy": pytest.approx(0.51), "standard_error": pytest.approx(0.5 / 512**0.5)},
    ),
    "order at chance, words just begun": (
        {"words": lambda step: 9.0 - step / 600, "pairs": lambda step: 0.49, "num_done": 2200},
        ("stuck", "note", "sop accuracy is at chance", "Wait until the MLM loss"),
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
    "steps left out": (
        {"skips": (3500, 3600, 3700)},
        ("stuck", "warning", "steps were skipped", "half the learning rate"),
        {"steps_left_out": 3, "last_left_out": "step 3700, the loss was nan"},
    ),
    "two steps left out": (
        {"skips": (3500, 3600)},
        ("stuck", "note", "steps were skipped", "No action needed"),
        {"steps_left_out": 2},
    ),
    "stopped by the guard": (
        {"num_done": 2000, "skips": (1996, 1997, 1998, 1999, 2000)},
        ("stuck", "serious", "stopped after too many skipped steps", "half the learning rate"),
        {"steps_left_out": 5},
    ),
    "overfitting": (
        {"held_out": lambda step: 4.0 + abs(step - 2000) / 4000, "num_pieces": 1_000_000},
        ("stuck", "warning", "overfitting since step 2,000", "seen 32.8 times"),
        {"best_step": 2000, "epochs_seen": pytest.approx(32.768)},
    ),
    "held-out text of another kind": (
        {"held_out": lambda step: 1.0 + 1.1 * (2.5 + 6.0 * float(np.exp(-step / 700)))},
        ("stuck", "warning", "held-out text differs", "held_out.data=DIR"),
        {"epochs_seen": pytest.approx(1.6384)},
    ),
    "waiting for data": (
        {"train": {"waited_seconds": 5.0, "model_seconds": 13.0}},
        ("slow", "warning", "waiting for data takes", "num_workers=2"),
        {"waiting_for_data_share": pytest.approx(0.25), "model_share": pytest.approx(0.65)},
    ),
    "evaluation": (
        {"evaluation_seconds": 100.0},
        ("slow", "warning", "evaluation takes", "num_evaluations=10"),
        {"evaluation_share": pytest.approx(2000 / 6010)},
    ),
    "saving": (
        {"save_seconds": 40.0},
        ("slow", "warning", "saving takes", "save_minutes=30"),
        {"saving_share": pytest.approx(800 / 4880)},
    ),
    "too many threads": (
        {"start": {"threads": count_cores() + 2}},
        ("slow", "warning", f"{count_cores() + 2} threads on", f"OMP_NUM_THREADS={count_cores()}"),
        {"threads": count_cores() + 2},
    ),
    "too many threads for the machine it ran on": (
        {"start": {"threads": 70, "cores": 64}},
        ("slow", "warning", "70 threads on 64 cores", "OMP_NUM_THREADS=64"),
        {"threads": 70, "cores": 64},
    ),
    "few threads": (
        {"start": {"threads": 8, "cores": 64}},
        ("slow", "note", "8 threads on 64 cores", "OMP_NUM_THREADS=64"),
        {"threads": 8, "cores": 64},
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
}  # fmt: skip


@pytest.mark.parametrize(("changes", "wanted", "figures"), SYMPTOMS.values(), ids=SYMPTOMS)
def test_each_problem_is_found_alone(build, changes, wanted, figures):
    kind, severity, title, hint = wanted
    findings = diagnose(build(**changes))
    (found,) = [found for found in findings if title in found.title]
    assert (found.kind, found.severity) == (kind, severity)
    assert hint in found.hint
    assert {name: found.figures[name] for name in figures} == figures
    others = {other.title for other in findings if other is not found}
    assert others <= {HEALTHY, UNFINISHED}
    assert (HEALTHY in others) == (severity == "note" and UNFINISHED not in others)


def test_the_first_step_of_the_plateau(build):
    (found,) = diagnose(build(words=plateau))
    # Where 4·exp(-step/100) falls below 5% of it.
    assert found.figures["since_step"] == pytest.approx(100 * np.log(4.0 / 0.3), abs=2 * EVERY)


def test_a_loss_that_leaves_the_plateau_is_not_stuck(build):
    folder = build(words=leaving, num_done=3900)
    assert [found.title for found in diagnose(folder)] == [UNFINISHED]


def test_few_held_out_pairs_are_not_at_chance_if_training_pairs_are_learned(build):
    few = ("held_out.num_examples=16",)
    assert [found.title for found in diagnose(build(pairs=lambda step: 0.7, overrides=few))] == [HEALTHY]


def test_memorized_pairs_are_at_chance(build):
    (found,) = diagnose(build(pairs=lambda step: 0.51, train={"sop_accuracy": 0.95}))
    assert "sop accuracy is at chance" in found.title
    assert found.figures["train_sop_accuracy"] == pytest.approx(0.95)


def test_a_new_stage_that_changes_the_loss_is_no_problem(build):
    stages = ("depth_schedule=[{until: 0.8, value: 1}]",)
    findings = diagnose(
        build(
            overrides=stages,
            words=lambda step: 3.0 if step <= 3200 else 3.5,
            train={"tokens_per_second": lambda step: 16000.0 if step <= 3200 else 8000.0},
        )
    )
    assert [found.title for found in findings] == [HEALTHY]


def test_an_early_skipped_step_is_ignored(build):
    assert [found.title for found in diagnose(build(skips=(300,)))] == [HEALTHY]


def test_the_learning_rate_of_every_recipe_is_in_range(build):
    run = load_run(build())
    for name in RecipeFolder("pretrain").list_names():
        settings = read_recipe(name)
        assert not list(check_learning_rate(dataclasses.replace(run, settings=settings))), name


def test_an_optimizer_without_known_learning_rates_is_not_checked(build):
    run = load_run(build(words=plateau))
    optimizer = run.settings.optimizer.model_copy(update={"name": "sgd", "learning_rate": 10.0})
    run = dataclasses.replace(run, settings=run.settings.model_copy(update={"optimizer": optimizer}))
    assert not list(check_learning_rate(run))
    (found,) = diagnose_run(run)  # its hints use the learning rates, too
    assert "the unigram loss" in found.title
