"""Evaluation: scores with intervals, ensembles, selection, calibration, files, and what is rejected."""

import random

import numpy as np
import pytest
from scipy.special import softmax

import albert
from albert.errors import AlbertError, FileFormatError, InputError
from albert.files import read_json
from albert.tasks.catalogue import build_task, find_task
from albert.tasks.classification import ClassificationConfig, TextExample
from albert.tasks.ensemble import Member, choose_members, merge_configs
from albert.tasks.evaluate import evaluate, write_evaluation
from albert.tasks.finetune import finetune
from albert.tasks.metrics.squad import ANSWER_NOTHING
from albert.tasks.models import load_finetuned
from albert.tasks.multiple_choice import ChoiceExample, MultipleChoiceConfig
from albert.tasks.question_answering import (
    Answer,
    FoundSpan,
    QuestionAnsweringConfig,
    SpanAnswer,
    SpanExample,
)
from albert.tasks.token_classification import TokenClassificationConfig, TokenExample
from tests.conftest import read_tree
from tests.tasks.finetuned_folder import (
    ANSWERS,
    OPTIONS,
    PLACES,
    SENTIMENT,
    STARS,
    VECTORS,
    config_of,
    write_finetuned_folder,
)
from tests.tasks.published import (
    TEXTS,
    write_entailment,
    write_sentiment,
    write_similarity,
    write_squad,
)
from tests.tasks.tables import draw_rows, write_rows, write_tables

SHORT = ("num_steps=2", "batch_size=8", "num_evaluations=1", "has_tensorboard=false")
REVIEWS = [{"text": text, "label": ("bad", "fine", "good")[n % 3]} for n, text in enumerate(TEXTS)]


@pytest.fixture
def build(tiny_folder, tmp_path):
    """Write a model of a task with a random head."""

    def write(config, seed=1, **options):
        config = config_of(config) if isinstance(config, str) else config
        out = tmp_path / f"{config.task}-{config.task_type}-{seed}"
        return write_finetuned_folder(out, tiny_folder, config, seed=seed, **options)

    return write


@pytest.fixture
def sentiment(tmp_path):
    return write_sentiment(tmp_path / "glue")


def find_probabilities(evaluation):
    return softmax(np.stack(evaluation.answers), axis=-1)


# One model.


def test_a_published_task_is_scored_with_intervals_and_error_analysis(build, sentiment):
    model = build("sst-2")
    found = evaluate("SST-2", model=model, data=sentiment)
    loaded = load_finetuned(model)
    assert found.scores == loaded.task.score(loaded.predict(found.examples), found.examples)
    assert (found.task, found.split, found.num_scored) == ("sst-2", "dev", len(TEXTS))
    assert (found.models, found.member_scores) == ((str(model),), ())
    assert set(found.intervals) == set(found.scores) == {"accuracy", "score"}
    assert found.intervals["score"].low <= found.scores["score"] <= found.intervals["score"].high
    assert found.confusion.labels == ("negative", "positive")
    assert sum(map(sum, found.confusion.counts)) == len(TEXTS)
    assert [each.label for each in found.classes] == ["negative", "positive"]
    num_correct = sum(result.is_correct for result in found.results)
    assert num_correct == round(found.scores["accuracy"] / 100 * len(TEXTS))


def test_a_model_of_mnli_answers_both_dev_sets_and_the_diagnostic_set(build, tmp_path):
    data, model = write_entailment(tmp_path / "glue"), build("mnli")
    assert len(evaluate("mnli", model=model, data=data).examples) == len(TEXTS) - 1
    assert evaluate("mnli", model=model, data=data, split="dev-mismatched").num_scored == 5
    found = evaluate("ax", model=model, data=data)
    assert (found.split, found.num_scored, found.scores, found.results) == ("test", 0, {}, ())
    assert len(found.answers) == len(TEXTS) - 1


def test_squad_is_scored_at_the_threshold_of_the_model(build, tmp_path):
    model = build(config_of("squad-2.0", threshold=0.25))
    found = evaluate("squad-2.0", model=model, data=write_squad(tmp_path))
    assert found.threshold.threshold == found.scores["threshold"] == 0.25
    assert (found.threshold.num_chosen_on, found.threshold.num_reported) == (6, 6)  # two articles each
    assert found.threshold.elsewhere.scores.overall.total == 6
    assert found.threshold.best.best_f1 >= found.scores["f1"]
    is_given = [answer.null_odds <= 0.25 for answer in found.answers]
    assert [result.predicted != "(no answer)" for result in found.results] == is_given
    assert [result.gold for result in found.results[:3]] == ["a big", "a big", "(no answer)"]
    assert found.confusion.labels == ("no answer", "answer")
    assert [sum(row) for row in found.confusion.counts] == [4, 8]
    assert set(found.scores) - set(found.intervals) == {"best_exact", "best_f1", "threshold"}


def test_embeddings_are_scored_by_similarity(build, tmp_path):
    found = evaluate("sts-b", model=build(VECTORS), data=write_similarity(tmp_path / "glue"))
    assert set(found.scores) == set(found.intervals)
    assert found.scores["score"] == found.scores["spearman"] == pytest.approx(found.intervals["score"].value)
    rows = [{"a": "the dog", "b": "a man", "c": "1"}, {"a": "the man", "b": "a dog", "c": "2"}]
    names = {"text": "a", "text_pair": "b", "label": "c"}
    table = write_rows(tmp_path / "pairs.csv", rows)
    assert "spearman" in evaluate("regression", model=build(VECTORS), data=table, columns=names).scores


def test_evaluating_on_the_training_data_is_reported(tiny_folder, tmp_path, capsys):
    data = write_rows(tmp_path / "all.jsonl", draw_rows("classification", 60, seed=1))
    finetune("classification", model=tiny_folder, data=data, out=tmp_path / "run", overrides=SHORT)
    (problem,) = evaluate("classification", model=tmp_path / "run", data=data).problems
    assert f"{data}: {tmp_path / 'run'} was trained on these examples" in problem
    assert str(tmp_path / "run" / "model" / "README.md") in problem
    assert problem in capsys.readouterr().err  # without a reporter
    other = write_rows(tmp_path / "other.jsonl", draw_rows("classification", 60, seed=2))
    assert evaluate("classification", model=tmp_path / "run", data=other).problems == ()


# Folders of other libraries.


def test_labels_in_another_order_are_aligned(build, tmp_path):
    data = write_entailment(tmp_path / "glue")
    labels = ("contradiction", "entailment", "neutral")
    foreign = build(config_of("mnli", labels=labels), has_config=False)
    found = evaluate("mnli", model=foreign, data=data)
    assert found.config.labels == ("entailment", "neutral", "contradiction")
    answers = load_finetuned(foreign, target=config_of("mnli")).predict(found.examples)
    assert [result.predicted for result in found.results] == [labels[each.argmax()] for each in answers]
    assert [result.gold for result in found.results[:3]] == list(labels)


def test_a_folder_of_transformers_gives_the_same_predictions(tiny_folder, sentiment, tmp_path):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    names = {0: "POSITIVE", 1: "NEGATIVE"}
    torch.manual_seed(0)
    theirs = transformers.AlbertForSequenceClassification.from_pretrained(
        tiny_folder, num_labels=2, id2label=names, label2id={name: index for index, name in names.items()}
    ).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_folder)
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer.save_pretrained(tmp_path / "theirs")
    found = evaluate("sst-2", model=tmp_path / "theirs", data=sentiment)
    with torch.no_grad():
        logits = [theirs(**tokenizer(text, return_tensors="pt")).logits[0] for text in TEXTS]
    expected = [names[int(row.argmax())].lower() for row in logits]
    assert [result.predicted for result in found.results] == expected
    confidences = [float(row.softmax(0).max()) for row in logits]
    assert [result.confidence for result in found.results] == pytest.approx(confidences, abs=1e-5)


def test_a_folder_without_label_names_has_those_of_the_table(build, tmp_path):
    unnamed = SENTIMENT.model_copy(update={"labels": ("LABEL_0", "LABEL_1", "LABEL_2")})
    model = build(unnamed, has_config=False)
    three, two = (
        write_rows(
            tmp_path / f"{num}.csv", [{"text": text, "label": n % num} for n, text in enumerate(TEXTS)]
        )
        for num in (3, 2)
    )
    assert evaluate("classification", model=model, data=three).config.labels == ("0", "1", "2")
    with pytest.raises(AlbertError, match=r"3\b.* 2\b"):
        evaluate("classification", model=model, data=two)


# Ensembles.


def test_an_ensemble_averages_the_probabilities(build, sentiment):
    models = [build("sst-2", seed) for seed in (1, 2, 3)]
    alone = [albert.evaluate("sst-2", model=model, data=sentiment) for model in models]
    together = albert.evaluate("sst-2", model=models, data=sentiment)
    mean = np.mean([find_probabilities(each) for each in alone], axis=0)
    np.testing.assert_allclose(find_probabilities(together), mean, atol=1e-12)
    assert together.models == tuple(map(str, models))
    assert [member.scores for member in together.member_scores] == [each.scores for each in alone]
    expected = 100 * np.mean(mean.argmax(1) == [example.label for example in together.examples])
    assert together.scores["accuracy"] == pytest.approx(expected)


@pytest.mark.parametrize("config", [SENTIMENT, STARS, PLACES, ANSWERS, OPTIONS], ids=lambda each: each.task)
def test_an_ensemble_of_a_model_with_itself_is_the_model(config, build, tmp_path):
    rows = REVIEWS if config is SENTIMENT else draw_rows(config.task, 12, seed=3)
    if config is PLACES:
        rows = [{**row, "labels": ["B-PLACE"] * len(row["labels"])} for row in rows]
    data = write_rows(tmp_path / "dev.jsonl", rows)
    model = build(config.model_copy(update={"temperature": 1.7}))
    one = evaluate(config.task, model=model, data=data)
    three = evaluate(config.task, model=[model] * 3, data=data)
    assert three.scores == pytest.approx(one.scores)
    for result, other in zip(one.results, three.results, strict=True):
        assert (result.predicted, result.is_correct) == (other.predicted, other.is_correct)
        assert (result.confidence, result.loss) == pytest.approx((other.confidence, other.loss))


def test_members_are_merged_at_their_own_temperatures(build, sentiment):
    models = [build(config_of("sst-2", temperature=each), seed) for seed, each in ((1, 0.5), (2, 3.0))]
    found = evaluate("sst-2", model=models, data=sentiment)
    logits = [np.stack(load_finetuned(model).predict(found.examples)) for model in models]
    mean = (softmax(logits[0] / 0.5, axis=-1) + softmax(logits[1] / 3.0, axis=-1)) / 2
    np.testing.assert_allclose(find_probabilities(found), mean, atol=1e-12)
    assert found.calibration.temperature is None
    assert evaluate("sst-2", model=models[:1], data=sentiment).calibration.temperature == 0.5


def test_an_ensemble_for_squad_has_the_median_threshold_and_the_mean_odds(build, tmp_path):
    data = write_squad(tmp_path)
    models = [build(config_of("squad-2.0", threshold=value), seed=int(value)) for value in (1.0, 2.0)]
    alone = [evaluate("squad-2.0", model=model, data=data) for model in models]
    together = evaluate("squad-2.0", model=models, data=data)
    assert together.threshold.threshold == 1.5
    odds = np.mean([[answer.null_odds for answer in each.answers] for each in alone], axis=0)
    assert [answer.null_odds for answer in together.answers] == pytest.approx(odds.tolist())


@pytest.mark.parametrize(
    ("thresholds", "merged"),
    [
        ((ANSWER_NOTHING, 1.0), 1.0),
        ((1.0, ANSWER_NOTHING, 3.0), 1.0),
        ((9.0, 1.0, 2.0, 3.0), 2.5),
        ((ANSWER_NOTHING, 1.0, ANSWER_NOTHING), ANSWER_NOTHING),
        ((1.0, None), None),
    ],
)
def test_an_ensemble_answers_nothing_only_if_most_members_do(tmp_path, thresholds, merged):
    members = [Member("m", tmp_path, config_of("squad-2.0", threshold=each)) for each in thresholds]
    assert merge_configs(members, find_task("squad-2.0")).threshold == merged


def test_forward_selection_adds_the_member_that_helps_most():
    scores = {
        (0,): 60.0, (1,): 70.0, (2,): 65.0, (3,): 10.0,
        (1, 0): 71.0, (1, 2): 70.5, (1, 3): 69.0,
        (1, 0, 2): 71.0, (1, 0, 3): 70.0,
    }  # fmt: skip
    tried = []
    assert choose_members(4, lambda members: tried.append(members) or scores[tuple(members)]) == (
        [1, 0],
        [70.0, 71.0],
    )
    assert len(tried) == 4 + 3 + 2
    assert choose_members(3, lambda members: 50.0) == ([0], [50.0])
    assert choose_members(3, len)[0] == [0, 1, 2]


def test_members_are_selected_on_one_half_and_scored_on_the_other(build, sentiment):
    models = [build("sst-2", seed) for seed in range(1, 5)]
    found = evaluate("sst-2", model=models, data=sentiment, select=True, seed=5)
    assert found.num_scored == found.selection.num_chosen_on == len(TEXTS) / 2
    assert len(found.examples) == len(found.answers) == len(TEXTS)
    assert found.models == tuple(name for name, _ in found.selection.steps)
    assert [member.name for member in found.member_scores if member.is_chosen] == sorted(found.models)
    assert len(found.member_scores) == 4


# What is rejected.


@pytest.mark.parametrize(
    ("task", "model", "error"),
    [
        ("rte", "mnli", "neutral.* not_entailment.* rte"),
        ("rte", "sts-b", "sts-b .*rte"),
        ("ax", "rte", "not_entailment.* mnli"),
        ("squad-2.0", "squad-1.1", "squad-1.1 .*squad-2.0"),
    ],
)
def test_a_model_of_another_task_is_rejected(task, model, error, build, tmp_path):
    write_entailment(tmp_path)
    write_squad(tmp_path)
    with pytest.raises(InputError, match=error):
        evaluate(task, model=build(model), data=tmp_path)


def test_a_pretrained_model_is_to_be_fine_tuned_first(tiny_folder, tmp_path):
    data = write_rows(tmp_path / "dev.csv", REVIEWS)
    with pytest.raises(InputError, match="only pretrained .*`albert finetune classification`"):
        evaluate("classification", model=tiny_folder, data=data)


def test_members_with_other_labels_or_task_types_are_rejected(build, tmp_path):
    data = write_rows(tmp_path / "dev.csv", REVIEWS)
    other = build(SENTIMENT.model_copy(update={"labels": ("bad", "good")}), seed=2)
    with pytest.raises(InputError, match="bad, good.* bad, fine, good"):
        evaluate("classification", model=[build(SENTIMENT), other], data=data)
    similarity = write_similarity(tmp_path / "glue")
    with pytest.raises(InputError, match="embedding.* sts-b"):
        evaluate("sts-b", model=[build("sts-b"), build(VECTORS)], data=similarity)


def test_invalid_requests_are_rejected(build, sentiment, tmp_path):
    model, own = build("sst-2"), build(SENTIMENT)
    table = write_rows(tmp_path / "dev.csv", [{"text": "a dog", "label": "bad"}])
    unlabeled = write_rows(tmp_path / "bare.csv", [{"text": "a dog"}])
    unknown = write_rows(tmp_path / "odd.csv", [*REVIEWS[:1], {"text": "a man", "label": "awful"}])
    glue = {"task": "sst-2", "model": model, "data": sentiment}
    texts = {"task": "classification", "model": own, "data": table}
    for options, error, value in (
        (glue | {"select": True}, InputError, "1 model"),
        (glue | {"model": [model] * 2, "select": True, "split": "test"}, InputError, "labels"),
        (glue | {"split": "test", "needs_labels": True}, InputError, "labels"),
        (glue | {"split": "tset"}, InputError, "'tset'.* dev"),
        (glue | {"columns": {"text": "a"}}, InputError, "columns"),
        (glue | {"model": tmp_path / "no"}, AlbertError, str(tmp_path / "no")),
        (glue | {"task": "sst-3"}, InputError, "'sst-3'.* sst-2"),
        (texts | {"split": "test"}, InputError, r"--split test: .*dev\.csv"),
        (texts | {"data": tmp_path, "split": "test"}, FileFormatError, r"test\.\*"),
        (texts | {"data": sentiment}, FileFormatError, r"dev\.\*"),
        (texts | {"data": unlabeled}, FileFormatError, "'label'"),
        (texts | {"data": unknown}, FileFormatError, "line 3.* 'awful'"),
    ):
        with pytest.raises(error, match=value):
            evaluate(**options)


# Scores, intervals and results of every task type, without a model.

TAGS = ("O", "B-X", "I-X", "B-Y", "I-Y")
CONTEXT = "one two three four five six seven eight"
CONFIGS = {
    "one": ClassificationConfig(task="a", labels=("p", "q", "r"), metrics=("accuracy", "macro_f1")),
    "binary": ClassificationConfig(task="mrpc", labels=("p", "q"), metrics=("accuracy", "f1")),
    "matthews": ClassificationConfig(task="cola", labels=("p", "q"), metrics=("matthews",)),
    "several": ClassificationConfig(
        task="b", label_kind="several", labels=("p", "q", "r"),
        metrics=("multilabel_micro_f1", "subset_accuracy"),
    ),
    "number": ClassificationConfig(task="c", label_kind="number", metrics=("pearson", "spearman")),
    "entities": TokenClassificationConfig(task="token-classification", labels=TAGS),
    "words": TokenClassificationConfig(task="token-classification", labels=("noun", "verb", "other")),
    "spans": QuestionAnsweringConfig(task="squad-1.1"),
    "impossible": QuestionAnsweringConfig(task="squad-2.0", has_impossible=True, threshold=0.0),
    "choices": MultipleChoiceConfig(task="race"),
}  # fmt: skip


def draw_examples(name, number):
    draw, config = random.Random(4), CONFIGS[name]

    def build(id):
        if name in ("spans", "impossible"):
            word = draw.choice(CONTEXT.split())
            if config.has_impossible and draw.random() < 0.4:
                return SpanExample(id, "which ?", CONTEXT, is_impossible=True)
            return SpanExample(id, "which ?", CONTEXT, (Answer(word, CONTEXT.index(word)),))
        if name in ("entities", "words"):
            words = ("one", "two", "three", "four")[: draw.randint(1, 4)]
            return TokenExample(id, words, tuple(draw.randrange(len(config.labels)) for _ in words))
        if name == "choices":
            options = tuple("abcd"[: draw.randint(2, 4)])
            level = draw.choice(("middle", "high"))
            return ChoiceExample(id, "passage", "which ?", options, draw.randrange(len(options)), level)
        label = draw.randrange(len(config.labels) or 6)
        if name == "several":
            label = tuple(index for index in range(3) if draw.random() < 0.5)
        return TextExample(id, "a text", None, float(label) if name == "number" else label)

    return [build(str(index)) for index in range(number)]


def answer_correctly(name, example, strength=8.0):
    if name in ("spans", "impossible"):
        gold = example.answers[0] if example.answers else Answer("two", 4)
        span = FoundSpan(gold.text, gold.start, gold.start + len(gold.text), 3.0)
        return SpanAnswer((span,), 5.0 if example.is_impossible else -5.0)
    if name in ("entities", "words"):
        return strength * np.eye(len(CONFIGS[name].labels))[list(example.labels)]
    if name == "choices":
        return strength * np.eye(len(example.options))[example.label]
    if name == "number":
        return np.array([example.label])
    if name == "several":
        return strength * (2.0 * np.isin(np.arange(3), example.label) - 1)
    return strength * np.eye(len(CONFIGS[name].labels))[example.label]


def answer_with_noise(name, example, rng):
    answer = answer_correctly(name, example, strength=1.0)
    if not isinstance(answer, SpanAnswer):
        return answer + rng.normal(size=answer.shape)
    word = str(rng.choice(CONTEXT.split())) if rng.random() < 0.5 else answer.best.text
    start = CONTEXT.index(word)
    return SpanAnswer((FoundSpan(word, start, start + len(word), 1.0),), float(rng.normal()))


@pytest.mark.parametrize("name", CONFIGS)
def test_gold_answers_score_100_without_an_error(name):
    task, examples = build_task(CONFIGS[name]), draw_examples(name, 40)
    answers = [answer_correctly(name, example) for example in examples]
    assert task.score(answers, examples)["score"] == pytest.approx(100.0)
    for metric, interval in task.find_intervals(answers, examples, seed=0).items():
        assert (interval.value, interval.low) == pytest.approx((100.0, 100.0)), metric
    results = task.explain(answers, examples)
    assert all(result.is_correct for result in results)
    assert name == "number" or all(result.gold == result.predicted for result in results)
    assert all(result.loss == pytest.approx(0.0, abs=0.01) for result in results)
    confusion = task.count_confusions(answers, examples)
    if confusion is not None:
        counts = np.array(confusion.counts)
        assert counts.trace() == counts.sum() > 0
    assert all(each.f1 == 1.0 for each in task.score_classes(answers, examples) if each.support)


@pytest.mark.parametrize("name", CONFIGS)
def test_intervals_and_results_agree_with_the_scores(name):
    task, examples, rng = build_task(CONFIGS[name]), draw_examples(name, 60), np.random.default_rng(5)
    answers = [answer_with_noise(name, example, rng) for example in examples]
    scores, intervals = task.score(answers, examples), task.find_intervals(answers, examples, seed=0)
    assert set(scores) - set(intervals) <= {"best_exact", "best_f1", "threshold"}
    for metric, interval in intervals.items():
        assert interval.value == pytest.approx(scores[metric]), metric
        assert interval.low < interval.value < interval.high, metric
    results = task.explain(answers, examples)
    assert [result.id for result in results] == [example.id for example in examples]
    exact = {"one": "accuracy", "binary": "accuracy", "choices": "accuracy"}
    exact |= {"several": "subset_accuracy", "spans": "exact", "impossible": "exact"}
    if name in exact:
        share = 100 * np.mean([result.is_correct for result in results])
        assert share == pytest.approx(scores[exact[name]])
    assert min(result.loss for result in results if not result.is_correct) > 0


def test_a_result_has_texts_labels_loss_and_confidence():
    example = TextExample("7", "one", "other", 1)
    (result,) = build_task(CONFIGS["binary"]).explain([np.log([0.9, 0.1])], [example])
    assert (result.id, result.texts) == ("7", {"first": "one", "second": "other"})
    assert (result.gold, result.predicted, result.is_correct) == ("q", "p", False)
    assert (result.loss, result.confidence) == pytest.approx((-np.log(0.1), 0.9))
    words = TokenExample("1", ("in", "New", "York"), (0, 1, 2))
    (result,) = build_task(CONFIGS["entities"]).explain([5.0 * np.eye(5)[[0, 1, 3]]], [words])
    assert (result.texts, result.gold) == ({"text": "in New York"}, "X: New York")
    assert result.predicted == "X: New; Y: York"
    (result,) = build_task(CONFIGS["words"]).explain([np.eye(3)], [words])
    assert result.gold == "in/noun New/verb York/other"


# Calibration and the no-answer threshold.

OVERCONFIDENT = 3.0  # the factor of the logits


def draw_class(logits, draw):
    return int(draw.choice(len(logits), p=softmax(logits)))


@pytest.mark.parametrize("name", ["several", "words", "choices"])
def test_tuning_recovers_the_temperature(name):
    draw = np.random.default_rng(5)
    if name == "several":
        logits = list(draw.normal(size=(3000, 3), scale=2))
        golds = (np.flatnonzero(draw.random(3) < 1 / (1 + np.exp(-row))).tolist() for row in logits)
        examples = [TextExample("", "", None, tuple(gold)) for gold in golds]
    elif name == "words":
        logits = [draw.normal(size=(draw.integers(1, 9), 3), scale=2) for _ in range(800)]
        golds = ([draw_class(row, draw) for row in rows] for rows in logits)
        examples = [TokenExample("", ("x",) * len(gold), tuple(gold)) for gold in golds]
    else:
        logits = [draw.normal(size=draw.integers(2, 6), scale=2) for _ in range(4000)]
        examples = [ChoiceExample("", "", "", ("",) * len(row), draw_class(row, draw)) for row in logits]
    answers = [OVERCONFIDENT * rows for rows in logits]
    tuned = build_task(CONFIGS[name]).tune(answers, examples)
    assert tuned.temperature == pytest.approx(OVERCONFIDENT, rel=0.1)


def build_question(odds, *, is_correct=True, is_impossible=False):
    span = FoundSpan("dog" if is_correct else "cat", 0, 3, 1.0)
    answers = () if is_impossible else (Answer("dog", 0),)
    return SpanAnswer((span,), odds), SpanExample("q", "what", "dog cat", answers, is_impossible)


def tune_questions(*questions, has_impossible=True):
    """Return the threshold, the F1 and the texts of the answers."""
    answers, examples = zip(*questions, strict=True)
    config = QuestionAnsweringConfig(task="question-answering", has_impossible=has_impossible)
    task = build_task(build_task(config).tune(answers, examples))
    texts = [task.describe(answer, examples[0])["answer"] for answer in answers]
    return task.config.threshold, task.score(answers, examples)["f1"], texts


def test_the_threshold_separates_questions_with_and_without_an_answer():
    possible = [build_question(odds) for odds in (-3.0, -1.0)]
    impossible = [build_question(odds, is_correct=False, is_impossible=True) for odds in (2.0, 4.0)]
    assert tune_questions(*possible, *impossible) == (0.5, 100.0, ["dog", "dog", "", ""])
    # Of one side only, the best threshold would answer nothing or everything.
    assert tune_questions(*(build_question(odds) for odds in (-3.0, 2.0))) == (0.0, 50.0, ["dog", ""])
    one_sided = tune_questions(*(build_question(odds, is_impossible=True) for odds in (-3.0, 2.0)))
    assert one_sided == (0.0, 50.0, ["dog", ""])
    assert tune_questions(build_question(0.0), has_impossible=False) == (None, 100.0, ["dog"])


def test_calibration_on_the_dev_set_of_fine_tuning_is_cross_fitted(tiny_folder, tmp_path):
    data = write_tables(tmp_path / "data", "classification")
    finetune("classification", model=tiny_folder, data=data, out=tmp_path / "run", overrides=SHORT)
    here = evaluate("classification", model=tmp_path / "run", data=data).calibration
    assert here.is_tuned_here
    assert here.best_temperature == pytest.approx(1.0, abs=1e-3)
    other = write_rows(tmp_path / "other.jsonl", draw_rows("classification", 60, seed=3))
    assert not evaluate("classification", model=tmp_path / "run", data=other).calibration.is_tuned_here


# Files.


@pytest.mark.parametrize(
    ("task", "split", "answers", "name", "content"),
    [
        ("sst-2", "test", [[1, 0], [0, 1], [0, 2]], "SST-2.tsv", "0\t0\n1\t1\n2\t1\n"),
        ("mnli", "test-mismatched", np.eye(3)[[0, 2]], "MNLI-mm.tsv", "0\tentailment\n1\tcontradiction\n"),
        ("ax", "test", np.eye(3)[[2]], "AX.tsv", "0\tcontradiction\n"),
        ("qnli", "test", [[0, 1], [1, 0]], "QNLI.tsv", "0\tnot_entailment\n1\tentailment\n"),
        ("sts-b", "test", [[-0.2], [2.34567], [5.5]], "STS-B.tsv", "0\t0.000\n1\t2.346\n2\t5.000\n"),
    ],
)  # fmt: skip
def test_glue_submissions_are_spelled_as_the_data(task, split, answers, name, content, tmp_path):
    definition = find_task(task)
    rows = [np.array(answer, dtype=np.float64) for answer in answers]
    examples = [TextExample(str(index), "a text") for index in range(len(rows))]
    definition.write_files(tmp_path, build_task(definition.config), rows, examples, split=split)
    assert read_tree(tmp_path) == {name: f"index\tprediction\n{content}".encode()}


SPAN_EXAMPLES = [SpanExample(name, "Who?", "the old man \ud800") for name in ("a", "b", "c")]
SPAN_ANSWERS = [
    SpanAnswer((FoundSpan("old man", 4, 11, 2.0), FoundSpan("man \ud800", 8, 13, 2.0)), -1.0),
    SpanAnswer((FoundSpan("man", 8, 11, 1.0),), 1.0),
    SpanAnswer((), 0.0),
]


@pytest.mark.parametrize("has_impossible", [True, False])
def test_squad_files_hold_answers_best_spans_and_odds(has_impossible, tmp_path):
    config = QuestionAnsweringConfig(task="squad-2.0", has_impossible=has_impossible, threshold=0.5)
    build_task(config).write_predictions(tmp_path, SPAN_ANSWERS, SPAN_EXAMPLES)
    files = {path.name: read_json(path) for path in tmp_path.iterdir()}
    best = files.pop("nbest_predictions.json")
    assert best["a"] == [
        {"text": "old man", "probability": 0.5, "score": 2.0, "start": 4, "end": 11},
        {"text": "man \ud800", "probability": 0.5, "score": 2.0, "start": 8, "end": 13},
    ]
    assert best["c"] == [{"text": "", "probability": 1.0, "score": 0.0, "start": 0, "end": 0}]
    second = "" if has_impossible else "man"
    odds = {"null_odds.json": {"a": -1.0, "b": 1.0, "c": 0.0}} if has_impossible else {}
    assert files == {"predictions.json": {"a": "old man", "b": second, "c": ""}, **odds}


def test_an_evaluation_is_written_whole_and_replaces_only_its_own_kind(build, sentiment, tmp_path):
    dev, test = (
        evaluate("sst-2", model=build("sst-2"), data=sentiment, split=name) for name in ("dev", "test")
    )
    out = tmp_path / "out"
    names = {"scores.json", "predictions.jsonl", "report.html"}
    assert set(write_evaluation(out, dev)) == {out / name for name in names}
    assert read_json(out / "scores.json")["scores"] == dict(dev.scores)
    assert len((out / "predictions.jsonl").read_text().splitlines()) == len(TEXTS)
    write_evaluation(out, dev)
    before = read_tree(out)
    with pytest.raises(InputError, match="test"):
        write_evaluation(out, test)
    assert read_tree(out) == before
    write_evaluation(tmp_path / "test", test)
    assert set(read_tree(tmp_path / "test")) == {"scores.json", "predictions.jsonl", "SST-2.tsv"}
    (out / "notes.txt").write_text("mine")
    with pytest.raises(AlbertError, match=r"notes\.txt"):
        write_evaluation(out, dev)
    assert (out / "notes.txt").read_text() == "mine"
