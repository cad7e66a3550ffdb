"""Distillation: the start from a teacher, the losses against it, and runs that resume and split exactly."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from sentence_transformers import SentenceTransformer

import albert
from albert.data.corpus import open_corpus
from albert.errors import AlbertError, InputError
from albert.examples.batches import GroupedSource, build_source
from albert.examples.settings import ExampleSettings
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.model.heads import pool_mean
from albert.model.initialization import init_weights
from albert.model.tokens import Tokens
from albert.pretrained.folder import load_model, save_model
from albert.pretrained.from_teacher import Teacher, init_from_teacher, transplant_words
from albert.text.folder import load_tokenizer, save_tokenizer
from albert.training.losses import count_tokens
from albert.training.pretrain import distill
from albert.training.run_folder import list_records
from tests.conftest import WORDS, write_vocabulary
from tests.faults.watched_run import last_step, wait_until
from tests.training.conftest import TINY, Listener, build_torchrun, tell_stories

SHAPE: dict[str, Any] = {
    "embedding_size": 24, "hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 2,
    "sharing": "none", "intermediate_size": 64, "max_position_embeddings": 64, "hidden_act": "gelu",
}  # fmt: skip
RECIPE = {
    **{key: value for key, value in TINY.items() if key != "model"},
    "model": {"embedding_size": 8, "num_hidden_groups": 2, "sharing": "all", "intermediate_size": 16},
    "distillation": {"group_size": 4, "mlm_weight": 0.3, "pair_weight": 0.2, "exit_depths": [2]},
}


@pytest.fixture(scope="module")
def tokenizer(story_corpus):
    return load_tokenizer(story_corpus / "vocab")


@pytest.fixture(scope="module")
def teacher_dir(tmp_path_factory, tokenizer):
    """A BERT with random but large weights, whose layers differ."""
    model = build_model(ModelConfig(**SHAPE, vocab_size=tokenizer.vocab_size), heads={}, has_pooler=True)
    init_weights(model, std=0.3, generator=torch.Generator().manual_seed(1))
    folder = tmp_path_factory.mktemp("teacher") / "teacher"
    save_model(folder, model, tokenizer=tokenizer)
    return folder


@pytest.fixture
def train(teacher_dir, story_corpus, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(RECIPE), encoding="utf-8")

    def run(*overrides, out="run", data=story_corpus, teacher=teacher_dir, **options):
        return distill(recipe, teacher=teacher, data=data, out=tmp_path / out, overrides=overrides, **options)

    return run


def read_weights(run_dir: Path) -> dict[str, torch.Tensor]:
    return load_model(run_dir / "model").model.state_dict()


def build_student(**changes) -> ModelConfig:
    return ModelConfig(**{**SHAPE, "vocab_size": len(WORDS), **changes})


def start(teacher_dir, story_corpus, config, layers="mean"):
    corpus = open_corpus(story_corpus)
    teacher = load_model(teacher_dir).model
    ids = corpus.parts[0].tokens[:600].tolist()
    sample = Tokens.from_lists([ids[i : i + 30] for i in range(0, 600, 30)])
    student = build_model(config, heads={}, has_pooler=True, seed=3)
    words = Teacher(teacher, teacher.encoder.embeddings.word.weight.detach())
    init_from_teacher(student, words, counts=count_tokens(corpus), sample=sample, layers=layers)
    return teacher, student, sample


def measure_distance(teacher, student, sample) -> float:
    """Squared distance of the last states, in units of the teacher's variance."""
    with torch.no_grad():
        target, found = teacher(sample).last_TD, student(sample).last_TD
    return float((target - found).square().sum() / (target - target.mean(0)).square().sum())


def test_a_student_of_the_same_shape_starts_as_the_teacher(teacher_dir, story_corpus):
    teacher, student, sample = start(teacher_dir, story_corpus, build_student())
    assert measure_distance(teacher, student, sample) < 1e-9
    assert torch.equal(student.pooler.weight, teacher.pooler.weight)


def test_factorized_embeddings_are_the_best_of_their_width(teacher_dir, story_corpus):
    distances = []
    for width in (20, 12, 4):
        teacher, student, sample = start(teacher_dir, story_corpus, build_student(embedding_size=width))
        fresh = build_model(build_student(embedding_size=width), heads={}, seed=5)
        distances.append(measure_distance(teacher, student, sample))
        assert distances[-1] < 0.8 * measure_distance(teacher, fresh, sample)
    assert distances == sorted(distances)


def test_pruned_neurons_are_chosen_and_refitted(teacher_dir, story_corpus):
    """Of redundant neurons one is enough: the output map of the others takes over."""
    teacher = load_model(teacher_dir).model
    for block in teacher.encoder.ffn:
        with torch.no_grad():  # the second half repeats the first
            block.inner.weight[32:], block.inner.bias[32:] = block.inner.weight[:32], block.inner.bias[:32]
    corpus = open_corpus(story_corpus)
    ids = corpus.parts[0].tokens[:3000].tolist()
    sample = Tokens.from_lists([ids[i : i + 30] for i in range(0, 3000, 30)])
    student = build_model(build_student(intermediate_size=32), heads={})
    words = Teacher(teacher, teacher.encoder.embeddings.word.weight.detach())
    init_from_teacher(student, words, counts=count_tokens(corpus), sample=sample)
    assert measure_distance(teacher, student, sample) < 0.02


@pytest.mark.parametrize(
    ("layers", "expected"), [("first", (0, 2)), ("middle", (1, 3)), ("last", (1, 3)), ("mean", None)]
)
def test_blocks_are_chosen_layers_or_their_mean(teacher_dir, story_corpus, layers, expected):
    config = build_student(sharing="all", num_hidden_groups=2)
    teacher, student, _ = start(teacher_dir, story_corpus, config, layers)
    theirs = [block.query.weight for block in teacher.encoder.attention]
    ours = [block.query.weight for block in student.encoder.attention]
    if expected is None:
        assert torch.allclose(ours[0], (theirs[0] + theirs[1]) / 2)
    else:
        assert [torch.equal(ours[i], theirs[k]) for i, k in enumerate(expected)] == [True, True]


def test_a_token_is_transplanted_from_the_tokens_of_its_text(teacher_dir, tokenizer, tmp_path):
    words = [*WORDS, "houses", "zzz"]
    student = load_tokenizer(write_vocabulary(tmp_path / "vocab.txt", words))
    theirs = load_model(teacher_dir).model.encoder.embeddings.word.weight
    table = transplant_words(load_model(teacher_dir).model, tokenizer, student).words_VW
    house, ending = WORDS.index("house"), WORDS.index("##s")
    assert torch.equal(table[house], theirs[house])
    assert torch.equal(table[student.mask_id], theirs[tokenizer.mask_id])
    assert torch.allclose(table[words.index("houses")], (theirs[house] + theirs[ending]) / 2)
    assert torch.equal(table[words.index("zzz")], theirs[tokenizer.unk_id])


def test_groups_are_the_same_for_any_number_of_processes(story_corpus, tokenizer):
    source = build_source(open_corpus(story_corpus), tokenizer, settings=ExampleSettings(max_length=40))
    grouped = GroupedSource(source, group_size=4, single_share=0.5)
    whole = grouped.build_step(3, batch_size=24)
    shares = [grouped.build_step(3, batch_size=24, rank=rank, world_size=2) for rank in (0, 1)]
    assert len(whole) == 6
    for one, other in zip(whole, shares[0] + shares[1], strict=True):
        assert np.array_equal(one.ids_T, other.ids_T)
    is_single = [not batch.segments_T.any() for batch in whole]
    assert sum(is_single) == 3
    for batch, single in zip(whole, is_single, strict=True):
        assert len(batch.lengths) == 4
        assert (len(batch.masked_M) == 0) == single
        assert (tokenizer.mask_id in batch.ids_T) != single


def test_tokens_of_single_texts_are_replaced_by_random_ones(story_corpus, tokenizer):
    source = build_source(open_corpus(story_corpus), tokenizer, settings=ExampleSettings(max_length=40))
    plain = GroupedSource(source, group_size=40, single_share=1.0).build_step(0, batch_size=200)
    mixed = GroupedSource(source, 40, 1.0, replaced_share=0.2).build_step(0, batch_size=200)
    before, after = (np.concatenate([batch.ids_T for batch in batches]) for batches in (plain, mixed))
    is_special = np.isin(before, list(tokenizer.special_ids))
    assert np.array_equal(before[is_special], after[is_special])
    assert (before != after)[~is_special].mean() == pytest.approx(0.2, abs=0.03)
    assert tokenizer.mask_id not in after
    assert not any(len(batch.masked_M) for batch in mixed)


def test_the_student_comes_closer_to_its_teacher(train, tmp_path):
    done = train("num_steps=60", "batch_size=16", "optimizer.learning_rate=0.003", "num_evaluations=3")
    first, *_, last = list_records(tmp_path / "run", "evaluate")
    for name in ("hidden", "mlm"):
        assert last[f"{name}_loss"] < first[f"{name}_loss"]
    assert {"mlm_accuracy", "sop_accuracy"} <= done.outcome.progress.figures.keys()
    config = load_model(tmp_path / "run" / "model").config
    assert (config.hidden_size, config.num_hidden_layers, config.hidden_act) == (
        24,
        4,
        "gelu",
    )  # the teacher's
    assert (config.embedding_size, config.num_hidden_groups, config.intermediate_size) == (8, 2, 16)
    texts = ["the dog went to the sea .", "a man saw a ship"]
    vectors = albert.load(tmp_path / "run").embed(texts)
    theirs = SentenceTransformer(str(tmp_path / "run" / "model"), device="cpu").encode(texts)
    np.testing.assert_allclose(vectors, theirs, atol=1e-5)  # of length 1


@pytest.mark.parametrize(
    "settings",
    [
        ("distillation.relation_weight=1", "distillation.num_relation_heads=3"),
        ("distillation.mlm_weight=0", "distillation.pair_weight=0", "distillation.exit_depths=[]"),
        ("model.hidden_size=12", "distillation.hidden_weight=1"),  # through a map to the teacher's width
        ("distillation.layers=[[2, 3], [4, 4]]", "distillation.single_share=1"),
    ],
)
def test_other_losses_and_widths(train, tmp_path, settings):
    done = train(*settings, "num_steps=6")
    figures = done.outcome.progress.figures
    assert all(np.isfinite(value) for value in figures.values())
    assert ("relation_loss" in figures) == ("relation" in settings[0])
    assert ("mlm_loss" in figures) == ("mlm_weight=0" not in settings[0])
    assert "teacher_map" not in load_model(tmp_path / "run" / "model").model.heads


def test_a_stopped_run_resumes_exactly(train, tmp_path):
    train(out="whole")
    assert not train(reporter=Listener(stop_at=6)).outcome.is_finished
    assert train(resume=True, reporter=Listener(stop_at=14)).outcome.progress.step == 14
    assert train(resume=True).outcome.is_finished
    one, other = read_weights(tmp_path / "whole"), read_weights(tmp_path / "run")
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_second_stage_starts_from_the_weights_of_the_first(train, tmp_path):
    train("num_steps=4")
    start = f"init_from={tmp_path / 'run' / 'model'}"
    train(start, "num_steps=1", "optimizer.learning_rate=1e-9", out="second")
    one, other = read_weights(tmp_path / "run"), read_weights(tmp_path / "second")
    assert all(torch.allclose(one[name], other[name], atol=1e-6) for name in one)


def test_vectors_of_fewer_layers_are_mapped_to_those_of_all(train, tmp_path):
    train("num_steps=4")
    model = albert.load(tmp_path / "run")
    texts = ["the cat sat", "a dog ran home and slept"]
    ids = [
        [model.tokenizer.cls_id, *row, model.tokenizer.sep_id] for row in model.tokenizer.encode_ids(texts)
    ]
    tokens = Tokens.from_lists(ids)
    for depth in (1, 2):
        with torch.no_grad():
            plain = pool_mean(model.model(tokens, depth=depth).last_TD, tokens)
            expected = model.model.head("vector_exits")[depth - 1](plain)
        assert not torch.equal(plain, expected)
        np.testing.assert_allclose(model.embed(texts, depth=depth, is_normalized=False), expected, atol=1e-5)


@pytest.mark.slow
def test_a_run_killed_five_times_ends_the_same(train, tmp_path, teacher_dir, story_corpus):
    settings = ("num_steps=60", "num_evaluations=20")
    train(*settings, out="whole")
    out = tmp_path / "run"
    command = [sys.executable, "-m", "albert", "distill", str(tmp_path / "recipe.yaml"), "--resume"]
    command += ["--teacher", str(teacher_dir), "--data", str(story_corpus), "--out", str(out), *settings]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    for number in range(1, 6):
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=env) as process:
            assert wait_until(lambda number=number: last_step(out) >= 9 * number, process)
            process.kill()
    subprocess.run(command, check=True, capture_output=True, env=env, timeout=120)
    one, other = read_weights(tmp_path / "whole"), read_weights(out)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_two_processes_equal_one(train, tmp_path, teacher_dir, story_corpus):
    settings = ("batch_size=16", "num_steps=8", "distillation.single_share=0.5")
    train(*settings, out="one")
    command = ["albert", "distill", str(tmp_path / "recipe.yaml"), "--teacher", str(teacher_dir)]
    command += ["--data", str(story_corpus), "--out", str(tmp_path / "two"), *settings]
    subprocess.run(build_torchrun(command, processes=2), check=True, capture_output=True, timeout=180)
    one, other = read_weights(tmp_path / "one"), read_weights(tmp_path / "two")
    assert all(torch.allclose(one[name], other[name], atol=1e-4) for name in one)


def test_another_vocabulary_compares_whole_texts(train, tmp_path, tokenizer):
    folder = tmp_path / "vocab"
    folder.mkdir()
    save_tokenizer(load_tokenizer(write_vocabulary(tmp_path / "other.txt", [*WORDS, "housed"])), folder)
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(" ".join(story) for story in tell_stories(60)), encoding="utf-8")
    with pytest.raises(InputError, match=r"--vocab .*hidden_weight=0"):
        train(data=text, vocab=folder, out="rejected")
    done = train("distillation.hidden_weight=0", data=text, vocab=folder)
    assert load_model(tmp_path / "run" / "model").config.vocab_size == len(WORDS) + 1
    assert np.isfinite(done.outcome.progress.figures["embedding_loss"])


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        (("model.embedding_size=32",), ("embedding_size", "32", "24")),
        (("model.num_attention_heads=3",), ("num_attention_heads", "3", "2")),
        (("batch_size=6",), ("6", "group_size", "4")),
        (("distillation.layers=[[9, 1]]",), ("9", "0 to 4")),
        (("distillation.exit_depths=[2, 5]",), ("4 layers", "exit_depths=[2]")),
        (("distillation.mlm_weight=0",), ("pair_weight", "0.2", "mlm_weight")),
    ],
)
def test_wrong_settings_are_rejected(train, tmp_path, settings, values):
    with pytest.raises(AlbertError) as error:
        train(*settings)
    assert all(value in str(error.value) for value in values)
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_keeps_its_teacher(train, teacher_dir, tokenizer, tmp_path):
    train(reporter=Listener(stop_at=6))
    model = load_model(teacher_dir).model
    init_weights(model, std=0.2, generator=torch.Generator().manual_seed(2))
    save_model(tmp_path / "other", model, tokenizer=tokenizer)
    with pytest.raises(InputError, match=str(teacher_dir)):
        train(teacher=tmp_path / "other", resume=True)


def test_convert_shrinks_a_model(run_albert, teacher_dir, story_corpus, tmp_path):
    words = ["convert", teacher_dir, tmp_path / "small", "embedding_size=20", "--shrink"]
    assert "--data" in run_albert(*words).error
    words += ["--data", story_corpus]
    assert run_albert(*words, "intermediate_size=48").code == 0
    ids = open_corpus(story_corpus).parts[0].tokens[:600].tolist()
    sample = Tokens.from_lists([ids[i : i + 30] for i in range(0, 600, 30)])
    teacher, small = (load_model(folder).model for folder in (teacher_dir, tmp_path / "small"))
    assert (small.config.embedding_size, small.config.intermediate_size) == (20, 48)
    fresh = build_model(small.config, heads={}, seed=5)
    assert measure_distance(teacher, small, sample) < 0.8 * measure_distance(teacher, fresh, sample)
    assert "64" in run_albert(*words, "intermediate_size=99", "--overwrite").error
