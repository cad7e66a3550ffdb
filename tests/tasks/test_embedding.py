"""Embeddings: the contrastive loss and its negatives, batches, and scores."""

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from albert.errors import InputError
from albert.inference.sequence_encoder import PaddedModel
from albert.model.albert_model import AlbertModel
from albert.pretrained.folder import load_model, load_vocabulary
from albert.progress import NullReporter
from albert.tasks.classification import TextExample
from albert.tasks.embedding import EmbeddingConfig, EmbeddingTask, PairVectors
from albert.tasks.finetune import load_start
from albert.tasks.finetune_job import FinetuneJob
from albert.tasks.finetune_settings import FinetuneSettings
from albert.tasks.models import predict_items
from albert.training.distributed import DistributedContext
from albert.training.loop import TrainingLoop

from .learning import Job

NOUNS = ("dog", "man", "woman", "child", "house", "ship", "river", "road", "town")
SIZES = ("big", "small", "old", "new", "cold", "warm")
PLACES = ("in the sea", "on the hill", "by night")


def build_task(**values: Any) -> EmbeddingTask:
    return EmbeddingTask(EmbeddingConfig(**{"task": "embedding", "max_length": 32, **values}))


TASK = build_task()


def draw_thing(draw: random.Random) -> tuple[str, str, str]:
    return draw.choice(NOUNS), draw.choice(SIZES), draw.choice(PLACES)


def say(thing: tuple[str, str, str], *, is_long: bool) -> str:
    noun, size, place = thing
    long = f"they found it {place} , a {noun} , and it was {size} ."
    return long if is_long else f"the {size} {noun} {place}"


def write_pairs(number: int, *, seed: int) -> list[TextExample]:
    """The same thing in two wordings."""
    draw = random.Random(seed)
    things = [draw_thing(draw) for _ in range(number)]
    return [
        TextExample(str(i), say(thing, is_long=False), say(thing, is_long=True))
        for i, thing in enumerate(things)
    ]


def write_scored(number: int, *, seed: int) -> list[TextExample]:
    """Two things in two wordings; the score is in how many of noun, size and place they agree."""
    draw = random.Random(seed)
    examples = []
    for index in range(number):
        one, other = draw_thing(draw), draw_thing(draw)
        kept = draw.sample(range(3), draw.randrange(4))
        noun, size, place = (one[i] if i in kept else other[i] for i in range(3))
        score = float(sum(a == b for a, b in zip(one, (noun, size, place), strict=True)))
        second = say((noun, size, place), is_long=True)
        examples.append(TextExample(str(index), say(one, is_long=False), second, score))
    return examples


def build_job(
    folder: Path,
    train: list[TextExample],
    *,
    dev: list[TextExample],
    dropout: float = 0.0,
    world: DistributedContext | None = None,
    **values: object,
) -> Job:
    optimizer = {"name": "adamw", "learning_rate": 2e-3}
    plain = {"dropout": dropout, "num_evaluations": 1, "has_tensorboard": False, "optimizer": optimizer}
    settings = FinetuneSettings.model_validate({**plain, **values})
    tokenizer = load_vocabulary(folder)
    model = load_start(str(folder), TASK, settings)  # type: ignore[arg-type]
    items = [item for item in TASK.encode(train, tokenizer) if TASK.has_label(item)]
    TASK.check_train(items, model)
    dev_items = TASK.encode(dev, tokenizer)
    return FinetuneJob(model, TASK, settings, items, dev_items, dev, world or DistributedContext())


def train_job(job: Job, out: Path) -> tuple[float, float]:
    """The scores before and after training."""
    before = job.evaluate(0)["score"]
    loop = TrainingLoop(job, run_dir=out, reporter=NullReporter())
    return before, loop.run().progress.figures["score"]


def load_tiny(folder: Path, *, dropout: float = 0.0) -> AlbertModel:
    return load_model(folder, heads={}, dropouts={"hidden_dropout_prob": dropout}).model


def encode(folder: Path, *pairs: tuple[str, str | None]):
    examples = [TextExample(str(i), first, second) for i, (first, second) in enumerate(pairs)]
    return TASK.encode(examples, load_vocabulary(folder))


def compute_loss(model: AlbertModel, items: Any) -> float:
    return TASK.compute_losses(model, TASK.build_batch(items))["task"][0].item()


def embed_padded(model: AlbertModel, rows: list[tuple[int, ...]]):
    """The mean over the mask of a padded batch, as in sentence-transformers, with length 1."""
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    mask = pad_sequence([torch.ones(len(row)) for row in rows], batch_first=True)
    states = PaddedModel(model)(ids, mask).last_hidden_state
    means = (states * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
    return means / means.norm(dim=1, keepdim=True)


def test_similarity_is_learned_from_pairs(tiny_folder, tmp_path):
    train, dev = write_pairs(600, seed=1), write_scored(200, seed=2)
    before, after = train_job(build_job(tiny_folder, train, dev=dev, num_steps=120, batch_size=32), tmp_path)
    assert before < 35
    assert after > 70


def test_the_loss_is_info_nce_in_both_directions(tiny_folder):
    model = load_tiny(tiny_folder)
    texts = [("the dog", "a big dog ."), ("it was cold", None), ("the sea", "the river was warm and old .")]
    items = encode(tiny_folder, *texts, ("a big dog .", "one dog"))  # shares a text with the first pair
    batch = TASK.build_batch(items)
    total, num_correct = TASK.compute_losses(model, batch)["task"]

    firsts = [item.first.ids for item in items]
    seconds = [(item.second or item.first).ids for item in items]
    cosines = (embed_padded(model, firsts) @ embed_padded(model, seconds).T).tolist()
    expected, expected_correct = 0.0, 0
    for i in range(4):
        rivals = [j for j in range(4) if j == i or {i, j} != {0, 3}]
        forth = [cosines[i][j] / 0.05 for j in rivals]
        back = [cosines[j][i] / 0.05 for j in rivals]
        expected -= 0.5 * (2 * cosines[i][i] / 0.05 - math.log(sum(map(math.exp, forth))))
        expected += 0.5 * math.log(sum(map(math.exp, back)))
        expected_correct += max(forth) == cosines[i][i] / 0.05
    assert total.item() == pytest.approx(expected, rel=1e-5)
    assert num_correct.item() == expected_correct
    assert TASK.count_labels(batch) == {"task": 4}
    total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    "related",
    [
        [("the dog", "a dog"), ("the dog", "one dog")],
        [("the dog", "a dog"), ("one dog", "a dog")],
        [("the dog", "a dog"), ("a dog", "one dog")],
        [("a dog", "one dog"), ("the dog", "a dog")],
        [("the dog", None), ("the dog", None)],
        [("the dog", "a dog"), ("the dog", "a dog")],
    ],
)
def test_pairs_that_share_a_text_are_no_negatives(tiny_folder, related):
    model = load_tiny(tiny_folder)
    assert compute_loss(model, encode(tiny_folder, *related)) == 0
    assert compute_loss(model, encode(tiny_folder, related[0], ("the sea", "a river"), related[1])) > 0


def test_dropout_makes_two_views_of_one_text_in_training_only(tiny_folder):
    model = load_tiny(tiny_folder, dropout=0.1)
    items = encode(tiny_folder, ("the dog is big .", "the dog is big ."))
    batch = TASK.build_batch(items)
    assert TASK.predict(model, batch)[0].similarity == pytest.approx(1, abs=1e-6)
    assert 0 < TASK.predict(model.train(), batch)[0].similarity < 0.999


def test_single_texts_need_dropout(tiny_folder):
    model = load_tiny(tiny_folder)
    items = encode(tiny_folder, ("the dog", None), ("the sea", "a river"))
    with pytest.raises(InputError, match=r"1 of 2 .*dropout=0\.1"):
        TASK.check_train(items, model)
    TASK.check_train(items[1:], model)
    TASK.check_train(items, load_tiny(tiny_folder, dropout=0.1))


def test_a_step_is_one_batch_of_any_number_of_tokens(tiny_folder):
    """The other pairs of the batch are the negatives, so it is not split."""
    values = {"num_steps": 3, "batch_size": 16, "micro_batch_tokens": 8}
    job = build_job(tiny_folder, write_pairs(40, seed=1), dev=[], **values)
    steps = list(job.iter_batches(0))
    assert [[len(batch.lengths) for batch in batches] for batches in steps] == [[32]] * 3


def test_each_process_compares_its_own_share(tiny_folder):
    class Half(DistributedContext):
        size = 2

    train = write_pairs(40, seed=1)
    for batch_size, sizes in ((16, [16]), (1, [])):  # of one pair, the first process has none
        job = build_job(tiny_folder, train, dev=[], num_steps=1, batch_size=batch_size, world=Half())
        assert [len(batch.lengths) for batch in next(job.iter_batches(0))] == sizes


def test_vectors_do_not_depend_on_the_batch(tiny_folder):
    model = load_tiny(tiny_folder)
    pairs = [(each.first, each.second if i % 3 else None) for i, each in enumerate(write_pairs(30, seed=3))]
    items = encode(tiny_folder, *pairs)
    alone, together = (predict_items(model, TASK, items, max_tokens=size) for size in (1, 100_000))
    for one, other, (_, second) in zip(alone, together, pairs, strict=True):
        assert np.allclose(one.first, other.first, atol=1e-6)
        assert np.linalg.norm(one.first) == pytest.approx(1, abs=1e-6)
        assert (one.second is None) == (other.second is None) == (second is None)
        if one.second is not None and other.second is not None:
            assert np.allclose(one.second, other.second, atol=1e-6)


def test_each_text_is_truncated_by_itself(tiny_folder):
    example = TextExample("a", "the dog " * 9, "a man")
    (item,) = build_task(max_length=8).encode([example], load_vocabulary(tiny_folder))
    assert item.second is not None
    assert (len(item.first.ids), len(item.second.ids), item.num_truncated) == (8, 4, 12)
    assert (item.first.num_first, item.second.num_first) == (8, 4)


def test_pairs_below_min_similarity_are_not_trained_on(tiny_folder):
    examples = [TextExample("a", "the dog", "a dog", score) for score in (None, 5.0, 4.0, 3.9, 0)]
    items = TASK.encode(examples, load_vocabulary(tiny_folder))
    assert [TASK.has_label(item) for item in items] == [True, True, True, False, False]
    assert all(build_task(min_similarity=0).has_label(item) for item in items)


def vector(*values: float):
    return np.array(values, dtype=np.float32) / np.float32(math.hypot(*values))


def test_scored_pairs_are_evaluated_by_correlation():
    """The cosines 1, 0.6 and 0 are in the right order, and not linear in the scores."""
    answers = [PairVectors(vector(1, 0), vector(*other)) for other in ((1, 0), (3, 4), (0, 1))]
    examples = [TextExample(str(i), "x", "y", score) for i, score in enumerate((5.0, 1.0, 0.0))]
    found = TASK.score(answers, examples)
    assert found["spearman"] == found["score"] == pytest.approx(100)
    assert found["pearson"] == pytest.approx(100 * np.corrcoef([1, 0.6, 0], [5, 1, 0])[0, 1], rel=1e-5)


def test_pairs_without_scores_are_evaluated_by_retrieval():
    """The third is nearest to another second text; the fourth to one that is equal to its own."""
    texts = [("a", "A"), ("b", "B"), ("c", "C"), ("d", "B")]
    examples = [TextExample(str(i), first, second) for i, (first, second) in enumerate(texts)]
    firsts = (vector(1, 0), vector(0, 1), vector(1, 0.1), vector(0, 1))
    seconds = (vector(1, 0), vector(0, 1), vector(-1, 0), vector(0.1, 1))
    answers = [PairVectors(*each) for each in zip(firsts, seconds, strict=True)]
    assert TASK.score(answers, examples) == {"retrieval_accuracy": 75, "score": 75}


@pytest.mark.parametrize("bad", [TextExample("b", "x", "y"), TextExample("b", "x")])
def test_pairs_without_a_score_among_others_and_single_texts_cannot_be_scored(bad):
    answers = [PairVectors(vector(1, 0), vector(1, 0))] * 2
    with pytest.raises(InputError, match="'b'"):
        TASK.score(answers, [TextExample("a", "x", "y", 1.0), bad])


def test_an_ensemble_averages_the_cosines_of_models_of_any_width():
    one, other = PairVectors(vector(1, 0), vector(3, 4)), PairVectors(vector(1, 2, 2), vector(1, 2, 2))
    (merged,) = TASK.ensemble([[one], [other]])
    assert merged.similarity == pytest.approx((0.6 + 1) / 2)
    assert np.linalg.norm(merged.first) == pytest.approx(1)
    (single,) = TASK.ensemble([[PairVectors(vector(1, 0))], [PairVectors(vector(0, 1, 0))]])
    assert single.second is None


def test_pairs_are_described_by_similarity_and_texts_by_vectors():
    pair = PairVectors(vector(1, 0), vector(3, 4))
    assert TASK.describe(pair, TextExample("a", "x", "y")) == {"id": "a", "similarity": pytest.approx(0.6)}
    single = TASK.describe(PairVectors(vector(3, 4)), TextExample("b", "x"))
    assert single == {"id": "b", "embedding": pytest.approx([0.6, 0.8])}
