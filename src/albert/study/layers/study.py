"""Figure 1: models and a text come in; how far each layer moves each token goes out, as a page."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, PositiveInt

from albert.errors import InputError
from albert.files import read_text
from albert.model.config import ModelConfig
from albert.model.runtime import select_device
from albert.pretrained.folder import load_model, load_vocabulary
from albert.pretrained.hub import resolve_source, stamp_model
from albert.progress import Reporter
from albert.report.content import Page
from albert.settings import Settings
from albert.study.asking import name_models
from albert.study.layers.report import build_page
from albert.study.layers.states import DISTANCES, ModelCurves, draw_curve, sum_distances
from albert.study.results import open_results
from albert.text.tokenizer import Encoding, InputSequence, Tokenizer

STUDY = "layers"
# What a kept measurement was made of is told by its stamp.
_FREE_KEYS = frozenset({"text", "texts", "device"})


class LayersSettings(Settings):
    """What is read, and how deep.

    `text` is a file with a sequence on each line; without one, some English that comes with the package.
    `texts` has another file for a model of another language, by its name as given. A line of more than
    `max_length` pieces becomes several sequences, and no more than `num_sequences` are read. `depth` runs
    fewer layers, or, where they are all one block, more loops than the model was trained with.
    """

    text: Path | None = None
    texts: dict[str, Path] = Field(default_factory=dict)
    depth: PositiveInt | None = None
    max_length: Annotated[int, Field(ge=8)] = 128
    num_sequences: Annotated[int, Field(ge=2)] = 200
    device: str = "auto"


@dataclass(frozen=True)
class Reading:
    """A text as sequences of a model, and how many of their pieces its vocabulary does not know."""

    sequences: tuple[InputSequence, ...]
    num_unknown: int

    @property
    def num_pieces(self) -> int:
        """With [CLS] and [SEP]."""
        return sum(len(sequence.ids) for sequence in self.sequences)


def run_layers(settings: LayersSettings, *, models: Sequence[str], out: Path, reporter: Reporter) -> Page:
    """Measure every model that is not measured yet, and lay all of them side by side."""
    _reject_repeated(models)
    names = dict(zip(models, name_models(models), strict=True))
    strangers = sorted(settings.texts.keys() - set(models))
    if strangers:
        raise InputError(f"texts has {strangers[0]!r}, which is none of the models: {', '.join(models)}")
    found: dict[str, ModelCurves] = {}
    with open_results(out, study=STUDY, settings=settings, free_keys=_FREE_KEYS) as results:
        for number, model in enumerate(models):
            reporter.show(STUDY, names[model], fraction=number / len(models))
            lines = _read_lines(settings.texts.get(model, settings.text))
            measure = partial(measure_model, model, lines=lines, settings=settings, reporter=reporter)
            place = resolve_source(model)
            found[names[model]] = results.take(
                str(place), ModelCurves, measure=measure, stamp=_stamp(place, lines)
            )
    reporter.show(STUDY, f"{len(models)} models", fraction=1.0)
    return build_page(found)


def measure_model(
    source: str, *, lines: Sequence[str], settings: LayersSettings, reporter: Reporter
) -> ModelCurves:
    """The distances of one model, with all that a reader must know of it."""
    pretrained = load_model(source, heads={}, device=select_device(settings.device))
    config = pretrained.config
    reading = read_sequences(
        lines,
        load_vocabulary(pretrained.path),
        max_length=min(settings.max_length, config.max_position_embeddings),
        num_sequences=settings.num_sequences,
    )
    if len(reading.sequences) < 2:
        raise InputError(
            f"{source}: its text is {len(reading.sequences)} sequence, and an interval needs at least 2; "
            "give a text of several lines"
        )
    depth = _find_depth(config, settings.depth)
    if settings.depth is not None and depth < settings.depth:
        reporter.say(f"{source}: {depth} distinct layers cannot run {settings.depth} times; {depth} are run")
    sums_SL = sum_distances(pretrained.model, reading.sequences, depth=depth)
    counts_S = np.array([len(sequence.ids) for sequence in reading.sequences], np.float64)
    return ModelCurves(
        sharing=config.sharing,
        num_hidden_layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        num_sequences=len(reading.sequences),
        num_pieces=reading.num_pieces,
        unknown_share=reading.num_unknown / reading.num_pieces,
        curves={name: draw_curve(sums_SL[name], counts_S) for name in DISTANCES},
    )


def _find_depth(config: ModelConfig, asked: int | None) -> int:
    """As deep as asked for; layers of their own cannot run more often than they are."""
    own = config.num_hidden_layers
    if asked is None:
        return own
    return asked if config.is_fully_shared else min(asked, own)


def read_sequences(
    lines: Sequence[str], tokenizer: Tokenizer, *, max_length: int, num_sequences: int
) -> Reading:
    """Each line as one sequence, or as several where it is longer than a model may read."""
    room = max_length - 2  # [CLS] and [SEP]
    sequences: list[InputSequence] = []
    for encoding in tokenizer.encode_batch(lines[:num_sequences]):
        for start in range(0, len(encoding.ids), room):
            part = Encoding(encoding.ids[start : start + room], encoding.spans[start : start + room])
            sequences.append(tokenizer.build_sequence(part))
    kept = tuple(sequences[:num_sequences])
    return Reading(kept, sum(sequence.ids.count(tokenizer.unk_id) for sequence in kept))


def _reject_repeated(models: Sequence[str]) -> None:
    if not models:
        raise InputError("no model is given; give at least one folder, run or name on the hub")
    repeated = [model for model in models if list(models).count(model) > 1]
    if repeated:
        raise InputError(f"the model {repeated[0]!r} is given more than once; once is enough")


def _read_lines(path: Path | None) -> list[str]:
    if path is None:
        text = (resources.files("albert") / "recipes" / "study" / "layers.txt").read_text(encoding="utf-8")
    else:
        text = read_text(path)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{path}: has no line of text; give a file with a sequence on each line")
    return lines


def _stamp(place: Path, lines: Sequence[str]) -> str:
    """What a measurement was made of: the text, and the files of the model by their content."""
    return hashlib.sha256(repr([stamp_model(place), list(lines)]).encode()).hexdigest()
