"""Write run folders as `pretrain` does, with made-up metrics."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from albert.cli.doctor import checks
from albert.cli.doctor.run import SEVERITIES, Finding, load_run
from albert.data.corpus import open_corpus
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.pretrained.folder import save_model
from albert.text.folder import load_tokenizer
from albert.training.checkpoints import TENSORS_NAME, Checkpoint, CheckpointFolder
from albert.training.run_folder import MetricsLog, PretrainMetadata, count_cores, identify_corpus, write_run
from albert.training.settings import read_recipe
from tests.conftest import WORDS, write_vocabulary

TINY = ModelConfig(
    vocab_size=20,
    embedding_size=4,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=16,
)
UNIGRAM = 6.0
NUM_STEPS, EVERY = 4000, 20
HEALTHY, UNFINISHED = "no problem found", "unfinished run"


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
    num_pieces: int = 20_000_000


# Spelled out, so that the findings do not change with the recipe.
CONSTANT = (
    "batch_size=64", "micro_batch_tokens=4096", "optimizer.learning_rate=0.001", "depth_schedule=[]",
    "length_schedule=[]", "position_init=normal", "optimizer.name=adamw", "schedule.name=linear",
    "schedule.warmup_share=0.06",
)  # fmt: skip


def write_synthetic_run(folder: Path, plan: Plan, corpus: Path) -> Path:
    overrides = (*CONSTANT, f"num_steps={NUM_STEPS}", f"log_every={EVERY}", *plan.overrides)
    settings = read_recipe("nano", overrides=overrides)
    facts = PretrainMetadata(
        data=str(corpus),
        corpus=identify_corpus(open_corpus(corpus)),
        num_pieces=plan.num_pieces,
        vocabulary="",
        unigram_loss=UNIGRAM,
        num_threads=plan.start["threads"],
    )
    write_run(folder, settings, facts)
    log = MetricsLog(folder, first_step=0, say=print, has_tensorboard=False)
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
    findings = checks.diagnose(load_run(folder))
    ranks = [SEVERITIES.index(found.severity) for found in findings]
    assert ranks == sorted(ranks)
    assert all(found.hint or found.kind == "healthy" for found in findings)
    return findings


def plateau(step: int) -> float:
    return UNIGRAM + 4.0 * float(np.exp(-step / 100))


def spoil_tensors(place: Path) -> None:
    path = place / TENSORS_NAME
    path.write_bytes(path.read_bytes()[:-10])
