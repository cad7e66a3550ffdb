"""Record what albert computes on fixed inputs, so that a change can be compared with the code before it.

    python -m tests.golden.record OUT.json [CASE ...]

With the `src` of two checkouts on PYTHONPATH, one after the other, the files are the same to the last bit on
one machine. `test_golden.py` compares with `golden.json`, which may be from another machine: integers and
texts by hash, floats within 1e-3.

Everything goes through the command line, whose flags, files and JSON are stable, never through modules.
"""

import json
import sys
import tempfile
from pathlib import Path

import torch

from tests.golden.cases import CASES, Golden, Record


def main(path: Path, names: list[str]) -> None:
    """Run cases in this process, with one thread; other cases in the file keep their values."""
    torch.set_num_threads(1)
    records = json.loads(path.read_text(encoding="utf-8")) if names and path.exists() else {}
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        for name in names or CASES:
            record = Record()
            CASES[name](Golden(Path(folder)), record)
            records[name] = vars(record)
            print(name, file=sys.stderr, flush=True)
    path.write_text(json.dumps(records, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
