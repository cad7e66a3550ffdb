"""Teachers in fine-tuning: a student follows a fine-tuned model, also on unlabeled examples."""

import warnings

import numpy as np
import pytest
import torch

from albert.errors import AlbertError, InputError
from albert.files import read_json
from albert.model.albert_model import build_model
from albert.pretrained.folder import load_model, load_vocabulary, save_model
from albert.tasks.catalogue import build_task
from albert.tasks.finetune import finetune
from albert.tasks.finetune_losses import StudentLosses, load_teacher
from albert.tasks.finetune_settings import FinetuneSettings
from albert.tasks.models import load_finetuned
from albert.tasks.question_answering import Answer, SpanExample
from albert.tasks.task import compare_softmaxes
from albert.tasks.token_classification import TokenExample
from albert.text.folder import load_tokenizer
from albert.training.run_folder import list_records
from tests.conftest import WORDS, rejects, write_vocabulary
from tests.tasks.finetuned_folder import (
    ANSWERS,
    PLACES,
    SENTIMENT,
    STARS,
    TOPICS,
    VECTORS,
    write_finetuned_folder,
)
from tests.tasks.tables import OWN_TABLES, draw_rows, write_rows, write_tables
from tests.tasks.test_finetune import are_equal, read_weights
from tests.training.conftest import Listener

SHORT = ("num_steps=6", "batch_size=8", "num_evaluations=2", "has_tensorboard=false", "rename_share=0")
LONG = (*SHORT, "num_steps=120", "batch_size=16", "optimizer.learning_rate=3e-3")
SPELLED = [
    *WORDS[:5],
    *(f"{prefix}{letter}" for letter in "abcdefghijklmnopqrstuvwxyz.,?!" for prefix in ("", "##")),
]
POSSIBLE = ANSWERS.model_copy(update={"has_impossible": True})


def train(task, folder, data, out, *overrides, **options):
    return finetune(task, model=folder, data=data, out=out, overrides=overrides, **options)


def read_losses(run_dir):
    return [
        {key: value for key, value in row.items() if key.endswith("_loss")}
        for row in list_records(run_dir, "train")
    ]


@pytest.fixture(scope="session")
def spelled_folder(tiny_folder, tmp_path_factory):
    """A pretrained model with another width and a vocabulary of letters."""
    folder = tmp_path_factory.mktemp("spelled")
    tokenizer = load_tokenizer(write_vocabulary(folder / "vocab.txt", SPELLED))
    changes = {"vocab_size": len(SPELLED), "hidden_size": 48}
    config = load_model(tiny_folder, heads={}).config.model_copy(update=changes)
    save_model(folder / "model", build_model(config, heads={}, seed=3), tokenizer=tokenizer)
    return folder / "model"


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    """Ten texts with labels, and many without."""
    folder = tmp_path_factory.mktemp("texts")
    write_rows(folder / "few" / "train.jsonl", draw_rows("classification", 10, seed=1))
    write_rows(folder / "few" / "dev.jsonl", draw_rows("classification", 60, seed=2))
    unlabeled = [{"text": row["text"]} for row in draw_rows("classification", 300, seed=3)]
    write_rows(folder / "more.csv", unlabeled)
    write_tables(folder / "many", "classification")
    return folder


@pytest.fixture(scope="session")
def teacher(tiny_folder, texts, tmp_path_factory):
    """A teacher that has learned from many texts."""
    result = train(
        "classification", tiny_folder, texts / "many", tmp_path_factory.mktemp("teacher") / "run", *LONG
    )
    assert result.scores.score > 90
    return result.run_dir


# What a student learns.


def test_unlabeled_texts_with_a_teacher_improve_the_student(tiny_folder, texts, teacher, tmp_path):
    data, options = texts / "few", {"teacher": teacher, "unlabeled": texts / "more.csv"}
    alone = train("classification", tiny_folder, data, tmp_path / "alone", *LONG)
    student = train("classification", tiny_folder, data, tmp_path / "student", *LONG, **options)
    assert student.scores.score > alone.scores.score + 10
    # Without the true labels, too.
    changes = (*LONG, "teacher.label_weight=0")
    follower = train("classification", tiny_folder, data, tmp_path / "follower", *changes, **options)
    assert follower.scores.score > alone.scores.score + 10


def test_a_student_follows_its_teacher(tiny_folder, spelled_folder, texts, tmp_path):
    """Here the teacher, of another vocabulary, is wrong: its labels are exchanged."""
    rows = draw_rows("classification", 300, seed=1)
    wrong = [{**row, "label": {"yes": "no", "no": "yes"}[row["label"]]} for row in rows]
    table = write_rows(tmp_path / "wrong.jsonl", wrong)
    teacher = train("classification", spelled_folder, table, tmp_path / "teacher", *LONG).model_dir
    overrides = (*LONG, "teacher.label_weight=0.1", "teacher.soft_weight=2", "teacher.temperature=2")
    options = {"teacher": teacher, "dev": texts / "few" / "dev.jsonl"}
    data = texts / "many" / "train.jsonl"
    result = train("classification", tiny_folder, data, tmp_path / "run", *overrides, **options)
    assert result.scores.score < 50
    assert str(teacher) in (result.model_dir / "README.md").read_text()
    metadata = read_json(tmp_path / "run" / "run.json")
    assert metadata["teacher"] == str(teacher)
    assert len(metadata["teacher_weights"]) == 64


@pytest.mark.parametrize("task", OWN_TABLES)
@pytest.mark.parametrize("has_same_vocabulary", [True, False])
def test_every_task_type_has_teachers(tiny_folder, spelled_folder, tmp_path, task, has_same_vocabulary):
    data = write_tables(tmp_path / "data", task, num_train=24, num_dev=8)
    start = tiny_folder if has_same_vocabulary else spelled_folder
    short = (*SHORT, "log_every=1", "max_length=20", "micro_batch_tokens=60")
    teacher = train(task, start, data, tmp_path / "teacher", *short).run_dir
    unlabeled = [
        {key: value for key, value in row.items() if key not in ("label", "labels", "answers")}
        for row in draw_rows(task, 20, seed=5)
    ]
    options = {"teacher": teacher, "unlabeled": write_rows(tmp_path / "more.jsonl", unlabeled)}
    hidden = ("teacher.hidden_weight=0.1",) if has_same_vocabulary else ()
    if task == "question-answering" and not has_same_vocabulary:
        with rejects(InputError, teacher, "vocabulary"):
            train(task, tiny_folder, data, tmp_path / "run", *short, **options)
        return
    result = train(task, tiny_folder, data, tmp_path / "run", *short, *hidden, **options)
    assert result.outcome.is_finished
    losses = read_losses(tmp_path / "run")
    objective = "span" if task == "question-answering" else "task"
    expected = {f"{objective}_loss", "soft_loss", *(["hidden_loss"] if hidden else [])}
    assert all(set(row) == expected and np.isfinite(list(row.values())).all() for row in losses)
    metadata = read_json(tmp_path / "run" / "run.json")
    assert (metadata["unlabeled"], metadata["num_unlabeled"]) == (str(options["unlabeled"]), 20)


# Runs.


@pytest.mark.parametrize("more", [("teacher.hidden_weight=0.5",), ("has_exits=true",)])
def test_an_interrupted_student_resumes_to_identical_weights(tiny_folder, texts, teacher, tmp_path, more):
    overrides = (*SHORT, "num_steps=12", "log_every=1", "dropout=0.1", *more)
    options = {"teacher": teacher, "unlabeled": texts / "more.csv"}
    whole = train("classification", tiny_folder, texts / "few", tmp_path / "whole", *overrides, **options)
    out = tmp_path / "again"
    stopped = train(
        "classification", tiny_folder, texts / "few", out, *overrides, reporter=Listener(stop_at=5), **options
    )
    assert stopped.outcome.progress.step == 5
    again = train("classification", tiny_folder, texts / "few", out, *overrides, resume=True, **options)
    assert are_equal(read_weights(whole), read_weights(again))
    assert whole.scores == again.scores


def test_a_student_is_only_resumed_with_its_teacher_and_its_files(tiny_folder, texts, teacher, tmp_path):
    options, out = {"teacher": teacher, "unlabeled": texts / "more.csv"}, tmp_path / "run"
    few = texts / "few"
    train("classification", tiny_folder, few, out, *SHORT, **options)
    other = train("classification", tiny_folder, texts / "many", tmp_path / "other", *SHORT).model_dir
    fewer = write_rows(tmp_path / "fewer.jsonl", draw_rows("classification", 9, seed=3))
    for changes, value in (
        ({"teacher": other}, teacher),
        ({"teacher": None, "unlabeled": None}, teacher),
        ({"unlabeled": fewer}, "more.csv"),
        ({"unlabeled": None}, "more.csv"),
    ):
        with rejects(InputError, out, value):
            train("classification", tiny_folder, few, out, *SHORT, resume=True, **options | changes)


def test_half_of_each_step_is_unlabeled(tiny_folder, texts, teacher, tmp_path):
    """An epoch is a pass through the labeled examples."""
    overrides = (*SHORT, "num_steps=null", "num_epochs=2")
    options = {"teacher": teacher, "unlabeled": texts / "more.csv"}
    half = train("classification", tiny_folder, texts / "few", tmp_path / "half", *overrides, **options)
    assert half.num_steps == 2 * 10 / 4
    quarter = (*overrides, "teacher.unlabeled_share=0.25")
    result = train("classification", tiny_folder, texts / "few", tmp_path / "quarter", *quarter, **options)
    assert result.num_steps == round(2 * 10 / 6)


# Mistakes.


def test_mistakes_are_rejected_in_one_line(tiny_folder, spelled_folder, texts, teacher, tmp_path):
    sentiment = write_finetuned_folder(tmp_path / "sentiment", tiny_folder, SENTIMENT)
    stars = write_finetuned_folder(tmp_path / "stars", tiny_folder, STARS)
    possible = write_finetuned_folder(tmp_path / "possible", tiny_folder, POSSIBLE)
    vectors = write_finetuned_folder(tmp_path / "vectors", tiny_folder, VECTORS)
    letters = train("classification", spelled_folder, texts / "few", tmp_path / "letters", *SHORT).model_dir
    questions = write_tables(tmp_path / "questions", "question-answering", num_train=8, num_dev=4)
    rows = [{"text": "the dog .", "text_pair": "a dog ."}] * 8
    pairs = write_rows(tmp_path / "pairs.csv", rows)
    columns = write_rows(tmp_path / "columns.csv", [{"review": "the dog"}])
    more = texts / "more.csv"
    cases = [
        ("classification", {"unlabeled": more}, (), ["more.csv", "--teacher"]),
        ("classification", {}, ("teacher.soft_weight=2",), ["--teacher"]),
        ("classification", {"teacher": tiny_folder}, (), [tiny_folder, "task.json"]),
        ("classification", {"teacher": sentiment}, (), ["bad, fine, good", "no, yes"]),
        ("classification", {"teacher": stars}, (), ["regression", "no, yes"]),
        ("classification", {"teacher": teacher}, ("rename_share=0.1",), ["rename_share"]),
        ("classification", {"teacher": letters}, ("teacher.hidden_weight=1",), [letters, "hidden_weight"]),
        ("classification", {"teacher": teacher, "unlabeled": tmp_path / "absent"}, (), ["absent"]),
        ("classification", {"teacher": teacher, "unlabeled": columns}, (), ["columns.csv", "'text'"]),
        ("classification", {"teacher": teacher, "unlabeled": more}, ("batch_size=1",), ["batch_size"]),
        ("classification", {"teacher": teacher}, ("teacher.soft_weight=0",), ["teacher.hidden_weight"]),
        ("question-answering", {"teacher": possible}, (), ["with unanswerable", "without unanswerable"]),
        ("embedding", {"teacher": vectors}, ("columns.text_pair=text_pair",), ["albert distill"]),
    ]
    data = {"classification": texts / "few", "question-answering": questions, "embedding": pairs}
    for task, options, changes, values in cases:
        with rejects(AlbertError, *values):
            train(task, tiny_folder, data[task], tmp_path / "run", *SHORT, *changes, **options)
        assert not (tmp_path / "run").exists()


# The losses.


def build_losses(config, folder, teacher_folder, **changes):
    """The losses of a student with random heads."""
    task, tokenizer = build_task(config), load_vocabulary(folder)
    settings = FinetuneSettings.model_validate({"teacher": changes})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the head is new
        model = load_model(folder, heads=task.heads, seed=5).model
    teacher = load_teacher(teacher_folder, config, settings, student=model.config, tokenizer=tokenizer)
    return StudentLosses(model, task, teacher), tokenizer


def build_batch(losses, tokenizer, examples, *, has_labels):
    items = losses.task.encode(examples, tokenizer)
    return losses.build_batch(losses.teacher.pair_items(losses.task, items, examples, has_labels=has_labels))


def test_the_soft_loss_is_the_divergence_times_the_squared_temperature():
    ours, theirs = torch.tensor([[0.0, 2.0, -torch.inf]]), torch.tensor([[1.0, 0.0, -torch.inf]])
    total, num_same = compare_softmaxes(ours, theirs, temperature=2.0)
    p, q = (torch.softmax(each[0, :2] / 2, 0) for each in (theirs, ours))
    assert total.item() == pytest.approx(4 * float((p * (p / q).log()).sum()), rel=1e-5)
    assert num_same == 0
    same, num_same = compare_softmaxes(theirs, theirs, temperature=2.0)
    assert (same, num_same) == (0.0, 1)


@pytest.mark.parametrize("config", [SENTIMENT, TOPICS, PLACES], ids=lambda config: config.task)
def test_labels_in_another_order_are_aligned(tiny_folder, tmp_path, config):
    """A student with the weights of its teacher, and its head in another order, has no loss."""
    teacher = write_finetuned_folder(tmp_path / "teacher", tiny_folder, config)
    reordered = config.model_copy(update={"labels": config.labels[1:] + config.labels[:1]})
    losses, tokenizer = build_losses(reordered, tiny_folder, teacher)
    weights = load_finetuned(teacher).model.state_dict()
    for name in [name for name in weights if name.startswith("heads.")]:
        weights[name] = weights[name].roll(-1, 0)
    losses.model.load_state_dict(weights)
    rows = {"token-classification": TokenExample("1", ("the", "dog", "was"))}
    example = rows.get(config.task) or build_task(config).parse_inputs(["the dog was big"])[0]
    batch = build_batch(losses, tokenizer, [example], has_labels=False)
    found = losses(batch)
    assert set(found) == {"soft"}
    total, num_same = found["soft"]
    assert total.item() == pytest.approx(0.0, abs=1e-6)
    assert num_same.item() == losses.count(batch)["soft"] > 0


def test_the_teacher_reads_the_words_of_each_window_with_its_own_tokens(
    tiny_folder, spelled_folder, tmp_path
):
    """Its outputs are those that it predicts for the whole text."""
    config = PLACES.model_copy(update={"max_length": 12})
    teacher = write_finetuned_folder(tmp_path / "teacher", spelled_folder, config)
    losses, tokenizer = build_losses(config, tiny_folder, teacher)
    rows = draw_rows("token-classification", 6, seed=2)
    examples = [TokenExample(str(i), tuple(row["words"] * (1 + i)), None) for i, row in enumerate(rows)]
    items = losses.task.encode(examples, tokenizer)
    pairs = losses.teacher.pair_items(losses.task, items, examples, has_labels=False)
    assert len(pairs) > len(examples)
    outputs = losses.teacher.compute_outputs(losses.teacher.finetuned.model, losses.build_batch(pairs).other)
    whole = np.concatenate(losses.teacher.finetuned.predict(examples))
    torch.testing.assert_close(outputs, torch.from_numpy(whole).float(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("has_labels", [True, False])
def test_unanswerable_questions_have_three_outputs_for_each_window(tiny_folder, tmp_path, has_labels):
    """Without labels, the ends are those of the teacher's best start."""
    teacher = write_finetuned_folder(tmp_path / "teacher", tiny_folder, POSSIBLE)
    losses, tokenizer = build_losses(POSSIBLE, tiny_folder, teacher)
    context = "the dog was big and the man was old ."
    answered = SpanExample("1", "the dog was", context, (Answer("big", 12),))
    batch = build_batch(
        losses, tokenizer, [answered, SpanExample("2", "the sea", context, (), True)], has_labels=has_labels
    )
    counts, found = losses.count(batch), losses(batch)
    assert counts == {**({"span": 2, "answerable": 2} if has_labels else {}), "soft": 6}
    assert all(torch.isfinite(total) for total, _ in found.values())
    losses.model.load_state_dict(losses.teacher.finetuned.model.state_dict())
    total, num_same = losses(batch)["soft"]
    assert (total.item(), num_same.item()) == (pytest.approx(0.0, abs=1e-6), 6)
    if not has_labels:  # the labels of the examples are not read
        others = [SpanExample(each.id, each.question, context) for each in (answered, answered)]
        one, other = (
            losses.task.compute_outputs(losses.model, build_batch(losses, tokenizer, texts, has_labels=False))
            for texts in ([answered, answered], others)
        )
        assert torch.equal(one, other)


def test_hidden_states_of_matched_layers_are_compared(tiny_folder, tmp_path):
    teacher = write_finetuned_folder(tmp_path / "teacher", tiny_folder, SENTIMENT)
    losses, tokenizer = build_losses(SENTIMENT, tiny_folder, teacher, hidden_weight=0.5)
    batch = build_batch(
        losses, tokenizer, build_task(SENTIMENT).parse_inputs(["the dog was big"]), has_labels=False
    )
    assert losses.weights == {"task": 1.0, "soft": 1.0, "hidden": 0.5}
    assert losses.count(batch)["hidden"] == 4 * len(batch.ids_T)  # the embeddings and three layers
    assert losses(batch)["hidden"][0].item() == pytest.approx(0.0, abs=1e-6)  # both have the same encoder
    with torch.no_grad():
        losses.model.encoder.embeddings.word.weight[:, 0] += 5.0
    with_states, plain = losses(batch), StudentLosses(losses.model, losses.task, losses.teacher)
    plain.layers = ()
    assert with_states["hidden"][0].item() > 0.01
    torch.testing.assert_close(with_states["soft"][0], plain(batch)["soft"][0], atol=1e-5, rtol=1e-4)
