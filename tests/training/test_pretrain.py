"""Pretraining from a recipe: it learns, ends with a model, and is the same however its batches are made."""

import itertools
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import get_args
from unittest.mock import Mock

import pytest
import torch

import albert
from albert.errors import InputError, SettingsError
from albert.examples.settings import Objective
from albert.model import encoder as encoder_module
from albert.model.blocks import AttentionBlock
from albert.pretrained.folder import load_model, load_vocabulary
from albert.pretrained.hub import find_released, find_vocabulary_path
from albert.text.folder import load_tokenizer, save_tokenizer
from albert.training import loop as loop_module
from albert.training import pretrain as pretrain_module
from albert.training import timing
from albert.training.checkpoints import CheckpointFolder, Saver
from albert.training.metrics import iter_records
from albert.training.pretrain import pretrain
from albert.training.pretrain_job import PretrainJob, build_pretrain_model, open_data, resolve_model
from albert.training.recipes import read_recipe
from albert.training.run_folder import read_pretrain_run
from albert.training.world import DistributedContext
from tests.examples.conftest import write_corpus
from tests.training.conftest import Listener, tell_stories


def weights(run_dir: Path) -> bytes:
    return (run_dir / "model" / "model.safetensors").read_bytes()


@pytest.fixture
def train(recipe, story_corpus, tmp_path):
    def run(*overrides, out="run", **options):
        return pretrain(recipe, data=story_corpus, out=tmp_path / out, overrides=overrides, **options)

    return run


def test_it_learns_the_stories(train, tmp_path):
    done = train(
        "num_steps=300", "batch_size=16", "optimizer.learning_rate=0.005", "micro_batch_tokens=2048",
        "model.embedding_size=16", "model.hidden_size=32", "model.intermediate_size=128",
        "model.hidden_dropout_prob=0.0", "model.attention_probs_dropout_prob=0.0",
    )  # fmt: skip
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    # Below what the frequency of words alone can give: it has learned to look at their neighbours.
    assert done.outcome.progress.figures["mlm_loss"] < 0.9 * facts["unigram_loss"]


def test_a_finished_run_is_a_model_that_answers(train, tmp_path):
    train()
    predictor = albert.load(tmp_path / "run")  # a run folder stands for its model
    assert find_vocabulary_path(str(tmp_path / "run")) == tmp_path / "run" / "model"  # and its vocabulary
    assert len(predictor.fill_mask(["the [MASK] went to the sea ."])[0][0]) == 5
    assert {"mlm", "sop"} == set(load_model(tmp_path / "run" / "model").model.heads)
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "20 of 8 × 40 pieces" in card


@pytest.mark.parametrize("objective", [name for name in get_args(Objective) if name != "sop"])
def test_the_other_objectives(train, tmp_path, objective):
    done = train(f"examples.objective={objective}")
    heads = set(load_model(tmp_path / "run" / "model").model.heads)
    assert heads == ({"mlm"} if objective == "none" else {"mlm", objective})
    assert (f"{objective}_accuracy" in done.outcome.progress.figures) == (objective != "none")


def test_what_is_made_ahead_changes_nothing(train, tmp_path):
    train("num_workers=0", out="without")
    train("num_workers=2", out="with")
    assert weights(tmp_path / "without") == weights(tmp_path / "with")


def test_another_seed_is_another_model(train, tmp_path):
    train("seed=0", out="one")
    train("seed=1", out="other")
    assert weights(tmp_path / "one") != weights(tmp_path / "other")


def test_gradient_checkpointing_is_the_same_training_dropout_included(train, tmp_path, monkeypatch):
    counted = Mock(wraps=encoder_module.checkpoint)
    monkeypatch.setattr(encoder_module, "checkpoint", counted)
    train("optimizer.name=lamb")
    assert counted.call_count == 0
    train("optimizer.name=lamb", "gradient_checkpointing=true", out="checkpointed")
    assert counted.call_count > 20
    one, other = (
        load_model(tmp_path / name / "model").model.state_dict() for name in ("run", "checkpointed")
    )
    assert all(torch.allclose(one[name], other[name], atol=1e-5) for name in one)


@pytest.mark.slow  # a minute of compiling
def test_a_compiled_model_is_the_same_training(train, tmp_path, monkeypatch):
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


def test_records_tell_of_every_stage(train, tmp_path):
    train("depth_schedule=[{until: 0.5, value: 1}]", "length_schedule=[{until: 0.25, value: 20}]")
    records = [record for record in iter_records(tmp_path / "run") if record["kind"] == "train"]
    shapes = {record["step"]: (record["depth"], record["length"], record["batch_size"]) for record in records}
    assert shapes[4] == (1, 20, 16)  # twice as many of half the length
    assert shapes[6] == (1, 40, 8)
    assert shapes[10] == (1, 40, 8)
    assert shapes[12] == (3, 40, 8)
    wanted = {"mlm_loss", "sop_accuracy", "grad_norm", "learning_rate", "tokens_per_second", "waited_seconds"}
    assert wanted <= set(records[0])


def test_the_seconds_of_a_run_are_those_of_its_records(train, tmp_path, monkeypatch):
    ticks = itertools.count()  # every look at the clock takes a second
    clock = SimpleNamespace(perf_counter=lambda: next(ticks), monotonic=time.monotonic, time=time.time)
    monkeypatch.setattr(loop_module, "time", clock)
    progress = train().outcome.progress
    records = [each for each in iter_records(tmp_path / "run") if each["kind"] in ("train", "evaluate")]
    assert progress.seconds == sum(record["seconds"] for record in records)


def test_resume_starts_a_run_where_there_is_none(train, tmp_path):
    assert train(resume=True).outcome.is_finished
    assert train(out="new").outcome.is_finished
    assert weights(tmp_path / "run") == weights(tmp_path / "new")


def test_the_launch_file_of_an_earlier_version_is_ignored(train, tmp_path):
    train(reporter=Listener(stop_at=10))
    (tmp_path / "run" / ".launch.json").write_text('{"launchers": ["here/1/2"]}')
    with pytest.raises(InputError):
        train()
    assert train(resume=True).outcome.is_finished


def test_tensorboard_events_hold_the_curves(train, tmp_path):
    train("has_tensorboard=true")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("evaluate/mlm_loss")] == [10, 20]
    assert len(events.Scalars("train/learning_rate")) == 10


def test_the_newest_checkpoints_stay_and_the_best(train, tmp_path):
    train("num_evaluations=10", "num_checkpoints=2", "optimizer.learning_rate=0.02")
    steps = CheckpointFolder(tmp_path / "run" / "checkpoints").list_steps()
    best = json.loads((tmp_path / "run" / "checkpoints" / "step-20" / "state.json").read_text())
    assert set(steps) == {18, 20, best["progress"]["best_step"]}


def test_a_warm_start_goes_on_deeper_from_the_same_weights(train, tmp_path):
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


def test_a_warm_start_keeps_the_shape(train, tmp_path):
    train()
    with pytest.raises(
        InputError, match="has hidden_size 16 and the recipe 32; a warm start keeps the shape"
    ):
        train(f"init_from={tmp_path / 'run'}", "model.hidden_size=32", out="wider")


def test_of_a_warm_start_one_key_of_the_shape_may_be_named():
    """The rest is the folder's, and not what a model of no name would have."""
    settings = read_recipe("continue", overrides=("init_from=nano", "model.num_hidden_layers=6"))
    model = resolve_model(settings, load_vocabulary(find_released("nano"))).model
    assert (model.num_hidden_layers, model.hidden_size, model.num_attention_heads) == (6, 256, 8)


def test_a_warm_start_that_was_stopped_needs_its_folder_no_more(train, tmp_path, monkeypatch):
    train()
    start = f"init_from={tmp_path / 'run'}"
    train(start, out="undisturbed")
    train(start, out="more", reporter=Listener(stop_at=14))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    assert train("init_from=run", out="more", resume=True).outcome.is_finished  # the same, said shorter
    assert weights(tmp_path / "more") == weights(tmp_path / "undisturbed")


def test_a_resumed_run_lets_its_checkpoint_go(train, monkeypatch):
    train(reporter=Listener(stop_at=14))
    found = []
    load = pretrain_module.load_newest
    monkeypatch.setattr(
        pretrain_module,
        "load_newest",
        lambda *words, **named: found.append(load(*words, **named)) or found[-1],
    )
    assert train(resume=True).outcome.is_finished
    assert [(checkpoint.step, checkpoint.tensors) for checkpoint in found] == [(14, {})]


def test_the_best_is_one_that_is_there_also_where_it_was_written_aside_and_failed(train, monkeypatch):
    """As many processes do it: what fails after the eighth step is heard of at the next save."""
    monkeypatch.setattr(PretrainJob, "score", lambda self, figures: scores.pop(0))
    scores = [3.0, 1.0, 2.0, 2.5, 2.0]
    save, lost = Saver.save, []

    def save_aside(self, step, tensors, state, *, best_step):
        if lost:
            raise OSError(28, f"no room for step {lost.pop()}")
        if step == 8:
            lost.append(step)
        else:
            save(self, step, tensors, state, best_step=best_step)

    monkeypatch.setattr(Saver, "save", save_aside)
    listener = Listener()
    done = train("num_evaluations=5", reporter=listener)
    assert any("could not be saved (no room for step 8)" in line for line in listener.lines)
    assert done.outcome.progress.best_step == 20
    assert CheckpointFolder(done.run_dir / "checkpoints").list_steps()[-1] == 20


def test_muon_goes_on_to_the_bit(train, tmp_path):
    muon = ("optimizer.name=muon", "model.hidden_size=32", "model.intermediate_size=64")
    train(*muon, out="undisturbed")
    train(*muon, out="stopped", reporter=Listener(stop_at=14))
    assert train(*muon, out="stopped", resume=True).outcome.is_finished
    assert weights(tmp_path / "stopped") == weights(tmp_path / "undisturbed")


def test_heads_that_look_for_the_same_word_are_held_to_it_and_go_on_to_the_bit(train, tmp_path):
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


def test_held_heads_need_whole_matrices(train):
    with pytest.raises(SettingsError, match="num_matching_heads 1 needs whole matrices.*take strategy ddp"):
        train("num_matching_heads=1", "strategy=fsdp")


def test_every_evaluation_that_was_asked_for_happens(train, tmp_path):
    train("num_evaluations=13")
    steps = [record["step"] for record in iter_records(tmp_path / "run") if record["kind"] == "evaluate"]
    assert len(steps) == 13
    assert steps[-1] == 20


def test_the_end_asks_both_sentence_questions(train, tmp_path):
    train()
    evaluations = [record for record in iter_records(tmp_path / "run") if record["kind"] == "evaluate"]
    assert ["nsp_accuracy" in record for record in evaluations] == [False, True]
    assert all("sop_accuracy" in record for record in evaluations)


def test_a_step_without_any_example_stops_nothing(tmp_path, recipe, story_corpus):
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


def test_a_process_without_a_share_of_any_step_ends_no_run(story_corpus, recipe, monkeypatch):
    """Two processes and steps of one sequence: the first of them has none, and its run is healthy."""

    class First(DistributedContext):
        size = 2

    settings = read_recipe(recipe, overrides=["batch_size=1", "num_steps=2000"])
    data = open_data(str(story_corpus), settings.held_out)
    settings = resolve_model(settings, data.tokenizer)
    job = PretrainJob(build_pretrain_model(settings), settings, data, First())
    monkeypatch.setattr("albert.training.pretrain_job.iter_steps", lambda *_, **__: iter([[]] * 2000))
    assert sum(1 for _ in job.iter_batches(0)) == 2000


@pytest.mark.parametrize(("batch_size", "num_processes", "most"), [(1, 1, 500), (4, 4, 500), (64, 1, 20)])
def test_only_so_many_examples_that_no_process_has_end_a_run(
    story_corpus, recipe, monkeypatch, batch_size, num_processes, most
):
    class Processes(DistributedContext):
        size = num_processes

    settings = read_recipe(recipe, overrides=[f"batch_size={batch_size}", "num_steps=2000"])
    data = open_data(str(story_corpus), settings.held_out)
    settings = resolve_model(settings, data.tokenizer)
    job = PretrainJob(build_pretrain_model(settings), settings, data, Processes())
    steps = [[], *[["an example"]], *[[]] * 600]
    monkeypatch.setattr("albert.training.pretrain_job.iter_steps", lambda *_, **__: iter(steps))
    found = job.iter_batches(0)
    assert [next(found) for _ in range(most + 1)] == steps[: most + 1]
    with pytest.raises(InputError, match=f"{most} steps in a row had no example of two sentences"):
        next(found)


def test_a_run_knows_how_many_held_out_examples_there_are_to_ask(train, tmp_path):
    train("num_steps=2", "held_out.num_examples=100000")
    _, facts = read_pretrain_run(tmp_path / "run")
    assert facts.num_asked is not None
    assert 0 < facts.num_asked < 100_000
    train("num_steps=2", "held_out.num_examples=3", out="few")
    assert read_pretrain_run(tmp_path / "few")[1].num_asked == 3


def test_a_budget_counts_the_held_out_examples_that_there_are(story_corpus, recipe, monkeypatch):
    settings = read_recipe(recipe, overrides=["held_out.num_examples=100000", "num_evaluations=3"])
    data = open_data(str(story_corpus), settings.held_out)
    settings = resolve_model(settings, data.tokenizer)
    job = PretrainJob(build_pretrain_model(settings), settings, data)
    clock = itertools.count()
    monkeypatch.setattr("albert.training.timing.time.perf_counter", lambda: float(next(clock)))
    asked = Mock()
    monkeypatch.setattr(PretrainJob, "ask", asked)
    seconds = timing._time_evaluations(job)  # a second for each sample
    number = job.build_held_out("sop").num_examples
    sample = asked.call_args.kwargs["num_examples"]
    assert sample == min(64, number)
    assert seconds == pytest.approx((3 + 1) * number / sample)


def test_a_budget_makes_a_share_of_the_warm_up(train, tmp_path):
    words = ("schedule.warmup_share=null", "schedule.warmup_steps=500", "num_steps=5000")
    train(*words, budget="5s", reporter=Listener(stop_at=4))
    settings, _ = read_pretrain_run(tmp_path / "run")
    assert (settings.schedule.warmup_steps, settings.schedule.warmup_share) == (None, 0.1)
    # Another number of steps is passed over, as without a budget.
    assert train(*words[:2], "num_steps=900", budget="5s", resume=True).outcome.is_finished


def test_the_recipe_for_continuing_takes_the_shape_of_the_folder(train, story_corpus, tmp_path):
    train()
    small = (
        "examples.max_length=40",
        "batch_size=8",
        "num_steps=4",
        "num_workers=0",
        "has_tensorboard=false",
    )
    pretrain(
        "continue", data=story_corpus, out=tmp_path / "more",
        overrides=[*small, f"init_from={tmp_path / 'run'}", "held_out.num_examples=8"],
    )  # fmt: skip
    assert load_model(tmp_path / "more" / "model").config.hidden_size == 16


def test_a_warm_start_has_as_many_positions_as_its_folder(train, tmp_path):
    """One key of `model` that is named leaves the others to the folder."""
    train("model.max_position_embeddings=1024", "num_steps=2")
    words = (f"init_from={tmp_path / 'run'}", "examples.max_length=600")
    more = read_recipe("continue", overrides=(*words, "model.num_hidden_layers=2"))
    assert more.model is not None
    assert (
        resolve_model(more, load_tokenizer(tmp_path / "run" / "model")).model.max_position_embeddings == 1024
    )
    with pytest.raises(SettingsError, match=r"max_length 600 exceeds model.max_position_embeddings 512"):
        read_recipe("continue", overrides=(*words, "model.max_position_embeddings=512"))


def test_a_warm_start_goes_on_with_the_shape_that_it_began_with(train, tmp_path):
    train("num_steps=2")
    words = (f"init_from={tmp_path / 'run'}", "model={num_hidden_layers: 4}")
    train(*words, out="more", reporter=Listener(stop_at=4))
    for change, told in (
        ("model.num_hidden_layers=5", "model.num_hidden_layers is 5 and was 4"),
        ("model.hidden_dropout_prob=0.3", "model.hidden_dropout_prob is 0.3 and was 0.1"),
    ):
        with pytest.raises(InputError, match=told):
            train(*words, change, out="more", resume=True)
    assert train(*words, out="more", resume=True).outcome.is_finished


@pytest.mark.alone
def test_a_budget_freezes_the_number_of_steps_and_ends_at_zero(train, tmp_path):
    done = train(budget="6s")
    settings, facts = read_pretrain_run(tmp_path / "run")
    assert settings.num_steps == done.outcome.progress.step > 20
    assert facts.budget_seconds == 6.0
    last = [record for record in iter_records(tmp_path / "run") if record["kind"] == "train"][-1]
    assert last["learning_rate"] < 0.01 * 3 / settings.num_steps
    # The 5% that is promised is for a quiet machine (docs/log.md); here others may be at work.
    assert 2.0 < done.outcome.progress.seconds < 12.0


def test_a_folder_with_a_run_is_not_overwritten(train):
    train()
    with pytest.raises(InputError, match="holds a run already; add --resume"):
        train()


def test_a_run_goes_on_as_it_began(train, tmp_path, story_corpus):
    train()
    with pytest.raises(InputError, match=r"batch_size is 4 and was 8; a run goes on as it began"):
        train("batch_size=4", resume=True)
    before = weights(tmp_path / "run")
    assert train(resume=True).outcome.is_finished  # and does nothing
    assert weights(tmp_path / "run") == before
