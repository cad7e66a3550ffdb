"""Memory of a training step: shapes and batch sizes come in; peaks of ALBERT and BERT go out, as a page."""

from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt

from albert.model.config import ModelConfig
from albert.report.content import Page
from albert.reporting import Reporter
from albert.study.results import StudyResults, open_results
from albert.study.steps.equal_shapes import Family
from albert.study.steps.machine import describe_machine
from albert.study.steps.memory_page import build_memory_page
from albert.study.steps.memory_results import Case, MemoryPoint, ShapeMemory
from albert.study.steps.pair_settings import PairSettings
from albert.study.steps.step_process import DoesNotFitError, measure_footprint

STUDY = "memory"
# Parts are kept by shape, checkpointing and batch size: more of them may be asked for.
_FREE_KEYS = frozenset({"shapes", "batch_sizes", "checkpointing"})


class MemorySettings(PairSettings):
    """Each of the `batch_sizes`, computed at once, with and without gradient checkpointing.

    No step may take more than `max_gigabytes`; without it, than the system has to give.
    """

    batch_sizes: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (1, 2, 4, 8, 16)
    checkpointing: Annotated[tuple[bool, ...], Field(min_length=1)] = (False, True)
    max_gigabytes: PositiveFloat | None = None


def run_memory(settings: MemorySettings, *, out: Path, reporter: Reporter) -> Page:
    """Measure the steps that are not measured yet, each in a fresh process, and say what follows."""
    pairs = settings.build_pairs()
    machine = describe_machine(num_threads=settings.num_threads)
    with open_results(out, study=STUDY, settings=settings, free_keys=_FREE_KEYS, machine=machine) as results:
        found = [
            measure_shape(shape, pair, settings=settings, results=results, reporter=reporter)
            for shape, pair in pairs.items()
        ]
    return build_memory_page(found, settings=settings, machine=machine)


def measure_shape(
    shape: str,
    pair: dict[Family, ModelConfig],
    *,
    settings: MemorySettings,
    results: StudyResults,
    reporter: Reporter,
) -> ShapeMemory:
    """Every family, way and batch size; of what does not fit, larger batches are not tried.

    What was measured before is told all the same, and what did not fit is tried again by the next start.
    """
    cases = [
        Case(family, is_checkpointed)
        for is_checkpointed in dict.fromkeys(settings.checkpointing)
        for family in pair
    ]
    sizes = sorted(set(settings.batch_sizes))
    points: dict[Case, dict[int, MemoryPoint]] = {case: {} for case in cases}
    for number, case in enumerate(cases):
        is_full = False
        for place, batch_size in enumerate(sizes):
            part = f"{shape}/{case.name}/{batch_size}"
            if is_full and part not in results.parts:
                continue
            share = (number + place / len(sizes)) / len(cases)
            reporter.show(f"{STUDY}, {shape}", f"{case.name}, batches of {batch_size}", fraction=share)
            measure = partial(measure_point, pair[case.family], settings, case=case, batch_size=batch_size)
            point = results.take(
                part, MemoryPoint, measure=measure, has_failed=lambda each: each.footprint is None
            )
            points[case][batch_size] = point
            if point.footprint is None:
                reporter.say(f"{part}: does not fit: {point.failure}")
                is_full = True
    reporter.show(f"{STUDY}, {shape}", f"{len(cases)} ways", fraction=1.0)
    return ShapeMemory(shape, points)


def measure_point(
    config: ModelConfig, settings: MemorySettings, *, case: Case, batch_size: int
) -> MemoryPoint:
    """One step's peak, or why it has none."""
    limit = settings.max_gigabytes
    try:
        return MemoryPoint(
            measure_footprint(
                config,
                batch_size=batch_size,
                length=settings.length,
                optimizer=settings.optimizer,
                gradient_checkpointing=case.is_checkpointed,
                num_steps=settings.num_steps,
                num_threads=settings.num_threads,
                max_bytes=None if limit is None else round(1e9 * limit),
            )
        )
    except DoesNotFitError as error:
        return MemoryPoint(None, str(error))
