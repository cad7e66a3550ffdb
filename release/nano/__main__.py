"""`python -m release.nano STEP …`: run one step of the release (docs/release.md has the commands)."""

import argparse
import sys
from collections.abc import Sequence

import torch

from albert.cli.command import ProgressDisplay
from albert.errors import AlbertError
from release.nano import card, checkpoints, data, pack, predictions, score, snapshots

STEPS = {
    "data": data, "snapshots": snapshots, "score": score, "checkpoints": checkpoints,
    "predictions": predictions, "card": card, "pack": pack,
}  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    """Run a step and print its summary; return 2 on a user's mistake, 3 when interrupted."""
    parser = argparse.ArgumentParser(prog="python -m release.nano", description=__doc__)
    parser.add_argument("--threads", type=int, help="number of threads [default: all cores]")
    steps = parser.add_subparsers(dest="step", required=True)
    for name, module in STEPS.items():
        summary = (module.__doc__ or "").splitlines()[0]
        module.add_arguments(steps.add_parser(name, help=summary, description=summary))
    args = parser.parse_args(words)
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    try:
        with ProgressDisplay() as reporter:
            summary = STEPS[args.step].run(args, reporter)
    except AlbertError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command resumes", file=sys.stderr)
        return 3
    print(summary)
    return 0


if __name__ == "__main__":
    sys.exit(main())
