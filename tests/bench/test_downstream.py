"""The table of all tasks: it resumes where it stopped, and a failure costs one cell."""

import os
import re
import signal
from pathlib import Path

import pytest

from albert.files import read_json
from albert.pretrained.folder import load_model
from albert.progress import NullReporter
from albert.tasks.catalogue import PUBLISHED_TASKS
from albert.training.loop import StoppedError
from bench.downstream import results as trial_results
from bench.downstream.__main__ import build_parser, compare, main
from bench.downstream.compare import format_comparison
from bench.downstream.subsets import write_selection, write_subset
from tests.bench.official_files import write_passages, write_questions, write_tasks

SHORT = ("num_steps=6", "batch_size=8", "num_evaluations=2", "log_every=1", "dropout=0.1")


def list_words(model: Path, data: Path, out: Path, *more: str) -> list[str]:
    return [
        "--model", str(model), "--data", str(data), "--out", str(out), "--tasks", "mrpc,sst-2",
        "--seeds", "2", "--threads", "1", *more, *SHORT,
    ]  # fmt: skip


class StopAt(NullReporter):
    """Stops this process like Ctrl-C, at a step of a trial."""

    def __init__(self, trial: str, step: int) -> None:
        self.trial, self.step, self.now = trial, step, ""

    def say(self, text: str) -> None:
        self.now = text if re.match(r"\d+ of \d+: ", text) else self.now

    def show(self, stage: str, message: str, *, fraction: float | None = None) -> None:
        if f", {self.trial} (" in self.now and f"step {self.step} of" in message:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("official")
    return write_tasks(folder)


@pytest.fixture(scope="module")
def whole(tiny_folder, data, tmp_path_factory) -> Path:
    out: Path = tmp_path_factory.mktemp("whole") / "out"
    assert main(list_words(tiny_folder, data, out)) == 0
    return out


def read_results(out: Path) -> dict[str, dict[str, object]]:
    found = {str(path.relative_to(out)): read_json(path) for path in (out / "results").rglob("*.json")}
    return {
        name: {key: value for key, value in each.items() if key != "seconds"} for name, each in found.items()
    }


def test_every_trial_leaves_a_result(whole):
    runs = [f"{name}-{seed}" for name in ("pretrained", "untrained") for seed in range(2)]
    wanted = {f"results/{task}/{name}.json" for task in ("mrpc", "sst-2") for name in ("baselines", *runs)}
    assert set(read_results(whole)) == wanted
    assert not list(whole.rglob("checkpoints"))  # they are large, and of no use any more
    folders = list((whole / "runs").rglob("model"))
    assert len(folders) == 2 * len(runs)
    for folder in folders:
        load_model(folder)  # rejects a folder that is not complete
    found = read_json(whole / "results" / "sst-2" / "pretrained-0.json")
    assert (found["task"], found["settings"]["seed"], found["num_steps"]) == ("sst-2", 0, 6)
    text = (whole / "table.md").read_text()
    assert all(words in text for words in ("| sst-2 | accuracy |", "| mrpc | accuracy |", "|  | f1 |", "± "))


def test_a_stopped_comparison_resumes_to_the_same_results(tiny_folder, data, whole, tmp_path, capsys):
    words = list_words(tiny_folder, data, tmp_path / "out")
    for trial in ("untrained-0", "pretrained-1"):  # of the task that comes first
        with pytest.raises(StoppedError, match="SIGTERM"):
            compare(build_parser().parse_intermixed_args(words), command="", reporter=StopAt(trial, 3))
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "results").rglob("*.json")}
    assert 0 < len(before) < 10
    assert main(words) == 0
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())  # nothing is done twice
    assert read_results(tmp_path / "out") == read_results(whole)


def test_a_failed_trial_does_not_stop_the_others(tiny_folder, data, tmp_path, capsys):
    words = [*list_words(tiny_folder, data, tmp_path / "out"), "--tasks", "sst-2", "--seeds", "1"]
    stranger = tmp_path / "out" / "runs" / "sst-2" / "untrained-0" / "letter.txt"
    stranger.parent.mkdir(parents=True)
    stranger.write_text("not a run")
    assert main(words) == 0
    assert "letter.txt" in (tmp_path / "out" / "table.md").read_text()
    assert (tmp_path / "out" / "results" / "sst-2" / "pretrained-0.json").exists()
    stranger.unlink()
    assert main(words) == 0
    assert "letter.txt" not in (tmp_path / "out" / "table.md").read_text()


def test_models_are_compared_with_each_other_and_with_published_scores():
    results = trial_results.read_results(Path("release/nano/record/downstream"))
    table = format_comparison({"own": results, "same": results})
    assert "| 82.7 (bag of words) | 80.2 ± 0.5 | 83.1 ± 0.7 | 83.1 ± 0.7 | 83.2 | 85.9 |" in table
    assert "(100.0%)" in table


def test_other_settings_need_another_folder(tiny_folder, data, whole, capsys):
    assert main([*list_words(tiny_folder, data, whole), "optimizer.learning_rate=1e-3"]) == 2
    assert "sst-2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "write", "num_train", "max_train", "kept"),
    [
        ("squad-1.1", write_questions, 20, 7, {"train": 7, "dev": 4}),
        ("race", write_passages, 8, 10, {"train": 9, "dev": 6}),  # three whole passages
    ],
)
def test_subsets_keep_the_dev_set(tmp_path, name, write, num_train, max_train, kept):
    task, folder = PUBLISHED_TASKS[name], write(tmp_path / "all", num_train=num_train)
    out = write_subset(task, folder, out=tmp_path / "some", max_train=max_train)
    assert {split: len(task.read_split(out, split).examples) for split in kept} == kept


@pytest.mark.parametrize(
    ("name", "write"), [("squad-1.1", write_questions), ("race", write_passages), ("mrpc", None)]
)
def test_a_selection_splits_the_training_set(data, tmp_path, name, write):
    task = PUBLISHED_TASKS[name]
    folder = data if write is None else write(tmp_path / "all", num_train=20)
    before = task.read_split(folder, "train").examples
    write_selection(task, folder, out=tmp_path / "select", num_dev=15 if name == "race" else 5)
    train, dev = (task.read_split(tmp_path / "select", split).examples for split in ("train", "dev"))
    assert len(train) + len(dev) == len(before)
    assert 5 <= len(dev) < len(before) / 2
    assert {each.texts for each in (*train, *dev)} == {each.texts for each in before}
