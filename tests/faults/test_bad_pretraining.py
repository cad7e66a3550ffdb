"""Damaged data, losses that are not finite, damaged checkpoints: a clear message, and nothing lost."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from albert.errors import FileFormatError, InputError, WriteError
from albert.text.folder import load_tokenizer, save_tokenizer
from albert.training import pretrain as pretrain_module
from albert.training.checkpoints import CheckpointFolder
from albert.training.loop import TrainingStoppedError
from albert.training.losses import PretrainLosses
from albert.training.pretrain import pretrain
from albert.training.run_folder import iter_records
from tests.conftest import rejects
from tests.examples.conftest import write_corpus
from tests.faults.full_disk import limit_files
from tests.training.conftest import Listener, one_thread, recipe, story_corpus

__all__ = ["one_thread", "recipe", "story_corpus"]


@pytest.fixture
def train(recipe, story_corpus, tmp_path):
    def run(*overrides, out="run", data=story_corpus, **options):
        return pretrain(recipe, data=data, out=tmp_path / out, overrides=overrides, **options)

    return run


@pytest.fixture
def corpus_copy(story_corpus, tmp_path):
    return shutil.copytree(story_corpus, tmp_path / "corpus")


def weights(run_dir: Path) -> bytes:
    return (run_dir / "model" / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("pattern", "is_missing", "message"),
    [
        ("step-14/state.json", False, "Resuming at step 10 of 20"),
        ("step-14/state.json", True, "Resuming at step 10 of 20"),
        ("step-14/tensors.safetensors", False, "Resuming at step 10 of 20"),
        ("*/state.json", False, "from the beginning"),
    ],
)
def test_damaged_checkpoints_are_skipped(train, tmp_path, pattern, is_missing, message):
    train(out="undisturbed")
    stopped = train(reporter=Listener(stop_at=14))
    assert (stopped.outcome.is_finished, stopped.outcome.signal) == (False, "SIGTERM")
    for path in (tmp_path / "run" / "checkpoints").glob(pattern):
        if is_missing:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-100])
    listener = Listener()
    assert train(reporter=listener, resume=True).outcome.is_finished
    assert any(message in line for line in listener.lines)
    assert any(pattern.replace("*", "step-14") in line for line in listener.lines)
    assert weights(tmp_path / "run") == weights(tmp_path / "undisturbed")


def test_a_full_disk_at_the_end_loses_nothing(train, tmp_path):
    train()
    expected = weights(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")
    with limit_files(len(expected) // 2), rejects(WriteError, tmp_path / "run" / "model", "--resume"):
        train(resume=True)
    assert train(resume=True).outcome.is_finished
    assert weights(tmp_path / "run") == expected


def test_a_removed_shard_is_named_and_the_run_resumes_when_it_is_back(train, corpus_copy, tmp_path):
    train(out="undisturbed")
    train(data=corpus_copy, reporter=Listener(stop_at=14))
    shard = next(corpus_copy.glob("*.arrow"))
    content = shard.read_bytes()
    shard.unlink()
    with rejects(FileFormatError, shard.name):
        train(data=corpus_copy, resume=True)
    shard.write_bytes(content)
    assert train(data=corpus_copy, resume=True).outcome.is_finished
    assert weights(tmp_path / "run") == weights(tmp_path / "undisturbed")


def test_resuming_rejects_another_corpus(train, corpus_copy):
    train(data=corpus_copy, reporter=Listener(stop_at=14))
    manifest = corpus_copy / "manifest.json"
    values = json.loads(manifest.read_text())
    values["shards"][0]["sha256"] = "0" * 64
    manifest.write_text(json.dumps(values))
    with rejects(InputError, corpus_copy):
        train(data=corpus_copy, resume=True)


def test_data_that_fails_during_training_saves_first(train, tmp_path, monkeypatch):
    train(out="undisturbed")
    real = pretrain_module.iter_steps

    def break_off(*args, **options):
        for number, found in enumerate(real(*args, **options)):
            if number == 7:
                raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Bus error.")
            yield found

    monkeypatch.setattr(pretrain_module, "iter_steps", break_off)
    with rejects(FileFormatError, "step 7", "Bus error", "--resume"):
        train()
    monkeypatch.undo()
    listener = Listener()
    train(reporter=listener, resume=True)
    assert "Resuming at step 7 of 20" in listener.lines
    assert weights(tmp_path / "run") == weights(tmp_path / "undisturbed")


def inject(monkeypatch, factors):
    """Multiply the losses of some steps."""
    real_forward, real_options = PretrainLosses.forward, pretrain_module.PretrainJob.find_options
    now = {"step": 0}

    def find_options(self, step):
        now["step"] = step
        return real_options(self, step)

    def forward(self, batch, **options):
        factor = factors.get(now["step"], 1.0)
        terms = real_forward(self, batch, **options)
        return {name: (total * factor, num_correct) for name, (total, num_correct) in terms.items()}

    monkeypatch.setattr(pretrain_module.PretrainJob, "find_options", find_options)
    monkeypatch.setattr(PretrainLosses, "forward", forward)


def test_steps_with_nan_and_loss_spikes_are_skipped_and_counted(train, tmp_path, monkeypatch):
    factors = {6: float("nan"), 70: 30.0}
    inject(monkeypatch, factors)
    listener = Listener()
    assert train("num_steps=100", reporter=listener).outcome.is_finished
    assert any("step 7:" in line and "nan" in line for line in listener.lines)
    skips = [record for record in iter_records(tmp_path / "run") if record["kind"] == "skip"]
    assert [(record["step"], record["num_skipped"]) for record in skips] == [(7, 1), (71, 2)]
    tensors = CheckpointFolder(tmp_path / "run" / "checkpoints").load(100).tensors
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())


def test_repeated_nan_stops_the_run_and_keeps_the_earlier_weights(train, tmp_path, monkeypatch):
    stopped = train(out="before", reporter=Listener(stop_at=6))
    inject(monkeypatch, dict.fromkeys(range(6, 20), float("nan")))
    with rejects(TrainingStoppedError, "5 steps", "learning rate"):
        train()
    kept = CheckpointFolder(tmp_path / "run" / "checkpoints").load(11).tensors
    good = CheckpointFolder(stopped.run_dir / "checkpoints").load(6).tensors
    names = [name for name in kept if name.startswith("model.")]
    assert names
    assert all(torch.equal(kept[name], good[name]) for name in names)


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["nanoo"], ("'nanoo'", "nano?")),
        (["RECIPE", "num_stepps=3"], ("num_stepps", "num_steps?")),
        (["RECIPE", "--budget", "soon"], ("'soon'", "20m")),
        (["RECIPE", "--budget", "1s", "batch_size=300"], ("10", "batch_size")),
        (["RECIPE", "--batch-size", "0"], ("0",)),
        (["RECIPE", "batch_size=100000"], ("40 tokens", "batch of 100000")),
        (["RECIPE", "examples.max_length=65"], ("max_length 65", "max_position_embeddings 64")),
        (["RECIPE", "length_schedule=[{until: 0.5, value: 50}]"], ("50 tokens",)),
        (["RECIPE", "model.preset=albert-bass"], ("'albert-bass'", "albert-base?")),
        (["RECIPE", "num_matching_heads=1", "strategy=fsdp"], ("num_matching_heads 1",)),
        (["RECIPE", "runtime.device=abacus"], ("'abacus'",)),
        (["RECIPE", "seed=99999999999999999999"], ("seed is 99999999999999999999",)),
        (["albert-base", "num_steps=1000"], ("schedule.warmup_steps 3125", "num_steps 1000")),
        (["continue"], ("model.preset=nano",)),
    ],
)
def test_mistakes_are_reported_in_one_line(run_albert, recipe, story_corpus, tmp_path, words, values):
    words = [str(recipe) if word == "RECIPE" else word for word in words]
    done = run_albert("pretrain", *words, "--data", story_corpus, "--out", tmp_path / "run")
    error = done.err.splitlines()[-1]
    assert not [value for value in values if value not in error], error
    assert (done.code, done.out, "Traceback" in done.err) == (2, "", False)
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize("name", ["thesis.txt", "settings.yaml", "checkpoints/step-5000/weights.bin"])
def test_a_folder_with_other_files_is_rejected_and_not_changed(
    run_albert, recipe, story_corpus, tmp_path, name
):
    path = tmp_path / "run" / name
    path.parent.mkdir(parents=True)
    path.write_text("years of work")
    done = run_albert("pretrain", recipe, "--data", story_corpus, "--out", tmp_path / "run")
    assert name.split("/")[0] in done.error
    assert "--out" in done.error
    assert path.read_text() == "years of work"


def test_a_folder_without_a_corpus_is_rejected(run_albert, recipe, tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "gone"):
        done = run_albert("pretrain", recipe, "--data", tmp_path / name, "--out", tmp_path / "run")
        assert name in done.error


def test_a_corpus_of_single_sentences_is_rejected(recipe, tmp_path, story_corpus):

    tokenizer = load_tokenizer(story_corpus / "vocab")
    folder = tmp_path / "corpus"
    folder.mkdir()
    write_corpus(folder, [tokenizer.encode_ids(["the dog went to the sea ."])] * 400, tokenizer)
    save_tokenizer(tokenizer, folder / "vocab")
    with rejects(InputError, folder):
        pretrain(recipe, data=folder, out=tmp_path / "run")
