"""`python -m release.nano STEP …`: one step of the release, from text to the folder in the package."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from albert.cli.command import ProgressDisplay
from albert.errors import AlbertError
from albert.progress import Reporter
from release.nano import answers, card, checkpoints, data, pack, score, snapshots


@dataclass(frozen=True)
class Step:
    """What a step takes, and what does it; what it returns is the last line."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Reporter], str]
    told: str


STEPS: Mapping[str, Step] = {
    name: Step(module.add_arguments, module.run, (module.__doc__ or "").splitlines()[0])
    for name, module in (
        ("data", data),
        ("snapshots", snapshots),
        ("score", score),
        ("checkpoints", checkpoints),
        ("answers", answers),
        ("card", card),
        ("pack", pack),
    )
}


def build_parser() -> argparse.ArgumentParser:
    """All steps, in the order in which they are made."""
    parser = argparse.ArgumentParser(prog="python -m release.nano", description=__doc__)
    parser.add_argument("--threads", type=int, help="for computing [default: all cores]")
    steps = parser.add_subparsers(dest="step", required=True)
    for name, step in STEPS.items():
        step.add_arguments(steps.add_parser(name, help=step.told, description=step.told))
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run a step; a mistake is one line and 2, a stop is 3."""
    args = build_parser().parse_args(words)
    if args.threads is not None:
        import torch

        torch.set_num_threads(args.threads)
    try:
        with ProgressDisplay() as reporter:
            told = STEPS[args.step].run(args, reporter)
    except AlbertError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 3
    print(told)
    return 0


if __name__ == "__main__":
    sys.exit(main())
