"""Evaluation: one model or several, on published tasks and own tables; what does not fit is refused."""

import re

import numpy as np
import pytest
from scipy.special import softmax

import albert
from albert.errors import AlbertError, FileFormatError, InputError
from albert.tasks.answering import load_answerer
from albert.tasks.assignment import describe_published
from albert.tasks.catalogue import find_task
from albert.tasks.ensemble import Member, describe_whole
from albert.tasks.evaluation import evaluate_task
from albert.tasks.evaluation_goal import Goal
from albert.tasks.examples import identify_examples
from albert.tasks.finetune import finetune
from albert.tasks.metrics.squad import ANSWER_NOTHING
from albert.tasks.readers.published import read_split
from albert.tasks.task_facts import TaskConfig
from tests.tasks.finetuned_folder import (
    ANSWERS,
    OPTIONS,
    PLACES,
    SENTIMENT,
    STARS,
    TOPICS,
    write_finetuned_folder,
)
from tests.tasks.published import (
    TEXTS,
    write_entailment,
    write_race,
    write_sentiment,
    write_similarity,
    write_squad,
)
from tests.tasks.tables import OWN_TABLES, draw_rows, write_rows, write_tables


def facts_of(task: str, **changes: object) -> TaskConfig:
    """What a model of a published task knows, in the 40 positions of the tiny one."""
    lengths = {"max_length": 40, "stride": 8, "max_question": 8, "max_ending": 16}
    return describe_published(find_task(task)).model_copy(update={**lengths, **changes})


@pytest.fixture
def build(tiny_folder, tmp_path):
    """A model of a task, by its seed."""

    def write(facts: TaskConfig | str, seed: int = 1, **options: bool):
        facts = facts_of(facts) if isinstance(facts, str) else facts
        return write_finetuned_folder(
            tmp_path / f"{facts.task}-{facts.kind}-{seed}", tiny_folder, facts, seed=seed, **options
        )

    return write


def probabilities(evaluation) -> np.ndarray:
    found: np.ndarray = softmax(np.stack(evaluation.answers), axis=-1)
    return found


def test_a_published_task_is_scored_as_its_kind_scores_it(build, tmp_path):
    data, model = write_sentiment(tmp_path / "glue"), build("sst-2")
    found = evaluate_task("SST-2", models=[model], data=data)
    answerer = load_answerer(model)
    answers = answerer.answer(found.examples)
    assert found.scores == answerer.kind.score(answers, found.examples)
    assert (found.task, found.split, found.num_scored) == ("sst-2", "dev", len(TEXTS))
    assert found.models == (str(model),)
    assert found.member_scores == ()
    assert set(found.intervals) == set(found.scores) == {"accuracy", "score"}
    assert found.intervals["score"].low <= found.scores["score"] <= found.intervals["score"].high
    assert found.confusion.labels == ("negative", "positive")
    assert sum(map(sum, found.confusion.counts)) == len(TEXTS)
    assert [each.label for each in found.classes] == ["negative", "positive"]
    assert sum(verdict.is_right for verdict in found.verdicts) == round(
        found.scores["accuracy"] / 100 * len(TEXTS)
    )


def test_python_takes_one_model_or_several(build, tmp_path):
    data, models = write_sentiment(tmp_path / "glue"), [build("sst-2", seed) for seed in (1, 2)]
    alone = albert.evaluate("sst-2", model=models[0], data=data)
    together = albert.evaluate("sst-2", model=models, data=data)
    assert together.models == tuple(map(str, models))
    assert alone.scores == together.member_scores[0].scores


def test_an_ensemble_gives_the_mean_of_the_probabilities(build, tmp_path):
    data, models = write_sentiment(tmp_path / "glue"), [build("sst-2", seed) for seed in (1, 2, 3)]
    alone = [evaluate_task("sst-2", models=[model], data=data) for model in models]
    whole = evaluate_task("sst-2", models=models, data=data)
    mean = np.mean([probabilities(each) for each in alone], axis=0)
    np.testing.assert_allclose(probabilities(whole), mean, atol=1e-12)
    assert [member.scores for member in whole.member_scores] == [each.scores for each in alone]
    expected = 100 * np.mean(mean.argmax(1) == [example.label for example in whole.examples])
    assert whole.scores["accuracy"] == pytest.approx(expected)


@pytest.mark.parametrize("facts", [SENTIMENT, STARS, PLACES, ANSWERS, OPTIONS], ids=lambda each: each.task)
def test_an_ensemble_of_a_model_with_itself_is_the_model(facts, build, tmp_path):
    rows = draw_rows(facts.task, 12, seed=3)
    if facts is SENTIMENT:
        rows = [{**row, "label": ("bad", "fine", "good")[place % 3]} for place, row in enumerate(rows)]
    if facts is PLACES:
        rows = [{**row, "labels": ["B-PLACE"] * len(row["labels"])} for row in rows]
    data = write_rows(tmp_path / "dev.jsonl", rows)
    model = build(facts.model_copy(update={"temperature": 1.7}))
    one = evaluate_task(facts.task, models=[model], data=data)
    three = evaluate_task(facts.task, models=[model] * 3, data=data)
    assert three.scores == pytest.approx(one.scores)
    for verdict, other in zip(one.verdicts, three.verdicts, strict=True):
        assert (verdict.given, verdict.is_right) == (other.given, other.is_right)
        assert verdict.confidence == pytest.approx(other.confidence)
        assert verdict.loss == pytest.approx(other.loss)


def test_members_are_merged_at_their_own_temperatures(build, tmp_path):
    data = write_sentiment(tmp_path / "glue")
    models = [build(facts_of("sst-2", temperature=heat), seed=seed) for seed, heat in ((1, 0.5), (2, 3.0))]
    whole = evaluate_task("sst-2", models=models, data=data)
    logits = [np.stack(load_answerer(model).answer(whole.examples)) for model in models]
    mean = (softmax(logits[0] / 0.5, axis=-1) + softmax(logits[1] / 3.0, axis=-1)) / 2
    np.testing.assert_allclose(probabilities(whole), mean, atol=1e-12)
    assert whole.calibration.temperature is None
    assert evaluate_task("sst-2", models=models[:1], data=data).calibration.temperature == 0.5


def test_labels_in_another_order_are_the_same_labels(build, tmp_path):
    """A folder of others names contradiction first, and has no task.json: its names are believed."""
    data = write_entailment(tmp_path / "glue")
    labels = ("contradiction", "entailment", "neutral")
    foreign = build(facts_of("mnli", labels=labels), has_facts=False)
    found = evaluate_task("mnli", models=[foreign], data=data)
    assert found.facts.labels == ("entailment", "neutral", "contradiction")
    own = load_answerer(foreign, task=facts_of("mnli"))
    given = [labels[answer.argmax()] for answer in own.answer(found.examples)]
    assert [verdict.given for verdict in found.verdicts] == given
    assert [verdict.gold for verdict in found.verdicts[:3]] == ["contradiction", "entailment", "neutral"]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (TOPICS, "gives several labels at once (problem_type multi_label_classification), and classification "
        "asks for one label; give a model of classification, or ask for multilabel"),
        (STARS, "gives a number (problem_type regression), and classification asks for one label"),
    ],
)  # fmt: skip
def test_a_folder_of_others_is_not_asked_for_another_kind_of_label(facts, said, build, tmp_path):
    data = write_rows(tmp_path / "dev.jsonl", draw_rows("classification", 12, seed=3))
    model = build(facts, has_facts=False)
    with pytest.raises(InputError, match=re.escape(said)):
        evaluate_task("classification", models=[model], data=data)


def test_a_folder_that_transformers_wrote_is_evaluated(tiny_folder, tmp_path):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    names = {0: "POSITIVE", 1: "NEGATIVE"}
    torch.manual_seed(0)
    theirs = transformers.AlbertForSequenceClassification.from_pretrained(
        tiny_folder, num_labels=2, id2label=names, label2id={name: place for place, name in names.items()}
    ).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_folder)
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer.save_pretrained(tmp_path / "theirs")
    found = evaluate_task("sst-2", models=[tmp_path / "theirs"], data=write_sentiment(tmp_path / "glue"))
    with torch.no_grad():
        logits = [theirs(**tokenizer(text, return_tensors="pt")).logits[0] for text in TEXTS]
    assert [verdict.given for verdict in found.verdicts] == [
        names[int(row.argmax())].lower() for row in logits
    ]
    assert [verdict.confidence for verdict in found.verdicts] == pytest.approx(
        [float(row.softmax(0).max()) for row in logits], abs=1e-5
    )


def test_a_model_of_mnli_answers_both_parts_and_the_diagnostic_set(build, tmp_path):
    data, model = write_entailment(tmp_path / "glue"), build("mnli")
    assert len(evaluate_task("mnli", models=[model], data=data).examples) == len(TEXTS) - 1
    assert evaluate_task("mnli", models=[model], data=data, split="dev-mismatched").num_scored == 5
    asked = evaluate_task("ax", models=[model], data=data)
    assert (asked.split, asked.num_scored, asked.scores, asked.verdicts) == ("test", 0, {}, ())
    assert len(asked.answers) == len(TEXTS) - 1


def test_similarity_is_a_number_without_classes(build, tmp_path):
    found = evaluate_task("sts-b", models=[build("sts-b")], data=write_similarity(tmp_path / "glue"))
    assert set(found.scores) == set(found.intervals) == {"pearson", "spearman", "score"}
    assert (found.confusion, found.classes, found.calibration) == (None, (), None)
    worst = max(found.verdicts, key=lambda verdict: verdict.loss)
    assert worst.loss == pytest.approx(abs(float(worst.gold) - float(worst.given)), abs=1e-3)


def test_what_a_model_has_learned_from_is_told(tiny_folder, tmp_path):
    data = write_rows(tmp_path / "all.jsonl", draw_rows("classification", 60, seed=1))
    words = ("num_steps=2", "num_evaluations=1", "has_tensorboard=false")
    model = tmp_path / "run"
    finetune("classification", model=tiny_folder, data=data, out=model, overrides=words)
    found = evaluate_task("classification", models=[model], data=data)
    assert "has learned from it, so that its scores say nothing of other texts" in found.problems[-1]
    other = write_rows(tmp_path / "other.jsonl", draw_rows("classification", 60, seed=2))
    assert evaluate_task("classification", models=[model], data=other).problems == ()


def test_a_temperature_is_not_judged_by_what_it_was_chosen_on(tiny_folder, tmp_path):
    data = write_tables(tmp_path / "data", "classification")
    words = ("num_steps=2", "num_evaluations=1", "has_tensorboard=false")
    model = tmp_path / "run"
    finetune("classification", model=tiny_folder, data=data, out=model, overrides=words)
    here = evaluate_task("classification", models=[model], data=data).calibration
    assert here is not None
    assert here.is_tuned_here
    assert here.best_temperature == pytest.approx(1.0, abs=1e-3)  # by its making, which says nothing
    other = write_rows(tmp_path / "other.jsonl", draw_rows("classification", 60, seed=3))
    elsewhere = evaluate_task("classification", models=[model], data=other).calibration
    assert elsewhere is not None
    assert not elsewhere.is_tuned_here


def test_nor_are_those_of_an_ensemble(build, tmp_path):
    """Of each half, every model is taken at what is best for it on the other: its own has no say."""
    data = write_sentiment(tmp_path / "glue")
    asked = identify_examples(read_split(find_task("sst-2"), tmp_path / "glue", split="dev").examples)

    def calibrate(*temperatures):
        models = [
            build(facts_of("sst-2", temperature=heat, tuned_on=asked), seed=seed)
            for seed, heat in enumerate(temperatures)
        ]
        return evaluate_task("sst-2", models=models, data=data).calibration

    one, other = calibrate(0.05, 0.1), calibrate(1.0, 5.0)
    assert one.is_tuned_here
    assert (one.ece, one.loss) == pytest.approx((other.ece, other.loss))
    model = build(facts_of("sst-2", temperature=0.1, tuned_on=asked))
    alone, thrice = (evaluate_task("sst-2", models=[model] * number, data=data) for number in (1, 3))
    assert (thrice.calibration.ece, thrice.calibration.loss) == pytest.approx(
        (alone.calibration.ece, alone.calibration.loss)
    )


def test_vectors_are_scored_by_similarity(tiny_folder, tmp_path):
    """A model that embeds answers how similar two texts are, on a scale of its own."""
    facts = TaskConfig(task="embedding", kind="embedding", max_length=40)
    model = write_finetuned_folder(tmp_path / "m", tiny_folder, facts)
    found = evaluate_task("sts-b", models=[model], data=write_similarity(tmp_path / "glue"))
    assert set(found.scores) == set(found.intervals)
    assert found.scores["score"] == found.scores["spearman"] == pytest.approx(found.intervals["score"].value)


def test_vectors_are_scored_on_a_table_of_pairs_with_numbers(tiny_folder, tmp_path):
    columns = {"text": "a", "text_pair": "b", "score": "c"}
    facts = TaskConfig(task="embedding", kind="embedding", max_length=40, columns=columns)
    model = write_finetuned_folder(tmp_path / "m", tiny_folder, facts)
    table = tmp_path / "pairs.csv"
    pairs = ("the dog,a man", "the man,a dog", "the ship,a house", "the dog,a dog")
    rows = [f"{pair},{place}.5" for place, pair in enumerate(pairs)]
    table.write_text("\n".join(["one,two,how", *rows]), encoding="utf-8")
    names = {"text": "one", "text_pair": "two", "label": "how"}
    found = evaluate_task("regression", models=[model], data=table, columns=names)
    assert "spearman" in found.scores


def test_a_column_that_is_named_must_be_there_and_one_of_the_model_need_not(tiny_folder, tmp_path):
    columns = {"text": "a", "text_pair": "b", "score": "c"}
    facts = TaskConfig(
        task="embedding", kind="embedding", label_kind="number", max_length=40, columns=columns
    )
    model = write_finetuned_folder(tmp_path / "m", tiny_folder, facts)
    rows = [{"a": "the dog", "b": "a dog", "how": 1.0}, {"a": "the man", "b": "a man", "how": 2.0}]
    table = write_rows(tmp_path / "pairs.csv", rows)
    # Without the model's column of numbers, the right second text is looked for.
    assert "spearman" not in evaluate_task("embedding", models=[model], data=table).scores
    named = evaluate_task("embedding", models=[model], data=table, columns={"score": "how"})
    assert "spearman" in named.scores
    with pytest.raises(
        FileFormatError, match=r"no column 'hwo', which columns\.score names; did you mean how"
    ):
        evaluate_task("embedding", models=[model], data=table, columns={"score": "hwo"})


def test_race_is_scored_by_level(build, tmp_path):
    found = evaluate_task("race", models=[build("race")], data=write_race(tmp_path))
    assert set(found.scores) == set(found.intervals) == {"accuracy", "middle", "high", "score"}
    assert (found.scores["middle"] + found.scores["high"]) / 2 == found.scores["accuracy"]
    assert list(found.verdicts[0].texts) == ["passage", "question", "A", "B", "C", "D"]
    assert found.verdicts[0].gold == "A: old"


def test_squad_has_a_threshold_of_the_model_and_an_honest_figure_beside_it(build, tmp_path):
    data = write_squad(tmp_path)
    found = evaluate_task("squad-2.0", models=[build(facts_of("squad-2.0", threshold=0.25))], data=data)
    assert (found.threshold.threshold, found.threshold.source) == (0.25, "the model's own")
    assert found.scores["threshold"] == 0.25
    assert (found.threshold.num_chosen_on, found.threshold.num_reported) == (6, 6)  # two articles each
    assert found.threshold.elsewhere.scores.overall.total == 6
    assert found.threshold.best.best_f1 >= found.scores["f1"]
    given = [answer.null_odds <= 0.25 for answer in found.answers]
    assert [verdict.given != "(no answer)" for verdict in found.verdicts] == given
    assert [verdict.gold for verdict in found.verdicts[:3]] == ["a big", "a big", "(no answer)"]
    assert found.confusion.labels == ("no answer", "answer")
    assert [sum(row) for row in found.confusion.counts] == [4, 8]
    assert set(found.scores) - set(found.intervals) == {"best_exact", "best_f1", "threshold"}


def test_an_ensemble_for_squad_has_the_median_threshold_and_the_mean_odds(build, tmp_path):
    data = write_squad(tmp_path)
    models = [build(facts_of("squad-2.0", threshold=value), seed=int(value)) for value in (1.0, 2.0)]
    alone = [evaluate_task("squad-2.0", models=[model], data=data) for model in models]
    whole = evaluate_task("squad-2.0", models=models, data=data)
    assert whole.threshold.threshold == 1.5
    assert whole.threshold.source == "the median of the models' own"
    for place, answer in enumerate(whole.answers):
        odds = [each.answers[place].null_odds for each in alone]
        assert answer.null_odds == pytest.approx(sum(odds) / 2)


@pytest.mark.parametrize(
    ("thresholds", "whole"),
    [
        ((ANSWER_NOTHING, 1.0), 1.0),
        ((1.0, ANSWER_NOTHING, 3.0), 1.0),
        ((3.0, 1.0, ANSWER_NOTHING, ANSWER_NOTHING), 1.0),
        ((9.0, 1.0, 2.0, 3.0), 2.5),
        ((ANSWER_NOTHING, 1.0, ANSWER_NOTHING), ANSWER_NOTHING),
        ((ANSWER_NOTHING, ANSWER_NOTHING), ANSWER_NOTHING),
        ((1.0, None), None),
    ],
)
def test_an_ensemble_says_nothing_only_where_most_of_its_models_do(tmp_path, thresholds, whole):
    task = find_task("squad-2.0")
    members = [Member("m", tmp_path, facts_of("squad-2.0", threshold=each)) for each in thresholds]
    goal = Goal(describe_published(task), published=task)
    assert describe_whole(members, goal).threshold == whole


def test_a_model_without_a_threshold_says_that_its_scores_flatter(build, tmp_path):
    found = evaluate_task("squad-2.0", models=[build("squad-2.0")], data=write_squad(tmp_path))
    assert "flatters" in found.threshold.source
    assert found.scores["f1"] == pytest.approx(found.threshold.best.best_f1)


@pytest.mark.parametrize("task", OWN_TABLES)
def test_own_tables_are_scored_by_the_labels_of_the_model(task, tiny_folder, tmp_path):
    from albert.tasks.finetune import finetune

    data = write_tables(tmp_path / "data", task, num_train=20, num_dev=10)
    words = ("num_steps=2", "batch_size=8", "num_evaluations=1", "has_tensorboard=false")
    taught = finetune(task, model=tiny_folder, data=data, out=tmp_path / "run", overrides=words)
    for place in (data, data / "dev.jsonl"):
        found = evaluate_task(task, models=[tmp_path / "run"], data=place)
        assert found.scores == pytest.approx(dict(taught.scores.metrics), abs=1e-6)
        assert set(found.intervals) == set(found.scores)
        assert found.split == ("dev" if place == data else "dev.jsonl")
        assert len(found.verdicts) == 10


def test_columns_are_those_that_the_model_learned_from_unless_others_are_named(build, tmp_path):
    rows = [{"review": text, "mood": ("bad", "fine", "good")[place % 3]} for place, text in enumerate(TEXTS)]
    data = write_rows(tmp_path / "reviews.csv", rows)
    columns = {"text": "review", "label": "mood"}
    plain = build(SENTIMENT)
    named = evaluate_task("classification", models=[plain], data=data, columns=columns)
    taught = build(SENTIMENT.model_copy(update={"columns": columns}), seed=2)
    assert evaluate_task("classification", models=[taught], data=data).examples == named.examples
    with pytest.raises(FileFormatError, match="'text'"):
        evaluate_task("classification", models=[plain], data=data)


def test_members_are_chosen_on_one_half_and_scored_on_the_other(build, tmp_path):
    data, models = write_sentiment(tmp_path / "glue"), [build("sst-2", seed) for seed in range(1, 5)]
    found = evaluate_task("sst-2", models=models, data=data, select=True, seed=5)
    assert found.num_scored == found.selection.num_chosen_on == len(TEXTS) / 2
    assert len(found.examples) == len(found.answers) == len(TEXTS)
    assert found.models == tuple(name for name, _ in found.selection.steps)
    assert [member.name for member in found.member_scores if member.is_chosen] == sorted(found.models)
    assert len(found.member_scores) == 4
    scores = [score for _, score in found.selection.steps]
    assert scores == sorted(set(scores))  # each one helped


@pytest.mark.parametrize(
    ("asked", "model", "said"),
    [
        ("rte", "mnli", r"answers entailment, neutral, contradiction, but rte has entailment, not_ent"),
        ("rte", "sts-b", r"was fine-tuned for sts-b and gives a number, and rte asks for one label"),
        ("rte", "race", r"was fine-tuned for race \(choices\), and rte is of texts; give a model of rte"),
        ("ax", "rte", r"answers entailment, not_entailment, but ax has .*; give a model of mnli"),
        ("squad-2.0", "squad-1.1", r"answers every question, and squad-2.0 has some without an answer"),
    ],
)
def test_a_model_of_another_task_is_refused(asked, model, said, build, tmp_path):
    write_entailment(tmp_path)
    write_squad(tmp_path)
    with pytest.raises(InputError, match=said):
        evaluate_task(asked, models=[build(model)], data=tmp_path)


def test_members_that_do_not_answer_alike_are_refused(build, tmp_path):
    rows = [{"text": text, "label": "bad"} for text in TEXTS]
    data = write_rows(tmp_path / "dev.csv", rows)
    other = build(SENTIMENT.model_copy(update={"labels": ("bad", "good")}), seed=2)
    with pytest.raises(InputError, match="answers bad, good, but .* has bad, fine, good"):
        evaluate_task("classification", models=[build(SENTIMENT), other], data=data)


def test_a_label_that_the_model_does_not_know_is_refused_with_its_line(build, tmp_path):
    rows = [{"text": "a dog", "label": "good"}, {"text": "a man", "label": "awful"}]
    data = write_rows(tmp_path / "dev.csv", rows)
    with pytest.raises(FileFormatError, match="line 3: the label 'awful' is unknown"):
        evaluate_task("classification", models=[build(SENTIMENT)], data=data)


def test_a_folder_that_names_no_labels_has_those_of_the_table(build, tmp_path):
    rows = [{"text": text, "label": place % 3} for place, text in enumerate(TEXTS)]
    data = write_rows(tmp_path / "dev.csv", rows)
    unnamed = SENTIMENT.model_copy(update={"labels": ("LABEL_0", "LABEL_1", "LABEL_2")})
    found = evaluate_task("classification", models=[build(unnamed, has_facts=False)], data=data)
    assert found.facts.labels == ("0", "1", "2")
    with pytest.raises(AlbertError, match="answers with 3 outputs, and the task has 2 labels"):
        evaluate_task(
            "classification",
            models=[build(unnamed, has_facts=False)],
            data=write_rows(tmp_path / "two.csv", [{"text": "a dog", "label": n % 2} for n in range(4)]),
        )


def test_what_cannot_be_done_is_refused(build, tmp_path):
    data, model = write_sentiment(tmp_path / "glue"), build("sst-2")
    for options, said in (
        ({"models": []}, "0 models to evaluate"),
        ({"models": [model], "select": True}, "nothing to choose from"),
        ({"models": [model] * 2, "select": True, "split": "test"}, "no labels to choose members by"),
        ({"models": [model], "split": "test", "needs_labels": True}, "has no labels"),
        ({"models": [model], "split": "tset"}, "has no split 'tset'"),
        ({"models": [model], "columns": {"text": "a"}}, "has files of its own"),
        ({"models": [tmp_path / "no"]}, "does not exist"),
    ):
        with pytest.raises(AlbertError, match=said):
            evaluate_task("sst-2", data=data, **options)
    with pytest.raises(InputError, match="no task 'sst-3'; did you mean sst-2"):
        evaluate_task("sst-3", models=[model], data=data)
    file = write_rows(tmp_path / "dev.csv", [{"text": "a dog", "label": "bad"}])
    own = build(SENTIMENT)
    with pytest.raises(InputError, match=r"^--split test: .*dev\.csv is one table; leave it out, or"):
        evaluate_task("classification", models=[own], data=file, split="test")
    with pytest.raises(FileFormatError, match=r"has no table test\.\*; .* or --split with the name of"):
        evaluate_task("classification", models=[own], data=tmp_path, split="test")
    bare = write_rows(tmp_path / "bare.csv", [{"text": "a dog"}])
    with pytest.raises(FileFormatError, match="no column 'label'"):  # to be answered only, it is for predict
        evaluate_task("classification", models=[own], data=bare)
    with pytest.raises(FileFormatError, match=r"has no table dev\.\*"):
        evaluate_task("classification", models=[own], data=tmp_path / "glue")
