"""`albert` whose second process fails at a step: FAULT says of what, the data or the step itself."""

import os
import sys
from typing import Any

from albert.cli.main import main

STEP = 5


def fail_in_data() -> None:
    from albert.training.pretrain_job import PretrainJob

    whole = PretrainJob.iter_batches

    def iter_batches(job: PretrainJob, first_step: int) -> Any:
        for number, batches in enumerate(whole(job, first_step), start=first_step):
            if number == STEP:
                raise OSError(5, "the disk does not answer")
            yield batches

    PretrainJob.iter_batches = iter_batches  # type: ignore[method-assign,assignment]


def fail_in_step() -> None:
    from albert.training.step import StepTaker

    whole = StepTaker.take

    def take(taker: Any, step: int, *arguments: Any, **options: Any) -> Any:
        if step == STEP:
            raise ZeroDivisionError("a mistake of this process alone")
        return whole(taker, step, *arguments, **options)

    StepTaker.take = take  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    if os.environ["RANK"] == "1":
        {"data": fail_in_data, "step": fail_in_step}[os.environ["FAULT"]]()
    main(sys.argv[1:])
