"""All processes of a run go on from one checkpoint, which the first of them chooses, with one corpus."""

import shutil

import pytest
import torch

from albert.errors import AlbertError, EchoError, FileFormatError
from albert.progress import NullReporter
from albert.training.checkpoints import Checkpoint, CheckpointFolder
from albert.training.loop import load_newest
from albert.training.pretrain import start_run
from albert.training.pretrain_job import open_data
from albert.training.recipes import read_recipe
from albert.training.run_folder import identify_corpus
from albert.training.world import DistributedContext


class Second(DistributedContext):
    """The second process of two; what the first one says is known."""

    rank, size = 1, 2

    def __init__(self, *said):
        self._said = iter(said)

    def gather(self, value):
        return [next(self._said), value]


@pytest.fixture
def run_dir(tmp_path):
    folder = CheckpointFolder(tmp_path / "checkpoints")
    for step in (3, 7):
        folder.save(Checkpoint(step, {"a": torch.full((2,), float(step))}, {"progress": {}}))
    return tmp_path


def test_the_first_process_chooses(run_dir):
    assert load_newest(run_dir, reporter=NullReporter(), world=DistributedContext()).step == 7
    # It has found the newest one damaged and gone back; the second would have read it.
    assert load_newest(run_dir, reporter=NullReporter(), world=Second(3, None)).step == 3
    assert load_newest(run_dir, reporter=NullReporter(), world=Second(None, None)) is None


def test_a_checkpoint_that_one_process_does_not_see_ends_all(run_dir):
    shutil.rmtree(run_dir / "checkpoints" / "step-7")
    with pytest.raises(EchoError, match="see that all reach the same folder"):
        load_newest(run_dir, reporter=NullReporter(), world=Second(7, None))

    class First(Second):
        rank = 0

        def gather(self, value):
            return [value, next(self._said)]

    with pytest.raises(FileFormatError, match="step-3: missing, in one process, while another has read it"):
        load_newest(run_dir, reporter=NullReporter(), world=First(None, "step-3: missing"))
    assert issubclass(FileFormatError, AlbertError)


def test_copies_of_a_corpus_are_the_same_in_every_process(story_corpus, recipe, tmp_path):
    settings = read_recipe(recipe)
    data = open_data(str(story_corpus), settings.held_out)
    with pytest.raises(EchoError, match=r"process 1 of 2 has another corpus there than the first; give all"):
        start_run(
            tmp_path / "run",
            settings,
            data,
            budget=None,
            began=0.0,
            reporter=NullReporter(),
            world=Second(("last week's", identify_corpus(data.held_out))),
        )
    assert not (tmp_path / "run").exists()
