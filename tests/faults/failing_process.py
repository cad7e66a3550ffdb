"""`albert` whose second process cannot read the data of a step."""

import os
import sys
from typing import Any

from albert.cli.main import main
from albert.training.pretrain import PretrainJob

STEP = 5


def fail() -> None:
    original = PretrainJob.iter_batches

    def iter_batches(job: PretrainJob, first_step: int) -> Any:
        for step, batches in enumerate(original(job, first_step), start=first_step):
            if step == STEP:
                raise OSError(5, "the disk fails")
            yield batches

    PretrainJob.iter_batches = iter_batches  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    if os.environ["RANK"] == "1":
        fail()
    main(sys.argv[1:])
