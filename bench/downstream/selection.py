"""`python -m bench.downstream.selection`: hold out a part of each training set, to choose settings on.

The output is a folder for `python -m bench.downstream --data`. The official dev sets are not copied.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from albert.tasks.catalogue import PUBLISHED_TASKS
from bench.downstream.plan import list_tasks
from bench.downstream.subsets import write_selection


def main(words: Sequence[str] | None = None) -> int:
    """Write the folder."""
    parser = argparse.ArgumentParser(prog="python -m bench.downstream.selection", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with glue/, squad/ and race/")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", help="such as sst-2,mrpc [default: all in the data]")
    parser.add_argument("--num-dev", type=int, default=1000, help="of each task; of small ones a fifth")
    args = parser.parse_args(words)
    for name in list_tasks(args.tasks, args.data):
        task = PUBLISHED_TASKS[name]
        number = min(args.num_dev, len(task.read_split(args.data, "train").examples) // 5)
        write_selection(task, args.data, out=args.out, num_dev=number)
        print(f"{name}: about {number:,} examples held out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
