"""Score the model on held-out books: masked words, order and next sentence, at every depth."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from albert.data.corpus import Corpus
from albert.files import read_json, write_json
from albert.progress import Reporter
from albert.tasks.finetune import identify_weights
from albert.training.run_folder import has_run, read_pretrain_run
from release.nano.asking import Asked, open_asked, open_held_out


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument("--run", required=True, help="the run, or a model folder")
    parser.add_argument("--held-out", type=Path, required=True, help="a prepared corpus, in passages")
    parser.add_argument("--windows", type=Path, help="the same books prepared without --passages")
    parser.add_argument("--out", type=Path, required=True, help="scores.json; stopped, it goes on")
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--beyond", type=int, default=2, help="loops more than the model has, to be tried")


def run(args: argparse.Namespace, reporter: Reporter) -> str:
    """Ask about each part that is not in the file yet, and write it down."""
    asked = open_asked(args.run)
    corpora = {"passages": open_held_out(args.held_out, asked)}
    if args.windows is not None:
        corpora["windows"] = open_held_out(args.windows, asked)
    metadata = {
        "weights": identify_weights(asked.model),
        "num_examples": args.examples,
        "max_length": asked.max_length,
        "mask_share": asked.rules.mask_share,
        "num_layers": asked.model.config.num_hidden_layers,
        "unigram_loss": _find_unigram_loss(Path(args.run)),
    }
    known = read_json(args.out) if args.out.exists() else {}
    parts = known["parts"] if {**known, "parts": 0} == {**metadata, "parts": 0} else {}
    todo = _list_parts(corpora, asked, beyond=args.beyond)
    for number, (name, (corpus, depth)) in enumerate(todo.items()):
        if name not in parts:
            parts[name] = asked.ask(
                corpus,
                num_examples=args.examples,
                depth=depth,
                advance=_show(reporter, name, number, len(todo), 3 * args.examples),
            )
            write_json(args.out, {**metadata, "parts": parts})
    told = ", ".join(f"{key} {value['mean']:.4g}" for key, value in parts["passages"].items())
    return f"{args.out}: {told}"


def _list_parts(
    corpora: dict[str, Corpus], asked: Asked, *, beyond: int
) -> dict[str, tuple[Corpus, int | None]]:
    """Each corpus at full depth, then the first at every depth; more loops only where the block is one."""
    config = asked.model.config
    deepest = config.num_hidden_layers + (beyond if config.is_fully_shared else 0)
    depths = {f"depth-{depth}": (corpora["passages"], depth) for depth in range(1, deepest + 1)}
    return {**{name: (corpus, None) for name, corpus in corpora.items()}, **depths}


def _show(
    reporter: Reporter, name: str, number: int, num_parts: int, num_examples: int
) -> Callable[[int], None]:
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        share = (number + min(1.0, done / num_examples)) / num_parts
        reporter.show("score", f"{name}, {done:,} examples", fraction=share)

    return advance


def _find_unigram_loss(run_dir: Path) -> float | None:
    """The loss of the unigram baseline on the held-out text of the run."""
    return read_pretrain_run(run_dir)[1].unigram_loss if has_run(run_dir) else None


def list_depths(scores: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The scores at each depth, in order."""
    found = [
        (int(name.removeprefix("depth-")), part)
        for name, part in scores["parts"].items()
        if name.startswith("depth-")
    ]
    return sorted(found, key=lambda pair: pair[0])
