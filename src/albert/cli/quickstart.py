"""From text to a fine-tuned model in about ten minutes, as a script of calls to the public functions.

Each stage has its own folder in `out` and resumes by itself, so that a stopped quickstart continues when the
same command is run again; `quickstart.json` has the settings of the first start.
"""

import re
import shlex
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
from pydantic import Field, PositiveFloat, PositiveInt

import albert
from albert.cli.doctor import build_charts, load_run
from albert.cli.quickstart_texts import REVIEWS_NOTE, TextSource, get_text, write_reviews
from albert.data.prepare import PrepareSettings, prepare_corpus
from albert.data.sources import iter_plain_texts
from albert.errors import InputError
from albert.files import atomic_dir, read_json, reject_foreign, require_folder, write_json, write_text
from albert.model.config import count_parameters
from albert.pretrained.folder import load_model, save_untrained
from albert.progress import Reporter, format_seconds
from albert.report.content import Cell, Chart, Column, Finding, Outcome, Page, Section, Series, Table
from albert.report.write import write_page
from albert.settings import Settings, find_change
from albert.study.layers import LayersSettings, run_layers
from albert.study.settings import list_overrides
from albert.tasks.catalogue import build_task
from albert.tasks.data import open_task_data
from albert.tasks.finetune_settings import read_finetune_recipe
from albert.tasks.metrics.intervals import bootstrap_mean
from albert.text import train_vocabulary as training
from albert.text.folder import has_tokenizer, save_tokenizer
from albert.text.tokenizer import Tokenizer
from albert.training.loop import LoopOutcome
from albert.training.pretrain import PretrainData, PretrainJob, build_pretrain_model, open_data
from albert.training.run_folder import has_run, keep_figures, list_records, read_pretrain_run
from albert.training.settings import read_recipe

T = TypeVar("T")

OVERRIDES: dict[str, dict[str, Any]] = {
    # The text is small, so a larger share than usual is held out.
    "pretrain": {"held_out": {"share": 0.05, "num_examples": 160}, "num_evaluations": 10, "log_every": 5},
    "finetune": {"max_length": 64, "num_epochs": 3, "num_evaluations": 3},
}


class QuickstartSettings(Settings):
    """Settings of the quickstart, by default for about ten minutes on two cores.

    Args:
        minutes: The time of pretraining; ignored with `pretrain.num_steps`.
        model: The pretrained model to fine-tune.
        recipe: The recipe of pretraining.
        num_train: The number of reviews to train on.
        num_dev: The number of reviews in the dev set.
        num_test: The number of reviews in the test set.
        pretrain: Changes of the recipe of pretraining.
        finetune: Changes of the recipe of fine-tuning.
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
        """List the overrides of the recipe for "pretrain" or "finetune"."""
        return list_overrides(
            OVERRIDES[job], {"has_tensorboard": False, "seed": self.seed}, getattr(self, job)
        )


def run_quickstart(
    settings: QuickstartSettings, *, data: Path | None, out: Path, reporter: Reporter
) -> dict[str, Any]:
    """Run the stages that are not done yet and write the report.

    Args:
        settings: Settings of all stages.
        data: A folder or file of text to pretrain on; by default the King James Bible.
        out: The folder of the quickstart.
        reporter: Receives progress and messages.

    Returns:
        The values of `--json`.

    Raises:
        StoppedError: If a signal stops pretraining or fine-tuning, after they are saved.
    """
    start = time.monotonic()
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
        reporter.say("4/6 skipping fine-tuning")
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
    note = (
        "How much each layer changes its input (figure 1 of the paper). In ALBERT all layers share one "
        f"block. `{layers.charts[0].series[0].name}` is the model just trained. More: `layers/report.html`."
    )

    reporter.say("6/6 writing the report")
    seconds = time.monotonic() - start
    next_steps = Section("Next steps", code=list_commands(out, settings.model))
    layers_section = Section("Layers", [note], charts=layers.charts)
    sections = [pretraining_section, reviews_section, predictions, layers_section, next_steps]
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
        raise InputError(f"--data {data}: does not exist; give the path of your text")
    if data is not None and out.resolve().is_relative_to(data.resolve()):
        raise InputError(f"--out {out}: is inside --data {data}; choose another --out")
    values = {**settings.model_dump(mode="json"), "data": data and str(data.resolve())}
    path = out / "quickstart.json"
    if not path.exists():
        reject_foreign(out, require_folder(out), what="quickstart")
        write_json(path, values)
    elif change := find_change(read_json(path), values):
        raise InputError(f"{out}: {change}; undo the change to continue, or choose another --out")


def train_vocabulary(
    text: TextSource, out: Path, *, settings: QuickstartSettings, reporter: Reporter
) -> None:
    """Train a vocabulary, unless it exists, with the nearest size that the text allows."""

    def train(size: int) -> Tokenizer:
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
    """A reporter that sends this process a SIGTERM once, at 40% of pretraining."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter, self.say, self.has_interrupted = reporter, reporter.say, False

    def show(self, stage: str, message: str, *, fraction: float | None = None) -> None:
        self.reporter.show(stage, message, fraction=fraction)
        if stage == "pretrain" and not self.has_interrupted and 0.4 <= (fraction or 0.0) < 1.0:
            self.has_interrupted = True
            signal.raise_signal(signal.SIGTERM)


def pretrain_model(
    corpus: Path, run: Path, *, settings: QuickstartSettings, reporter: Reporter
) -> LoopOutcome:
    """Pretrain a model, interrupted once by a signal and resumed; or resume the run that is there."""
    overrides = settings.list_overrides("pretrain")

    def train(own: Reporter) -> LoopOutcome:
        resume = has_run(run)
        is_timed = not resume and "num_steps" not in settings.pretrain
        options: dict[str, Any] = {"resume": resume, "overrides": overrides, "reporter": own}
        options["budget"] = f"{60 * settings.minutes:.3f}s" if is_timed else None
        return albert.pretrain(settings.recipe, data=corpus, out=run, **options).outcome

    interrupter = _Interrupter(reporter)
    outcome = train(reporter if has_run(run) else interrupter)
    if interrupter.has_interrupted and outcome.signal == "SIGTERM":
        reporter.say(f"interrupted on purpose at step {outcome.progress.step:,} with SIGTERM; resuming")
        outcome = train(reporter)
    outcome.check_finished()
    return outcome


def summarize_run(
    run: Path, outcome: LoopOutcome, *, corpus: Path, text: TextSource
) -> tuple[dict[str, Any], Section, PretrainData]:
    """Return the values of a finished run, its section of the report, and its data."""
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
        f"MLM loss on held-out text: {before:.3f} before pretraining, {after:.3f} after it; unigram "
        f"baseline: {unigram:.3f}."
    )
    found: Outcome = "agrees" if after < unigram else "inconclusive" if after < before else "disagrees"
    hint = " More `--minutes` may help." if found == "inconclusive" else ""
    finding = Finding("Pretraining gets below the loss of the unigram baseline.", "", losses + hint, found)
    loss_chart, *others = build_charts(load_run(run))
    charts = [replace(loss_chart, name="loss", title="Masked tokens", caption=losses)]
    if (key := f"{objective}_accuracy") in end:
        number = metadata.num_held_out or settings.held_out.num_examples
        caption = (
            f"Accuracy on {number:,} held-out pairs: {start[key]:.1%} before pretraining, {end[key]:.1%} "
            f"after it. Accuracies below {0.5 + 0.98 / number**0.5:.1%} may be chance."
        )
        title = f"Sentence pairs ({objective.upper()})"
        charts.append(replace(others[0], name="order", title=title, caption=caption))
    paragraphs = [f"The text is {text.note}", paragraph]
    return values, Section("Pretraining", paragraphs, [finding], charts=charts), data


def finetune_models(
    model: Path, folder: Path, *, settings: QuickstartSettings, reporter: Reporter
) -> tuple[dict[str, Any], Section]:
    """Fine-tune the model and one of its shape with random weights, and compare them with the baselines."""
    task, train, test = "classification", folder / "train.jsonl", folder / "test.jsonl"
    opened = open_task_data(task, train, dev=test, columns={}, dev_share=0.1)
    built = build_task(opened.config)
    results = {
        name: built.explain(predict(opened.train, opened.dev), opened.dev)
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
            albert.finetune(task, model=source, data=folder, out=run, **options).outcome.check_finished()
        results[name] = albert.evaluate(task, model=run, data=test).results

    correct = {name: [float(each.is_correct) for each in own] for name, own in results.items()}
    accuracy = {name: bootstrap_mean(marks, seed=0).in_points() for name, marks in correct.items()}
    gaps = [a - b for a, b in zip(correct["pretrained"], correct["untrained"], strict=True)]
    gain = bootstrap_mean(gaps, seed=0).in_points()
    ours = (
        f"Pretrained minus untrained: {gain.value:+.1f} points (95% interval {gain.low:+.1f} to "
        f"{gain.high:+.1f}). The bag-of-words baseline has {accuracy['bag_of_words'].value:.1f}%."
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
    points = [Series("test reviews", range(len(shown)), ys, lows, highs)]
    caption = "; ".join(f"{name}: {each.value:.1f}%" for name, each in shown.items())
    chart = Chart("reviews", "Reviews", "", "accuracy, %", points, "points", list(shown), caption=caption)
    values = {"accuracy": {name: vars(each) for name, each in accuracy.items()}, "gain": vars(gain)}
    findings, tables = [Finding(claim, "", ours, outcome)], [Table("reviews", columns, cells)]
    return values, Section("Fine-tuning", [paragraph], findings, tables, [chart])


def show_predictions(models: Mapping[str, Path], data: PretrainData) -> tuple[Section, list[str]]:
    """Show predictions of masked words and of the order of sentences; return 200 sentences, too."""

    def mark(text: str, probability: float, expected: str) -> str:
        return f"{'✓ ' if text == expected else ''}{text or '▁'} {probability:.0%}"

    masks, pairs, sentences = select_examples(data)
    pairs = [pair[::-1] if index % 2 else pair for index, pair in enumerate(pairs)]  # swap every other
    words = {"sentence": [text for text, _ in masks], "word": [word for _, word in masks]}
    orders = {"first": [first for first, _ in pairs], "second": [second for _, second in pairs]}
    orders["shown"] = ["swapped" if index % 2 else "in order" for index in range(len(pairs))]
    for name, source in models.items():
        predictor = albert.load(source)
        with suppress(InputError):  # the model has no such head, or too few positions
            filled = zip(predictor.fill_mask(words["sentence"], top=3), words["word"], strict=True)
            words[name] = [
                " · ".join(mark(each.text, each.probability, word) for each in candidates)
                for (candidates,), word in filled
            ]
        with suppress(InputError):
            predicted = zip(predictor.sentence_order(pairs), orders["shown"], strict=True)
            orders[name] = [
                mark("swapped", 1 - each.in_order, shown)
                if each.is_swapped
                else mark("in order", each.in_order, shown)
                for each, shown in predicted
            ]
    paragraph = (
        "The most likely tokens for a mask, and the predicted order of two sentences, with probabilities. "
        "The sentences are held out from the model just trained, but the text may repeat them."
    )
    tables = [
        Table(name, [*map(Column, found)], [[*map(Cell, row)] for row in zip(*found.values(), strict=True)])
        for name, found in (("masked-words", words), ("sentence-order", orders))
        if any(found.values())
    ]
    return Section("Predictions on held-out text", [paragraph], tables=tables), sentences


def select_examples(
    data: PretrainData, *, number: int = 8
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
    """List commands to try next."""
    folder = shlex.quote(str(out))
    commands = f"""albert fill-mask --model {folder}/pretrain "the [MASK] was dark"
albert doctor {folder}/pretrain
albert pretrain {folder}/pretrain/settings.yaml --data {folder}/corpus --out longer --budget 1h
albert quickstart --data FOLDER --out mine"""
    if (out / "reviews").exists():
        task = f"albert finetune classification --model {shlex.quote(model)} --data {folder}/reviews"
        commands += f"\n{task} --out sentiment --seeds 3"
    return commands


def spread(items: Sequence[T], number: int) -> list[T]:
    """Return `number` items, evenly spread; all of them if there are fewer."""
    number = min(number, len(items))
    return [items[index * len(items) // number] for index in range(number)]
