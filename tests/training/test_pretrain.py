"""Pretraining from a recipe: it learns, ends with a model, and does not depend on how batches are made."""

import json
from pathlib import Path
from typing import get_args

import fsspec
import pytest
import torch

import albert
from albert.errors import InputError
from albert.examples.settings import Objective
from albert.model.blocks import AttentionBlock
from albert.pretrained.folder import load_model
from albert.pretrained.hub import find_vocabulary_path
from albert.text.folder import load_tokenizer, save_tokenizer
from albert.training.pretrain import pretrain
from albert.training.run_folder import iter_records, list_records, read_pretrain_run
from tests.examples.conftest import write_corpus
from tests.training.conftest import Listener, tell_stories


def weights(run_dir: Path) -> bytes:
    return (run_dir / "model" / "model.safetensors").read_bytes()


@pytest.fixture
def train(recipe, story_corpus, tmp_path):
    def run(*overrides, out="run", **options):
        return pretrain(recipe, data=story_corpus, out=tmp_path / out, overrides=overrides, **options)

    return run


def test_it_learns(train, tmp_path):
    done = train(
        "num_steps=250", "batch_size=16", "optimizer.learning_rate=0.005", "micro_batch_tokens=2048",
        "model.embedding_size=16", "model.hidden_size=32", "model.intermediate_size=128",
        "model.hidden_dropout_prob=0.0", "model.attention_probs_dropout_prob=0.0",
    )  # fmt: skip
    metadata = json.loads((tmp_path / "run" / "run.json").read_text())
    # Below the unigram loss: it has learned to use the context.
    assert done.outcome.progress.figures["mlm_loss"] < 0.9 * metadata["unigram_loss"]


def test_a_finished_run_is_a_model(train, tmp_path):
    train()
    predictor = albert.load(tmp_path / "run")  # a run folder opens as its model
    assert find_vocabulary_path(str(tmp_path / "run")) == tmp_path / "run" / "model"  # and its vocabulary
    assert len(predictor.fill_mask(["the [MASK] went to the sea ."])[0][0]) == 5
    assert {"mlm", "sop"} == set(load_model(tmp_path / "run" / "model").model.heads)


@pytest.mark.parametrize("objective", [name for name in get_args(Objective) if name != "sop"])
def test_the_other_objectives(train, tmp_path, objective):
    done = train(f"examples.objective={objective}")
    heads = set(load_model(tmp_path / "run" / "model").model.heads)
    assert heads == ({"mlm"} if objective == "none" else {"mlm", objective})
    assert (f"{objective}_accuracy" in done.outcome.progress.figures) == (objective != "none")


def test_worker_processes_change_nothing(train, tmp_path):
    train("num_workers=0", out="without")
    train("num_workers=2", out="with")
    assert weights(tmp_path / "without") == weights(tmp_path / "with")


@pytest.mark.slow  # a minute of compiling
def test_compiling_changes_nothing(train, tmp_path, monkeypatch):
    still = ("model.hidden_dropout_prob=0.0", "model.attention_probs_dropout_prob=0.0")
    compiled, compile_module = [], torch.nn.Module.compile
    monkeypatch.setattr(
        torch.nn.Module,
        "compile",
        lambda module, **words: compiled.append(module) or compile_module(module, **words),
    )
    train(*still)
    assert compiled == []
    train(*still, "is_compiled=true", out="compiled")
    assert compiled
    one, other = (load_model(tmp_path / name / "model").model.state_dict() for name in ("run", "compiled"))
    assert all(torch.allclose(one[name], other[name], atol=1e-5) for name in one)


def test_records_of_every_stage(train, tmp_path):
    train("depth_schedule=[{until: 0.5, value: 1}]", "length_schedule=[{until: 0.25, value: 20}]")
    records = [record for record in iter_records(tmp_path / "run") if record["kind"] == "train"]
    shapes = {record["step"]: (record["depth"], record["length"], record["batch_size"]) for record in records}
    assert shapes[4] == (1, 20, 16)  # twice as many of half the length
    assert shapes[6] == (1, 40, 8)
    assert shapes[10] == (1, 40, 8)
    assert shapes[12] == (3, 40, 8)
    wanted = {"mlm_loss", "sop_accuracy", "grad_norm", "learning_rate", "tokens_per_second", "waited_seconds"}
    assert wanted <= set(records[0])


def test_tensorboard_events_hold_the_curves(train, tmp_path):
    train("has_tensorboard=true")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("evaluate/mlm_loss")] == [10, 20]
    assert len(events.Scalars("train/learning_rate")) == 10


def test_a_warm_start_may_be_deeper(train, tmp_path):
    train()
    train(
        f"init_from={tmp_path / 'run'}",
        "model.num_hidden_layers=5",
        "optimizer.learning_rate=1e-12",
        out="deeper",
    )
    before, after = (load_model(tmp_path / name / "model") for name in ("run", "deeper"))
    assert after.config.num_hidden_layers == 5
    start, end = before.model.state_dict(), after.model.state_dict()
    assert all(torch.allclose(start[name], end[name], atol=1e-6) for name in start)


def test_a_resumed_warm_start_does_not_need_its_folder(train, tmp_path, monkeypatch):
    train()
    start = f"init_from={tmp_path / 'run'}"
    train(start, out="undisturbed")
    train(start, out="more", reporter=Listener(stop_at=14))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    assert train("init_from=run", out="more", resume=True).outcome.is_finished  # the same, as a relative path
    assert weights(tmp_path / "more") == weights(tmp_path / "undisturbed")


def test_matching_heads_with_muon_resume_bit_identically(train, tmp_path):
    held = ("num_matching_heads=1", "optimizer.name=muon")
    train(*held, out="undisturbed")
    train(*held, out="stopped", reporter=Listener(stop_at=14))
    assert train(*held, out="stopped", resume=True).outcome.is_finished
    assert weights(tmp_path / "stopped") == weights(tmp_path / "undisturbed")
    model = load_model(tmp_path / "stopped" / "model").model
    (block,) = [part for part in model.modules() if isinstance(part, AttentionBlock)]
    width = block.query.weight.shape[0] // block.num_heads
    assert torch.equal(block.query.weight[:width], block.key.weight[:width])
    assert not torch.equal(block.query.weight[width:], block.key.weight[width:])


def test_steps_without_any_example_are_skipped(tmp_path, recipe, story_corpus):
    tokenizer = load_tokenizer(story_corpus / "vocab")
    alone, story = [["the dog went to the sea ."]], tell_stories(1)
    documents = [tokenizer.encode_ids(text) for text in (alone * 6 + story) * 60]
    write_corpus(tmp_path, documents, tokenizer)
    save_tokenizer(tokenizer, tmp_path / "vocab")
    listener = Listener()
    done = pretrain(
        recipe,
        data=tmp_path,
        out=tmp_path / "run",
        overrides=["batch_size=1", "num_steps=40"],
        reporter=listener,
    )
    assert done.outcome.is_finished
    records = [record for record in iter_records(tmp_path / "run") if record["kind"] == "train"]
    # Six of seven documents are a sentence, which makes no pair: a step of one example mostly has none.
    assert 0 < records[-1]["tokens"] < 0.8 * 40 * 40


def test_a_budget_turns_warmup_into_a_share(train, tmp_path):
    words = ("schedule.warmup_share=null", "schedule.warmup_steps=500", "num_steps=5000")
    train(*words, budget="3s", reporter=Listener(stop_at=4))
    settings, _ = read_pretrain_run(tmp_path / "run")
    assert (settings.schedule.warmup_steps, settings.schedule.warmup_share) == (None, 0.1)
    # Another number of steps is ignored, as without a budget.
    assert train(*words[:2], "num_steps=900", budget="3s", resume=True).outcome.is_finished


def test_a_resumed_warm_start_keeps_its_shape(train, tmp_path):
    train("num_steps=2")
    words = (f"init_from={tmp_path / 'run'}", "model={num_hidden_layers: 4}")
    train(*words, out="more", reporter=Listener(stop_at=4))
    with pytest.raises(InputError, match="model.num_hidden_layers.* 5 .* 4"):
        train(*words, "model.num_hidden_layers=5", out="more", resume=True)
    with pytest.raises(InputError, match="hidden_size.*16.*32"):  # of a new run
        train(words[0], "model.hidden_size=32", out="wider")
    assert train(*words, out="more", resume=True).outcome.is_finished


@pytest.mark.alone
def test_a_budget_freezes_the_number_of_steps_and_ends_at_zero(train, tmp_path):
    done = train(budget="6s")
    settings, metadata = read_pretrain_run(tmp_path / "run")
    assert settings.num_steps == done.outcome.progress.step > 20
    assert metadata.budget_seconds == 6.0
    last = [record for record in iter_records(tmp_path / "run") if record["kind"] == "train"][-1]
    assert last["learning_rate"] < 0.01 * 3 / settings.num_steps
    # The 5% that is promised is for a quiet machine (docs/log.md); here others may be at work.
    assert 2.0 < done.outcome.progress.seconds < 12.0


def test_a_run_is_resumed_with_its_own_settings(train, tmp_path):
    train()
    with pytest.raises(InputError, match="finished.*--out"):
        train()
    with pytest.raises(InputError, match="batch_size.* 4 .* 8"):
        train("batch_size=4", resume=True)
    before = weights(tmp_path / "run")
    assert train(resume=True).outcome.is_finished  # and does nothing
    assert weights(tmp_path / "run") == before


def test_evaluations_are_evenly_spread_and_the_last_has_both_objectives(train, tmp_path):
    train("num_evaluations=13")
    records = list_records(tmp_path / "run", "evaluate")
    assert (len(records), records[-1]["step"]) == (13, 20)
    assert all("sop_accuracy" in record for record in records)
    assert ["nsp_accuracy" in record for record in records] == [False] * 12 + [True]


@pytest.fixture
def stored(story_corpus, tmp_path, monkeypatch):
    """The corpus under a URL that only this process can open; its workers use the copy."""
    monkeypatch.setenv("ALBERT_CACHE", str(tmp_path / "cache"))
    system = fsspec.filesystem("memory")
    root = f"/{tmp_path.name}"
    for file in story_corpus.rglob("*"):
        if file.is_file():
            system.put_file(str(file), f"{root}/{file.relative_to(story_corpus).as_posix()}")
    yield f"memory://{tmp_path.name}"
    system.rm(root, recursive=True)


def test_training_and_evaluating_from_an_object_store(run_albert, recipe, story_corpus, stored, tmp_path):
    for out, data, workers in (("here", story_corpus, 0), ("there", stored, 1)):
        overrides = ["num_steps=4", f"num_workers={workers}", f"held_out.data={data}"]
        pretrain(recipe, data=data, out=tmp_path / out, overrides=overrides)
    models = [(tmp_path / out / "model" / "model.safetensors").read_bytes() for out in ("here", "there")]
    assert models[0] == models[1]
    assert json.loads((tmp_path / "there" / "run.json").read_text())["data"] == stored

    words = ("evaluate", "pretraining", "--model", tmp_path / "here", "--examples", 4, "--json", "--data")
    scores = [json.loads(run_albert(*words, data).out)["scores"] for data in (story_corpus, stored)]
    assert scores[0] == scores[1]
