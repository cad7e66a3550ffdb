"""The whole way from text to a fine-tuned model in about ten minutes, as calls to the public functions.

Every stage has a folder of its own in `out` and resumes by itself, so that a quickstart that was stopped
continues when it is started again. Nothing is removed or replaced: `quickstart.json` keeps the settings of
the first start, and other settings need another folder.
"""

import hashlib
import shlex
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, PositiveFloat, PositiveInt

import albert
from albert.cli.quickstart_data import (
    REVIEWS_NOTE,
    TextSource,
    get_text,
    read_documents,
    select_questions,
    spread,
    write_reviews,
)
from albert.errors import InputError
from albert.files import (
    atomic_dir,
    hash_file,
    read_json,
    reject_foreign,
    require_folder,
    write_json,
    write_text,
)
from albert.progress import Reporter, format_seconds
from albert.report.content import Cell, Chart, Column, Finding, Level, Page, Section, Series, Table
from albert.report.write import write_page
from albert.settings import Settings, find_change

if TYPE_CHECKING:
    from albert.text.tokenizer import Tokenizer
    from albert.training.loop import LoopOutcome, Progress
    from albert.training.pretrain_job import PretrainData

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
        from albert.study.arms.plan import list_overrides

        common = {"has_tensorboard": False, "seed": self.seed}
        return list_overrides(OVERRIDES[job], common, getattr(self, job))


def run_quickstart(
    settings: QuickstartSettings, *, data: Path | None, out: Path, reporter: Reporter
) -> dict[str, Any]:
    """Run the stages that are not done yet, write the report, and return the values of `--json`.

    `data` is a folder or file of text to pretrain on, or None for the King James Bible. `out` is a new
    folder, or that of a quickstart with the same settings, which continues.

    Raises:
        InputError: If `out` holds something else or a quickstart with other settings, or if `data`, the model
            or a recipe cannot be read.
        StoppedError: If a signal stopped pretraining or fine-tuning; what was done is saved.
    """
    from albert.data.prepare import prepare_corpus
    from albert.data.units import PrepareSettings
    from albert.study.layers.study import LayersSettings, run_layers

    began = time.monotonic()
    model = check_settings(settings)
    open_folder(out, settings, data=data)
    vocab, corpus, run, reviews = (out / name for name in ("vocab", "corpus", "pretrain", "reviews"))

    reporter.say("1/6 getting text and labeled reviews; what is fetched is kept in the cache")
    if data is None:
        text = get_text(out / "text", reporter=reporter)
    else:
        text = TextSource(str(data), data, None, f"your own, from `{data}`.")
    left_out = []
    sizes = {"train": settings.num_train, "dev": settings.num_dev, "test": settings.num_test}
    try:
        write_reviews(reviews, sizes=sizes)
    except InputError as error:  # no network; an archive with another hash is a FileFormatError
        left_out.append(f"fine-tuning, because the labeled reviews cannot be fetched ({error})")
        reporter.say(f"left out: {left_out[0]}")

    reporter.say(f"2/6 training a vocabulary on {text.name} and preparing the corpus")
    train_vocabulary(text, vocab, settings=settings, reporter=reporter)
    layout = PrepareSettings(layout=text.layout)
    prepare_corpus([text.path], vocab=vocab, out=corpus, settings=layout, reporter=reporter)

    num_steps = settings.pretrain.get("num_steps")
    length = f"{settings.minutes:g} minutes" if num_steps is None else f"{num_steps} steps"
    reporter.say(f"3/6 pretraining for {length}")
    progress = pretrain_model(corpus, run, settings=settings, reporter=reporter)
    pretraining, pretraining_section, held_out = summarize_run(run, progress, corpus=corpus, text=text)
    documents = read_documents(held_out.held_out, held_out.tokenizer)

    models, scores = {"just trained": run, settings.model: model}, None
    reviews_section = Section("Fine-tuning", [f"Left out: {reason}." for reason in left_out])
    if left_out:
        reporter.say("4/6 fine-tuning is left out")
    else:
        reporter.say(f"4/6 fine-tuning {settings.model}, and the same model untrained, on the reviews")
        scores, reviews_section = finetune_models(model, reviews, settings=settings, reporter=reporter)

    reporter.say("5/6 measuring what each layer does")
    sample = out / "sample.txt"
    lines = spread([sentence for document in documents for sentence in document if sentence], 200)
    write_text(sample, "".join(f"{line}\n" for line in lines))
    measured = [run, model, *([] if scores is None else [reviews / "untrained"])]
    options = LayersSettings(texts={str(run): sample})
    layers = run_layers(options, models=[*map(str, measured)], out=out / "layers", reporter=reporter)
    write_page(out / "layers", layers)
    layers_note = (
        "How much each layer changes its input (figure 1 of the paper). In ALBERT all layers share one "
        f"block. `{layers.charts[0].series[0].name}` is the model just trained. More: `layers/report.html`."
    )

    reporter.say("6/6 writing the report")
    seconds = time.monotonic() - began
    sections = [
        pretraining_section,
        reviews_section,
        show_predictions(models, documents, held_out.tokenizer),
        Section("Layers", [layers_note], charts=layers.charts),
        Section("Next steps", code=list_commands(out, settings.model)),
    ]
    lead = (
        f"ALBERT on this machine, from text to a fine-tuned model. This start took {format_seconds(seconds)}."
    )
    return {
        "report": str(write_page(out, Page("ALBERT in minutes", lead, sections))),
        "text": {"name": text.name, "is_fallback": text.is_fallback},
        "pretraining": pretraining,
        "reviews": scores,
        "left_out": left_out,
        "seconds": round(seconds, 1),
    }


def check_settings(settings: QuickstartSettings) -> Path:
    """Check the recipes and their overrides before anything is written, and return the model's folder."""
    from albert.model.runtime import build_autocast
    from albert.pretrained.folder import load_model
    from albert.pretrained.hub import resolve_source
    from albert.tasks.finetune_settings import choose_recipe, read_finetune_recipe
    from albert.tasks.vocabulary_fit import load_own_vocabulary
    from albert.training.recipes import read_recipe

    build_autocast(read_recipe(settings.recipe, overrides=settings.list_overrides("pretrain")).runtime)
    model = resolve_source(settings.model)
    config = load_model(model, heads={}).config
    load_own_vocabulary(model, config)
    recipe = choose_recipe("classification", hidden_size=config.hidden_size)
    build_autocast(read_finetune_recipe(recipe, overrides=settings.list_overrides("finetune")).runtime)
    return model


def open_folder(out: Path, settings: QuickstartSettings, *, data: Path | None) -> None:
    """Write the settings to a new folder, or compare them with those of the quickstart in it."""
    from albert.data.sources import find_sources

    content = None
    if data is not None:
        if not data.exists():
            raise InputError(f"--data {data}: no such file or folder; give the path of your text")
        if out.resolve().is_relative_to(data.resolve()):
            raise InputError(f"--out {out} is inside --data {data}; choose another --out")
        hashes = "".join(f"{file.name}:{hash_file(Path(file.path))}\n" for file in find_sources([data]))
        content = f"{data.name} (sha256 {hashlib.sha256(hashes.encode()).hexdigest()[:16]})"
    asked = {**settings.model_dump(mode="json"), "data": content}
    path = out / "quickstart.json"
    if not path.exists():
        reject_foreign(out, require_folder(out), what="quickstart")
        write_json(path, asked)
    elif change := find_change(read_json(path), asked):
        raise InputError(
            f"{out}: {change} when this quickstart was started; give the same settings to continue it, "
            f"choose another --out, or delete {out}"
        )


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
    except (training.TooManyTokensError, training.TooFewTokensError) as error:
        size = error.most if isinstance(error, training.TooManyTokensError) else error.least
        reporter.say(f"vocab_size {settings.vocab_size:,} does not fit this text; using {size:,}")
        tokenizer = train(size)
    with atomic_dir(out) as aside:
        save_tokenizer(tokenizer, aside)


@dataclass
class _Interrupter:
    """Pass messages on, and send this process a SIGTERM once, when 40% of pretraining is done."""

    reporter: Reporter
    has_interrupted: bool = False

    def say(self, text: str) -> None:
        self.reporter.say(text)

    def show(self, stage: str, message: str, *, fraction: float | None = None) -> None:
        self.reporter.show(stage, message, fraction=fraction)
        if stage == "pretrain" and not self.has_interrupted and 0.4 <= (fraction or 0.0) < 1.0:
            self.has_interrupted = True
            signal.raise_signal(signal.SIGTERM)


def pretrain_model(
    corpus: Path, run: Path, *, settings: QuickstartSettings, reporter: Reporter
) -> "Progress":
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
    return outcome.progress


def summarize_run(
    run: Path, progress: "Progress", *, corpus: Path, text: TextSource
) -> tuple[dict[str, Any], Section, "PretrainData"]:
    """Return the values of a finished run, its section of the report, and its data."""
    import torch

    from albert.model.config import count_parameters
    from albert.training.metrics import keep_figures, list_records
    from albert.training.pretrain_job import PretrainJob, build_pretrain_model, open_data
    from albert.training.run_folder import read_pretrain_run

    settings, facts = read_pretrain_run(run)
    assert settings.model is not None
    objective, num_steps, unigram = settings.examples.objective, progress.step, facts.unigram_loss
    data = open_data(corpus, settings.held_out, objective=objective, share=settings.data_share)
    with torch.inference_mode():
        start = PretrainJob(build_pretrain_model(settings).eval(), settings, data).evaluate(0)
    end = keep_figures(progress.figures)
    train, evaluate = (
        {record["step"]: keep_figures(record) for record in list_records(run, kind)}
        for kind in ("train", "evaluate")
    )
    held_out = {0: start, **evaluate, num_steps: end}
    starts = {record["step"] for record in list_records(run, "start")}
    values: dict[str, Any] = {
        "run": str(run),
        "parameters": count_parameters(settings.model).backbone,
        "steps": num_steps,
        "pieces": progress.num_tokens,
        "seconds": round(progress.seconds, 1),
        "resumed_at": sorted(step for step in starts if 0 < step < num_steps),
        "unigram_loss": unigram,
        "start": start,
        "end": end,
    }
    losses = (
        f"Loss on masked words of held-out text: {start['mlm_loss']:.3f} before pretraining, "
        f"{end['mlm_loss']:.3f} after it; unigram baseline: {unigram:.3f}."
    )
    is_below, is_learning = end["mlm_loss"] < unigram, end["mlm_loss"] < start["mlm_loss"]
    finding = Finding(
        "Pretraining gets below the loss of the unigram baseline.",
        "",
        losses + (" More `--minutes` may get below it." if is_learning and not is_below else ""),
        "agrees" if is_below else "cannot tell" if is_learning else "disagrees",
    )
    paragraphs = [
        f"The text is {text.note}",
        f"{num_steps:,} steps ({progress.num_tokens:,} tokens, {format_seconds(progress.seconds)}) of a "
        f"model with {values['parameters']:,} parameters and a vocabulary of {data.tokenizer.vocab_size:,} "
        f"tokens, on {facts.num_pieces:,} tokens of text. Sentence objective: {objective}.",
    ]
    if values["resumed_at"]:
        steps = " and ".join(f"{step:,}" for step in values["resumed_at"])
        paragraphs.append(
            f"The run was interrupted by a signal and resumed at step {steps}. On a CPU with the same number "
            "of threads, its weights match those of an uninterrupted run bit for bit (tested in the project)."
        )
    loss = [_plot("training text", train, "mlm_loss"), _plot("held-out text", held_out, "mlm_loss")]
    levels = [Level(unigram, "unigram baseline")]
    charts = [Chart("loss", "Masked words", "step", "loss, nats per token", loss, levels=levels, told=losses)]
    pairs = _plot("held-out text", held_out, f"{objective}_accuracy")
    if pairs.xs:
        charts.append(_draw_pairs(pairs, objective, facts.num_asked or settings.held_out.num_examples))
    return values, Section("Pretraining", paragraphs, [finding], charts=charts), data


def _plot(name: str, points: Mapping[int, Mapping[str, float]], key: str) -> Series:
    found = {float(step): values[key] for step, values in points.items() if key in values}
    return Series(name, list(found), list(found.values()))


def _draw_pairs(shares: Series, objective: str, num_pairs: int) -> Chart:
    """Draw the accuracy on sentence pairs with 95% Wilson intervals: they are few."""
    from scipy.stats import binomtest

    found = [binomtest(round(y * num_pairs), num_pairs).proportion_ci(method="wilson") for y in shares.ys]
    ys = [100.0 * y for y in shares.ys]
    lows, highs = [100.0 * each.low for each in found], [100.0 * each.high for each in found]
    comparison = "above" if lows[-1] > 50 else "below" if highs[-1] < 50 else "not distinguishable from"
    told = (
        f"Accuracy on {num_pairs:,} held-out pairs: {ys[0]:.1f}% before pretraining, {ys[-1]:.1f}% after it "
        f"(95% interval {lows[-1]:.0f} to {highs[-1]:.0f}%), {comparison} chance."
    )
    title = {"sop": "Sentence order", "nsp": "Next sentence"}[objective]
    series, levels = [Series(shares.name, shares.xs, ys, lows, highs)], [Level(50.0, "chance")]
    return Chart("order", title, "step", "accuracy, %", series, levels=levels, told=told)


def finetune_models(
    model: Path, folder: Path, *, settings: QuickstartSettings, reporter: Reporter
) -> tuple[dict[str, Any], Section]:
    """Fine-tune the model and one of its shape with random weights, and compare them with the baselines."""
    from albert.pretrained.folder import save_untrained
    from albert.tasks.assignment import open_assignment
    from albert.tasks.baselines import list_baselines
    from albert.tasks.metrics.intervals import bootstrap_mean
    from albert.training.recipes import read_recipe
    from albert.training.run_folder import has_run

    def mark_correct(logits: Sequence[Any], examples: Sequence[Any]) -> list[float]:
        return [float(row.argmax() == example.label) for row, example in zip(logits, examples, strict=True)]

    task, train, test = "classification", folder / "train.jsonl", folder / "test.jsonl"
    assignment = open_assignment(task, train, dev=test, columns={}, dev_share=0.1)
    correct = {
        name: mark_correct(predict(assignment), assignment.dev)
        for name, predict in list_baselines(assignment).items()
    }
    untrained = folder / "untrained"
    if not untrained.exists():
        start = read_recipe("albert-nano-en").fresh_start  # that of the released model
        save_untrained(model, untrained, seed=settings.seed, start=start)
    for name, source in {"untrained": untrained, "pretrained": model}.items():
        run = folder / "models" / name
        if not (run / "model").exists():
            overrides, resume = settings.list_overrides("finetune"), has_run(run)
            result = albert.finetune(
                task,
                model=source,
                data=folder,
                out=run,
                overrides=overrides,
                resume=resume,
                reporter=reporter,
            )
            result.outcome.check_finished()
        found = albert.evaluate(task, model=run, data=folder, split="test")
        correct[name] = mark_correct(found.answers, found.examples)

    accuracy = {name: bootstrap_mean(marks, seed=0).in_points() for name, marks in correct.items()}
    gaps = [a - b for a, b in zip(correct["pretrained"], correct["untrained"], strict=True)]
    gain = bootstrap_mean(gaps, seed=0).in_points()
    finding = Finding(
        "A pretrained model is fine-tuned to a higher accuracy than an untrained one.",
        "",
        f"Pretrained minus untrained: {gain.value:+.1f} points (95% interval {gain.low:+.1f} to "
        f"{gain.high:+.1f}). A bag of words has {accuracy['bag_of_words'].value:.1f}%.",
        "agrees" if gain.low > 0 else "disagrees" if gain.high < 0 else "cannot tell",
    )
    paragraph = (
        f"The data are {REVIEWS_NOTE} Here {len(assignment.train):,} are for training and {len(gaps):,} for "
        f"the test. The pretrained model is `{settings.model}`; the untrained one has its shape and random "
        "weights."
    )
    names, intervals = [name.replace("_", " ") for name in accuracy], list(accuracy.values())
    ys, lows, highs = ([getattr(each, end) for each in intervals] for end in ("value", "low", "high"))
    rows = [
        [Cell(name), Cell(f"{y:.1f}", y), Cell(f"{low:.1f} to {high:.1f}")]
        for name, y, low, high in zip(names, ys, lows, highs, strict=True)
    ]
    columns = [Column("model"), Column("accuracy, %", is_number=True), Column("95% interval over reviews")]
    points = [Series("test reviews", list(range(len(names))), ys, lows, highs)]
    told = "; ".join(f"{name}: {y:.1f}%" for name, y in zip(names, ys, strict=True))
    title = "Positive or negative"
    chart = Chart("reviews", title, "", "accuracy, %", points, kind="points", x_names=names, told=told)
    values = {"accuracy": {name: vars(each) for name, each in accuracy.items()}, "gain": vars(gain)}
    return values, Section("Fine-tuning", [paragraph], [finding], [Table("reviews", columns, rows)], [chart])


def show_predictions(
    models: Mapping[str, Path], documents: Sequence[Sequence[str]], tokenizer: "Tokenizer"
) -> Section:
    """Show what the models predict for masked words and for the order of two sentences."""
    masks, pairs = select_questions(documents, tokenizer)
    words = [[Cell(text), Cell(word)] for text, word in masks]
    word_columns = [Column("sentence"), Column("word")]
    pairs = [pair[::-1] if index % 2 else pair for index, pair in enumerate(pairs)]  # every other is swapped
    orders = [
        [Cell(first), Cell(second), Cell("swapped" if index % 2 else "in order")]
        for index, (first, second) in enumerate(pairs)
    ]
    order_columns = [Column("first"), Column("second"), Column("shown")]
    for name, source in models.items():
        predictor = albert.load(source)
        with suppress(InputError):  # the model has no such head, or reads no text of this length
            filled = predictor.fill_mask([text for text, _ in masks], top=3)
            word_columns.append(Column(name))
            for row, (candidates,) in zip(words, filled, strict=True):
                shown = (
                    f"{'✓ ' if each.text == row[1].text else ''}{each.text or '▁'} {each.probability:.0%}"
                    for each in candidates
                )
                row.append(Cell(" · ".join(shown)))
        with suppress(InputError):
            ordered = predictor.sentence_order(pairs)
            order_columns.append(Column(name))
            for row, answer in zip(orders, ordered, strict=True):
                predicted = "swapped" if answer.is_swapped else "in order"
                mark = "✓ " if predicted == row[2].text else ""
                row.append(Cell(f"{mark}{predicted} {max(answer.in_order, 1 - answer.in_order):.0%}"))
    paragraph = (
        "The most likely tokens for a mask, and the predicted order of two sentences, with probabilities. "
        "The sentences are held out from the model just trained, but a text may repeat itself."
    )
    tables = [
        *([Table("masked-words", word_columns, words)] if masks else []),
        *([Table("sentence-order", order_columns, orders)] if pairs else []),
    ]
    return Section("Predictions on held-out text", [paragraph], tables=tables)


def list_commands(out: Path, model: str) -> str:
    """Return commands to try next."""
    command = sys.argv[0] if Path(sys.argv[0]).name == "albert" else "python -m albert"
    folder = shlex.quote(str(out))
    commands = [
        f'fill-mask --model {folder}/pretrain "the [MASK] was dark"',
        f"doctor {folder}/pretrain",
        f"pretrain {folder}/pretrain/settings.yaml --data {folder}/corpus --out longer --budget 1h",
        "quickstart --data FOLDER --out mine",
    ]
    if (out / "reviews").exists():
        source = shlex.quote(model)
        commands.append(
            f"finetune classification --model {source} --data {folder}/reviews --out sentiment --seeds 3"
        )
    return "\n".join(f"{command} {words}" for words in commands)
