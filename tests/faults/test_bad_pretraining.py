"""Damaged data, losses that are not finite, damaged checkpoints: a clear message, and nothing lost."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from albert.errors import FileFormatError, InputError, WriteError
from albert.training import pretrain as pretrain_module
from albert.training.checkpoints import CheckpointFolder
from albert.training.loop import TrainingStoppedError
from albert.training.losses import PretrainLosses
from albert.training.pretrain import pretrain
from albert.training.run_folder import iter_records
from tests.faults.full_disk import no_room_for
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


@pytest.mark.parametrize("name", ["state.json", "tensors.safetensors"])
@pytest.mark.parametrize("is_missing", [False, True])
def test_a_damaged_checkpoint_is_skipped(train, tmp_path, name, is_missing):
    train(out="undisturbed")
    stopped = train(reporter=Listener(stop_at=14))
    assert (stopped.outcome.is_finished, stopped.outcome.signal) == (False, "SIGTERM")
    path = tmp_path / "run" / "checkpoints" / "step-14" / name
    if is_missing:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-100])
    listener = Listener()
    assert train(reporter=listener, resume=True).outcome.is_finished
    assert any(f"step-14/{name}" in line for line in listener.lines)
    assert "Resuming at step 10 of 20" in listener.lines
    assert weights(tmp_path / "run") == weights(tmp_path / "undisturbed")


def test_a_full_disk_at_the_end_loses_nothing(train, tmp_path):
    train()
    whole = weights(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")
    with no_room_for(len(whole) // 2), pytest.raises(WriteError) as caught:
        train(resume=True)
    for part in (str(tmp_path / "run" / "model"), "File too large", "--resume"):
        assert part in str(caught.value)
    assert train(resume=True).outcome.is_finished
    assert weights(tmp_path / "run") == whole


def test_if_all_checkpoints_are_damaged_the_run_starts_again(train, tmp_path):
    train(out="undisturbed")
    train(reporter=Listener(stop_at=14))
    for path in (tmp_path / "run" / "checkpoints").rglob("state.json"):
        path.write_text("{")
    listener = Listener()
    assert train(reporter=listener, resume=True).outcome.is_finished
    assert any("from the beginning" in line for line in listener.lines)
    assert weights(tmp_path / "run") == weights(tmp_path / "undisturbed")


def test_a_removed_shard_is_named_and_the_run_resumes_when_it_is_back(train, corpus_copy, tmp_path):
    train(out="undisturbed")
    train(data=corpus_copy, reporter=Listener(stop_at=14))
    shard = next(corpus_copy.glob("*.arrow"))
    content = shard.read_bytes()
    shard.unlink()
    with pytest.raises(FileFormatError, match=shard.name):
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
    with pytest.raises(InputError, match="not the corpus.*corpus"):
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
    with pytest.raises(FileFormatError, match=r"step 7 .*Bus error.*--resume"):
        train()
    monkeypatch.undo()
    listener = Listener()
    train(reporter=listener, resume=True)
    assert "Resuming at step 7 of 20" in listener.lines
    assert weights(tmp_path / "run") == weights(tmp_path / "undisturbed")


def inject(monkeypatch, is_bad, value=float("nan")):
    """Multiply the loss of the steps for which `is_bad` holds."""
    real_forward, real_options = PretrainLosses.forward, pretrain_module.PretrainJob.find_options
    now = {"step": 0}

    def find_options(self, step):
        now["step"] = step
        return real_options(self, step)

    def forward(self, batch, **options):
        factor = value if is_bad(now["step"]) else 1.0
        terms = real_forward(self, batch, **options)
        return {name: (total * factor, num_correct) for name, (total, num_correct) in terms.items()}

    monkeypatch.setattr(pretrain_module.PretrainJob, "find_options", find_options)
    monkeypatch.setattr(PretrainLosses, "forward", forward)


def test_a_step_with_nan_is_skipped_and_counted(train, tmp_path, monkeypatch):
    inject(monkeypatch, lambda step: step == 6)
    listener = Listener()
    done = train(reporter=listener)
    assert done.outcome.is_finished
    assert "Skipped step 7: the loss was nan" in listener.lines
    skips = [record for record in iter_records(tmp_path / "run") if record["kind"] == "skip"]
    assert [(record["step"], record["num_skipped"]) for record in skips] == [(7, 1)]
    tensors = CheckpointFolder(tmp_path / "run" / "checkpoints").load(20).tensors
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())


def test_repeated_nan_stops_the_run_and_keeps_the_weights_before(train, tmp_path, monkeypatch):
    stopped = train(out="before", reporter=Listener(stop_at=6))
    inject(monkeypatch, lambda step: step >= 6)
    with pytest.raises(TrainingStoppedError, match="5 steps.*learning rate"):
        train()
    kept = CheckpointFolder(tmp_path / "run" / "checkpoints").load(11).tensors
    good = CheckpointFolder(stopped.run_dir / "checkpoints").load(6).tensors
    names = [name for name in kept if name.startswith("model.")]
    assert names
    assert all(torch.equal(kept[name], good[name]) for name in names)


def test_a_loss_spike_is_skipped(train, tmp_path, monkeypatch):
    inject(monkeypatch, lambda step: step == 70, value=30.0)
    listener = Listener()
    train("num_steps=100", reporter=listener)
    (line,) = [line for line in listener.lines if line.startswith("Skipped step")]
    assert "Skipped step 71: the loss jumped to" in line


def test_a_corpus_smaller_than_one_batch(run_albert, recipe, story_corpus, tmp_path):
    out = tmp_path / "run"
    done = run_albert("pretrain", recipe, "--data", story_corpus, "--out", out, "batch_size=100000")
    assert "40 tokens" in done.error
    assert "batch of 100000; set batch_size=" in done.error
    assert not (out / "run.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nanoo"], "unknown recipe 'nanoo'; did you mean nano?"),
        (["RECIPE", "num_stepps=3"], "unknown key num_stepps; did you mean num_steps?"),
        (["RECIPE", "--budget", "soon"], "'soon' is not a time budget; write it as 45s, 20m, 2h"),
        (["RECIPE", "--budget", "1s", "batch_size=600"], "give more time, or choose a smaller batch_size"),
        (["RECIPE", "--batch-size", "0"], "batch_size is 0; set it to at least 1"),
        (
            ["RECIPE", "examples.max_length=65"],
            "examples.max_length 65 exceeds model.max_position_embeddings 64",
        ),
        (["RECIPE", "length_schedule=[{until: 0.5, value: 50}]"], "a stage of 50 tokens"),
        (["RECIPE", "model.preset=albert-bass"], "unknown preset 'albert-bass'; did you mean albert-base?"),
        (["RECIPE", "num_matching_heads=1", "strategy=fsdp"], "num_matching_heads 1"),
        (["RECIPE", "runtime.device=abacus"], "unknown device 'abacus'"),
        (["RECIPE", "seed=99999999999999999999"], "seed is 99999999999999999999"),
        (["albert-base", "num_steps=1000"], "schedule.warmup_steps 3125 is not less than num_steps 1000"),
        (["continue"], "model.preset=nano"),
    ],
)
def test_mistakes_are_reported_in_one_line(run_albert, recipe, story_corpus, tmp_path, words, message):
    words = [str(recipe) if word == "RECIPE" else word for word in words]
    done = run_albert("pretrain", *words, "--data", story_corpus, "--out", tmp_path / "run")
    assert message in done.err.splitlines()[-1]
    assert (done.code, done.out, "Traceback" in done.err) == (2, "", False)
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_folder_of_something_else_is_rejected(run_albert, recipe, story_corpus, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("ten years of work")
    done = run_albert("pretrain", recipe, "--data", story_corpus, "--out", tmp_path / "run")
    assert "holds thesis.txt, which is not part of a run; choose an empty --out" in done.error


def test_a_folder_of_a_run_that_was_killed_at_its_start_is_reused(train, tmp_path):
    (tmp_path / "run").mkdir()
    for name in ("lock", "settings.yaml"):
        (tmp_path / "run" / name).write_text("")
    assert train().outcome.is_finished


def test_a_run_folder_without_run_json_is_rejected(train, tmp_path):
    train("num_steps=2")
    before = weights(tmp_path / "run")
    for name in ("run.json", "settings.yaml"):
        (tmp_path / "run" / name).unlink()
    for resume in (False, True):
        with pytest.raises(
            InputError, match="holds checkpoints, .*which is not part of a run; choose an empty --out"
        ):
            train("num_steps=2", "seed=7", resume=resume)
    assert weights(tmp_path / "run") == before


@pytest.mark.parametrize("name", ["settings.yaml", "checkpoints/step-5000/weights.bin"])
def test_files_of_another_program_are_kept(run_albert, recipe, story_corpus, tmp_path, name):
    path = tmp_path / "run" / name
    path.parent.mkdir(parents=True)
    path.write_text("a week of work")
    for data in (story_corpus, tmp_path / "gone"):
        done = run_albert("pretrain", recipe, "--data", data, "--out", tmp_path / "run")
        assert f"holds {name.split('/')[0]}, which is not part of a run; choose an empty --out" in done.error
    assert path.read_text() == "a week of work"


def test_a_folder_without_a_corpus_is_named(run_albert, recipe, tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "gone"):
        done = run_albert("pretrain", recipe, "--data", tmp_path / name, "--out", tmp_path / "run")
        assert name in done.error


def test_a_corpus_of_single_sentences_is_rejected(recipe, tmp_path, story_corpus):
    from albert.text.folder import load_tokenizer, save_tokenizer
    from tests.examples.conftest import write_corpus

    tokenizer = load_tokenizer(story_corpus / "vocab")
    folder = tmp_path / "corpus"
    folder.mkdir()
    write_corpus(folder, [tokenizer.encode_ids(["the dog went to the sea ."])] * 400, tokenizer)
    save_tokenizer(tokenizer, folder / "vocab")
    with pytest.raises(InputError, match="corpus"):
        pretrain(recipe, data=folder, out=tmp_path / "run")
