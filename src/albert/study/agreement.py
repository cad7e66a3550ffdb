"""Score masked language models on minimal pairs of English grammar (BLiMP; Warstadt et al. 2020).

A model is correct if the acceptable sentence has the higher pseudo-log-likelihood (PLL): each token is masked
in turn, and the log-probabilities of the masked tokens are summed (Salazar et al. 2020). The later tokens of
the same word are masked, too, because a partly visible word is easy to complete (Kauf and Ivanova 2023).
Shapes: M masked tokens, D hidden width.
"""

import hashlib
import json
import re
import tarfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Annotated

import torch
from pydantic import Field, TypeAdapter, ValidationError
from torch.nn.functional import cross_entropy

from albert.errors import AlbertError, FileFormatError, InputError, WriteError, suggest
from albert.files import write_text
from albert.inference.predictor import MAX_BATCH_TOKENS, iter_batches
from albert.model.albert_model import AlbertModel
from albert.model.runtime import select_device
from albert.model.tokens import Tokens
from albert.pretrained.folder import NewWeightsWarning, load_model
from albert.pretrained.hub import hash_model_files, resolve_source
from albert.progress import Reporter
from albert.report.content import Cell, Chart, Column, Level, Page, Section, Series, Table
from albert.settings import Settings
from albert.study.results import (
    MISSING,
    RECIPES_DIR,
    RESULTS_NAME,
    name_models,
    open_results,
    reject_other_files,
)
from albert.tasks.metrics.intervals import bootstrap_mean, find_wilson
from albert.tasks.models import load_own_vocabulary
from albert.text.tokenizer import Encoding, Tokenizer

STUDY, PAIRS_NAME, SAMPLE_NAME = "agreement", "pairs.jsonl", "minimal-pairs.jsonl"
_CHUNK_PAIRS = 64  # tokenized and masked at a time
_NUM_WORST = 10
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


class AgreementSettings(Settings):
    """Settings of the study of minimal pairs.

    Args:
        seed: The seed by which pairs are drawn.
        num_pairs: The maximum number of pairs of each paradigm (a file of BLiMP); None for all.
        phenomena: The phenomena (`linguistics_term`) to score; all by default.
        depth: The number of layers to run; more than a model has only if they share their weights.
    """

    seed: Annotated[int, Field(ge=0)] = 0
    num_pairs: Annotated[int, Field(ge=1)] | None = 200
    phenomena: tuple[str, ...] = ()
    depth: Annotated[int, Field(ge=1)] | None = None


@dataclass(frozen=True)
class MinimalPair:
    """A minimal pair, with the fields of BLiMP."""

    sentence_good: str
    sentence_bad: str
    field: str
    linguistics_term: str
    UID: str


Pairs = Sequence[MinimalPair]
Show = Callable[[int], object]  # called with the number of pairs scored so far
_PAIR = TypeAdapter(MinimalPair)


@dataclass(frozen=True)
class ModelScores:
    """The margins of a model: PLL(good) − PLL(bad) of each pair, None for pairs with unknown tokens."""

    source: str
    seconds: float
    margins: tuple[float | None, ...]


Margins = Mapping[str, Sequence[float | None]]  # by model


@dataclass(frozen=True)
class Accuracy:
    """The number of correct pairs among those that were scored."""

    num_correct: int
    num_pairs: int

    @classmethod
    def count(cls, margins: Iterable[float | None]) -> "Accuracy":
        scored = [margin for margin in margins if margin is not None]
        return cls(sum(margin > 0 for margin in scored), len(scored))

    @property
    def share(self) -> float:
        return self.num_correct / self.num_pairs

    @property
    def cell(self) -> Cell:
        """The percentage with its 95% interval, as in `87.5 (82.1–91.4)`; empty without pairs."""
        if not self.num_pairs:
            return MISSING
        low, high = (100.0 * end for end in find_wilson(self.num_correct, self.num_pairs))
        return Cell(f"{100.0 * self.share:.1f} ({low:.1f}–{high:.1f})", 100.0 * self.share, low, high)


def run_agreement(
    settings: AgreementSettings, *, models: Sequence[str], out: Path, reporter: Reporter, data: str | None
) -> Page:
    """Score each model on the same pairs and build the report.

    Scores of models whose files and pairs are unchanged are read from `out`. A model that cannot be scored is
    reported and skipped.

    Args:
        settings: Settings of the study.
        models: Folders, runs or hub names.
        out: The folder of the study.
        reporter: Receives progress and warnings.
        data: BLiMP as a folder, a .jsonl file, or a tar or zip archive; the built-in sample by default.
    """
    sources = list(dict.fromkeys(models))
    pairs = read_pairs(data, settings)
    pairs_text = format_pairs(pairs)
    scores: list[ModelScores] = []
    skipped: list[str] = []
    if not (out / RESULTS_NAME).exists():
        reject_other_files(out)
    with open_results(out, study=STUDY, settings=settings) as results:
        write_text(out / PAIRS_NAME, pairs_text)
        for source in sources:
            reporter.show(STUDY, source)
            measure = partial(_score_model, source, pairs, settings.depth, reporter)
            try:
                files = repr(hash_model_files(resolve_source(source)))
                stamp = hashlib.sha256((pairs_text + files).encode()).hexdigest()
                scores.append(results.get_or_measure(source, ModelScores, measure, stamp))
            except WriteError:
                raise
            except AlbertError as error:
                skipped.append(str(error) if source in str(error) else f"{source}: {error}")
                reporter.say(f"skipped {skipped[-1]}")
    if not scores:
        raise InputError(f"cannot score any of {len(sources)} models. The first: {skipped[0]}")
    name = "the built-in sample (not BLiMP)" if data is None else Path(data).name
    return _build_page(pairs, scores, settings, skipped, name)


def read_pairs(data: str | None = None, settings: AgreementSettings | None = None) -> list[MinimalPair]:
    """Read minimal pairs, sorted by field, phenomenon and paradigm; by default all of the sample."""
    pairs: list[MinimalPair] = []
    for name, content in _iter_files(RECIPES_DIR / SAMPLE_NAME if data is None else Path(data)):
        for number, line in enumerate(content.decode("utf-8", errors="replace").split("\n"), start=1):
            if line.strip():
                pairs.append(_parse_pair(line, where=f"{name}, line {number}"))
    if not pairs:
        raise FileFormatError(
            f"{data}: has no minimal pairs; give the folder or archive of BLiMP's .jsonl files"
        )
    settings = settings or AgreementSettings(num_pairs=None)
    terms = sorted({pair.linguistics_term for pair in pairs})
    for term in settings.phenomena:
        if term not in terms:
            raise InputError(f"unknown phenomenon {term!r}; {suggest(term, terms, lead='phenomena:')}")
    selected = set(settings.phenomena or terms)
    key = lambda pair: (pair.field, pair.linguistics_term, pair.UID)  # noqa: E731
    pairs = sorted((pair for pair in pairs if pair.linguistics_term in selected), key=key)
    drawn: list[MinimalPair] = []
    for (_, _, paradigm), group in groupby(pairs, key=key):
        rows = list(group)
        size = min(len(rows), settings.num_pairs or len(rows))
        chosen = Random(f"{paradigm} {settings.seed}").sample(range(len(rows)), size)
        drawn += [rows[index] for index in sorted(chosen)]
    return drawn


def _iter_files(data: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of a file, or of each .jsonl file of a folder or archive."""
    if not data.exists():
        raise FileFormatError(f"{data}: does not exist; give the folder or archive of BLiMP's .jsonl files")
    if data.is_dir():
        yield from ((str(path), path.read_bytes()) for path in sorted(data.rglob("*.jsonl")))
    elif tarfile.is_tarfile(data):
        with tarfile.open(data) as archive:
            for member in archive:
                file = archive.extractfile(member) if member.name.endswith(".jsonl") else None
                if file is not None:
                    yield f"{data}/{member.name}", file.read()
    elif zipfile.is_zipfile(data):
        with zipfile.ZipFile(data) as archive:
            names = [name for name in archive.namelist() if name.endswith(".jsonl")]
            yield from ((f"{data}/{name}", archive.read(name)) for name in names)
    else:
        yield str(data), data.read_bytes()


def _parse_pair(line: str, *, where: str) -> MinimalPair:
    try:
        pair: MinimalPair = _PAIR.validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        raise FileFormatError(
            f"{where}: is not a minimal pair ({'.'.join(map(str, first['loc']))} {first['msg']}); give files "
            "of BLiMP, with one JSON object on each line"
        ) from error
    return replace(pair, field=pair.field.replace("/", "_"))  # BLiMP has two spellings of one field


def format_pairs(pairs: Pairs) -> str:
    """Format pairs as JSON lines."""
    return "".join(f"{json.dumps(asdict(pair), ensure_ascii=False)}\n" for pair in pairs)


def _score_model(source: str, pairs: Pairs, depth: int | None, reporter: Reporter) -> ModelScores:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NewWeightsWarning)
        pretrained = load_model(source, device=select_device())
    tokenizer = load_own_vocabulary(pretrained.path, pretrained.config)

    def show(num_done: int) -> None:
        text = f"{source}: {num_done:,} of {len(pairs):,} pairs"
        reporter.show(STUDY, text, fraction=num_done / len(pairs))

    margins = score_pairs(pretrained.model, tokenizer, pairs, depth=depth, show=show)
    rounded = tuple(None if margin is None else round(margin, 5) for margin in margins)
    return ModelScores(source, round(time.perf_counter() - start, 3), rounded)


def score_pairs(
    model: AlbertModel, tokenizer: Tokenizer, pairs: Pairs, *, depth: int | None = None, show: Show = int
) -> list[float | None]:
    """Compute PLL(good) − PLL(bad) of each pair; None for pairs with unknown tokens."""
    model.head("mlm")  # raises an error if it is missing
    model.eval()
    margins: list[float | None] = []
    for start in range(0, len(pairs), _CHUNK_PAIRS):
        chunk = pairs[start : start + _CHUNK_PAIRS]
        sentences = [text for pair in chunk for text in (pair.sentence_good, pair.sentence_bad)]
        scores = score_sentences(model, tokenizer, sentences, depth=depth)
        for good, bad in zip(scores[::2], scores[1::2], strict=True):
            margins.append(None if good is None or bad is None else good - bad)
        show(len(margins))
    if all(margin is None for margin in margins):
        raise InputError(
            f"all {len(pairs):,} pairs have words that are not in the vocabulary; give a model of English"
        )
    return margins


@torch.inference_mode()
def score_sentences(
    model: AlbertModel, tokenizer: Tokenizer, sentences: Sequence[str], *, depth: int | None = None
) -> list[float | None]:
    """Compute the PLL of each sentence; None if it has unknown tokens."""
    scores: list[float | None] = []
    masked: list[tuple[int, tuple[int, ...], int]] = []  # sentence, ids with masks, id of the first mask
    for index, (text, encoding) in enumerate(zip(sentences, tokenizer.encode_batch(sentences), strict=True)):
        is_known = tokenizer.unk_id not in encoding.ids
        scores.append(0.0 if is_known else None)
        if is_known:
            masked += [(index, ids, target) for ids, target in _iter_masked(text, encoding, tokenizer)]
    for batch in iter_batches([len(ids) for _, ids, _ in masked], max_tokens=MAX_BATCH_TOKENS):
        rows = [masked[index] for index in batch]
        tokens = Tokens.from_lists([ids for _, ids, _ in rows], device=model.device)
        first_masks = torch.tensor([ids.index(tokenizer.mask_id) for _, ids, _ in rows], device=model.device)
        states_MD = model(tokens, depth=depth, indices_P=tokens.first_B + first_masks).last_TD
        targets_M = torch.tensor([target for *_, target in rows], device=model.device)
        losses_M = cross_entropy(model.mlm_logits(states_MD).float(), targets_M, reduction="none")
        for (index, _, _), loss in zip(rows, losses_M.tolist(), strict=True):
            scores[index] = (scores[index] or 0.0) - loss
    return scores


def _iter_masked(
    text: str, encoding: Encoding, tokenizer: Tokenizer
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield for each token the sentence with it and the later tokens of its word masked, and its id."""
    ends = {start: match.end() for match in _WORD.finditer(text) for start in range(*match.span())}
    starts = [start for start, _ in encoding.spans]
    for position, target in enumerate(encoding.ids):
        end = ends.get(starts[position], -1)
        ids = [
            tokenizer.mask_id if later == position or (later > position and start < end) else token
            for later, (token, start) in enumerate(zip(encoding.ids, starts, strict=True))
        ]
        yield (tokenizer.cls_id, *ids, tokenizer.sep_id), target


def score_sample(model: AlbertModel, tokenizer: Tokenizer) -> Accuracy:
    """Score a model on the built-in sample."""
    return Accuracy.count(score_pairs(model, tokenizer, read_pairs()))


def _build_page(
    pairs: Pairs, models: Sequence[ModelScores], settings: AgreementSettings, skipped: list[str], data: str
) -> Page:
    names = name_models([each.source for each in models])
    margins = {name: each.margins for name, each in zip(names, models, strict=True)}
    totals = {name: Accuracy.count(each) for name, each in margins.items()}
    best = max(totals, key=lambda name: totals[name].share)
    phenomena = _build_table("agreement", "phenomenon", [p.linguistics_term for p in pairs], margins)
    fields = _build_table("fields", "field", [pair.field for pair in pairs], margins)
    paradigms = _build_table("paradigms", "paradigm", [pair.UID for pair in pairs], margins)
    depth = "" if settings.depth is None else f" Models run {settings.depth} layers."
    lines = [
        "A model is correct on a pair where the acceptable sentence has the higher pseudo-log-likelihood. "
        f"Intervals are 95% (Wilson); an accuracy whose interval includes 50 may be chance.{depth}"
    ]
    for name, each in zip(margins, models, strict=True):
        num_scored = totals[name].num_pairs
        lines.append(
            f"{name}: {num_scored:,} pairs scored, {len(pairs) - num_scored:,} skipped because of unknown "
            f"tokens ({each.seconds:.1f} s)."
        )
    lines += [f"Skipped: {reason}" for reason in skipped]
    worst = [
        _build_worst_table(f"worst-{number}", name, pairs, each)
        for number, (name, each) in enumerate(margins.items(), start=1)
    ]
    chart, about = _build_chart(phenomena, names), "The incorrect pairs with the largest difference of PLL."
    sections = [
        Section("Accuracy by phenomenon", lines, tables=[phenomena, fields], charts=[chart]),
        *_compare_models(margins, seed=settings.seed),
        Section("Accuracy by paradigm", tables=[paradigms]),
        Section("Largest errors", [about], tables=worst),
    ]
    lead = (
        f"{len(pairs):,} minimal pairs of {len(phenomena.rows) - 1} phenomena, from {data}. "
        f"The best model is {best}: {100.0 * totals[best].share:.1f}% correct. Chance is 50%."
    )
    return Page("Minimal pairs of English grammar", lead, sections)


def _build_table(name: str, title: str, keys: Sequence[str], margins: Margins) -> Table:
    rows = []
    for key in [*sorted(set(keys)), None]:
        chosen = [index for index, each in enumerate(keys) if key is None or each == key]
        cells = [Accuracy.count(each[index] for index in chosen).cell for each in margins.values()]
        rows.append([Cell(key or "all pairs"), Cell.number(len(chosen)), *cells])
    columns = [Column(title), Column("pairs", True)]
    columns += [Column(model, True, "% correct (95% interval)") for model in margins]
    return Table(name, columns, rows, strong_rows=[len(rows) - 1])


def _build_chart(table: Table, models: Sequence[str]) -> Chart:
    rows = table.rows[:-1]
    series = []
    for number, model in enumerate(models, start=2):
        points = [(x, row[number]) for x, row in enumerate(rows) if row[number].value is not None]
        ys, lows, highs = ([getattr(cell, end) for _, cell in points] for end in ("value", "low", "high"))
        series.append(Series(model, xs=[x for x, _ in points], ys=ys, lows=lows, highs=highs))
    totals = "; ".join(f"{model} {cell.text}" for model, cell in zip(models, table.rows[-1][2:], strict=True))
    title, caption = "Accuracy by phenomenon", f"Accuracy for each phenomenon. All pairs: {totals}."
    phenomena, levels = [row[0].text for row in rows], [Level(50.0, "chance")]
    return Chart(
        table.name, title, "phenomenon", "% correct", series, "points", phenomena, levels, caption=caption
    )


def _compare_models(margins: Margins, *, seed: int) -> list[Section]:
    (base, base_margins), *others = margins.items()
    rows = []
    for name, each in others:
        both = [(m, b) for m, b in zip(each, base_margins, strict=True) if m is not None and b is not None]
        cell = MISSING
        if both:
            gap = bootstrap_mean([float(m > 0) - float(b > 0) for m, b in both], seed=seed).in_points()
            text = f"{gap.value:+.1f} ({gap.low:+.1f} to {gap.high:+.1f})"
            cell = Cell(text, gap.value, gap.low, gap.high)
        rows.append([Cell(name), Cell.number(len(both)), cell])
    if not rows:
        return []
    points = Column(f"points above {base}", True, "95% interval, paired bootstrap over pairs")
    columns = [Column("model"), Column("pairs", True, "scored for both"), points]
    note = "The intervals are over pairs. Differences between training seeds may be larger."
    return [Section("Models compared", tables=[Table("comparison", columns, rows, note=note)])]


def _build_worst_table(name: str, model: str, pairs: Pairs, margins: Sequence[float | None]) -> Table:
    wrong = [(m, pair) for m, pair in zip(margins, pairs, strict=True) if m is not None and m <= 0]
    rows = [
        [Cell(pair.sentence_good), Cell(pair.sentence_bad), Cell(pair.UID), Cell.number(-margin, ".2f")]
        for margin, pair in sorted(wrong, key=lambda each: each[0])[:_NUM_WORST]
    ]
    columns = [Column(f"{model}: acceptable"), Column("unacceptable"), Column("paradigm")]
    return Table(name, [*columns, Column("difference", True)], rows)
