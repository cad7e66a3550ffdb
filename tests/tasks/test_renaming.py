"""Renaming: what two texts share stays, what could be learned by heart goes, a resume changes nothing."""

from pathlib import Path

import numpy as np
import pytest

from albert.pretrained.folder import load_vocabulary
from albert.tasks.batches import TaskBatch
from albert.tasks.renaming import Renaming
from tests.tasks.test_finetune_job import teach


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
