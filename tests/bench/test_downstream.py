"""The table of all tasks: it resumes where it stopped, and a failure costs one cell."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from albert.errors import AlbertError
from albert.files import hold, read_json
from albert.model.config import Initialization
from albert.pretrained.folder import load_model, save_untrained
from albert.progress import NullReporter
from albert.tasks.catalogue import PUBLISHED_TASKS
from albert.training.loop import StoppedError
from bench.downstream.__main__ import build_parser, compare, main
from bench.downstream.ensembles import Ensemble, measure_ensemble
from bench.downstream.experiment import Experiment
from bench.downstream.findings import find_gain, list_findings
from bench.downstream.plan import parse_cuts
from bench.downstream.reference import DataSizes
from bench.downstream.results import TaskResults
from bench.downstream.subsets import write_subset
from bench.downstream.table import format_table
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
    arms = [f"{arm}-{seed}" for arm in ("pretrained", "untrained") for seed in range(2)]
    wanted = {f"results/{task}/{name}.json" for task in ("mrpc", "sst-2") for name in ("baselines", *arms)}
    assert set(read_results(whole)) == wanted
    assert not list(whole.rglob("checkpoints"))  # they are large, and of no use any more
    folders = list((whole / "runs").rglob("model"))
    assert len(folders) == 2 * len(arms)
    for folder in folders:
        load_model(folder)  # rejects a folder that is not complete
    found = read_json(whole / "results" / "sst-2" / "pretrained-0.json")
    assert (found["task"], found["variant"], found["seed"], found["num_steps"]) == (
        "sst-2",
        "pretrained",
        0,
        6,
    )
    assert found["settings"]["seed"] == 0
    assert found["seconds"] > 0


def test_table_has_a_row_for_each_metric(whole):
    text = (whole / "table.md").read_text()
    for words in (
        "| sst-2 | accuracy |", "| mrpc | accuracy |", "|  | f1 |", "(majority)", "(bag of words)", "± ",
        "60 of 67,349 training examples, 24 of 872 dev examples; **reduced", "| (83.2) |",
        "`python -m bench.downstream --model MODEL --data DATA --out DIR --tasks mrpc,sst-2",
    ):  # fmt: skip
        assert words in text, words
    assert "BERT-Tiny's figure" not in text  # other data: not compared


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


def test_an_ensemble_has_the_first_finished_seeds(tiny_folder, data, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "copy")
    shop = Experiment(tiny_folder, data, tmp_path / "copy", max_train={})
    assert measure_ensemble("sst-2", range(2), shop, reporter=NullReporter()) is None  # three are wanted
    found = measure_ensemble("sst-2", range(2), shop, reporter=NullReporter(), num_members=2)
    alone = [read_json(whole / "results" / "sst-2" / f"pretrained-{seed}.json") for seed in range(2)]
    assert found.members == pytest.approx([each["metrics"]["score"] for each in alone])
    assert found.standard_error > 0
    assert found == measure_ensemble(
        "sst-2", range(2), shop, reporter=NullReporter(), num_members=2
    )  # as written


def test_a_finished_comparison_runs_nothing(tiny_folder, data, whole, capsys):
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*.json")}
    assert main(list_words(tiny_folder, data, whole)) == 0
    captured = capsys.readouterr()
    assert "0 of 10 trials are left: about 0s" in captured.err
    assert captured.out == (whole / "table.md").read_text()
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*.json")} == before


def test_runs_with_other_settings_are_rejected(tiny_folder, data, whole, tmp_path, capsys):
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    path = next(path for path in sorted(out.glob("results/*/pretrained-0.json")))
    result = json.loads(path.read_text())
    result["settings"]["batch_size"] = 999
    path.write_text(json.dumps(result))
    assert main(list_words(tiny_folder, data, out)) == 2
    assert "settings.batch_size is 999 and was" in capsys.readouterr().err


def test_a_failed_trial_does_not_stop_the_others(tiny_folder, data, tmp_path, capsys):
    words = [*list_words(tiny_folder, data, tmp_path / "out"), "--tasks", "sst-2", "--seeds", "1"]
    stranger = tmp_path / "out" / "runs" / "sst-2" / "untrained-0" / "letter.txt"
    stranger.parent.mkdir(parents=True)
    stranger.write_text("not a run")
    assert main(words) == 0
    text = (tmp_path / "out" / "table.md").read_text()
    assert "missing: sst-2 untrained-0 (" in text
    assert "letter.txt" in text
    assert (tmp_path / "out" / "results" / "sst-2" / "pretrained-0.json").exists()
    stranger.unlink()
    assert main(words) == 0
    assert "missing:" not in (tmp_path / "out" / "table.md").read_text()


def test_a_trial_of_another_process_is_left_to_it(tiny_folder, data, tmp_path):
    words = [*list_words(tiny_folder, data, tmp_path / "out"), "--tasks", "sst-2", "--seeds", "1"]
    with hold(tmp_path / "out" / "results" / "sst-2" / "untrained-0.lock", busy="no"):
        assert main(words) == 0
    text = (tmp_path / "out" / "table.md").read_text()
    assert "missing: sst-2 untrained-0 (running in another process)" in text
    assert "(one seed) | – |" in text
    assert main(words) == 0
    assert "missing:" not in (tmp_path / "out" / "table.md").read_text()


def test_other_settings_need_another_folder(tiny_folder, data, whole, capsys):
    assert main([*list_words(tiny_folder, data, whole), "optimizer.learning_rate=1e-3"]) == 2
    assert "started with other settings of sst-2" in capsys.readouterr().err


def test_settings_of_a_task_without_results_may_change(tiny_folder, data, tmp_path, capsys):
    words = list_words(tiny_folder, data, tmp_path / "out", "--estimate", "--tasks", "sst-2")
    assert main([*words, "mrpc:num_epochs=1"]) == 0
    (tmp_path / "out" / "results" / "sst-2-40").mkdir(parents=True)
    assert main([*words, "mrpc:num_epochs=2"]) == 0
    assert read_json(tmp_path / "out" / "plan.json")["overrides"][-1] == "mrpc:num_epochs=2"
    assert main([*words, "mrpc:num_epochs=2", "sst-2:num_epochs=2"]) == 2
    assert "started with other settings of sst-2" in capsys.readouterr().err


def test_no_run_starts_beyond_the_budget(tiny_folder, data, tmp_path):
    assert main([*list_words(tiny_folder, data, tmp_path / "out"), "--budget", "1s"]) == 0
    assert "over the budget" in (tmp_path / "out" / "table.md").read_text()
    assert {path.name for path in (tmp_path / "out" / "results").rglob("*.json")} == {"baselines.json"}


def test_an_estimate_trains_nothing(tiny_folder, data, tmp_path, capsys):
    assert main([*list_words(tiny_folder, data, tmp_path / "out"), "--estimate"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "sst-2: 60 training examples" in captured.err
    assert "10 of 10 trials are left: about " in captured.err
    assert not (tmp_path / "out" / "runs").exists()


def test_untrained_models_differ_only_in_their_weights(tiny_folder, tmp_path):
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        save_untrained(tiny_folder, tmp_path / name, seed=seed, start=Initialization())
    one, same, other = (load_model(tmp_path / name, heads={}).model for name in ("one", "same", "other"))
    assert one.config == load_model(tiny_folder, heads={}).config
    word = "encoder.embeddings.word.weight"
    assert one.state_dict()[word].equal(same.state_dict()[word])
    assert not one.state_dict()[word].equal(other.state_dict()[word])


def test_subsets_of_lines_keep_their_order(data, tmp_path):
    task = PUBLISHED_TASKS["mrpc"]
    kept = [
        task.read_split(write_subset(task, data, out=tmp_path / name, max_train=20), "train").examples
        for name in ("one", "again")
    ]
    everything = task.read_split(data, "train").examples
    assert len(kept[0]) == 20
    assert kept[0] == kept[1]
    rest = ((each.first, each.second, each.label) for each in everything)
    assert all((each.first, each.second, each.label) in rest for each in kept[0])  # in their order
    assert task.read_split(tmp_path / "one", "dev").examples == task.read_split(data, "dev").examples


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


def test_max_train_of_all_large_tasks_and_of_one():
    tasks = ["sst-2", "mnli", "race"]
    assert parse_cuts(["4000", "race=100"], tasks) == {"mnli": 4000, "race": 100}
    assert parse_cuts(["sst-2=7"], tasks) == {"sst-2": 7}
    with pytest.raises(AlbertError, match="expected a number"):
        parse_cuts(["many"], tasks)


def test_settings_of_all_tasks_and_of_one(tmp_path):
    words = ("num_steps=6", "squad-1.1:num_steps=9", "sst-2:optimizer.learning_rate=1e-3")
    shop = Experiment(tmp_path, tmp_path, tmp_path, max_train={}, overrides=words)
    assert shop.list_overrides("squad-1.1") == ("num_steps=6", "num_steps=9")
    assert shop.list_overrides("sst-2") == ("num_steps=6", "optimizer.learning_rate=1e-3")
    assert shop.list_overrides("mrpc") == ("num_steps=6",)


def score(*scores: float) -> dict[int, dict[str, float]]:
    return {seed: {"accuracy": value, "score": value} for seed, value in enumerate(scores)}


SENTIMENT = TaskResults(
    DataSizes("sst-2", 67_349, 872), {"majority": score(50.9)[0], "bag_of_words": score(82.0)[0]},
    untrained=score(79.0, 80.0, 82.0), pretrained=score(84.0, 85.0, 85.5), seconds=3725.0,
)  # fmt: skip


def test_format_of_a_row():
    assert format_table([SENTIMENT]).splitlines()[2] == (
        "| sst-2 | accuracy | 50.9 (majority) | 82.0 (bag of words) | 80.0 ± 1.5 | 85.0 ± 0.8 | +5.0 | 83.2 "
        "| 1h 02m |"
    )


def test_findings():
    entailment = TaskResults(
        DataSizes("rte", 2490, 277), {"bag_of_words": score(56.0)[0]}, score(50, 54, 58), score(54, 55, 57)
    )
    winograd = TaskResults(DataSizes("wnli", 635, 71), {}, score(60, 60, 60), score(62, 60, 58))
    reduced = TaskResults(DataSizes("qnli", 3963, 500), {}, score(70.0), score(90.0, 90.0))
    found = list_findings(
        [SENTIMENT, entailment, winograd], [Ensemble("sst-2", (0, 1, 2), (84, 85, 85.5), 84.9, 1.2)]
    )
    said = "against 80.00, +5.00; larger than the standard deviation of 1.53 over 3 seeds."
    assert found[0] == f"Pretrained against untrained on sst-2: median 85.00 {said}"
    # Means of the two tasks by seed: 58, 57.5, 57.5 against 55, 57, 59.
    said = "against 57.00, +0.50; **not** larger than the standard deviation of 2.00 over 3 seeds."
    name = "the mean of the others (2 tasks)"
    assert found[1] == f"Pretrained against untrained on {name}: median 57.50 {said}"
    assert found[2] == "Better than both trivial and bag of words on sst-2; not on rte."
    assert found[3].endswith(" on sst-2 accuracy; not on rte accuracy, wnli accuracy.")
    assert found[4].endswith("more than one standard error below the median member: no.")
    assert (
        "no standard deviation" in find_gain("qnli", [reduced]).describe()
    )  # the one seed that both arms have
    assert not any("BERT" in line for line in list_findings([reduced], []))
