"""`albert.load`: predictions of fine-tuned models in Python."""

import json
import shutil

import numpy as np
import pytest

import albert
from albert.errors import InputError
from albert.files import format_json
from albert.tasks.catalogue import build_task
from albert.tasks.metrics.classification import find_entities
from albert.tasks.token_classification import FoundEntity, Tagging
from tests.conftest import read_tree
from tests.tasks.finetuned_folder import (
    ANSWERS,
    OPTIONS,
    PLACES,
    SENTIMENT,
    STARS,
    TOPICS,
    VECTORS,
    write_finetuned_folder,
)

TEXTS = ["the ship left the town", "two children", "it was cold, and they went to the house by the river"]
PAIRS = [("the dog was big", "the dog was small"), ("a house", "it was cold and they left the town")]
CONTEXT = "the man found a big ship on the river . it was an old , cold ship from the town by the sea ."


@pytest.fixture
def load(tiny_folder, tmp_path):
    def build(config, **options):
        return albert.load(write_finetuned_folder(tmp_path / "m", tiny_folder, config, **options))

    return build


# Classification.


def test_classify_equals_the_pipeline_of_transformers(load, tmp_path):
    transformers = pytest.importorskip("transformers")
    ours = load(SENTIMENT).classify([*TEXTS, *PAIRS])
    pipe = transformers.pipeline("text-classification", model=str(tmp_path / "m"), top_k=None, device="cpu")
    pairs = [{"text": first, "text_pair": second} for first, second in PAIRS]
    for found, rows in zip(ours, [*pipe(TEXTS), *(pipe(pair) for pair in pairs)], strict=True):
        theirs = {row["label"]: row["score"] for row in rows}
        assert found.label == max(theirs, key=theirs.__getitem__)
        assert found.probability == max(found.probabilities.values())
        assert found.probabilities == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "segments"])
@pytest.mark.parametrize("config", [SENTIMENT, TOPICS, STARS], ids=lambda config: config.task)
def test_other_poolings_are_read_back_and_predict_alike_in_any_batch(load, tmp_path, config, pooling):
    model = load(config.model_copy(update={"classifier_pooling": pooling}))
    assert model.model.pooler is None
    predict = getattr(model, build_task(config).method)
    together = predict([*TEXTS, *PAIRS])
    alone = [predict([text])[0] for text in (*TEXTS, *PAIRS)]
    again = getattr(albert.load(tmp_path / "m"), build_task(config).method)([*TEXTS, *PAIRS])
    assert again == together
    for one, other in zip(together, alone, strict=True):
        numbers = [getattr(each, "probabilities", {"": each}) for each in (one, other)]
        assert numbers[0] == pytest.approx(numbers[1], abs=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "segments"])
def test_transformers_does_not_take_the_head_of_another_pooling_for_its_own(load, tmp_path, pooling):
    transformers = pytest.importorskip("transformers")
    load(SENTIMENT.model_copy(update={"classifier_pooling": pooling}))
    theirs, report = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "m", output_loading_info=True
    )
    missing = {name.rpartition(".")[0] for name in report["missing_keys"]}
    assert missing == {"albert.pooler", "classifier"}
    assert theirs.config.id2label == {0: "bad", 1: "fine", 2: "good"}


def test_a_temperature_lowers_probabilities_and_keeps_labels(load):
    plain = load(SENTIMENT).classify(TEXTS)
    scaled = load(SENTIMENT.model_copy(update={"temperature": 4.0})).classify(TEXTS)
    assert [each.label for each in scaled] == [each.label for each in plain]
    assert all(one.probability < other.probability for one, other in zip(scaled, plain, strict=True))


@pytest.mark.parametrize(
    ("config", "method"), [(SENTIMENT, "classify"), (TOPICS, "find_labels"), (STARS, "rate")]
)
def test_the_method_of_another_label_kind_names_the_right_one(load, config, method):
    model = load(config)
    for other in {"classify", "find_labels", "rate"} - {method}:
        with pytest.raises(InputError, match=f"{other}: .*{config.task}.* {method}"):
            getattr(model, other)(TEXTS)


def test_long_empty_and_no_texts_are_classified(load):
    model = load(SENTIMENT)
    words = "the dog was big and it was cold . " * 30
    (whole,), (start,) = model.classify([words]), model.classify([words[:400]])
    assert whole.probabilities == pytest.approx(start.probabilities, abs=1e-6)
    assert len(model.classify([""])) == 1
    assert model.classify([]) == []


# Questions, options and words.


def test_an_answer_is_a_span_of_its_context(load):
    model = load(ANSWERS)
    one = model.answer("what was cold ?", CONTEXT)
    assert one.is_found
    assert CONTEXT[one.start : one.end] == one.text
    assert one == model.answer(["what was cold ?"], [CONTEXT])[0]
    for found in model.answer(["what was cold ?", "who left ?"], CONTEXT * 60):
        assert (CONTEXT * 60)[found.start : found.end] == found.text
        assert 0 < found.probability <= 1


def test_a_question_without_an_answer_has_no_span(load):
    config = ANSWERS.model_copy(update={"has_impossible": True, "threshold": -100.0})
    found = load(config).answer("what was cold ?", CONTEXT)
    assert (found.text, found.start, found.end, found.is_found) == ("", None, None, False)
    assert found.null_odds is not None


def test_choose_takes_one_question_or_several(load):
    model = load(OPTIONS)
    options = ["the dog", "the ship", "a house by the sea"]
    one = model.choose("what did he find ?", options, passage=CONTEXT)
    assert one.option == options[one.index]
    assert one.probability == max(one.probabilities)
    assert sum(one.probabilities) == pytest.approx(1.0)
    several = model.choose(["what did he find ?", "who ?"], [options, ["he", "she"]], passage=CONTEXT)
    assert several[0].probabilities == pytest.approx(one.probabilities, abs=1e-6)
    assert len(several[1].probabilities) == 2


def test_words_and_entities_have_their_characters(load):
    text = "  the ship   went to the town by the river,\tnot the sea "
    spaced, listed = load(PLACES).tag([text, text.split()])
    assert [word.text for word in spaced.words] == text.split()
    assert [word.label for word in spaced.words] == [word.label for word in listed.words]
    for tagging, whole in ((spaced, text), (listed, " ".join(text.split()))):
        for part in (*tagging.words, *tagging.entities):
            assert whole[part.start : part.end] == part.text
    labels = [word.label for word in spaced.words]
    assert set(labels) <= set(PLACES.labels)
    assert [each.type for each in spaced.entities] == [each.type for each in find_entities(labels)]


def test_an_entity_is_the_text_from_its_first_word_to_its_last():
    task = build_task(PLACES)
    (example,) = task.parse_inputs(["he left  New   York for\tRome"])
    outside, begin, inside = 5.0 * np.eye(3)
    answer = np.stack([outside, outside, begin, inside, outside, begin])
    (city, town) = task.build_record(task.describe(answer, example), example).entities
    assert city == FoundEntity("PLACE", "New   York", 9, 19, city.probability)
    assert town == FoundEntity("PLACE", "Rome", 24, 28, town.probability)
    assert city.probability == pytest.approx(town.probability**2)


def test_texts_with_many_or_no_words_are_tagged(load):
    model = load(PLACES)
    assert len(model.tag(["the old town by the cold sea " * 40])[0].words) == 280
    assert model.tag(["", " \t"]) == [Tagging(()), Tagging(())]
    assert len(model.tag(["a b", ""])[0].words) == 2


# Folders of other libraries, and models that do not fit.


def test_a_folder_without_task_json_predicts_by_its_head_and_labels(load):
    model = load(SENTIMENT, has_config=False)
    config = model.task_config
    assert (config.task, config.label_kind, config.labels) == ("classification", "one", SENTIMENT.labels)
    assert config.max_length == model.model.config.max_position_embeddings
    assert set(model.classify(TEXTS)[0].probabilities) == set(SENTIMENT.labels)
    assert load(TOPICS, has_config=False).find_labels(TEXTS)
    assert load(STARS, has_config=False).rate(TEXTS)
    assert load(PLACES, has_config=False).tag(TEXTS)[0].words[0].label in PLACES.labels
    assert load(ANSWERS, has_config=False).answer("who ?", CONTEXT * 3).is_found
    assert load(OPTIONS, has_config=False).choose("who ?", ["he", "she"]).option in ("he", "she")


def test_outputs_without_names_are_named_as_in_transformers(load, tmp_path):
    load(SENTIMENT, has_config=False)
    path = tmp_path / "m" / "config.json"
    names = ("id2label", "label2id", "problem_type")
    config = {key: value for key, value in json.loads(path.read_text()).items() if key not in names}
    path.write_text(json.dumps(config))
    (found,) = albert.load(tmp_path / "m").classify(TEXTS[:1])
    assert set(found.probabilities) == {"LABEL_0", "LABEL_1", "LABEL_2"}


@pytest.mark.parametrize(
    ("head", "predict"),
    [
        ("classification", lambda model: model.classify(TEXTS)),
        ("span", lambda model: model.answer("who ?", CONTEXT)),
        ("choice", lambda model: model.choose("who ?", ["he", "she"])),
        ("token_classification", lambda model: model.tag(TEXTS)),
    ],
)
def test_a_pretrained_folder_is_rejected_by_its_heads(tiny_folder, head, predict):
    with pytest.raises(InputError, match=f"{head} .*mlm, sop"):
        predict(albert.load(tiny_folder))


@pytest.mark.parametrize(
    ("config", "predict", "error"),
    [
        (SENTIMENT, lambda m: m.classify("the dog"), "'the dog'"),
        (SENTIMENT, lambda m: m.classify([("a", "b", "c")]), "'c'"),
        (ANSWERS, lambda m: m.answer(["a", "b"], ["c"]), "2 .* 1 "),
        (ANSWERS, lambda m: m.answer("a", None), "None"),
        (OPTIONS, lambda m: m.choose("a", ["only"]), "question 1"),
        (OPTIONS, lambda m: m.choose(["a"], ["bc"]), "'bc'"),
        (OPTIONS, lambda m: m.choose(["a"], [["b", "c"]], passage=["d", "e"]), "1 .* 2 "),
        (PLACES, lambda m: m.tag("a b"), "'a b'"),
    ],
)
def test_invalid_inputs_are_rejected(load, config, predict, error):
    with pytest.raises(InputError, match=error):
        predict(load(config))


# Embeddings, and saving.


def test_a_fine_tuned_model_embeds_with_its_encoder(load, tiny_folder):
    expected = albert.load(tiny_folder).embed(TEXTS)
    np.testing.assert_allclose(load(SENTIMENT).embed(TEXTS), expected, atol=1e-6)


def write_sentence_folder(source, folder, pooling):
    """Copy a folder, with the pooling of a model of sentence-transformers."""
    shutil.copytree(source, folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
    return albert.load(folder)


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "include_prompt": True}, "cls"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"word_embedding_dimension": 32, "pooling_mode": "cls"}, "cls"),
        ({}, "mean"),
    ],
)
def test_the_pooling_of_sentence_transformers_is_used(tiny_folder, tmp_path, config, pooling):
    model = write_sentence_folder(tiny_folder, tmp_path / "m", config)
    np.testing.assert_array_equal(model.embed(TEXTS), albert.load(tiny_folder).embed(TEXTS, pooling=pooling))


def test_an_unsupported_pooling_is_rejected_unless_another_is_set(tiny_folder, tmp_path):
    model = write_sentence_folder(tiny_folder, tmp_path / "m", {"pooling_mode_max_tokens": True})
    with pytest.raises(InputError, match="'max_tokens'"):
        model.embed(TEXTS)
    np.testing.assert_array_equal(model.embed(TEXTS, pooling="mean"), albert.load(tiny_folder).embed(TEXTS))


def test_vectors_are_normalized_if_the_folder_says_so(tiny_folder, tmp_path):
    plain = write_sentence_folder(tiny_folder, tmp_path / "m", {"pooling_mode_mean_tokens": True})
    module = {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}
    (tmp_path / "m" / "modules.json").write_text(json.dumps([module]))
    unit = albert.load(tmp_path / "m")
    np.testing.assert_allclose(np.linalg.norm(unit.embed(TEXTS), axis=1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(unit.embed(TEXTS), plain.embed(TEXTS, is_normalized=True))
    np.testing.assert_array_equal(unit.embed(TEXTS, is_normalized=False), plain.embed(TEXTS))


@pytest.mark.parametrize("config", [SENTIMENT, STARS, VECTORS], ids=lambda each: each.task)
def test_saving_keeps_every_file(load, tmp_path, config):
    load(config)
    (tmp_path / "m" / "README.md").write_text("# Mine, under a license of its own")
    if config is STARS:
        path = tmp_path / "m" / "config.json"
        named = {"id2label": {"0": "stars"}, "label2id": {"stars": 0}}
        path.write_text(format_json(json.loads(path.read_text()) | named))
    albert.load(tmp_path / "m").save(tmp_path / "again")
    files = read_tree(tmp_path / "again")
    assert files == read_tree(tmp_path / "m")
    if config is VECTORS:
        assert {"modules.json", "1_Pooling/config.json"} <= set(files)
        assert json.loads(files["sentence_bert_config.json"])["max_seq_length"] == 40
