"""Score the model on held-out books: MLM, SOP and NSP, at every number of layers."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from albert.data.corpus import Corpus, open_corpus
from albert.examples.settings import ExampleSettings
from albert.files import read_json, write_json
from albert.pretrained.folder import load_model, load_vocabulary
from albert.progress import Reporter
from albert.tasks.finetune import identify_weights
from albert.training.losses import evaluate_pretraining
from albert.training.run_folder import read_pretrain_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument("--run", type=Path, required=True, help="the finished pretraining run")
    parser.add_argument("--held-out", type=Path, required=True, help="corpus of passages")
    parser.add_argument("--windows", type=Path, help="the same books, not cut into passages")
    parser.add_argument("--out", type=Path, required=True, help="scores.json; run again to resume")
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--beyond", type=int, default=2, help="number of layers to try beyond the model's")


def run(args: argparse.Namespace, reporter: Reporter) -> str:
    """Evaluate each part that is not in the file yet, and add it to the file."""
    settings, metadata = read_pretrain_run(args.run)
    loaded = load_model(args.run)
    model, config = loaded.model, loaded.config
    for weight in model.parameters():
        weight.data = weight.data.half().float()  # as released
    tokenizer = load_vocabulary(loaded.path)
    examples = ExampleSettings(max_length=settings.examples.max_length)
    passages = open_corpus(args.held_out, fingerprint=tokenizer.fingerprint)
    max_depth = config.num_hidden_layers + (args.beyond if config.is_fully_shared else 0)
    todo: dict[str, tuple[Corpus, int | None]] = {"passages": (passages, None)}
    if args.windows is not None:
        todo["windows"] = (open_corpus(args.windows, fingerprint=tokenizer.fingerprint), None)
    todo |= {f"depth-{depth}": (passages, depth) for depth in range(1, max_depth + 1)}
    header = {
        "weights": identify_weights(model),
        "num_examples": args.examples,
        "max_length": examples.max_length,
        "mask_share": examples.mask_share,
        "num_layers": config.num_hidden_layers,
        "unigram_loss": metadata.unigram_loss,
    }
    known = read_json(args.out) if args.out.exists() else {}
    parts: dict[str, Any] = known.pop("parts", {})
    if known != header:
        parts = {}
    for number, (name, (corpus, depth)) in enumerate(todo.items()):
        if name in parts:
            continue
        reporter.show("score", name, fraction=number / len(todo))
        scores = evaluate_pretraining(
            model, corpus, tokenizer, settings=examples, num_examples=args.examples, depth=depth
        )
        parts[name] = {key: {**asdict(score), "interval": score.interval} for key, score in scores.items()}
        write_json(args.out, {**header, "parts": parts})
    means = (f"{key} {score['mean']:.4g}" for key, score in parts["passages"].items())
    return f"{args.out}: {', '.join(means)}"
