"""Table 2's speeds: shapes come in; what ALBERT gains over BERT of each shape goes out, as a page."""

from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt

from albert.model.config import ModelConfig
from albert.report.content import Page
from albert.reporting import Reporter
from albert.study.results import StudyResults, open_results
from albert.study.steps.equal_shapes import FAMILIES, Family, Shape
from albert.study.steps.machine import describe_machine
from albert.study.steps.pair_settings import PairSettings
from albert.study.steps.speed_exchange import Network
from albert.study.steps.speed_page import build_speed_page
from albert.study.steps.speed_results import ShapeSpeed, SpeedRound
from albert.study.steps.step_process import DoesNotFitError, Footprint, measure_footprint

STUDY = "speed"
# Rounds and shapes may be added, and what a network would make of the times is computed anew.
_FREE_KEYS = frozenset({"shapes", "num_rounds", "links_gbit", "latency_seconds", "num_processes"})


class SpeedSettings(PairSettings):
    """Steps of `batch_size` sequences, and forward passes alone, in `num_rounds` rounds of fresh processes.

    The time of a step in data-parallel training is computed from them, for `num_processes` that each take
    such a batch and exchange gradients over links of so many Gbit/s.
    """

    shapes: Annotated[tuple[Shape, ...], Field(min_length=1)] = ("nano", "small", "base")
    batch_size: PositiveInt = 8
    num_rounds: PositiveInt = 5
    num_passes: PositiveInt = 3
    links_gbit: Annotated[tuple[PositiveFloat, ...], Field(min_length=1)] = (1.0, 10.0, 100.0)
    latency_seconds: Annotated[float, Field(ge=0.0)] = 50e-6
    num_processes: Annotated[int, Field(ge=2)] = 64


def run_speed(settings: SpeedSettings, *, out: Path, reporter: Reporter) -> Page:
    """Measure the rounds that are not measured yet, and say what follows."""
    pairs = settings.build_pairs()
    machine = describe_machine(num_threads=settings.num_threads)
    with open_results(out, study=STUDY, settings=settings, free_keys=_FREE_KEYS, machine=machine) as results:
        found = [
            measure_shape(shape, pair, settings=settings, results=results, reporter=reporter)
            for shape, pair in pairs.items()
        ]
    network = Network(settings.num_processes, settings.latency_seconds, settings.links_gbit)
    return build_speed_page(found, settings=settings, network=network, machine=machine)


def measure_shape(
    shape: str,
    pair: dict[Family, ModelConfig],
    *,
    settings: SpeedSettings,
    results: StudyResults,
    reporter: Reporter,
) -> ShapeSpeed:
    """All rounds of a shape; one that does not fit is the last, and the next start tries it again."""
    rounds: list[SpeedRound] = []
    for number in range(settings.num_rounds):
        told = f"round {number + 1} of {settings.num_rounds}, ALBERT and BERT"
        reporter.show(f"{STUDY}, {shape}", told, fraction=number / settings.num_rounds)
        measure = partial(measure_round, pair, settings=settings, number=number)
        part = f"{shape}/round-{number + 1}"
        found = results.take(
            part, SpeedRound, measure=measure, has_failed=lambda each: each.failure is not None
        )
        if found.failure is not None:
            reporter.say(f"{part}: {found.failure}")
            return ShapeSpeed(shape, pair, tuple(rounds), found.failure)
        rounds.append(found)
    reporter.show(f"{STUDY}, {shape}", f"{len(rounds)} rounds", fraction=1.0)
    return ShapeSpeed(shape, pair, tuple(rounds))


def measure_round(pair: dict[Family, ModelConfig], *, settings: SpeedSettings, number: int) -> SpeedRound:
    """Both sides, each in a fresh process; who comes first takes turns, as a machine warms up."""
    footprints: dict[Family, Footprint] = {}
    order = FAMILIES if number % 2 == 0 else FAMILIES[::-1]
    try:
        for family in order:
            footprints[family] = measure_footprint(
                pair[family],
                batch_size=settings.batch_size,
                length=settings.length,
                optimizer=settings.optimizer,
                num_steps=settings.num_steps,
                num_passes=settings.num_passes,
                num_threads=settings.num_threads,
            )
    except DoesNotFitError as error:
        return SpeedRound({}, f"{order[len(footprints)]} does not fit: {error}")
    return SpeedRound(footprints)
