"""Several processes train as one: the same examples, the same steps, the same weights within rounding."""

import io
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from torch._C._distributed_c10d import HashStore, Store
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from albert.cli.main import _run
from albert.data.corpus import open_corpus
from albert.errors import EchoError
from albert.examples.batches import build_source
from albert.examples.settings import ExampleSettings
from albert.pretrained.folder import load_model
from albert.progress import NullReporter
from albert.text.folder import load_tokenizer
from albert.training.checkpoints import Checkpoint, CheckpointFolder
from albert.training.distributed import DistributedContext, join_rendezvous
from albert.training.loop import load_newest
from albert.training.pretrain import open_data, reject_different_copies
from albert.training.settings import read_recipe
from tests.training.conftest import TINY, build_torchrun

# Ragged batches of both objectives in several micro-batches; no dropout, which differs by process.
SETTINGS = {
    **TINY,
    "model": {**TINY["model"], "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    "examples": {"max_length": 40, "short_share": 0.5},
    "num_steps": 30,
    "batch_size": 9,
}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "tiny.yaml"
    path.write_text(yaml.safe_dump(SETTINGS), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def train(recipe, story_corpus):
    """`albert pretrain`, by itself or under torchrun."""

    def run(out: Path, *words: str, processes: int = 0, module: str = "albert") -> str:
        command = ["pretrain", str(recipe), "--data", str(story_corpus), "--out", str(out), *words]
        if module == "albert" and not processes:
            with redirect_stderr(io.StringIO()) as told, redirect_stdout(io.StringIO()):
                assert _run(command) == 0, told.getvalue()
            return told.getvalue()
        launched = build_torchrun([module, *command], processes=max(1, processes))
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(launched, capture_output=True, text=True, env=env, timeout=180)
        assert done.returncode == 0, done.stderr
        return done.stderr

    return run


@pytest.fixture(scope="module")
def alone(train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("alone") / "run"
    train(out)
    return out


def read_weights(run_dir: Path) -> dict[str, torch.Tensor]:
    return load_model(run_dir / "model").model.state_dict()


def count_tokens(run_dir: Path) -> int:
    folder = CheckpointFolder(run_dir / "checkpoints")
    return int(folder.load(folder.list_steps()[-1]).state["progress"]["num_tokens"])


def count_parts(run_dir: Path) -> int:
    """The largest number of shards of a tensor in the last checkpoint."""
    step = CheckpointFolder(run_dir / "checkpoints").list_steps()[-1]
    metadata = FileSystemReader(run_dir / "checkpoints" / f"step-{step}").read_metadata()
    tensors = metadata.state_dict_metadata.values()
    return max(len(each.chunks) for each in tensors if isinstance(each, TensorStorageMetadata))


def go_back(run_dir: Path) -> None:
    """Remove what was written after the checkpoint of step 15."""
    for step in CheckpointFolder(run_dir / "checkpoints").list_steps():
        if step > 15:
            shutil.rmtree(run_dir / "checkpoints" / f"step-{step}")
    shutil.rmtree(run_dir / "model")


def assert_equal_within_rounding(one: Path, other: Path, *, atol: float = 2e-5) -> None:
    ours, theirs = read_weights(one), read_weights(other)
    for name, weight in ours.items():
        assert torch.allclose(weight, theirs[name], rtol=1e-4, atol=atol), name


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_processes_equal_one(train, alone, tmp_path, strategy):
    said = train(tmp_path / "run", f"strategy={strategy}", processes=2)
    assert said.count("step 30, ") == 1  # one process reports
    assert "Warning" not in said
    assert_equal_within_rounding(tmp_path / "run", alone)
    assert count_tokens(tmp_path / "run") == count_tokens(alone)  # of both processes
    # Each process saves its own shard.
    assert (count_parts(tmp_path / "run") == 2) == (strategy == "fsdp")


def test_layers_that_a_stage_does_not_reach_are_unused(train, tmp_path):
    words = ["model.sharing=none", "depth_schedule=[{until: 0.5, value: 1}]", "num_steps=8"]
    train(tmp_path / "alone", *words)
    train(tmp_path / "run", "strategy=ddp", *words, processes=2)
    assert_equal_within_rounding(tmp_path / "run", tmp_path / "alone")


@pytest.mark.slow
def test_one_process_under_torchrun_equals_one_alone(train, alone, tmp_path):
    train(tmp_path / "run", "strategy=fsdp", processes=1)
    assert_equal_within_rounding(tmp_path / "run", alone)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("albert", ["optimizer.name=lamb", "gradient_checkpointing=true"]),
        ("tests.training.with_bf16", ["runtime.precision=bf16"]),
    ],
    ids=["lamb and gradient checkpointing", "bf16"],
)
def test_other_settings_train_alike(train, tmp_path, strategy, module, words):
    words = [*words, "num_steps=8"]
    train(tmp_path / "alone", *words, module=module)
    train(tmp_path / "run", f"strategy={strategy}", *words, processes=2, module=module)
    # Halves of bf16 have eight bits: sums in another order differ in the last of them.
    is_rounded = "bf16" in words[0]
    assert_equal_within_rounding(tmp_path / "run", tmp_path / "alone", atol=2e-2 if is_rounded else 2e-5)
    if is_rounded:
        train(tmp_path / "whole", "num_steps=8")
        ours, theirs = read_weights(tmp_path / "alone"), read_weights(tmp_path / "whole")
        assert any(not torch.allclose(ours[name], theirs[name], atol=1e-6) for name in ours)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_a_budget_is_measured_by_all_processes_together(train, tmp_path, strategy):
    train(tmp_path / "run", f"strategy={strategy}", "--budget", "12s", processes=2)
    settings = yaml.safe_load((tmp_path / "run" / "settings.yaml").read_text())
    assert settings["num_steps"] != 30
    assert CheckpointFolder(tmp_path / "run" / "checkpoints").list_steps()[-1] == settings["num_steps"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((2, "fsdp"), (0, "ddp")),
        pytest.param((2, "ddp"), (0, "ddp"), marks=pytest.mark.slow),
        pytest.param((2, "fsdp"), (2, "ddp"), marks=pytest.mark.slow),
        pytest.param((0, "ddp"), (2, "fsdp"), marks=pytest.mark.slow),
    ],
    ids=["two of fsdp, then one", "two of ddp, then one", "fsdp, then ddp", "one, then two of fsdp"],
)
def test_a_run_resumes_with_other_processes(train, alone, tmp_path, first, second):
    out = tmp_path / "run"
    train(out, f"strategy={first[1]}", processes=first[0])
    go_back(out)
    said = train(out, f"strategy={second[1]}", "--resume", processes=second[0])
    assert "step 15 of 30" in said
    assert_equal_within_rounding(out, alone)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_three_processes_resume_bit_identically(train, tmp_path, strategy):
    """The order of a sum of three numbers matters, and must not change with a restart."""
    out, words = tmp_path / "run", [f"strategy={strategy}"]
    train(out, *words, processes=3)
    undisturbed = (out / "model" / "model.safetensors").read_bytes()
    go_back(out)
    assert "step 15 of 30" in train(out, *words, "--resume", processes=3)
    assert (out / "model" / "model.safetensors").read_bytes() == undisturbed


class Second(DistributedContext):
    """The second process of two, with the given values of the first one."""

    rank, size = 1, 2

    def __init__(self, *values):
        self._values = iter(values)

    def gather(self, value):
        return [next(self._values), value]


def test_the_first_process_chooses_the_checkpoint(tmp_path):
    folder = CheckpointFolder(tmp_path / "checkpoints")
    for step in (3, 7):
        folder.save(Checkpoint(step, {"a": torch.full((2,), float(step))}, {"progress": {}}))

    def load(context):
        return load_newest(tmp_path, reporter=NullReporter(), context=context)

    assert load(DistributedContext()).step == 7
    # It has found the newest one damaged and gone back; the second would have read it.
    assert load(Second(3, None)).step == 3
    assert load(Second(None, None)) is None
    shutil.rmtree(folder.step_dir(7))
    with pytest.raises(EchoError, match="step-7.*process 1"):
        load(Second(7, None))


def test_copies_of_a_corpus_must_be_equal_in_every_process(story_corpus, recipe):
    data = open_data(str(story_corpus), read_recipe(recipe).held_out)
    with pytest.raises(EchoError, match="process 1 of 2"):
        reject_different_copies(data, Second(["an older corpus"], None))


def join_all(store: HashStore, size: int) -> list[Store]:
    """All ranks at once, each in a thread."""
    with ThreadPoolExecutor(size) as pool:
        joining = [
            pool.submit(join_rendezvous, store, rank=rank, size=size) for rank in reversed(range(size))
        ]
        return [each.result(timeout=30) for each in reversed(joining)]


def test_the_rendezvous_ignores_what_dead_processes_have_left():
    store = HashStore()
    store.set("albert/name/1", "a process that died while joining")
    for size in (3, 3, 2, 4):  # one may be lost for good, others may come
        stores = join_all(store, size)
        assert not any(found.check(["address"]) for found in stores)
        stores[0].set("address", "of this start")
        assert [found.get("address") for found in stores] == [b"of this start"] * size


@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_shares_of_a_step_add_up_to_the_step(story_corpus, world_size):
    tokenizer = load_tokenizer(story_corpus / "vocab")
    source = build_source(open_corpus(story_corpus), tokenizer, settings=ExampleSettings(max_length=40))
    for step in (0, 7, source.num_examples // 9):  # the last goes over the end of an epoch
        whole = source.build_step(step, batch_size=9)
        shares = [
            source.build_step(step, batch_size=9, rank=rank, world_size=world_size)
            for rank in range(world_size)
        ]
        pieces = [
            np.concatenate([batch.ids_T for batch in batches])
            for batches in (whole, chain.from_iterable(shares))
        ]
        assert np.array_equal(*pieces)
