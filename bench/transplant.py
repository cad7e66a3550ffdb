"""Compare a student of another vocabulary with and without vocabulary transplant, at equal time.

`python -m bench.transplant --data CORPUS --teacher TEACHER --out DIR`, where CORPUS is prepared with the
student's vocabulary, distills each seed twice. Without transplant, the word table starts at random, with the
mean and the variance of the transplanted one; all else is the same.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import mean, stdev
from unittest import mock

import torch

import albert
from albert.model.albert_model import AlbertModel
from albert.pretrained.from_teacher import Teacher, transplant_words
from albert.progress import StderrReporter
from albert.text.tokenizer import Tokenizer
from albert.training.run_folder import list_records

# A teacher of another vocabulary is compared by whole texts; masked tokens are learned from the text alone.
OVERRIDES = ("distillation.hidden_weight=0", "distillation.mlm_weight=1", "distillation.exit_depths=[]")


@contextmanager
def draw_words(seed: int) -> Iterator[None]:
    """Start students with a random word table."""

    def draw(teacher: AlbertModel, tokenizer: Tokenizer, student: Tokenizer) -> Teacher:
        words_VW = transplant_words(teacher, tokenizer, student).words_VW
        noise_VW = torch.randn(words_VW.shape, generator=torch.Generator().manual_seed(seed))
        return Teacher(teacher, words_VW.mean(0) + words_VW.std(0) * noise_VW)

    with mock.patch("albert.training.distillation.transplant_words", draw):
        yield


def measure(args: argparse.Namespace) -> dict[str, list[float]]:
    """Return the held-out MLM losses of both variants, by seed; finished runs are not repeated."""
    losses: dict[str, list[float]] = {"transplant": [], "random": []}
    steps: tuple[str, ...] = ()  # of the first run, which measures how many fit into the budget
    for seed in range(args.seeds):
        for variant, found in losses.items():
            with nullcontext() if variant == "transplant" else draw_words(seed):
                done = albert.distill(
                    args.recipe,
                    teacher=args.teacher,
                    data=args.data,
                    out=args.out / f"{variant}-{seed}",
                    overrides=[*OVERRIDES, f"seed={seed}", *steps, *args.settings],
                    budget=None if steps else args.budget,
                    resume=True,
                    reporter=StderrReporter(),
                )
            steps = (f"num_steps={done.settings.num_steps}",)
            found.append(float(list_records(done.run_dir, "evaluate")[-1]["mlm_loss"]))
    return losses


def main() -> None:
    """Run the comparison and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.transplant", description=__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="corpus prepared with the student's vocabulary"
    )
    parser.add_argument("--teacher", required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs; run again to resume")
    parser.add_argument("--recipe", default="mini")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", default="20m")
    parser.add_argument("settings", nargs="*", help="key=value for all runs")
    losses = measure(parser.parse_intermixed_args())
    for variant, found in losses.items():
        spread = f" ± {stdev(found):.3f}" if len(found) > 1 else ""
        print(f"{variant}: {mean(found):.3f}{spread} ({', '.join(f'{each:.3f}' for each in found)})")
    sys.exit(not all(a < b for a, b in zip(losses["transplant"], losses["random"], strict=True)))


if __name__ == "__main__":
    main()
