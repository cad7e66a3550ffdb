"""`python -m release.mini STEP …`: run one step of the release of albert-mini-en."""

import sys
from collections.abc import Sequence

from release.mini import card, data
from release.nano import pack, predictions, score
from release.steps import run_steps

STEPS = {"data": data, "score": score, "predictions": predictions, "card": card, "pack": pack}


def main(words: Sequence[str] | None = None) -> int:
    """Run a step."""
    return run_steps("release.mini", STEPS, words)


if __name__ == "__main__":
    sys.exit(main())
