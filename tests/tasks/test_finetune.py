"""Any kind of table becomes a model that knows its task; a run that was stopped goes on exactly."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
from albert.tasks.answering import load_answerer
from albert.tasks.task_facts import read_facts
from safetensors.torch import load_file

from albert.errors import AlbertError
from albert.pretrained.folder import load_model
from albert.progress import NullReporter
from albert.tasks.finetune import FinetuneResult, finetune
from albert.tasks.finetune_settings import read_finetune_run
from tests.tasks.tables import NOUNS, OWN_TABLES, SIZES, draw_rows, write_rows, write_tables

FAST = (
    "num_steps=200",
    "batch_size=16",
    "optimizer.learning_rate=3e-3",
    "num_evaluations=4",
    "has_tensorboard=false",
)
SHORT = ("num_steps=12", "batch_size=8", "num_evaluations=3", "has_tensorboard=false", "dropout=0.1")


def teach(task: str, folder: Path, data: Path, out: Path, *words: str, **options: object) -> FinetuneResult:
    return finetune(task, model=folder, data=data, out=out, overrides=words, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("task", OWN_TABLES)
def test_every_kind_of_table_is_learned_and_the_folder_knows_what_it_learned(tiny_folder, tmp_path, task):
    data = write_tables(tmp_path / "data", task)
    result = teach(task, tiny_folder, data, tmp_path / "run", *FAST)
    assert result.scores is not None
    assert result.scores.score > (60 if task == "choice" else 85)
    facts = read_facts(result.model_dir)
    assert facts.task == task
    answerer = load_answerer(result.model_dir)
    assert answerer.kind.score(
        answerer.answer(_examples(task, data)), _examples(task, data)
    ) == pytest.approx(dict(result.scores.metrics), abs=1e-3)


def _examples(task: str, data: Path):
    from albert.tasks.assignment import open_assignment

    return open_assignment(task, data, dev=None, columns={}, dev_share=0.1).dev


class StopAt(NullReporter):
    """Sends this process a signal at a step, as Ctrl-C or a scheduler would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def show(self, stage: str, message: str, *, fraction: float | None = None) -> None:
        if f"step {self.step} of" in message:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_run_that_was_stopped_goes_on_to_the_very_same_weights(tiny_folder, tmp_path):
    """Dropout, the order of the examples and the schedule included."""
    data = write_tables(tmp_path / "data", "classification")
    words = (*SHORT, "log_every=1")
    whole = teach("classification", tiny_folder, data, tmp_path / "whole", *words)
    for step in (3, 6, 11):
        stopped = teach(
            "classification",
            tiny_folder,
            data,
            tmp_path / "again",
            *words,
            resume=step > 3,
            reporter=StopAt(step),
        )
        assert (stopped.outcome.signal, stopped.outcome.progress.step) == ("SIGTERM", step)
        assert stopped.model_dir is None
    again = teach("classification", tiny_folder, data, tmp_path / "again", *words, resume=True)
    one, other = (load_model(result.model_dir).model.state_dict() for result in (whole, again))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert whole.scores == again.scores


@pytest.mark.slow  # a minute of compiling
def test_a_compiled_model_learns_the_same(tiny_folder, tmp_path, monkeypatch):
    compiled, compile_module = [], torch.nn.Module.compile
    monkeypatch.setattr(
        torch.nn.Module,
        "compile",
        lambda module, **words: compiled.append(module) or compile_module(module, **words),
    )
    data = write_tables(tmp_path / "data", "classification")
    still = (*SHORT[:-1], "dropout=0.0", "head_dropout=0.0")
    plain = teach("classification", tiny_folder, data, tmp_path / "plain", *still)
    assert compiled == []
    done = teach("classification", tiny_folder, data, tmp_path / "compiled", *still, "is_compiled=true")
    assert compiled
    one, other = (load_model(each.model_dir).model.state_dict() for each in (plain, done))
    # A key's bias changes no attention: its gradient is rounding alone, and AdamW makes whole steps of that.
    names = [name for name in one if not name.endswith("key.bias")]
    assert all(torch.allclose(one[name], other[name], atol=1e-5) for name in names)


def test_another_seed_is_another_run(tiny_folder, tmp_path):
    data = write_tables(tmp_path / "data", "classification")
    results = [
        teach("classification", tiny_folder, data, tmp_path / str(seed), *SHORT, f"seed={seed}")
        for seed in (0, 1)
    ]
    one, other = (load_model(result.model_dir).model.state_dict() for result in results)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_the_weights_are_those_of_the_best_evaluation(tiny_folder, tmp_path):
    """A rate that grows past all bounds spoils the model towards the end."""
    data = write_tables(tmp_path / "data", "classification")
    result = teach(
        "classification", tiny_folder, data, tmp_path / "run", *FAST, "num_evaluations=20",
        "optimizer.learning_rate=0.3", "schedule.name=constant",
    )  # fmt: skip
    figures = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    scores = {row["step"]: row["score"] for row in figures if row["kind"] == "evaluate"}
    assert result.scores.score == pytest.approx(max(scores.values()))
    assert result.scores.step == max(scores, key=lambda step: (scores[step], -step))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"words": ("batch_size=4",)}, "batch_size is 4 and was 8"),
        ({"task": "regression"}, "another task"),
        ({"data": "other"}, "another data"),
    ],
)
def test_a_run_goes_on_as_it_began(tiny_folder, tmp_path, change, said):
    data = write_tables(tmp_path / "data", "regression")
    task, words = change.get("task", "classification"), (*SHORT, *change.get("words", ()))
    rows = [{**row, "label": str(row["label"])} for row in draw_rows("regression", 40, seed=1)]
    write_rows(data / "train.jsonl", rows)
    write_rows(data / "dev.jsonl", rows)
    teach("classification", tiny_folder, data, tmp_path / "run", *SHORT)
    if "data" in change:
        write_rows(data / "dev.jsonl", rows[1:])
    with pytest.raises(AlbertError, match=said):
        teach(task, tiny_folder, data, tmp_path / "run", *words, resume=True)


def test_a_run_is_not_trained_over(tiny_folder, tmp_path):
    data = write_tables(tmp_path / "data", "classification")
    teach("classification", tiny_folder, data, tmp_path / "run", *SHORT)
    with pytest.raises(AlbertError, match="add --resume"):
        teach("classification", tiny_folder, data, tmp_path / "run", *SHORT)


def test_another_model_is_refused_when_a_run_goes_on(tiny_folder, tmp_path):
    data = write_tables(tmp_path / "data", "classification")
    result = teach("classification", tiny_folder, data, tmp_path / "run", *SHORT)
    with pytest.raises(AlbertError, match="another model"):
        teach("classification", result.model_dir, data, tmp_path / "run", *SHORT, resume=True)


def test_a_fine_tuned_model_is_a_start_for_another_task(tiny_folder, tmp_path):
    """As the paper starts RTE from MNLI; a head of as many outputs as there are labels now."""
    first = teach(
        "classification",
        tiny_folder,
        write_tables(tmp_path / "a", "classification"),
        tmp_path / "one",
        *SHORT,
    )
    data = write_rows(tmp_path / "b.jsonl", [
        {"text": f"the {noun} .", "label": noun} for noun in ("dog", "man", "house") * 20
    ])  # fmt: skip
    second = teach("classification", first.model_dir, data, tmp_path / "two", *SHORT)
    assert read_facts(second.model_dir).labels == ("dog", "house", "man")


def test_a_head_for_other_labels_is_fresh_also_where_they_are_as_many(tiny_folder, tmp_path):
    def start_of(labels, source, name, *, seed=0):
        rows = [{"text": f"the {noun} .", "label": noun} for noun in labels * 20]
        data = write_rows(tmp_path / f"{name}.jsonl", rows)
        # No step of any size: what comes out is what was begun with.
        words = (*SHORT, "optimizer.learning_rate=1e-12", "optimizer.weight_decay=0", f"seed={seed}")
        result = teach("classification", source, data, tmp_path / name, *words)
        return result.model_dir, load_file(result.model_dir / "model.safetensors")

    def is_like(one, other, names):
        return all(torch.allclose(one[name], other[name], atol=1e-6) for name in names)

    first, weights = start_of(("dog", "man"), tiny_folder, "first", seed=1)
    same, others = (start_of(labels, first, labels[0])[1] for labels in (("dog", "man"), ("house", "ship")))
    fresh = start_of(("house", "ship"), tiny_folder, "fresh")[1]
    head = [name for name in weights if name.startswith("classifier")]
    body = [name for name in weights if name not in head]
    assert len(head) == 2
    assert is_like(same, weights, weights)
    assert is_like(others, weights, body)  # encoder and pooler are what was learned
    assert is_like(others, fresh, head)  # the head is the seed's
    assert not torch.allclose(others["classifier.weight"], weights["classifier.weight"], atol=1e-2)


def test_warm_up_that_would_be_all_of_a_run_is_refused(tiny_folder, tmp_path):
    data = write_tables(tmp_path / "data", "classification")
    words = ("num_steps=5", "schedule.warmup_share=null", "schedule.warmup_steps=5")
    with pytest.raises(AlbertError, match="warmup_steps 5 .*num_steps 5"):
        teach("classification", tiny_folder, data, tmp_path / "run", *words)
    assert not (tmp_path / "run").exists()


def test_without_a_table_to_be_asked_about_some_examples_are_kept(tiny_folder, tmp_path):
    data = write_rows(tmp_path / "all.jsonl", draw_rows("classification", 200, seed=1))
    teach("classification", tiny_folder, data, tmp_path / "run", *SHORT, "dev_share=0.2")
    _, facts = read_finetune_run(tmp_path / "run")
    assert facts.num_train + facts.num_dev == 200
    assert 40 <= facts.num_dev <= 44  # a text that occurs twice is not parted


def test_columns_have_the_users_names(tiny_folder, tmp_path):
    rows = [{"review": row["text"], "mood": row["label"]} for row in draw_rows("classification", 80, seed=1)]
    data = write_rows(tmp_path / "reviews.csv", rows)
    result = teach(
        "classification",
        tiny_folder,
        data,
        tmp_path / "run",
        *SHORT,
        "columns.text=review",
        "columns.label=mood",
    )
    assert read_facts(result.model_dir).columns["text"] == "review"


def test_rare_classes_can_be_made_to_count(tiny_folder, tmp_path):
    rows = [
        {"text": f"the dog was {'big' if place % 10 else 'old'} .", "label": str(place % 10 == 0)}
        for place in range(200)
    ]
    data = write_rows(tmp_path / "rare.jsonl", rows)
    teach("classification", tiny_folder, data, tmp_path / "run", *SHORT, "class_weights=balanced")
    _, facts = read_finetune_run(tmp_path / "run")
    rare, frequent = facts.task.class_weights[1], facts.task.class_weights[0]
    assert rare / frequent == pytest.approx(9, rel=0.25)


def test_transformers_opens_what_was_fine_tuned(tiny_folder, tmp_path):
    from transformers import AutoModelForSequenceClassification

    data = write_tables(tmp_path / "data", "classification")
    result = teach("classification", tiny_folder, data, tmp_path / "run", *SHORT)
    model = AutoModelForSequenceClassification.from_pretrained(result.model_dir)
    assert model.config.id2label == {0: "no", 1: "yes"}
    assert model.config.problem_type == "single_label_classification"


def test_the_model_folder_may_be_moved(tiny_folder, tmp_path):
    data = write_tables(tmp_path / "data", "classification")
    result = teach("classification", tiny_folder, data, tmp_path / "run", *SHORT)
    shutil.move(result.model_dir, tmp_path / "elsewhere")
    assert load_answerer(tmp_path / "elsewhere").facts.labels == ("no", "yes")


def test_pairs_that_mean_the_same_teach_an_encoder_of_sentences(tiny_folder, tmp_path):
    """A table without numbers: the right second text is to be found among all of them."""
    pairs = [
        {"text": f"the {noun} was {size} .", "text_pair": f"{size} {noun}"}
        for noun in NOUNS
        for size in SIZES
    ]
    data = write_rows(tmp_path / "pairs.csv", pairs * 5)
    result = teach(
        "embedding", tiny_folder, data, tmp_path / "run", *FAST, "columns.text_pair=text_pair", "dropout=0.0",
        "num_steps=100",
    )  # fmt: skip
    assert result.scores.score > 80
    assert (result.model_dir / "modules.json").exists()


def test_single_texts_need_dropout_to_differ_from_themselves(tiny_folder, tmp_path):
    data = write_rows(tmp_path / "texts.csv", [{"text": f"the {noun} ."} for noun in NOUNS * 10])
    dev = write_rows(tmp_path / "pairs.csv", [{"text": f"the {noun} .", "other": noun} for noun in NOUNS])
    words = (*SHORT, "columns.text_pair=other", "dropout=0.0")
    with pytest.raises(AlbertError, match="set dropout=0.1"):
        teach("embedding", tiny_folder, data, tmp_path / "run", *words, dev=dev)
    assert not (tmp_path / "run" / "run.json").exists()
