"""The layers study (figure 1): how much each layer changes its input, with and without shared layers.

`_METHOD` describes the measurement and the classification of curves. An oscillating curve must both rise and
fall, because a slow decay also stays level over few layers.

Shapes: T tokens, D hidden width, S sequences, L layers, R draws.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, PositiveInt
from torch import Tensor

from albert.errors import InputError
from albert.files import read_text
from albert.inference.predictor import iter_batches
from albert.model.albert_model import AlbertModel
from albert.model.runtime import select_device
from albert.model.tokens import Tokens
from albert.pretrained.folder import load_model, load_vocabulary
from albert.pretrained.hub import hash_model_files, resolve_source
from albert.progress import Reporter
from albert.report.content import Cell, Chart, Column, Finding, Level, Outcome, Page, Section, Series, Table
from albert.settings import Settings
from albert.study.results import (
    RECIPES_DIR,
    build_table,
    format_interval,
    interval_cell,
    name_models,
    number_cell,
    open_results,
)
from albert.tasks.metrics.intervals import Interval, iter_resamples, summarize_draws
from albert.text.tokenizer import Encoding, InputSequence, Tokenizer

Distance = Literal["l2", "cosine", "angle"]
Trend = Literal["converges", "stays level", "grows", "too few layers"]
Floats = NDArray[np.float64]
STUDY = "layers"
LEVEL, NUM_DRAWS = 0.95, 1000
MIN_LAYERS = 6  # two in each third
CONVERGING_CHANGE, GROWING_CHANGE = 2 / 3, 3 / 2
NEGLIGIBLE = 0.01  # share of the maximum below which a curve has converged
TITLES: dict[Distance, str] = {
    "l2": "L2 distance between a layer's input and output",
    "cosine": "Cosine similarity of a layer's input and output",
    "angle": "Angle between a layer's input and output",
}
UNITS: dict[Distance, str] = {"l2": "L2 distance", "cosine": "cosine", "angle": "angle, degrees"}
COMPARED: dict[Distance, str] = {"l2": "L2 distance", "angle": "angle"}
SMOOTHER = "From layer to layer ALBERT changes more smoothly than BERT of the same depth."
OSCILLATES = "ALBERT's layers oscillate instead of converging to an equilibrium, where they change nothing."
THEIR_SMOOTHER = "ALBERT-large's curves are much smoother than BERT-large's (figure 1)."
THEIR_OSCILLATES = "ALBERT-large's distances fall at first and then stay at a level above 0 (figure 1)."
_FREE_KEYS = frozenset({"text", "texts", "device"})  # texts are in the stamp of a part
_TINY = np.finfo(np.float64).tiny
_MAX_BATCH_TOKENS = 2048  # the states of all layers are in memory
_MANY_UNKNOWN = 0.1
_METHOD = (
    "Each line of the text is a sequence. The input of the first layer is the embeddings, mapped from E to "
    "H. Each layer's input and output are compared for every token, including [CLS] and [SEP]. Values are "
    "means over tokens with 95% bootstrap intervals over sequences.",
    "Roughness is the mean absolute second difference of a curve divided by its mean: 0 for a straight line. "
    "Only models of equal depth are compared, with and without the first layer, whose input is normalized in "
    "BERT but not in ALBERT.",
    "The trend of a curve is the mean of its last third of layers divided by that of its middle third. It "
    f"converges at {CONVERGING_CHANGE:.2f} or less, or if the last third is at most {NEGLIGIBLE:.0%} of the "
    f"maximum. It grows at {GROWING_CHANGE:.2f} or more. Otherwise it stays level; it oscillates if it also "
    f"rises and falls by more than {NEGLIGIBLE:.0%} of the maximum. At least {MIN_LAYERS} layers are needed.",
)


class LayersSettings(Settings):
    """Settings of the layers study.

    Args:
        text: A file with a sequence on each line; by default an English text of the package.
        texts: Other files for some models, by the name of the model as given.
        depth: The number of layers to run; more than a model has only if they share their weights.
        max_length: The maximum length of a sequence in tokens; longer lines are split.
        num_sequences: The maximum number of sequences.
    """

    text: Path | None = None
    texts: dict[str, Path] = Field(default_factory=dict)
    depth: PositiveInt | None = None
    max_length: Annotated[int, Field(ge=8)] = 128
    num_sequences: Annotated[int, Field(ge=2)] = 200
    device: str = "auto"


@dataclass(frozen=True)
class Curve:
    """One distance over the layers: means over tokens, 95% intervals over sequences, and its shape.

    `inner_roughness` is without the first layer; `change` is the mean of the last third over the middle one.
    """

    means: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    roughness: Interval | None
    inner_roughness: Interval | None
    change: Interval | None

    @property
    def trend(self) -> Trend:
        return name_trend(None if self.change is None else self.change.value)


@dataclass(frozen=True)
class ModelCurves:
    """The curves of a model, and the size of its text."""

    sharing: str
    num_hidden_layers: int
    hidden_size: int
    num_sequences: int
    num_tokens: int
    unknown_share: float
    curves: dict[Distance, Curve]

    @property
    def depth(self) -> int:
        """The number of layers that were run."""
        return len(self.curves["l2"].means)


Models = Mapping[str, ModelCurves]


def run_layers(settings: LayersSettings, *, models: Sequence[str], out: Path, reporter: Reporter) -> Page:
    """Measure the models that are not in `out` yet, and compare all of them."""
    models = list(dict.fromkeys(models))
    unknown = next((model for model in settings.texts if model not in models), None)
    if unknown is not None:
        raise InputError(f"texts has the unknown model {unknown!r}; models: {', '.join(models)}")
    curves: dict[str, ModelCurves] = {}
    with open_results(out, study=STUDY, settings=settings, free_keys=_FREE_KEYS) as results:
        for number, (model, name) in enumerate(zip(models, name_models(models), strict=True)):
            reporter.show(STUDY, name, fraction=number / len(models))
            lines = _read_lines(settings.texts.get(model, settings.text))
            path = resolve_source(model)
            stamp = hashlib.sha256(repr([hash_model_files(path), lines]).encode()).hexdigest()
            measure = partial(measure_model, model, lines=lines, settings=settings, reporter=reporter)
            curves[name] = results.get_or_measure(str(path), ModelCurves, measure, stamp)
    return build_page(curves)


def _read_lines(path: Path | None) -> list[str]:
    text = read_text(path or RECIPES_DIR / "layers.txt")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{path}: is empty; give a file with a sequence on each line")
    return lines


def measure_model(
    source: str, *, lines: Sequence[str], settings: LayersSettings, reporter: Reporter
) -> ModelCurves:
    """Measure the distances of one model."""
    pretrained = load_model(source, heads={}, device=select_device(settings.device))
    config, tokenizer = pretrained.config, load_vocabulary(pretrained.path)
    max_length = min(settings.max_length, config.max_position_embeddings)
    sequences = split_lines(lines, tokenizer, max_length=max_length, num_sequences=settings.num_sequences)
    if len(sequences) < 2:
        raise InputError(f"{source}: its text has only 1 sequence; give a text with several lines")
    depth = settings.depth or config.num_hidden_layers
    if depth > config.num_hidden_layers and not config.is_fully_shared:
        depth = config.num_hidden_layers
        reporter.say(f"{source}: running {depth}, not {settings.depth} layers, because they are not shared")
    sums_SL = sum_distances(pretrained.model, sequences, depth=depth)
    counts_S = np.array([len(sequence.ids) for sequence in sequences], np.float64)
    num_unknown = sum(sequence.ids.count(tokenizer.unk_id) for sequence in sequences)
    num_tokens = int(counts_S.sum())
    return ModelCurves(
        **config.model_dump(include={"sharing", "num_hidden_layers", "hidden_size"}),
        num_sequences=len(sequences),
        num_tokens=num_tokens,
        unknown_share=num_unknown / num_tokens,
        curves={name: build_curve(sums, counts_S) for name, sums in sums_SL.items()},
    )


def split_lines(
    lines: Sequence[str], tokenizer: Tokenizer, *, max_length: int, num_sequences: int
) -> list[InputSequence]:
    """Build a sequence of each line, or several if it is too long."""
    size = max_length - 2  # [CLS] and [SEP]
    sequences: list[InputSequence] = []
    for encoding in tokenizer.encode_batch(lines[:num_sequences]):
        for start in range(0, len(encoding.ids), size):
            part = Encoding(encoding.ids[start : start + size], encoding.spans[start : start + size])
            sequences.append(tokenizer.build_sequence(part))
    return sequences[:num_sequences]


@torch.inference_mode()
def sum_distances(
    model: AlbertModel, sequences: Sequence[InputSequence], *, depth: int
) -> dict[Distance, Floats]:
    """Sum the distances over the tokens of each sequence, [S, L]; layer 1 reads the mapped embeddings."""
    sums_SL: dict[Distance, Floats] = {name: np.zeros((len(sequences), depth)) for name in TITLES}
    for batch in iter_batches([len(each.ids) for each in sequences], max_tokens=_MAX_BATCH_TOKENS):
        rows = [sequences[i] for i in batch]
        tokens = Tokens.from_lists(
            [row.ids for row in rows], [row.segments for row in rows], device=model.device
        )
        states = model(tokens, depth=depth, with_hidden_states=True).hidden_states
        for layer, (before_TD, after_TD) in enumerate(pairwise(states)):
            # On the CPU, because not every device supports float64.
            for name, values_T in compare_states(before_TD.cpu(), after_TD.cpu()).items():
                sums_SL[name][batch, layer] = [float(part.sum()) for part in values_T.split(tokens.lengths)]
    return sums_SL


def compare_states(before_TD: Tensor, after_TD: Tensor) -> dict[Distance, Tensor]:
    """Compute the L2 distance, cosine and angle in degrees between two states of each token, in float64."""
    before_TD, after_TD = before_TD.double(), after_TD.double()
    sizes_T = before_TD.norm(dim=-1) * after_TD.norm(dim=-1)
    cosine_T = ((before_TD * after_TD).sum(-1) / sizes_T.clamp_min(1e-300)).clamp(-1.0, 1.0)
    l2_T = (after_TD - before_TD).norm(dim=-1)
    return {"l2": l2_T, "cosine": cosine_T, "angle": cosine_T.arccos().rad2deg()}


def build_curve(sums_SL: Floats, counts_S: Floats, *, seed: int = 0) -> Curve:
    """Average over all tokens, with bootstrap intervals over sequences for the curve and its shape."""
    means_L = sums_SL.sum(0) / counts_S.sum()
    draws = iter_resamples(len(counts_S), seed=seed, num_resamples=NUM_DRAWS)
    times_RS = np.stack([np.bincount(rows, minlength=len(counts_S)) for rows in draws])
    means_RL = times_RS @ sums_SL / (times_RS @ counts_S)[:, None]
    lows, highs = np.quantile(means_RL, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)

    def summarize(find: Callable[[Floats], Floats | None], *, first: int = 0) -> Interval | None:
        value, draws = find(means_L[first:]), find(means_RL[:, first:])
        if value is None or draws is None:
            return None
        return summarize_draws(float(value), draws=draws, level=LEVEL)

    return Curve(
        means=tuple(means_L.tolist()),
        lows=tuple(lows.tolist()),
        highs=tuple(highs.tolist()),
        roughness=summarize(find_roughness),
        inner_roughness=summarize(find_roughness, first=1),
        change=summarize(compare_thirds),
    )


def find_roughness(heights: Floats) -> Floats | None:
    """Divide the mean absolute second difference by the mean; None for fewer than three layers."""
    if heights.shape[-1] < 3:
        return None
    bends = np.abs(np.diff(heights, n=2)).mean(-1)
    return np.asarray(bends / np.maximum(np.abs(heights).mean(-1), _TINY))


def compare_thirds(heights: Floats) -> Floats | None:
    """Divide the mean of the last third by that of the middle third; None for too few layers."""
    third = heights.shape[-1] // 3
    if heights.shape[-1] < MIN_LAYERS:
        return None
    before, after = heights[..., third:-third].mean(-1), heights[..., -third:].mean(-1)
    is_negligible = after <= NEGLIGIBLE * heights.max(-1)
    return np.where(is_negligible, 0.0, after / np.maximum(before, _TINY))


def name_trend(change: float | None) -> Trend:
    """Classify a curve by its `change`."""
    if change is None:
        return "too few layers"
    if change <= CONVERGING_CHANGE:
        return "converges"
    return "grows" if change >= GROWING_CHANGE else "stays level"


def has_oscillation(heights: Floats) -> bool:
    """Return whether a curve both rises and falls after its first third, by a non-negligible share."""
    rest = heights[len(heights) // 3 :]
    rise = (rest - np.minimum.accumulate(rest)).max()
    fall = (np.maximum.accumulate(rest) - rest).max()
    return bool(min(rise, fall) > NEGLIGIBLE * heights.max())


def build_page(models: Models) -> Page:
    """Build the report of all models."""
    trends = [f"{name} {found.curves['l2'].trend} ({found.depth} layers)" for name, found in models.items()]
    warnings = []
    deeper = [name for name, found in models.items() if found.depth > found.num_hidden_layers]
    if deeper:
        warnings.append(f"Run with more layers than they were trained with: {', '.join(deeper)}.")
    shares = {name: each.unknown_share for name, each in models.items() if each.unknown_share > _MANY_UNKNOWN}
    if shares:
        unknown = ", ".join(f"{name} ({share:.0%})" for name, share in shares.items())
        warnings.append(
            f"Many tokens are unknown to the vocabulary: {unknown}. Set a text in the model's language, as "
            "in texts={MODEL: FILE}."
        )
    lead = f"Figure 1 of the paper: how much each layer changes its input. L2 distance: {'; '.join(trends)}."
    findings, tables = list_findings(models), [_build_model_table(models)]
    sections = [
        Section("Claims of the paper and measurements", warnings, findings, tables),
        Section("Layer by layer", charts=[_draw(name, models) for name in TITLES]),
        Section("How it was measured", _METHOD, tables=[_build_layer_table(models)]),
    ]
    return Page("Input and output of each layer", lead, sections)


def _build_model_table(models: Models) -> Table:
    rows = []
    for name, found in models.items():
        row = {
            Column("model"): Cell(name),
            Column("sharing"): Cell(found.sharing),
            Column("layers run", True): Cell.number(found.depth),
            Column("layers", True, "of the model"): Cell.number(found.num_hidden_layers),
            Column("hidden size", True): Cell.number(found.hidden_size),
        }
        for distance, title in COMPARED.items():
            curve, short = found.curves[distance], title.removesuffix(" distance")
            row |= {
                Column(title, True, "mean over layers"): number_cell(sum(curve.means) / len(curve.means)),
                Column(f"roughness, {short}", True): interval_cell(curve.roughness),
                Column(f"inner roughness, {short}", True): interval_cell(curve.inner_roughness),
                Column(f"change, {short}", True, "last over middle third"): interval_cell(curve.change),
                Column(f"trend, {short}"): Cell(curve.trend),
            }
        row[Column("sequences", True)] = Cell.number(found.num_sequences)
        row[Column("tokens", True)] = Cell.number(found.num_tokens)
        rows.append(row)
    return build_table("models", rows, note="In brackets: 95% intervals over sequences.")


def _draw(distance: Distance, models: Models) -> Chart:
    series, texts = [], []
    for name, found in models.items():
        curve = found.curves[distance]
        is_deeper = found.depth > found.num_hidden_layers
        label = f"{name} (trained with {found.num_hidden_layers})" if is_deeper else name
        layers = [float(layer) for layer in range(1, found.depth + 1)]
        series.append(Series(label, layers, curve.means, curve.lows, curve.highs))
        texts.append(f"{label}: {curve.means[0]:.3g} at the first layer, {curve.means[-1]:.3g} at the last")
    name, title, unit = f"layers-{distance}", TITLES[distance], UNITS[distance]
    levels = () if distance == "cosine" else [Level(0.0, "equilibrium")]
    return Chart(name, title, "layer", unit, series, levels=levels, caption=f"{'; '.join(texts)}.")


def _build_layer_table(models: Models) -> Table:
    rows = []
    for name, found in models.items():
        for layer in range(found.depth):
            row = {Column("model"): Cell(name), Column("layer", True): Cell.number(layer + 1)}
            for distance, curve in found.curves.items():
                interval = Interval(curve.means[layer], curve.lows[layer], curve.highs[layer], LEVEL)
                row[Column(UNITS[distance], True, TITLES[distance])] = interval_cell(interval)
            rows.append(row)
    return build_table("layers", rows, note="Means over tokens; in brackets 95% intervals over sequences.")


def list_findings(models: Models) -> list[Finding]:
    """Evaluate the paper's two claims, for each pair of models of equal depth and for each ALBERT."""
    alberts = {name: found for name, found in models.items() if found.sharing == "all"}
    berts = {name: found for name, found in models.items() if found.sharing == "none"}
    pairs = product(alberts.items(), berts.items())
    smoother = [_compare_roughness(*a, *b) for a, b in pairs if a[1].depth == b[1].depth > 2]
    if not alberts or not berts:
        text = f"No {'BERT' if alberts else 'ALBERT'} was given."
        smoother = [Finding(SMOOTHER, THEIR_SMOOTHER, text, "not tested")]
    elif not smoother:
        depths = ", ".join(f"{name} {found.depth}" for name, found in {**alberts, **berts}.items())
        text = f"No ALBERT and BERT have the same number of layers, at least 3 ({depths}); set depth."
        smoother = [Finding(SMOOTHER, THEIR_SMOOTHER, text, "inconclusive")]
    none = Finding(OSCILLATES, THEIR_OSCILLATES, "No ALBERT was given.", "not tested")
    return [*smoother, *([_compare_trend(*item) for item in alberts.items()] or [none])]


def _compare_roughness(albert_name: str, albert: ModelCurves, bert_name: str, bert: ModelCurves) -> Finding:
    """Agree if no intervals overlap and ALBERT is always smoother; disagree if BERT always is."""
    texts, signs = [], []
    for distance, title in COMPARED.items():
        ours, theirs = albert.curves[distance], bert.curves[distance]
        for name, mine, other in (
            (title, ours.roughness, theirs.roughness),
            ("without the first layer", ours.inner_roughness, theirs.inner_roughness),
        ):
            if mine is not None and other is not None:
                texts.append(f"{name} {format_interval(mine)} against {format_interval(other)}")
                signs.append((mine.low > other.high) - (mine.high < other.low))
    text = f"{albert_name} against {bert_name}, {albert.depth} layers, roughness: {'; '.join(texts)}."
    outcome: Outcome = "inconclusive"
    if len(set(signs)) == 1 and signs[0] != 0:
        outcome = "agrees" if signs[0] < 0 else "disagrees"
    return Finding(SMOOTHER, THEIR_SMOOTHER, text, outcome)


def _compare_trend(name: str, found: ModelCurves) -> Finding:
    """Agree if all curves, with their intervals, stay level and oscillate; disagree if none does."""
    curves = {title: found.curves[distance] for distance, title in COMPARED.items()}
    trends: set[Trend] = set()
    texts = []
    for title, curve in curves.items():
        text = f"{title} {curve.trend}"
        trends.add(curve.trend)
        if curve.trend == "stays level":
            text += f" with{'' if has_oscillation(np.array(curve.means)) else 'out'} oscillation"
        if curve.change is not None:
            trends |= {name_trend(curve.change.low), name_trend(curve.change.high)}
            text += f", last third over middle third {format_interval(curve.change)}"
        texts.append(text)
    ours = f"{name}, {found.depth} layers (trained with {found.num_hidden_layers}): {'; '.join(texts)}."
    if found.depth < MIN_LAYERS:
        ours += f" At least {MIN_LAYERS} layers are needed; set depth."
    outcome: Outcome = "inconclusive"
    if trends == {"stays level"} and all(has_oscillation(np.array(curve.means)) for curve in curves.values()):
        outcome = "agrees"
    elif trends in ({"converges"}, {"grows"}):
        outcome = "disagrees"
    return Finding(OSCILLATES, THEIR_OSCILLATES, ours, outcome)
