"""Fine-tuning: every task type is learned, runs resume exactly, recipes, seeds and class weights."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import albert
from albert.errors import AlbertError, InputError
from albert.pretrained.folder import load_model, load_vocabulary
from albert.tasks.catalogue import build_task, read_config
from albert.tasks.classification import ClassificationConfig, TextExample
from albert.tasks.data import TaskData, open_task_data
from albert.tasks.embedding import EmbeddingConfig
from albert.tasks.finetune import (
    check_known_tokens,
    complete_config,
    estimate_cost,
    finetune,
    load_start,
    read_finetune_run,
)
from albert.tasks.finetune_job import FinetuneJob, TokenReplacement
from albert.tasks.finetune_settings import FinetuneSettings, choose_recipe, read_finetune_recipe
from albert.tasks.models import load_finetuned
from albert.tasks.multiple_choice import MultipleChoiceConfig
from albert.tasks.question_answering import QuestionAnsweringConfig
from albert.tasks.task import TaskBatch, balance_classes
from albert.tasks.token_classification import TokenClassificationConfig, TokenExample
from tests.tasks.tables import NOUNS, OWN_TABLES, SIZES, draw_rows, write_rows, write_tables
from tests.training.conftest import Listener

FAST = ("num_steps=200", "batch_size=16", "optimizer.learning_rate=3e-3", "num_evaluations=4",
        "has_tensorboard=false")  # fmt: skip
SHORT = ("num_steps=12", "batch_size=8", "num_evaluations=3", "has_tensorboard=false", "dropout=0.1")
STILL = (*SHORT, "optimizer.learning_rate=1e-12", "optimizer.weight_decay=0")  # the weights do not change
TEXTS = ClassificationConfig(
    task="classification", labels=("no", "yes"), metrics=("accuracy",), max_length=40
)


def train(task, folder, data, out, *overrides, **options):
    return finetune(task, model=folder, data=data, out=out, overrides=overrides, **options)


def read_weights(result):
    return load_model(result.model_dir).model.state_dict()


def are_equal(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture
def data(tmp_path):
    return write_tables(tmp_path / "data", "classification")


def list_evaluations(run_dir):
    rows = map(json.loads, (run_dir / "metrics.jsonl").read_text().splitlines())
    return {row["step"]: row["score"] for row in rows if row["kind"] == "evaluate"}


# What is learned.


@pytest.mark.parametrize("task", OWN_TABLES)
def test_every_task_type_is_learned_and_scores_the_same_when_loaded(tiny_folder, tmp_path, task):
    data = write_tables(tmp_path / "data", task)
    result = train(task, tiny_folder, data, tmp_path / "run", *FAST)
    assert result.scores.score > (60 if task == "multiple-choice" else 85)
    assert read_config(result.model_dir).task == task
    for source, split in ((data, "dev"), (data / "dev.jsonl", "dev.jsonl")):
        found = albert.evaluate(task, model=result.run_dir, data=source)
        assert found.scores == pytest.approx(dict(result.scores.metrics), abs=1e-3)
        assert set(found.intervals) == set(found.scores)
        assert (found.split, len(found.results)) == (split, 60)


def test_embeddings_are_learned_from_pairs_without_scores(tiny_folder, tmp_path):
    pairs = [
        {"text": f"the {noun} was {size} .", "text_pair": f"{size} {noun}"}
        for noun in NOUNS
        for size in SIZES
    ]
    data = write_rows(tmp_path / "pairs.csv", pairs * 5)
    changes = ("columns.text_pair=text_pair", "dropout=0.0", "num_steps=100")
    result = train("embedding", tiny_folder, data, tmp_path / "run", *FAST, *changes)
    assert result.scores.score > 80
    assert (result.model_dir / "modules.json").exists()


# Runs.


def test_an_interrupted_run_resumes_to_identical_weights(tiny_folder, data, tmp_path):
    """Including dropout, the order of the examples and the schedule."""
    overrides, out = (*SHORT, "log_every=1"), tmp_path / "again"
    whole = train("classification", tiny_folder, data, tmp_path / "whole", *overrides)
    for step in (3, 6, 11):
        options = {"resume": step > 3, "reporter": Listener(stop_at=step)}
        stopped = train("classification", tiny_folder, data, out, *overrides, **options)
        assert (stopped.outcome.signal, stopped.outcome.progress.step) == ("SIGTERM", step)
        assert stopped.model_dir is None
    again = train("classification", tiny_folder, data, out, *overrides, resume=True)
    assert are_equal(read_weights(whole), read_weights(again))
    assert whole.scores == again.scores


@pytest.mark.slow  # a minute of compiling
def test_a_compiled_model_learns_the_same(tiny_folder, data, tmp_path, monkeypatch):
    compiled, compile_module = [], torch.nn.Module.compile
    monkeypatch.setattr(
        torch.nn.Module,
        "compile",
        lambda module, **options: compiled.append(module) or compile_module(module, **options),
    )
    overrides = (*SHORT[:-1], "dropout=0.0", "head_dropout=0.0")
    plain = train("classification", tiny_folder, data, tmp_path / "plain", *overrides)
    assert compiled == []
    done = train("classification", tiny_folder, data, tmp_path / "compiled", *overrides, "is_compiled=true")
    assert compiled
    one, other = read_weights(plain), read_weights(done)
    # A key's bias changes no attention: its gradient is rounding alone, of which AdamW makes whole steps.
    names = [name for name in one if not name.endswith("key.bias")]
    assert all(torch.allclose(one[name], other[name], atol=1e-5) for name in names)


def test_another_seed_changes_the_weights_but_not_the_dev_set(tiny_folder, tmp_path):
    data = write_rows(tmp_path / "table.jsonl", draw_rows("classification", 40, seed=3))
    results = [
        train("classification", tiny_folder, data, tmp_path / str(seed), *SHORT, f"seed={seed}")
        for seed in (0, 12345)
    ]
    assert not are_equal(*map(read_weights, results))
    expected = open_task_data("classification", data, dev=None, columns={}, dev_share=0.1).fingerprint
    assert {read_finetune_run(result.run_dir)[1].examples for result in results} == {expected}


def test_the_weights_of_the_best_evaluation_are_written(tiny_folder, data, tmp_path):
    """A learning rate that is far too high spoils the model towards the end."""
    changes = ("num_steps=60", "num_evaluations=10", "optimizer.learning_rate=0.3", "schedule.name=constant")
    result = train("classification", tiny_folder, data, tmp_path / "run", *FAST, *changes)
    scores = list_evaluations(tmp_path / "run")
    assert result.scores.score == pytest.approx(max(scores.values()))
    assert result.scores.step == max(scores, key=lambda step: (scores[step], -step))


def test_a_run_without_improvement_ends_early(tiny_folder, data, tmp_path):
    changes = ("num_steps=50", "num_evaluations=5", "patience=2")
    result = train("classification", tiny_folder, data, tmp_path / "run", *STILL, *changes)
    assert result.outcome.is_finished
    assert (result.outcome.progress.step, result.outcome.progress.best_step) == (30, 10)
    assert list(list_evaluations(tmp_path / "run")) == [10, 20, 30]


def test_a_run_is_only_resumed_as_it_began(tiny_folder, tmp_path):
    rows = [{**row, "label": str(row["label"])} for row in draw_rows("regression", 40, seed=1)]
    data, out = tmp_path / "data", tmp_path / "run"
    for name in ("train", "dev"):
        write_rows(data / f"{name}.jsonl", rows)
    other = write_rows(tmp_path / "other.jsonl", rows[1:])
    result = train("classification", tiny_folder, data, out, *SHORT)
    with pytest.raises(AlbertError, match="finished.*--out"):
        train("classification", tiny_folder, data, out, *SHORT)
    for task, model, overrides, dev, error in (
        ("classification", tiny_folder, (*SHORT, "batch_size=4"), None, "batch_size .*4 .*8"),
        ("regression", tiny_folder, SHORT, None, "task"),
        ("classification", result.model_dir, SHORT, None, str(tiny_folder)),
        ("classification", tiny_folder, SHORT, other, str(data)),
    ):
        with pytest.raises(AlbertError, match=error):
            train(task, model, data, out, *overrides, resume=True, dev=dev)


def test_the_head_of_a_fine_tuned_model_is_kept_for_the_same_labels_only(tiny_folder, tmp_path):
    def start(labels, source, name, *, seed=0):
        rows = [{"text": f"the {noun} .", "label": noun} for noun in labels * 20]
        table = write_rows(tmp_path / f"{name}.jsonl", rows)
        result = train("classification", source, table, tmp_path / name, *STILL, f"seed={seed}")
        assert read_config(result.model_dir).labels == tuple(sorted(labels))
        return result.model_dir, load_file(result.model_dir / "model.safetensors")

    def are_close(one, other, names):
        return all(torch.allclose(one[name], other[name], atol=1e-6) for name in names)

    first, weights = start(("dog", "man"), tiny_folder, "first", seed=1)
    same, others = (start(labels, first, labels[0])[1] for labels in (("dog", "man"), ("house", "ship")))
    fresh = start(("house", "ship"), tiny_folder, "fresh")[1]
    head = [name for name in weights if name.startswith("classifier")]
    body = [name for name in weights if name not in head]
    assert len(head) == 2
    assert are_close(same, weights, weights)
    assert are_close(others, weights, body)
    assert are_close(others, fresh, head)
    assert not torch.allclose(others["classifier.weight"], weights["classifier.weight"], atol=1e-2)


@pytest.mark.parametrize("pooling", ["mean", "segments"])
def test_a_continued_run_keeps_the_head_of_the_same_pooling_only(tiny_folder, tmp_path, pooling):
    rows = [{"a": f"the {noun} .", "b": f"{noun} .", "label": noun} for noun in ("dog", "man") * 20]
    table = write_rows(tmp_path / "pairs.jsonl", rows)

    def start(source, name, *overrides):
        columns = ("columns.text=a", "columns.text_pair=b")
        result = train("classification", source, table, tmp_path / name, *STILL, *columns, *overrides)
        model = load_finetuned(result.model_dir)
        dev = open_task_data(
            "classification", table, dev=None, columns={"text": "a", "text_pair": "b"}, dev_share=0.1
        ).dev
        assert model.task.score(model.predict(dev), dev) == pytest.approx(dict(result.scores.metrics))
        return result.model_dir, load_file(result.model_dir / "model.safetensors")

    chosen = f"classifier_pooling={pooling}"
    first, weights = start(tiny_folder, "first", chosen, "seed=1")
    assert read_config(first).classifier_pooling == pooling
    same = start(first, "same", chosen)[1]
    assert all(torch.allclose(same[name], weights[name], atol=1e-6) for name in weights)
    usual, others = start(first, "usual")
    assert read_config(usual).classifier_pooling == "cls"
    assert set(others) - set(weights) == {
        "albert.pooler.weight", "albert.pooler.bias", "classifier.weight", "classifier.bias"
    }  # fmt: skip


def test_the_cost_of_a_run_is_estimated_from_a_few_batches(tiny_folder, data):
    cost = estimate_cost("classification", model=tiny_folder, data=data, overrides=["num_epochs=2"])
    assert (cost.num_train, cost.num_dev) == (300, 60)
    assert cost.train_tokens == pytest.approx(2 * 300 * 9)  # the tokens of every text
    assert cost.seconds > cost.train_tokens / cost.tokens_per_second > 0


# The job.


def build_job(tiny_folder, **settings):
    tokenizer, task = load_vocabulary(tiny_folder), build_task(TEXTS)
    settings = FinetuneSettings.model_validate({"num_steps": 8, "batch_size": 4, **settings})
    texts = [TextExample(str(n), f"the {noun} " * (n + 1), None, n % 2) for n, noun in enumerate(NOUNS * 2)]
    items = task.encode(texts, tokenizer)
    replacement = TokenReplacement.of(tokenizer, share=settings.rename_share, seed=settings.seed)
    model = load_start(str(tiny_folder), task, settings).eval()
    return FinetuneJob(model, task, settings, items, items, texts, replacement=replacement)


def test_batches_depend_on_the_step_alone(tiny_folder):
    job = build_job(tiny_folder, rename_share=0.5, micro_batch_tokens=20)
    whole = list(job.iter_batches(0))
    assert [sum(len(batch.lengths) for batch in step) for step in whole] == [4] * 8
    for ours, theirs in zip(job.iter_batches(3), whole[3:], strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one.ids_T, other.ids_T)


def test_a_class_weight_multiplies_the_loss(tiny_folder):
    job = build_job(tiny_folder)
    task = build_task(TEXTS.model_copy(update={"class_weights": (0.5, 3.0)}))
    batch = job.task.build_batch([item for item in job.train if item.label == 1])
    plain, weighted = (each.compute_losses(job.model, batch)["task"][0].item() for each in (job.task, task))
    assert weighted == pytest.approx(3 * plain, rel=1e-5)


@pytest.fixture
def replacement(tiny_folder):
    assert TokenReplacement.of(load_vocabulary(tiny_folder), share=0.0, seed=5) is None
    return TokenReplacement.of(load_vocabulary(tiny_folder), share=0.3, seed=5)


def test_a_token_is_replaced_by_the_same_token_everywhere(replacement):
    positions = np.arange(6)
    batch = TaskBatch(np.array([7, 9, 7, 12, 9, 9]), positions, positions * 0, np.array([6]), labels="kept")
    for step in range(20):
        replaced = replacement.apply(batch, step=step)
        assert replaced.ids_T[0] == replaced.ids_T[2]
        assert replaced.ids_T[1] == replaced.ids_T[4] == replaced.ids_T[5]
        assert replaced.labels == "kept"
        np.testing.assert_array_equal(replaced.positions_T, positions)


def test_every_step_replaces_its_share_of_ordinary_tokens(replacement, tiny_folder):
    special = np.array(sorted(load_vocabulary(tiny_folder).special_ids))
    ordinary = replacement.ordinary
    drawn = [replacement.draw_ids(step) for step in range(100)]
    for ids in drawn:
        np.testing.assert_array_equal(ids[special], special)
        assert not np.isin(ids[ordinary], special).any()
    share = np.mean([(ids != np.arange(len(ids)))[ordinary].mean() for ids in drawn])
    assert share == pytest.approx(0.3 * (1 - 1 / len(ordinary)), abs=0.02)  # some draw themselves
    assert not any(np.array_equal(drawn[0], ids) for ids in drawn[1:])
    np.testing.assert_array_equal(replacement.draw_ids(7), drawn[7])


@pytest.mark.parametrize(("text", "share"), [("the dog", 0.0), ("the dog was Привет", 0.25), ("Привет", 1.0)])
def test_unknown_tokens_are_reported_or_rejected(tiny_folder, text, share):
    task, tokenizer = build_task(TEXTS), load_vocabulary(tiny_folder)
    items = task.encode([TextExample("1", text, None, 0)], tokenizer)
    if share == 1.0:
        with pytest.raises(InputError, match="100%"):
            check_known_tokens(task, items, tokenizer)
        return
    warning = check_known_tokens(task, items, tokenizer)
    assert warning is None if share == 0.0 else "25%" in warning


# Recipes.

RECIPES = sorted(path.stem for path in (Path(albert.__file__).parent / "recipes" / "finetune").glob("*.yaml"))
# Table 14 of the paper, for xxlarge: learning rate, batch size, dropout of the encoder and of the classifier,
# steps, steps of warm-up, length.
TABLE_14 = {
    "cola": (1e-5, 16, 0.0, 0.1, 5336, 320, 512),
    "sts-b": (2e-5, 16, 0.0, 0.1, 3598, 214, 512),
    "sst-2": (1e-5, 32, 0.0, 0.1, 20935, 1256, 512),
    "mnli": (3e-5, 128, 0.0, 0.1, 10000, 1000, 512),
    "qnli": (1e-5, 32, 0.0, 0.1, 33112, 1986, 512),
    "qqp": (5e-5, 128, 0.1, 0.1, 14000, 1000, 512),
    "rte": (3e-5, 32, 0.1, 0.1, 800, 200, 512),
    "mrpc": (2e-5, 32, 0.0, 0.1, 800, 200, 512),
    "wnli": (2e-5, 16, 0.1, 0.1, 2000, 250, 512),
    "squad-1.1": (5e-5, 48, 0.0, 0.1, 3649, 365, 384),
    "squad-2.0": (3e-5, 48, 0.0, 0.1, 8144, 814, 512),
    "race": (2e-5, 32, 0.1, 0.1, 12000, 1000, 512),
}


def test_the_recipes_of_the_paper_equal_table_14():
    assert {name.removeprefix("paper-") for name in RECIPES if name.startswith("paper-")} == set(TABLE_14)
    for task, expected in TABLE_14.items():
        settings = read_finetune_recipe(f"paper-{task}")
        found = (
            settings.optimizer.learning_rate,
            settings.batch_size,
            settings.dropout,
            settings.head_dropout,
            settings.num_steps,
            settings.schedule.count_warmup(settings.num_steps),
            settings.max_length,
        )
        assert found == expected, task
        assert settings.schedule.name == "linear"
        assert settings.num_evaluations >= 10


@pytest.mark.parametrize(
    ("task", "hidden_size", "recipe"),
    [
        ("sst-2", 4096, "paper-sst-2"),
        ("sst-2", 768, "paper-sst-2"),
        ("classification", 768, "paper"),
        ("sst-2", 384, "small"),
        ("race", 384, "race"),
        ("question-answering", 256, "narrow-question-answering"),
        *((task, 256, "narrow-classification") for task in ("mnli", "qnli", "classification")),
        *((task, 257, "small") for task in ("mnli", "qnli", "classification")),
    ],
)
def test_the_recipe_is_chosen_by_task_and_width(task, hidden_size, recipe):
    assert choose_recipe(task, hidden_size=hidden_size) == recipe


@pytest.mark.parametrize(
    ("overrides", "num_steps", "warmup"),
    [
        ([], 20935, (1256, None)),
        (["num_epochs=2"], None, (None, 1256 / 20935)),
        (["num_epochs=2", "num_steps=7"], 7, (None, 1256 / 20935)),
    ],
)
def test_another_length_replaces_the_steps_and_keeps_the_share_of_the_warm_up(overrides, num_steps, warmup):
    settings = read_finetune_recipe("paper-sst-2", overrides=overrides)
    assert settings.num_steps == num_steps
    assert settings.schedule.warmup_steps == warmup[0]
    if warmup[1] is not None:
        assert settings.schedule.warmup_share == pytest.approx(warmup[1])
    explicit = read_finetune_recipe("paper-sst-2", overrides=[*overrides, "schedule.warmup_steps=9"])
    assert explicit.schedule.warmup_steps == 9


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("batch_sizes: 3", "batch_sizes.*batch_size"),
        ("- 3", "mine.yaml"),
        ("based_on: papr", "'papr'.*paper"),
        ("dev_share: 1.5", "dev_share.*1.5"),
        ("schedule:", "schedule.*None"),
        ("num_steps: 100\nschedule: {warmup_steps: ten}", "schedule.warmup_steps.*'ten'"),
    ],
)
def test_an_invalid_recipe_is_rejected(tmp_path, text, error):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(AlbertError, match=error):
        read_finetune_recipe(path, overrides=["num_epochs=2"])


# From the recipe to the config of the model.

NUMBERS = ClassificationConfig(task="regression", label_kind="number")
SEVERAL = ClassificationConfig(task="multilabel", label_kind="several", labels=("a", "b"))
WORDS = TokenClassificationConfig(task="token-classification", labels=("O", "B-X"))
QUESTIONS = QuestionAnsweringConfig(task="question-answering")
CHOICES = MultipleChoiceConfig(task="multiple-choice")
VECTORS = EmbeddingConfig(task="embedding")
# Values other than the defaults, the configs that have the setting, and some that do not.
CHANGED = {
    "max_length": (48, (TEXTS, WORDS, QUESTIONS, CHOICES, VECTORS), ()),
    "class_weights": ("balanced", (TEXTS, WORDS), (NUMBERS, SEVERAL, QUESTIONS, CHOICES, VECTORS)),
    "classifier_pooling": ("mean", (TEXTS, NUMBERS, SEVERAL), (WORDS, QUESTIONS, CHOICES, VECTORS)),
    "has_exits": (True, (TEXTS, NUMBERS, SEVERAL), (WORDS, QUESTIONS, CHOICES, VECTORS)),
    "max_answer": (60, (QUESTIONS,), ()),
    "similarity_temperature": (0.2, (VECTORS,), ()),
    "min_similarity": (3.0, (VECTORS,), ()),
}


def complete(config, **settings):
    if config is WORDS:
        examples = (TokenExample("0", ("w",) * 4, (0, 0, 0, 1)),)
    else:
        examples = tuple(TextExample(str(n), "a text", None, int(n > 0)) for n in range(4))
    data = TaskData(config, examples, examples, ())
    return complete_config(data, FinetuneSettings.model_validate(settings), max_positions=512)


@pytest.mark.parametrize("name", CHANGED)
def test_a_setting_reaches_the_configs_that_have_it(name):
    value, configs, others = CHANGED[name]
    for config in configs:
        usual, changed = complete(config), complete(config, **{name: value})
        assert getattr(changed, name) != getattr(usual, name)
        if name != "class_weights":  # a word in the recipe, numbers in the config
            assert getattr(changed, name) == value
    for config in others:
        with pytest.raises(InputError, match=f"{name}=.*{config.task}"):
            complete(config, **{name: value})
    assert complete(configs[0], max_length=600).max_length == 512  # the positions of the model


def test_class_weights_balance_the_classes():
    labels = [0] * 6 + [1] * 3 + [2]
    weights = balance_classes([TextExample("", "", None, label) for label in labels], num_classes=3)
    assert weights == pytest.approx((10 / 18, 10 / 9, 10 / 3))
    assert sum(weights[label] for label in labels) == pytest.approx(len(labels))
    words = [TokenExample("0", ("w",) * 4, (0, 0, 0, 1)), TokenExample("1", ("w",) * 4, (0, 0, 0, 0))]
    assert balance_classes(words, num_classes=2) == pytest.approx((8 / 14, 8 / 2))
    assert balance_classes([TextExample("", "", None, label) for label in (0, 1)], num_classes=3)[2] == 1.0
