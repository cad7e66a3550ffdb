"""`python -m bench.downstream.compare NAME=DIR …`: one table of several fine-tuned models.

The first model is compared with the others, its own baselines, BERT-Tiny and BERT-Mini. Each DIR is the
`--out` of `python -m bench.downstream`.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from albert.errors import AlbertError, InputError
from bench.downstream.findings import list_passed
from bench.downstream.reference import BERT_MINI, BERT_TINY, list_shown
from bench.downstream.results import TaskResults, read_results
from bench.downstream.table import format_baseline, format_seeds

PUBLISHED = {"BERT-Tiny": BERT_TINY, "BERT-Mini": BERT_MINI}
# The tasks on which the published models are to be exceeded.
COMPARED = ("sst-2", "mrpc", "sts-b", "rte")


def format_comparison(models: Mapping[str, Sequence[TaskResults]]) -> str:
    """Format a row for each metric of each task of the first model, then the means and findings."""
    names = list(models)
    found = {name: {result.task: result for result in results} for name, results in models.items()}
    columns = ("task", "metric", "train", "bag of words", "untrained", *names, *PUBLISHED)
    lines = [f"| {' | '.join(columns)} |", "|---|---" + "|---:" * (len(columns) - 2) + "|"]
    for task, own in found[names[0]].items():
        for metric in list_shown(task):
            seeds = [
                found[name][task].summarize("pretrained", metric) if task in found[name] else None
                for name in names
            ]
            if seeds[0] is None:
                continue
            published = [scores.get(task, {}).get(metric) for scores in PUBLISHED.values()]
            cells = [
                task,
                metric.replace("_", " "),
                f"{own.data.num_train:,}",
                format_baseline(own.find_best(metric, is_trivial=False)),
                format_seeds(own.summarize("untrained", metric)),
                *map(format_seeds, seeds),
                *(
                    "–" if score is None else f"{score:.1f}" if own.data.is_complete else f"({score:.1f})"
                    for score in published
                ),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(f"- {line}" for line in _list_findings(found))]) + "\n"


def _list_findings(found: Mapping[str, Mapping[str, TaskResults]]) -> list[str]:
    own_name, *others = found
    own = {
        task: result for task, result in found[own_name].items() if result.summarize("pretrained", "score")
    }
    lines = []
    for name in others:
        both = [
            task for task in own if task in found[name] and found[name][task].summarize("pretrained", "score")
        ]
        if both:
            first, second = (fmean(_score(found[each][task]) for task in both) for each in (own_name, name))
            means = f"{own_name} {first:.1f}, {name} {second:.1f} ({first / second:.1%})"
            lines.append(f"Mean of {len(both)} tasks: {means}.")
    words = {task: result.find_best("score", is_trivial=False) for task, result in own.items()}
    beaten = [(task, round(_score(own[task]), 1) > round(best[1], 1)) for task, best in words.items() if best]
    lines.append(list_passed(f"{own_name} above the bag of words", beaten))
    for name, scores in PUBLISHED.items():
        known = [
            (f"{task} {metric}", summary.median > score)
            for task in COMPARED
            for metric, score in scores[task].items()
            if task in own and (summary := own[task].summarize("pretrained", metric)) is not None
        ]
        lines.append(list_passed(f"{own_name} (dev) above {name} (test)", known))
    return lines


def _score(result: TaskResults) -> float:
    summary = result.summarize("pretrained", "score")
    assert summary is not None, "the caller has selected the tasks with a score"
    return summary.median


def main(words: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.downstream.compare", description=__doc__)
    parser.add_argument("models", nargs="+", metavar="NAME=DIR", help="such as mini=runs/mini")
    args = parser.parse_args(words)
    try:
        folders = dict(_split(word) for word in args.models)
        print(format_comparison({name: read_results(folder) for name, folder in folders.items()}), end="")
    except AlbertError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _split(word: str) -> tuple[str, Path]:
    name, equals, folder = word.partition("=")
    if not equals:
        raise InputError(f"{word}: expected NAME=DIR, such as mini=runs/mini")
    return name, Path(folder)


if __name__ == "__main__":
    sys.exit(main())
