"""`albert` whose second process fails at a step; FAULT chooses between the data and the step."""

import os
import sys
from typing import Any

from albert.cli.main import main
from albert.training.pretrain import PretrainJob

STEP = 5


def fail_in_data() -> None:
    original = PretrainJob.iter_batches

    def iter_batches(job: PretrainJob, first_step: int) -> Any:
        for step, batches in enumerate(original(job, first_step), start=first_step):
            if step == STEP:
                raise OSError(5, "the disk fails")
            yield batches

    PretrainJob.iter_batches = iter_batches  # type: ignore[method-assign,assignment]


def fail_in_step() -> None:
    original = PretrainJob.find_options

    def find_options(job: PretrainJob, step: int) -> Any:
        if step == STEP:
            raise ZeroDivisionError("an error of this process")
        return original(job, step)

    PretrainJob.find_options = find_options  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    if os.environ["RANK"] == "1":
        {"data": fail_in_data, "step": fail_in_step}[os.environ["FAULT"]]()
    main(sys.argv[1:])
