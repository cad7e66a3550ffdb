"""`python -m bench.many_texts MODEL TEXTS`: workers of one thread against one process, and their memory.

TEXTS is a text file with one text per line. Both sides embed the same texts with warm processes, interleaved.
`python -m bench.many_texts MODEL memory` prints the memory that the weights add to a worker.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

NUM_SHARDS = 8
ROUNDS = 5
_WORKER = """
import sys
from albert.pretrained.folder import load_model, load_vocabulary
from albert.pretrained.hub import resolve_source
path, kind = resolve_source(sys.argv[1]), sys.argv[2]
tokenizer = load_vocabulary(path)
if kind != "none":
    model = load_model(path, is_shared=kind == "shared").model
    total = sum(float(p.detach().sum()) for p in model.parameters())  # reads every page
print(flush=True)
sys.stdin.read()
"""


def measure_speed(model: str, path: Path) -> dict[str, float]:
    """Compute texts per second of two workers with a thread each, and of one process with two threads."""
    import torch

    from albert.data.engines import LocalEngine
    from albert.model.runtime import RuntimeSettings
    from albert.pretrained.hub import resolve_source
    from albert.tasks import many_texts
    from albert.tasks.catalogue import find_task
    from albert.tasks.predictor import load

    torch.set_num_threads(2)
    texts = path.read_text(encoding="utf-8").splitlines()
    paths = (resolve_source(model).absolute(),)
    key = json.dumps({"model": many_texts._hash_models(paths)})
    options = many_texts._EmbeddingOptions(pooling=None, is_normalized=None, depth=None)
    job = many_texts._EmbedJob(key, paths, RuntimeSettings(), None, options=options)
    num_rows = -(-len(texts) // NUM_SHARDS)
    found = many_texts._find_input(path, find_task("embedding"), num_rows, "out", columns={}, format="lines")
    tasks = [
        many_texts._ShardTask(many_texts._Shard("", len(rows), many_texts._hash_rows(rows)), job, rows)
        for rows in found.iter_shards()
    ]
    predictor = load(model)
    predictor.max_text = predictor.max_text or predictor.model.config.max_position_embeddings
    seconds: dict[str, list[float]] = {"workers": [], "threads": []}
    with LocalEngine(2) as engine:
        for number in range(ROUNDS + 1):
            start = time.perf_counter()
            for _ in engine.run(many_texts._compute_shard, tasks):
                pass
            middle = time.perf_counter()
            predictor.embed(texts)
            if number:  # the first round loads the models
                seconds["workers"].append(middle - start)
                seconds["threads"].append(time.perf_counter() - middle)
    ratios = [b / a for a, b in zip(seconds["workers"], seconds["threads"], strict=True)]
    tokens = sum(len(each.ids) for each in predictor.tokenizer.encode_batch(texts)) / len(texts)
    speeds = {name: len(texts) / statistics.median(values) for name, values in seconds.items()}
    return {**speeds, "ratio": statistics.median(ratios), "tokens_per_text": tokens}


def measure_memory(model: str, num_workers: int) -> dict[str, float]:
    """Compute the megabytes that a worker has more with weights than with the vocabulary only."""
    found: dict[str, dict[str, float]] = {}
    for kind in ("none", "shared", "private"):
        command = [sys.executable, "-c", _WORKER, model, kind]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        workers = [subprocess.Popen(command, **pipes) for _ in range(num_workers)]  # type: ignore[call-overload]
        for worker in workers:
            worker.stdout.readline()
        sizes = [read_sizes(worker.pid) for worker in workers]
        found[kind] = {key: statistics.mean(each[key] for each in sizes) for key in sizes[0]}
        for worker in workers:
            worker.communicate()
    return {
        f"{kind} {key}": found[kind][key] - found["none"][key]
        for kind in ("shared", "private")
        for key in found[kind]
    }


def read_sizes(pid: int) -> dict[str, float]:
    """Read the proportional memory of a process and what only this process uses, in megabytes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 / 1e6 for line in lines}
    return {"PSS": sizes["Pss"], "own": sizes["Private_Clean"] + sizes["Private_Dirty"]}


def main() -> None:
    """Print the figures."""
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the commands of albert do
    model, what = sys.argv[1:]
    if what != "memory":
        print(json.dumps(measure_speed(model, Path(what)), indent=2))
        return
    for number in (2, 4, 8):
        print(
            number, "workers:", {name: round(size, 1) for name, size in measure_memory(model, number).items()}
        )


if __name__ == "__main__":
    main()
