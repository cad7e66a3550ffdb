"""`python -m release.nano STEP …`: run one step of the release of albert-nano-en."""

import sys
from collections.abc import Sequence

from release.nano import card, checkpoints, data, pack, predictions, score, snapshots
from release.steps import run_steps

STEPS = {
    "data": data, "snapshots": snapshots, "score": score, "checkpoints": checkpoints,
    "predictions": predictions, "card": card, "pack": pack,
}  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    """Run a step."""
    return run_steps("release.nano", STEPS, words)


if __name__ == "__main__":
    sys.exit(main())
