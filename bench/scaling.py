"""`python -m bench.scaling`: compute the step time of N processes from a model, a batch and a network.

`bench/exchange.py` has the formula of DDP. FSDP2 on the root module gathers the weights before the forward
pass and scatters the gradients after the backward pass, half of a ring all-reduce each, and hides nothing.
Does not import torch.
"""

import argparse
from collections.abc import Sequence

from albert.study.step_costs import build_pair, count_operations
from bench.exchange import Job, Link, StepTime, list_buckets, predict_ddp

NUM_PROCESSES = (1, 2, 4, 8, 16, 32, 64)


def predict_fsdp(job: Job, link: Link, *, num_processes: int) -> StepTime:
    """Predict a step of FSDP2: gather all weights, compute, scatter all gradients, update a part each."""
    return StepTime(
        compute_seconds=(job.model_seconds + job.optimizer_seconds) / num_processes,
        exposed_seconds=link.find_ring_seconds(job.num_bytes, num_processes=num_processes),
        small_seconds=2 * (num_processes - 1) * link.latency_seconds,
    )


STRATEGIES = {"ddp": predict_ddp, "fsdp": predict_fsdp}


def build_table(
    shape: str,
    *,
    num_tokens: int,
    length: int,
    micro_batch_tokens: int,
    operations_per_second: float,
    latency_seconds: float,
    bandwidths: Sequence[float],
    strategy: str = "ddp",
) -> list[str]:
    """Build the rows of a Markdown table: seconds per step and the speed-up, by number of processes."""
    pair = build_pair(shape)
    names = [f"{family}, {bandwidth / 1e9:g} Gbit/s" for bandwidth in bandwidths for family in pair]
    lines = [f"| processes | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    predict = STRATEGIES[strategy]
    for num_processes in NUM_PROCESSES:
        cells = []
        for bandwidth in bandwidths:
            for config in pair.values():
                rate = count_operations(config, length=length) / operations_per_second
                seconds = num_tokens * rate
                job = Job(seconds, list_buckets(config), micro_batch_seconds=micro_batch_tokens * rate)
                found = predict(job, Link(latency_seconds, bandwidth), num_processes=num_processes)
                cells.append(f"{_format_seconds(found.seconds)} ({seconds / found.seconds:.1f}×)")
        lines.append(f"| {num_processes} | {' | '.join(cells)} |")
    return lines


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def main(words: Sequence[str] | None = None) -> None:
    """Print the table for the given figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__.partition("\n")[0])
    parser.add_argument("--shape", default="large", choices=["nano", "base", "large", "xlarge", "xxlarge"])
    parser.add_argument("--sequences", type=int, default=4096, help="per step, over all processes")
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--micro-batch-tokens", type=int, default=32768)
    parser.add_argument("--operations", type=float, default=50e12, help="per second, reached by one process")
    parser.add_argument("--latency", type=float, default=50e-6, help="seconds between neighbors")
    parser.add_argument(
        "--bandwidth", type=float, nargs="+", default=[1e9, 10e9, 100e9], help="bits per second"
    )
    parser.add_argument("--strategy", default="ddp", choices=sorted(STRATEGIES))
    options = parser.parse_args(words)
    table = build_table(
        options.shape,
        num_tokens=options.sequences * options.length,
        length=options.length,
        micro_batch_tokens=options.micro_batch_tokens,
        operations_per_second=options.operations,
        latency_seconds=options.latency,
        bandwidths=options.bandwidth,
        strategy=options.strategy,
    )
    print("\n".join(table))


if __name__ == "__main__":
    main()
