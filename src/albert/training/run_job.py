"""A job and the folder of its run come in; it is trained from where it stands, and how it ended goes out."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, TypeVar

from torch import Tensor

from albert.errors import AlbertError, EchoError, FileFormatError
from albert.model.albert_model import AlbertModel
from albert.model.runtime import build_autocast
from albert.reporting import Reporter
from albert.training.checkpoints import Checkpoint, CheckpointFolder
from albert.training.job import Job, LoopOutcome
from albert.training.loop import TrainingLoop
from albert.training.loop_settings import LoopSettings
from albert.training.run_folder import CHECKPOINTS_DIR
from albert.training.world import World

B = TypeVar("B")


class RunnableJob(Job[B], Protocol[B]):
    """A job that knows its model and how it is trained."""

    @property
    def model(self) -> AlbertModel:
        """What is trained."""

    @property
    def settings(self) -> LoopSettings:
        """How."""


def run_job(
    job: RunnableJob[B], *, run_dir: Path, newest: Checkpoint | None, reporter: Reporter, world: World
) -> LoopOutcome:
    """Train from the newest checkpoint, or from the beginning, to the end or to a signal.

    The tensors of the checkpoint are let go once they are taken up: they are three times the model.
    """
    settings, model = job.settings, job.model
    network = world.spread(job.build_network())
    loop: TrainingLoop[B] = TrainingLoop(
        job,
        model=model,
        network=network,
        optimizer=job.build_optimizer(),  # of the parameters as they are spread
        settings=settings,
        run_dir=run_dir,
        seed=settings.seed,
        reporter=reporter,
        autocast=build_autocast(settings.runtime),
        world=world,
    )
    if newest is not None:
        loop.restore(newest)
        newest.tensors.clear()
        reporter.say(f"goes on at step {newest.step:,} of {job.num_steps:,}")
    elif CheckpointFolder(run_dir / CHECKPOINTS_DIR).list_steps():
        reporter.say("no checkpoint is whole: begins again, from the beginning")
    return loop.run()


def load_newest(run_dir: Path, *, reporter: Reporter, world: World) -> Checkpoint | None:
    """The newest whole checkpoint by the first process's choice: all go on from the same one, or none."""
    folder = CheckpointFolder(run_dir / CHECKPOINTS_DIR)
    newest = folder.load_newest(say=reporter.say) if world.is_main else None
    step = world.gather(None if newest is None else newest.step)[0]
    failure = None
    if step is not None and newest is None:
        try:
            newest = folder.load(step)
        except AlbertError as error:
            failure = str(error)
    failures = [found for found in world.gather(failure) if found is not None]
    if failures:
        told = f"{failures[0]}, in one process, while another has read it; see that all reach the same folder"
        raise FileFormatError(told) if world.is_main else EchoError(told)
    return newest


def fetch_weights(model: AlbertModel, world: World) -> dict[str, Tensor]:
    """The weights of a model that may be spread over processes, whole."""
    return {name: world.fetch(tensor).cpu() for name, tensor in model.state_dict().items()}


def load_best(
    run_dir: Path, step: int, *, names: Iterable[str], reporter: Reporter
) -> dict[str, Tensor] | None:
    """The weights of the best evaluation; None, and a word about it, where its checkpoint is damaged."""
    try:
        tensors = CheckpointFolder(run_dir / CHECKPOINTS_DIR).load(step).tensors
    except AlbertError as error:
        reporter.say(f"{error}; the model of the best evaluation, step {step}, is lost")
        return None
    return {name: tensors[f"model.{name}"] for name in names}
