"""`albert finetune`: what it prints, where it stops, and what it takes for a model and a recipe."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from albert.pretrained.hub import resolve_source
from albert.tasks.catalogue import read_config
from albert.training.checkpoints import CheckpointFolder
from albert.training.metrics import iter_records
from tests.conftest import Outcome, RunAlbert
from tests.hub_cache import put_into_hub_cache
from tests.tasks.tables import draw_rows, write_rows, write_tables

SHORT = ("num_steps=6", "batch_size=4", "num_evaluations=2", "has_tensorboard=false", "log_every=1")
Finetune = Callable[..., Outcome]


@pytest.fixture
def data(tmp_path) -> Path:
    return write_tables(tmp_path / "data", "classification", num_train=30, num_dev=10)


@pytest.fixture
def finetune(run_albert: RunAlbert, tiny_folder: Path, data: Path, tmp_path: Path) -> Finetune:
    """`albert finetune classification` of the tiny model, in six steps, into tmp_path/run."""

    def run(*words: object, model: object = tiny_folder, data: Path = data) -> Outcome:
        common = ("--model", model, "--data", data, "--out", tmp_path / "run")
        return run_albert("finetune", "classification", *common, *SHORT, *words)

    return run


def read_settings(run_dir: Path) -> dict[str, Any]:
    import yaml

    found: dict[str, Any] = yaml.safe_load((run_dir / "settings.yaml").read_text())
    return found


def test_a_person_reads_the_scores_and_where_the_model_is(finetune, tmp_path):
    outcome = finetune()
    assert outcome.code == 0, outcome.err
    rows = dict(line.split(maxsplit=1) for line in outcome.out.splitlines())
    assert rows["model"].strip() == str(tmp_path / "run" / "model")
    assert rows["steps"].startswith("6 of 6, best at ")
    assert "dev, accuracy" in outcome.out
    assert read_config(tmp_path / "run" / "model").task == "classification"


def test_a_program_reads_json_and_nothing_else(finetune, tmp_path):
    found = json.loads(finetune("--json").out)
    assert found["model"] == str(tmp_path / "run" / "model")
    assert (found["is_finished"], found["step"], found["num_steps"]) == (True, 6, 6)
    assert found["best_step"] in (3, 6)
    assert set(found["scores"]) == {"accuracy", "macro_f1", "score"}
    assert json.loads((tmp_path / "run" / "result.json").read_text())["metrics"] == found["scores"]


def test_progress_is_told_on_stderr(finetune):
    said = finetune().err
    assert "30 training examples, 270 tokens in 30 sequences; 10 dev examples" in said
    assert "max_length=40, " in said  # the model's positions, not the recipe's 128
    assert "finetune: step 6 of 6, task " in said
    assert " pieces/s, 0s left (100%)" in said
    assert said.count(", held out: accuracy ") == 2
    assert "scoring: the model of step" in said
    assert "are cut" not in said


def test_texts_that_are_too_long_are_counted(finetune):
    assert "30 of 30 texts to 8 tokens. Set max_length (up to 40)" in finetune("max_length=8").err


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (16, "5 of 30 questions to 8 tokens. Set max_length=40"),
        (40, "5 of 30 questions to 20 tokens."),
    ],
)
def test_questions_that_are_too_long_are_counted(run_albert, tiny_folder, tmp_path, length, said):
    rows = draw_rows("questions", 40, seed=1)
    rows[:5] = [row | {"question": "the dog was " * 20} for row in rows[:5]]
    train, dev = (
        write_rows(tmp_path / name, part)
        for name, part in (("train.jsonl", rows[:30]), ("dev.jsonl", rows[:3] + rows[30:]))
    )
    out = tmp_path / "run"
    common = ("--model", tiny_folder, "--data", train, "--dev", dev, "--out", out)
    done = run_albert("finetune", "questions", *common, *SHORT, f"max_length={length}")
    assert said in done.err
    asked = run_albert("predict", "questions", "--model", out, dev, "--out", tmp_path / "answers.jsonl")
    assert f"3 of 13 questions to {length // 2} tokens." in asked.err


def test_thresholds_that_answer_nothing_are_told_in_words(run_albert, tiny_folder, tmp_path, monkeypatch):
    """Two seeds, whose median would be twice the largest number there is."""
    from albert.tasks import question_answering
    from albert.tasks.metrics.squad import ANSWER_NOTHING

    monkeypatch.setattr(question_answering, "choose_threshold", lambda part: ANSWER_NOTHING)
    rows = draw_rows("questions", 20, seed=1)
    rows[:10] = [row | {"answers": {"text": [], "answer_start": []}} for row in rows[:10]]
    data = write_rows(tmp_path / "train.jsonl", rows)
    common = ("--model", tiny_folder, "--data", data, "--dev", data, *SHORT)
    one = run_albert("finetune", "questions", *common, "--out", tmp_path / "one")
    two = run_albert("finetune", "questions", *common, "--out", tmp_path / "two", "--seeds", "2")
    card = (tmp_path / "one" / "model" / "README.md").read_text()
    for text in (one.out, " ".join(two.out.replace("│", " ").split()), card):
        assert "nothing" in text
        assert "17976931" not in text
    text = (tmp_path / "two" / "seeds.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["median"]["threshold"] == ANSWER_NOTHING


@pytest.mark.parametrize(
    ("words", "seed"), [((), 0), (("--seed", "7"), 7), (("seed=5",), 5)], ids=["none", "--seed", "seed="]
)
def test_a_seed_can_be_told_in_two_ways(finetune, tmp_path, words, seed):
    assert finetune(*words).code == 0
    assert read_settings(tmp_path / "run")["seed"] == seed


def test_a_recipe_is_a_name_or_a_file(finetune, tmp_path):
    assert finetune("--recipe", "paper-rte", "schedule.warmup_steps=2").code == 0
    assert read_settings(tmp_path / "run")["optimizer"]["learning_rate"] == 3e-5
    mine = tmp_path / "mine.yaml"
    mine.write_text("based_on: small\noptimizer: {learning_rate: 0.5}\npatience: 9\n")
    assert finetune("--recipe", mine, "--out", tmp_path / "other").code == 0
    found = read_settings(tmp_path / "other")
    assert (found["optimizer"]["learning_rate"], found["patience"], found["num_steps"]) == (0.5, 9, 6)


def test_a_run_of_fine_tuning_is_a_model(finetune, tmp_path):
    """RTE starts from MNLI like this."""
    assert finetune().code == 0
    again = finetune("--out", tmp_path / "second", model=tmp_path / "run")
    assert again.code == 0, again.err
    facts = json.loads((tmp_path / "second" / "run.json").read_text())
    assert facts["model"] == str(tmp_path / "run" / "model")


def test_a_model_on_the_hub_is_known_by_its_name(finetune, tiny_folder, tmp_path, monkeypatch):
    """Offline, as it lies in the hub's cache."""
    put_into_hub_cache(
        "someone/tiny", tiny_folder, cache=tmp_path / "cache", revision="main", monkeypatch=monkeypatch
    )
    outcome = finetune(model="someone/tiny")
    assert outcome.code == 0, outcome.err


def test_a_revision_of_the_hub_is_the_one_that_is_taught(finetune, tiny_folder, tmp_path, monkeypatch):
    put_into_hub_cache(
        "someone/tiny", tiny_folder, cache=tmp_path / "cache", revision="v2", monkeypatch=monkeypatch
    )
    assert "'someone/tiny' is not in the cache" in finetune(model="someone/tiny").error
    outcome = finetune("--revision", "v2", model="someone/tiny")
    assert outcome.code == 0, outcome.err


def test_seeds_give_a_table_the_median_and_the_best_model(finetune, tmp_path):
    outcome = finetune("--seeds", "3")
    assert outcome.code == 0, outcome.err
    assert [f"seed {seed}, {seed + 1} of 3" in outcome.err for seed in range(3)] == [True] * 3
    found = json.loads((tmp_path / "run" / "seeds.json").read_text())
    scores = [found["scores"][str(seed)]["score"] for seed in range(3)]
    assert found["median"]["score"] == sorted(scores)[1]
    assert found["best_seed"] == scores.index(max(scores))
    assert (tmp_path / "run" / found["model"] / "model.safetensors").exists()
    assert resolve_source(tmp_path / "run") == tmp_path / "run" / found["model"]  # --model RUN means the best
    rows = [line.split("│")[1:-1] for line in outcome.out.splitlines() if line.startswith("│")]
    assert [float(row[-1]) for row in rows] == pytest.approx(scores, abs=0.005)
    last = outcome.out.splitlines()[-1]
    assert last.startswith(f"median {found['median']['score']:.2f}, spread {found['spread']:.2f} (")
    assert last.endswith(f"seed-{found['best_seed']}/model")
    weights = [
        (tmp_path / "run" / f"seed-{seed}" / "model" / "model.safetensors").read_bytes() for seed in range(3)
    ]
    assert len(set(weights)) == 3


def test_more_seeds_go_on_with_those_there_are(finetune, tmp_path):
    first = json.loads(finetune("--seeds", "2", "--seed", "4", "--json").out)
    assert list(first["scores"]) == ["4", "5"]
    refused = finetune("--seeds", "3", "--seed", "4")
    assert refused.error.startswith(f"{tmp_path / 'run'}: already holds a run of seed 4; add --resume")
    more = finetune("--seeds", "3", "--seed", "4", "--json", "--resume")
    assert more.err.count("goes on at step 6 of 6") == 2
    found = json.loads(more.out)
    assert {seed: found["scores"][seed] for seed in ("4", "5")} == first["scores"]
    assert found["summary"]["num_seeds"] == 3


def test_a_single_run_and_several_seeds_do_not_share_a_folder(finetune, tmp_path):
    assert finetune().code == 0
    assert "holds a run of a single seed; choose another --out" in finetune("--seeds", "2").error
    assert finetune("--seeds", "2", "--out", tmp_path / "seeds").code == 0
    assert (
        "seeds: holds seed-0, seed-1, seeds.json, which is no run"
        in finetune("--out", tmp_path / "seeds").error
    )


@contextmanager
def signalled(number: signal.Signals, run_dir: Path, *, at_step: int) -> Iterator[None]:
    """Send this process a signal once the run has told of a step, as a terminal or a scheduler would."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            if any(record["step"] >= at_step for record in iter_records(run_dir)):
                os.kill(os.getpid(), number)
                return
            time.sleep(0.005)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


LONG = "num_steps=100000"  # no test waits for its end


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_says_so(finetune, tmp_path, number, code):
    with signalled(number, tmp_path / "run", at_step=5):
        outcome = finetune(LONG, "--json")
    assert outcome.code == code, outcome.err
    found = json.loads(outcome.out)
    assert (found["is_finished"], found["model"], found["scores"]) == (False, None, None)
    said = f"stopped by {number.name} at step {found['step']} and saved; --resume goes on"
    assert outcome.err.splitlines()[-1] == said
    assert CheckpointFolder(tmp_path / "run" / "checkpoints").list_steps() == [found["step"]]
    assert not (tmp_path / "run" / "model").exists()


def test_a_stopped_run_is_shown_without_scores(finetune, tmp_path):
    with signalled(signal.SIGTERM, tmp_path / "run", at_step=2):
        outcome = finetune(LONG)
    assert f"not finished: {tmp_path / 'run'} is at step " in outcome.out
    assert "best" not in outcome.out


def test_seeds_that_were_interrupted_go_on_where_they_were(finetune, tmp_path):
    """The first is finished, the second is stopped on its way, the third has not begun."""
    words = ("num_steps=80", "num_evaluations=1")
    with signalled(signal.SIGINT, tmp_path / "run" / "seed-1", at_step=3):
        stopped = finetune(*words, "--seeds", "3")
    assert stopped.code == 130, stopped.err
    assert stopped.err.splitlines()[-1].startswith("stopped by SIGINT at step ")
    assert not (tmp_path / "run" / "seeds.json").exists()
    assert "add --resume" in finetune(*words, "--seeds", "3").error
    resumed = finetune(*words, "--seeds", "3", "--resume")
    assert resumed.code == 0, resumed.err
    assert "goes on at step 80 of 80" in resumed.err
    assert resumed.err.count("goes on at step ") == 2
    undisturbed = finetune(*words, "--seed", "1", "--out", tmp_path / "undisturbed", "--json")
    found = json.loads((tmp_path / "run" / "seeds.json").read_text())
    assert found["scores"]["1"] == json.loads(undisturbed.out)["scores"]


def test_what_is_learned_can_be_asked_at_once(finetune, run_albert, tmp_path):
    assert finetune().code == 0
    texts = write_rows(tmp_path / "texts.jsonl", draw_rows("classification", 3, seed=9))
    asked = run_albert(
        "predict", "classification", "--model", tmp_path / "run", texts, "--out", tmp_path / "answers.jsonl"
    )
    assert asked.code == 0, asked.err
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [answer["label"] in ("yes", "no") for answer in answers] == [True] * 3


def test_help_needs_no_torch():
    code = (
        "import sys\nfrom albert.cli.main import _run\n_run(['finetune', '--help'])\n"
        "print('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "False\n"
    for word in ("TASK", "--model", "--data", "--dev", "--out", "--recipe", "--seeds", "--resume", "--json"):
        assert word in done.stdout
