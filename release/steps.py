"""The command line of a release: one subcommand for each of its steps."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType

import torch

from albert.cli.command import ProgressDisplay
from albert.errors import AlbertError


def run_steps(program: str, steps: Mapping[str, ModuleType], words: Sequence[str] | None = None) -> int:
    """Run a step and print its summary; return 2 on a user's mistake, 3 when interrupted."""
    description = (
        f"`python -m {program} STEP …`: run one step of the release (docs/release.md has the commands)."
    )
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("--threads", type=int, help="number of threads [default: all cores]")
    parsers = parser.add_subparsers(dest="step", required=True)
    for name, module in steps.items():
        summary = (module.__doc__ or "").splitlines()[0]
        module.add_arguments(parsers.add_parser(name, help=summary, description=summary))
    args = parser.parse_args(words)
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    try:
        with ProgressDisplay() as reporter:
            summary = steps[args.step].run(args, reporter)
    except AlbertError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command resumes", file=sys.stderr)
        return 3
    print(summary)
    return 0
