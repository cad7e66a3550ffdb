"""Texts that mean the same come close, strangers part, and a text is never a stranger to itself."""

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from albert.tasks.answering import ask_items
from albert.tasks.examples import TextExample
from albert.tasks.kinds.embedding import EmbeddingKind, PairVectors, check_dropout
from albert.tasks.task_facts import TaskConfig, build_kind
from torch.nn.utils.rnn import pad_sequence

from albert.errors import InputError
from albert.inference.sequence_encoder import PaddedModel
from albert.model.albert_model import AlbertModel
from albert.pretrained.folder import load_model, load_vocabulary
from albert.progress import NullReporter
from albert.tasks.finetune import load_start
from albert.tasks.finetune_job import FinetuneJob
from albert.tasks.finetune_settings import FinetuneSettings
from albert.training.distributed import DistributedContext
from albert.training.loop import TrainingLoop

NOUNS = ("dog", "man", "woman", "child", "house", "ship", "river", "road", "town")
SIZES = ("big", "small", "old", "new", "cold", "warm")
PLACES = ("in the sea", "on the hill", "by night")
KIND = EmbeddingKind(max_length=32)


def write_thing(draw: random.Random) -> tuple[str, str, str]:
    return draw.choice(NOUNS), draw.choice(SIZES), draw.choice(PLACES)


def say(thing: tuple[str, str, str], *, is_long: bool) -> str:
    noun, size, place = thing
    return (
        f"they found it {place} , a {noun} , and it was {size} ." if is_long else f"the {size} {noun} {place}"
    )


def write_pairs(number: int, *, seed: int) -> list[TextExample]:
    """The same thing said in two ways."""
    draw = random.Random(seed)
    things = [write_thing(draw) for _ in range(number)]
    return [
        TextExample(str(i), say(thing, is_long=False), say(thing, is_long=True))
        for i, thing in enumerate(things)
    ]


def write_scored(number: int, *, seed: int) -> list[TextExample]:
    """Two things said in two ways, and in how much they agree: noun, size and place."""
    draw = random.Random(seed)
    examples = []
    for place in range(number):
        one, other = write_thing(draw), write_thing(draw)
        kept = draw.sample(range(3), draw.randrange(4))
        other = tuple(one[i] if i in kept else other[i] for i in range(3))  # type: ignore[assignment]
        agreed = sum(a == b for a, b in zip(one, other, strict=True))
        first, second = say(one, is_long=False), say(other, is_long=True)
        examples.append(TextExample(str(place), first, second, float(agreed)))
    return examples


def build_job(
    folder: Path,
    train: list[TextExample],
    *,
    dev: list[TextExample],
    dropout: float = 0.0,
    world: DistributedContext | None = None,
    **settings: object,
) -> FinetuneJob[Any, Any]:
    values = {"dropout": dropout, "num_evaluations": 1, "has_tensorboard": False, **settings}
    values["optimizer"] = {"name": "adamw", "learning_rate": 2e-3}
    read = FinetuneSettings.model_validate(values)
    tokenizer = load_vocabulary(folder)
    model = load_start(str(folder), KIND, read, task=TaskConfig(task="embedding", kind="embedding"))
    items = [item for item in KIND.encode(train, tokenizer) if KIND.teaches(item)]
    check_dropout(items, model.config)
    return FinetuneJob(
        model, KIND, read, items, KIND.encode(dev, tokenizer), dev, world or DistributedContext()
    )


def learn(job: FinetuneJob[Any, Any], out: Path) -> tuple[float, float]:
    """The score before and after."""
    before = job.evaluate(0)["score"]
    loop = TrainingLoop(job, run_dir=out, reporter=NullReporter())
    return before, loop.run().progress.figures["score"]


def load_tiny(folder: Path, *, dropout: float = 0.0) -> AlbertModel:
    return load_model(folder, heads={}, dropouts={"hidden_dropout_prob": dropout}).model


def encode(folder: Path, *pairs: tuple[str, str | None]):
    examples = [TextExample(str(i), first, second) for i, (first, second) in enumerate(pairs)]
    return KIND.encode(examples, load_vocabulary(folder))


def embed_padded(model: AlbertModel, rows: list[tuple[int, ...]]):
    """The mean over the mask of a padded batch, as sentence-transformers takes it, at length 1."""
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    mask = pad_sequence([torch.ones(len(row)) for row in rows], batch_first=True)
    states = PaddedModel(model)(ids, mask).last_hidden_state
    means = (states * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
    return means / means.norm(dim=1, keepdim=True)


def test_pairs_teach_what_the_raw_encoder_does_not_know(tiny_folder, tmp_path):
    """Taught that two sentences mean the same, it can tell by how much two others differ."""
    job = build_job(
        tiny_folder, write_pairs(600, seed=1), dev=write_scored(200, seed=2), num_steps=120, batch_size=32
    )
    before, after = learn(job, tmp_path)
    assert before < 35
    assert after > 70


def test_single_texts_teach_by_dropout(tiny_folder, tmp_path):
    """So narrow a model is drowned by more of it than a little."""
    pairs = write_pairs(300, seed=1)
    texts = [TextExample("", text) for each in pairs for text in (each.first, each.second or "")]
    job = build_job(
        tiny_folder, texts, dev=write_scored(200, seed=2), dropout=0.02, num_steps=80, batch_size=32
    )
    before, after = learn(job, tmp_path)
    assert after > before + 8


def test_the_loss_is_that_of_a_padded_batch_written_out(tiny_folder):
    """For each text of a pair: the share of its partner among all that are no kin, in both directions."""
    model = load_tiny(tiny_folder)
    texts = [("the dog", "a big dog ."), ("it was cold", None), ("the sea", "the river was warm and old .")]
    items = encode(tiny_folder, *texts, ("a big dog .", "one dog"))  # kin of the first pair
    batch = KIND.build_batch(items)
    total, num_right = KIND.compute_terms(model, batch)["task"]

    firsts = [item.first.ids for item in items]
    seconds = [(item.second or item.first).ids for item in items]
    cosines = (embed_padded(model, firsts) @ embed_padded(model, seconds).T).tolist()
    expected, hits = 0.0, 0
    for i in range(4):
        rivals = [j for j in range(4) if j == i or {i, j} != {0, 3}]
        forth = [cosines[i][j] / 0.05 for j in rivals]
        back = [cosines[j][i] / 0.05 for j in rivals]
        expected -= 0.5 * (2 * cosines[i][i] / 0.05 - math.log(sum(map(math.exp, forth))))
        expected += 0.5 * math.log(sum(map(math.exp, back)))
        hits += max(forth) == cosines[i][i] / 0.05
    assert total.item() == pytest.approx(expected, rel=1e-5)
    assert num_right.item() == hits
    assert KIND.count(batch) == {"task": 4}
    total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    "kin",
    [
        [("the dog", "a dog"), ("the dog", "one dog")],
        [("the dog", "a dog"), ("one dog", "a dog")],
        [("the dog", "a dog"), ("a dog", "one dog")],
        [("a dog", "one dog"), ("the dog", "a dog")],
        [("the dog", None), ("the dog", None)],
        [("the dog", "a dog"), ("the dog", "a dog")],
    ],
)
def test_pairs_with_a_text_in_common_are_no_strangers(tiny_folder, kin):
    model = load_tiny(tiny_folder)
    assert KIND.compute_terms(model, KIND.build_batch(encode(tiny_folder, *kin)))["task"][0].item() == 0
    strangers = [kin[0], ("the sea", "a river"), kin[1]]
    found = KIND.compute_terms(model, KIND.build_batch(encode(tiny_folder, *strangers)))["task"][0]
    assert found.item() > 0


def test_one_text_has_two_views_in_training_and_one_after(tiny_folder):
    model = load_tiny(tiny_folder, dropout=0.1)
    batch = KIND.build_batch(encode(tiny_folder, ("the dog is big .", "the dog is big .")))
    seen = KIND.predict(model, batch)[0]
    assert seen.similarity == pytest.approx(1, abs=1e-6)
    views = KIND.predict(model.train(), batch)[0]
    assert 0 < views.similarity < 0.999


def test_single_texts_need_dropout(tiny_folder):
    model = load_tiny(tiny_folder)
    items = encode(tiny_folder, ("the dog", None), ("the sea", "a river"))
    with pytest.raises(InputError, match=r"dropout is 0, and 1 of 2 examples have no second.*dropout=0\.1"):
        check_dropout(items, model.config)
    check_dropout(items[1:], model.config)
    check_dropout(items, load_tiny(tiny_folder, dropout=0.1).config)


def test_a_step_is_one_batch_however_many_tokens_it_has(tiny_folder):
    """A budget of tokens does not cut it: the rest of the batch is what a pair is compared with."""
    job = build_job(
        tiny_folder, write_pairs(40, seed=1), dev=[], num_steps=3, batch_size=16, micro_batch_tokens=8
    )
    steps = list(job.iter_batches(0))
    assert [[len(batch.lengths) for batch in batches] for batches in steps] == [[32]] * 3


def test_of_many_processes_each_compares_its_own_share(tiny_folder):
    class Half(DistributedContext):
        size = 2

    train = write_pairs(40, seed=1)
    for batch_size, sizes in ((16, [16]), (1, [])):  # of one pair, the first process has none
        job = build_job(tiny_folder, train, dev=[], num_steps=1, batch_size=batch_size, world=Half())
        assert [len(batch.lengths) for batch in next(job.iter_batches(0))] == sizes


def test_answers_do_not_depend_on_the_batch(tiny_folder):
    model = load_tiny(tiny_folder)
    pairs = [(each.first, each.second if i % 3 else None) for i, each in enumerate(write_pairs(30, seed=3))]
    items = encode(tiny_folder, *pairs)
    alone, together = (ask_items(model, KIND, items, max_tokens=size) for size in (1, 100_000))
    for one, other, (_, second) in zip(alone, together, pairs, strict=True):
        assert np.allclose(one.first, other.first, atol=1e-6)
        assert np.linalg.norm(one.first) == pytest.approx(1, abs=1e-6)
        assert (one.second is None) == (other.second is None) == (second is None)
        if one.second is not None and other.second is not None:
            assert np.allclose(one.second, other.second, atol=1e-6)


def test_a_single_text_is_read_once_when_it_is_asked_about(tiny_folder):
    model, items = load_tiny(tiny_folder), encode(tiny_folder, ("the dog", None), ("the sea is cold", None))
    seen: list[int] = []
    model.encoder.register_forward_pre_hook(lambda _, args: seen.append(len(args[0].ids_T)))
    KIND.predict(model, KIND.build_batch(items))
    assert seen == [sum(len(item.first.ids) for item in items)]


def test_each_text_is_cut_by_itself(tiny_folder):
    item = EmbeddingKind(max_length=8).encode(
        [TextExample("a", "the dog " * 9, "a man")], load_vocabulary(tiny_folder)
    )[0]
    assert item.second is not None
    assert (len(item.first.ids), len(item.second.ids), item.num_cut) == (8, 4, 12)
    assert set(item.first.segments) == set(item.second.segments) == {0}


def test_pairs_with_low_numbers_teach_nothing(tiny_folder):
    numbers = (None, 5.0, 4.0, 3.9, 0)
    examples = [TextExample("a", "the dog", "a dog", number) for number in numbers]
    items = KIND.encode(examples, load_vocabulary(tiny_folder))
    assert [KIND.teaches(item) for item in items] == [True, True, True, False, False]
    assert all(EmbeddingKind(min_similarity=0).teaches(item) for item in items)


def vector(*values: float):
    return np.array(values, dtype=np.float32) / np.float32(math.hypot(*values))


def test_numbers_are_scored_by_their_order():
    """The cosines are 1, 0.6 and 0: the right order, and not in a straight line with the numbers."""
    answers = [PairVectors(vector(1, 0), vector(*other)) for other in ((1, 0), (3, 4), (0, 1))]
    examples = [TextExample(str(i), "x", "y", number) for i, number in enumerate((5.0, 1.0, 0.0))]
    found = KIND.score(answers, examples)
    assert found["spearman"] == found["score"] == pytest.approx(100)
    assert found["pearson"] == pytest.approx(100 * np.corrcoef([1, 0.6, 0], [5, 1, 0])[0, 1], rel=1e-5)


def test_without_numbers_the_second_is_to_be_found():
    """The third is nearest to another's second; the fourth to a second that says the same as its own."""
    texts = [("a", "A"), ("b", "B"), ("c", "C"), ("d", "B")]
    examples = [TextExample(str(i), first, second) for i, (first, second) in enumerate(texts)]
    firsts = (vector(1, 0), vector(0, 1), vector(1, 0.1), vector(0, 1))
    seconds = (vector(1, 0), vector(0, 1), vector(-1, 0), vector(0.1, 1))
    answers = [PairVectors(*each) for each in zip(firsts, seconds, strict=True)]
    assert KIND.score(answers, examples) == {"retrieval_accuracy": 75, "score": 75}


def test_what_cannot_be_scored_is_refused():
    answers = [PairVectors(vector(1, 0), vector(1, 0))] * 2
    with pytest.raises(InputError, match="'b' has no number"):
        KIND.score(answers, [TextExample("a", "x", "y", 1.0), TextExample("b", "x", "y")])
    with pytest.raises(InputError, match="'b' has no second"):
        KIND.score(answers, [TextExample("a", "x", "y"), TextExample("b", "x")])


def test_models_of_different_widths_say_the_mean_of_their_cosines():
    one, other = PairVectors(vector(1, 0), vector(3, 4)), PairVectors(vector(1, 2, 2), vector(1, 2, 2))
    merged = KIND.merge([one, other])
    assert merged.similarity == pytest.approx((0.6 + 1) / 2)
    assert np.linalg.norm(merged.first) == pytest.approx(1)
    assert KIND.merge([PairVectors(vector(1, 0)), PairVectors(vector(0, 1, 0))]).second is None


def test_a_pair_is_described_by_its_similarity_and_a_text_by_its_vector():
    pair = PairVectors(vector(1, 0), vector(3, 4))
    assert KIND.describe(pair, TextExample("a", "x", "y")) == {"id": "a", "similarity": pytest.approx(0.6)}
    single = KIND.describe(PairVectors(vector(3, 4)), TextExample("b", "x"))
    assert single == {"id": "b", "embedding": pytest.approx([0.6, 0.8])}


def test_facts_make_the_kind():
    facts = TaskConfig(task="embedding", kind="embedding", max_length=64, similarity_temperature=0.1)
    assert build_kind(facts) == EmbeddingKind(64, similarity_temperature=0.1, min_similarity=4.0)
