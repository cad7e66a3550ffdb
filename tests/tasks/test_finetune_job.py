"""Fine-tuning as a job of the loop: labels of every type, renamed tokens, early stopping."""

import random
from pathlib import Path

import numpy as np
import pytest
from albert.tasks.answering import ask_items
from albert.tasks.examples import Label, TextExample
from albert.tasks.kinds.kind import TaskBatch
from albert.tasks.kinds.texts import TextKind

from albert.pretrained.folder import load_model, load_vocabulary
from albert.tasks.finetune_job import FinetuneJob, Renaming
from albert.training.loop import LoopOutcome
from albert.training.run_folder import iter_records
from tests.tasks.kinds.learning import finetune

NOUNS, SIZES = ("dog", "man", "house", "ship"), ("big", "small", "old", "new")


def write_texts(number: int, label: object, *, seed: int) -> list[TextExample]:
    """Sentences, each with the label that the function finds in its noun and its two sizes."""
    draw = random.Random(seed)
    texts = []
    for place in range(number):
        noun, first, second = draw.choice(NOUNS), draw.choice(SIZES), draw.choice(SIZES)
        found: Label = label(noun, first, second)  # type: ignore[operator]
        texts.append(TextExample(str(place), f"the {noun} was {first}", f"and {second} .", found))
    return texts


KINDS = {
    "one": (TextKind(("no", "yes"), ("accuracy",)), lambda noun, first, second: int(first == second)),
    "several": (
        TextKind(SIZES[:3], ("subset_accuracy",), "several"),
        lambda noun, *sizes: tuple(place for place, size in enumerate(SIZES[:3]) if size in sizes),
    ),
    "number": (
        TextKind((), ("pearson", "spearman"), "number"),
        lambda noun, first, second: NOUNS.index(noun) + 0.5 * (second == "big"),
    ),
}


def teach(folder: Path, out: Path, name: str, **changes: object) -> tuple[LoopOutcome, FinetuneJob]:  # type: ignore[type-arg]
    kind, label = KINDS[name]
    train, dev = write_texts(400, label, seed=1), write_texts(100, label, seed=2)
    options = {"num_steps": 250, "num_evaluations": 5, **changes}
    return finetune(folder, out, kind, train=train, dev=dev, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_label_is_learned(tiny_folder, tmp_path, name):
    outcome, _ = teach(tiny_folder, tmp_path, name)
    assert outcome.is_finished
    assert outcome.progress.figures["score"] > 90


def test_without_getting_better_it_ends_early(tiny_folder, tmp_path):
    """The rate is so small that nothing changes: the first score stays the best."""
    outcome, _ = teach(
        tiny_folder, tmp_path, "one", patience=2, optimizer={"name": "adamw", "learning_rate": 1e-12}
    )
    assert outcome.is_finished
    assert (outcome.progress.step, outcome.progress.best_step) == (150, 50)
    assert [record["step"] for record in iter_records(tmp_path) if record["kind"] == "evaluate"] == [
        50,
        100,
        150,
    ]


def test_answers_do_not_depend_on_the_batch(tiny_folder, tmp_path):
    _, job = teach(tiny_folder, tmp_path, "one", num_steps=20, num_evaluations=1)
    model = job.model.eval()
    alone, together = (ask_items(model, job.kind, job.dev, max_tokens=size) for size in (1, 100_000))
    assert np.allclose(alone, together, atol=1e-5)


def test_rare_classes_can_count_for_more(tiny_folder):
    """A mistake in a class of weight 3 costs three times as much."""
    tokenizer = load_vocabulary(tiny_folder)
    texts = write_texts(8, lambda *_: 1, seed=3)
    totals = []
    for weights in (None, (0.5, 3.0)):
        kind = TextKind(("no", "yes"), ("accuracy",), class_weights=weights)
        with pytest.warns(match="started fresh"):
            model = load_model(tiny_folder, heads=kind.heads, seed=1).model
        terms = kind.compute_terms(model, kind.build_batch(kind.encode(texts, tokenizer)))
        totals.append(terms["task"][0].item())
    assert totals[1] == pytest.approx(3 * totals[0], rel=1e-5)


@pytest.fixture
def renaming(tiny_folder: Path) -> Renaming:
    found = Renaming.of(load_vocabulary(tiny_folder), share=0.3, seed=5)
    assert found is not None
    return found


def test_nothing_is_renamed_unless_it_is_asked_for(tiny_folder: Path) -> None:
    assert Renaming.of(load_vocabulary(tiny_folder), share=0.0, seed=5) is None


def test_a_piece_has_one_name_in_all_places(renaming: Renaming) -> None:
    ids = np.array([7, 9, 7, 12, 9, 9])
    places = np.arange(6)
    batch = TaskBatch(ids, places, places * 0, np.array([6]), answers="kept")
    for step in range(20):
        renamed = renaming.apply(batch, step=step)
        assert renamed.ids_T[0] == renamed.ids_T[2]
        assert renamed.ids_T[1] == renamed.ids_T[4] == renamed.ids_T[5]
        assert renamed.answers == "kept"
        np.testing.assert_array_equal(renamed.positions_T, places)


def test_special_tokens_are_neither_renamed_nor_names(renaming: Renaming, tiny_folder: Path) -> None:
    special = np.array(sorted(load_vocabulary(tiny_folder).special_ids))
    for step in range(20):
        names = renaming.draw_names(step)
        np.testing.assert_array_equal(names[special], special)
        assert not np.isin(names[renaming.ordinary], special).any()


def test_each_step_renames_its_own_share(renaming: Renaming) -> None:
    ordinary = renaming.ordinary
    drawn = [renaming.draw_names(step) for step in range(100)]
    changed = np.mean([(names != np.arange(len(names)))[ordinary].mean() for names in drawn])
    assert changed == pytest.approx(0.3 * (1 - 1 / len(ordinary)), abs=0.02)  # some draw their own name
    assert not any(np.array_equal(drawn[0], names) for names in drawn[1:])
    np.testing.assert_array_equal(renaming.draw_names(7), drawn[7])


def test_texts_are_compared_under_other_names(tiny_folder: Path, tmp_path: Path) -> None:
    outcome, job = teach(tiny_folder, tmp_path, "one", rename_share=0.3)
    assert outcome.progress.figures["score"] > 90  # whether both sizes are the same word
    assert job.renaming is not None
    batches = job.iter_batches(0)
    firsts = [next(batches) for _ in range(4)]
    for ours, theirs in zip(next(job.iter_batches(3)), firsts[3], strict=True):
        np.testing.assert_array_equal(ours.ids_T, theirs.ids_T)
