"""Fine-tuning with wrong settings, models or data, or a full disk: a clear message, and nothing is lost."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import WORDS, Outcome, RunAlbert, read_tree, write_vocabulary
from tests.faults.full_disk import limit_files
from tests.tasks.tables import OWN_TABLES, draw_rows, write_rows, write_tables

FAST = ("num_steps=2", "batch_size=4", "num_evaluations=1", "has_tensorboard=false")
OTHER_WORDS = [*WORDS[:5], *(f"{word}x" for word in WORDS[5:])]
Finetune = Callable[..., Outcome]


@pytest.fixture
def finetune(run_albert: RunAlbert, tiny_folder: Path, tmp_path: Path) -> Finetune:
    """`albert finetune TASK --data DATA …` into tmp_path/run."""

    def run(task: str, data: Path, *words: object, model: object = tiny_folder) -> Outcome:
        common = ("--model", model, "--data", data, "--out", tmp_path / "run")
        return run_albert("finetune", task, *common, *FAST, *words)

    return run


@pytest.fixture
def reject(finetune, tmp_path) -> Callable[..., str]:
    """Return the one-line error of the same command, and check that no file has changed."""

    def run(task: str, data: Path, *words: object, **options: Any) -> str:
        before = read_tree(tmp_path)
        error: str = finetune(task, data, *words, **options).error
        assert read_tree(tmp_path) == before
        return error

    return run


@pytest.fixture
def data(tmp_path) -> Path:
    return write_tables(tmp_path / "data", "classification", num_train=30, num_dev=6)


@pytest.mark.parametrize(
    ("task", "words", "values"),
    [
        ("clasification", (), ("'clasification'", "classification?")),
        ("ax", (), ("ax", "mnli")),
        ("sst-2", (), ("SST-2/train.tsv",)),
        ("classification", ("columns.txt=a",), ("txt", "text?")),
        ("classification", ("columns.label_kind=several",), ("label_kind", "several", "multilabel")),
        ("classification", ("num_step=5",), ("num_step", "num_steps?")),
        ("classification", ("max_length=4",), ("max_length is 4", "8")),
        ("classification", ("--recipe", "smal"), ("'smal'", "small?")),
        ("classification", ("--seeds", "0"), ("--seeds", "1")),
        ("classification", ("--seeds", "2", "seed=3"), ("seed=3", "--seeds", "--seed")),
        ("classification", ("--seed", "2", "seed=3"), ("seed=3", "--seed")),
        ("classification", ("classifier_pooling=max",), ("classifier_pooling", "mean")),
        (
            "classification",
            ("classifier_pooling=mean", "has_exits=true"),
            ("classifier_pooling", "has_exits"),
        ),
    ],
)
def test_wrong_settings_are_rejected(reject, tmp_path, task, words, values):
    table = task if task in OWN_TABLES else "classification"
    error = reject(task, write_tables(tmp_path / "data", table, num_train=20), *words)
    assert not [value for value in values if value not in error], error


@pytest.mark.parametrize("words", [(), ("--seeds", "2")])
def test_other_files_at_the_run_folder_are_not_touched(reject, tmp_path, data, words):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")
    assert "thesis.txt" in reject("classification", data, *words)
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").write_text("mine")
    assert f"{tmp_path / 'run'}: " in reject("classification", data, *words)


def test_a_vocabulary_that_does_not_fit_is_rejected(reject, data, tiny_copy):
    write_vocabulary(tiny_copy / "vocab.txt", [*WORDS, "zebra"])
    error = reject("classification", data, model=tiny_copy)
    assert str(len(WORDS) + 1) in error
    assert str(len(WORDS)) in error
    write_vocabulary(tiny_copy / "vocab.txt", OTHER_WORDS)
    error = reject("classification", data, model=tiny_copy)
    assert f"{len(WORDS) - 5} of {len(WORDS)}" in error
    assert "tokenizer.json" in error


def test_answers_that_are_in_none_of_the_contexts_are_rejected(finetune, tmp_path):
    absent = {"answers": {"text": ["zebra"], "answer_start": [4]}}
    rows = [row | absent for row in draw_rows("question-answering", 40, seed=1)]
    outcome = finetune("question-answering", write_rows(tmp_path / "table.jsonl", rows))
    assert outcome.code == 2
    assert "36 examples" in outcome.err
    assert not (tmp_path / "run").exists()


def test_embeddings_are_evaluated_on_pairs(reject, finetune, tmp_path):
    singles = write_rows(tmp_path / "singles.csv", [{"text": f"the {word} ."} for word in WORDS[10:40]])
    assert "singles.csv" in reject("embedding", singles)
    assert "'2'" in reject("embedding", singles, "--dev", singles)
    rows = [{"text": f"the {word} .", "other": word, "score": 4.5} for word in WORDS[10:30]]
    half = write_rows(tmp_path / "half.csv", [*rows[:5], {**rows[5], "score": ""}, *rows[6:]])
    paired = "columns.text_pair=other"
    error = reject("embedding", singles, "--dev", half, paired)
    assert not [value for value in ("half.csv", "'2'", "'7'") if value not in error], error
    pairs = [{**row, "score": index} for index, row in enumerate(rows)]
    outcome = finetune("embedding", singles, "--dev", write_rows(tmp_path / "pairs.jsonl", pairs), paired)
    assert outcome.code == 0, outcome.err
    assert "spearman" in outcome.out


def test_pairs_that_are_all_below_min_similarity_are_rejected(finetune, tmp_path):
    rows = [{"text": f"the dog {n}", "other": "the ship", "score": n / 20} for n in range(20)]
    data = write_rows(tmp_path / "train.csv", rows)
    write_rows(tmp_path / "dev.csv", rows[:5])
    outcome = finetune("embedding", data.parent, "columns.text_pair=other")
    assert outcome.code == 2
    error = outcome.err.splitlines()[-1]
    values = ("20 pairs", "min_similarity=4", "0.95", "min_similarity=0.76")
    assert not [value for value in values if value not in error], error


def test_a_run_without_space_for_checkpoints_resumes_later(finetune, data, tmp_path):
    with limit_files(10):
        outcome = finetune("classification", data)
    assert outcome.code == 2
    assert f"{tmp_path / 'run'}: " in outcome.err.splitlines()[-1]
    assert not (tmp_path / "run").exists()
    with limit_files(20_000):
        outcome = finetune("classification", data)
    assert outcome.code == 2
    assert "--resume" in outcome.err.splitlines()[-1]
    assert not list((tmp_path / "run" / "checkpoints").iterdir())
    assert finetune("classification", data, "--resume").code == 0


def test_a_model_that_could_not_be_written_is_written_later(finetune, data, tmp_path):
    run = tmp_path / "run"

    def read_model() -> dict[str, Any]:
        return {name: content for name, content in read_tree(run).items() if name.startswith("model/")}

    assert finetune("classification", data).code == 0
    expected = read_model()
    shutil.rmtree(run / "model")
    (run / "result.json").unlink()
    with limit_files(20_000):
        outcome = finetune("classification", data, "--resume")
    assert outcome.code == 2
    error = outcome.err.splitlines()[-1]
    assert f"{run / 'model'}: " in error
    assert "--resume" in error
    assert not [name for name in read_tree(run) if "model" in name or "result" in name]
    assert finetune("classification", data, "--resume").code == 0
    assert read_model() == expected
