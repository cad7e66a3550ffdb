"""`albert.load` on a fine-tuned folder: texts, questions, options and words in, answers out."""

import json
import shutil

import numpy as np
import pytest
import torch

import albert
from albert.errors import AlbertError, InputError
from albert.files import format_json
from albert.model.albert_model import build_model
from albert.pretrained.folder import load_model, load_vocabulary
from albert.tasks.metrics.classification import find_entities
from albert.tasks.predicted import FoundEntity, Tagging, read_words
from albert.tasks.task_facts import TaskConfig, build_kind
from albert.tasks.task_predictor import TaskPredictor
from tests.conftest import read_tree
from tests.tasks.finetuned_folder import (
    ANSWERS,
    EARLY,
    OPTIONS,
    PLACES,
    SENTIMENT,
    STARS,
    TOPICS,
    write_finetuned_folder,
)

TEXTS = ["the ship left the town", "two children", "it was cold, and they went to the house by the river"]
PAIRS = [("the dog was big", "the dog was small"), ("a house", "it was cold and they left the town")]
CONTEXT = "the man found a big ship on the river . it was an old , cold ship from the town by the sea ."


@pytest.fixture
def load(tiny_folder, tmp_path):
    def build(facts, **options):
        return albert.load(write_finetuned_folder(tmp_path / "m", tiny_folder, facts, **options))

    return build


def test_classify_gives_what_the_pipeline_of_transformers_gives(load, tmp_path):
    transformers = pytest.importorskip("transformers")
    ours = load(SENTIMENT).classify([*TEXTS, *PAIRS])
    pipe = transformers.pipeline("text-classification", model=str(tmp_path / "m"), top_k=None, device="cpu")
    pairs = [{"text": first, "text_pair": second} for first, second in PAIRS]
    for found, rows in zip(ours, [*pipe(TEXTS), *(pipe(pair) for pair in pairs)], strict=True):
        theirs = {row["label"]: row["score"] for row in rows}
        assert found.label == max(theirs, key=theirs.__getitem__)
        assert found.probability == max(found.probabilities.values())
        assert found.probabilities == pytest.approx(theirs, abs=1e-5)


def test_the_temperature_of_the_task_makes_probabilities_flatter_and_changes_no_label(load):
    plain = load(SENTIMENT).classify(TEXTS)
    calm = load(SENTIMENT.model_copy(update={"temperature": 4.0})).classify(TEXTS)
    assert [each.label for each in calm] == [each.label for each in plain]
    assert all(one.probability < other.probability for one, other in zip(calm, plain, strict=True))


def test_several_labels_are_those_above_one_half(load):
    for found in load(TOPICS).find_labels(TEXTS):
        assert found.labels == tuple(name for name, sure in found.probabilities.items() if sure > 0.5)
        assert set(found.probabilities) == {"a", "b"}


def test_numbers(load):
    numbers = load(STARS).rate([*TEXTS, *PAIRS])
    assert len({round(number, 4) for number in numbers}) == 5


@pytest.mark.parametrize(
    ("facts", "method"), [(SENTIMENT, "classify"), (TOPICS, "find_labels"), (STARS, "rate")]
)
def test_the_method_of_another_kind_of_label_names_the_right_one(load, facts, method):
    model = load(facts)
    for other in {"classify", "find_labels", "rate"} - {method}:
        with pytest.raises(InputError, match=f"{other} is not what .*{facts.task}.*; use {method}"):
            getattr(model, other)(TEXTS)


def test_a_text_that_is_too_long_is_classified_by_its_beginning(load):
    model = load(SENTIMENT)
    words = "the dog was big and it was cold . " * 3000  # 100,000 characters
    (whole,), (start,) = model.classify([words]), model.classify([words[:400]])
    assert whole.probabilities == pytest.approx(start.probabilities, abs=1e-6)


def test_an_empty_text_has_an_answer_and_no_text_has_none(load):
    model = load(SENTIMENT)
    assert len(model.classify([""])) == 1
    assert model.classify([]) == []


def test_patience_needs_a_model_with_exits(load):
    (plain,) = load(EARLY).classify(TEXTS[:1])
    early = load(EARLY)
    assert early.classify(TEXTS[:1], patience=3)[0].probabilities == pytest.approx(plain.probabilities)
    (shallow,) = early.classify(TEXTS[:1], patience=1)
    assert set(shallow.probabilities) == {"bad", "fine", "good"}
    with pytest.raises(InputError, match="patience is 0; at least 1"):
        early.classify(TEXTS, patience=0)
    with pytest.raises(InputError, match="patience is 2, but this model answers after its last layer only"):
        load(SENTIMENT).classify(TEXTS, patience=2)


def test_an_answer_is_a_piece_of_the_context_wherever_it_stands(load):
    model = load(ANSWERS)
    one = model.answer("what was cold ?", CONTEXT)
    assert one.is_found
    assert CONTEXT[one.start : one.end] == one.text
    assert one == model.answer(["what was cold ?"], [CONTEXT])[0]
    found = model.answer(["what was cold ?", "who left ?"], CONTEXT * 60)
    for each in found:
        assert (CONTEXT * 60)[each.start : each.end] == each.text
        assert 0 < each.probability <= 1


def test_no_answer_has_no_characters(load):
    facts = ANSWERS.model_copy(update={"has_impossible": True, "threshold": -100.0})
    found = load(facts).answer("what was cold ?", CONTEXT)
    assert (found.text, found.start, found.end, found.is_found) == ("", None, None, False)
    assert found.null_odds is not None


def test_choose_takes_one_question_or_many(load):
    model = load(OPTIONS)
    options = ["the dog", "the ship", "a house by the sea"]
    one = model.choose("what did he find ?", options, passage=CONTEXT)
    assert one.option == options[one.place]
    assert one.probability == max(one.probabilities)
    assert sum(one.probabilities) == pytest.approx(1.0)
    many = model.choose(["what did he find ?", "who ?"], [options, ["he", "she"]], passage=CONTEXT)
    assert many[0].probabilities == pytest.approx(one.probabilities, abs=1e-6)
    assert len(many[1].probabilities) == 2


def test_words_keep_their_characters_and_entities_are_made_of_words(load):
    model = load(PLACES)
    text = "  the ship   went to the town by the river,\tnot the sea "
    spaced, listed = model.tag([text, text.split()])
    assert [word.text for word in spaced.words] == text.split()
    assert [word.label for word in spaced.words] == [word.label for word in listed.words]
    for tagging, whole in ((spaced, text), (listed, " ".join(text.split()))):
        for part in (*tagging.words, *tagging.entities):
            assert whole[part.start : part.end] == part.text
    labels = [word.label for word in spaced.words]
    assert set(labels) <= set(PLACES.labels)
    assert [each.type for each in spaced.entities] == [each.type for each in find_entities(labels)]


def test_an_entity_is_the_text_from_its_first_word_to_its_last():
    (text,) = read_words(["he left  New   York for\tRome"])
    labels = ["O", "O", "B-PLACE", "I-PLACE", "O", "B-PLACE"]
    entities = [
        {"type": "PLACE", "text": "New York", "first": 2, "last": 3, "probability": 0.5},
        {"type": "PLACE", "text": "Rome", "first": 5, "last": 5, "probability": 0.25},
    ]
    found = Tagging.of({"labels": labels, "probabilities": [0.9] * 6, "entities": entities}, text)
    assert found.entities == (
        FoundEntity("PLACE", "New   York", 9, 19, 0.5),
        FoundEntity("PLACE", "Rome", 24, 28, 0.25),
    )


def test_a_long_text_gets_a_label_for_every_word(load):
    (found,) = load(PLACES).tag(["the old town by the cold sea " * 400])
    assert len(found.words) == 2800


def test_a_text_without_words_has_no_labels(load):
    model = load(PLACES)
    assert model.tag(["", " \t"]) == [Tagging(()), Tagging(())]
    assert len(model.tag(["a b", ""])[0].words) == 2


def test_a_folder_of_others_answers_by_its_head_and_labels(load):
    model = load(SENTIMENT, has_facts=False)
    assert (model.facts.task, model.facts.kind, model.facts.label_kind) == ("classification", "texts", "one")
    assert model.facts.labels == SENTIMENT.labels
    assert model.facts.max_length == model.model.config.max_position_embeddings  # nothing says less
    assert set(model.classify(TEXTS)[0].probabilities) == set(SENTIMENT.labels)
    assert load(TOPICS, has_facts=False).find_labels(TEXTS)
    assert load(STARS, has_facts=False).rate(TEXTS)
    assert load(PLACES, has_facts=False).tag(TEXTS)[0].words[0].label in PLACES.labels
    assert load(ANSWERS, has_facts=False).answer("who ?", CONTEXT * 3).is_found
    assert load(OPTIONS, has_facts=False).choose("who ?", ["he", "she"]).option in ("he", "she")


def test_outputs_without_names_are_called_as_transformers_calls_them(load, tmp_path):
    load(SENTIMENT, has_facts=False)
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    for key in ("id2label", "label2id", "problem_type"):
        del config[key]
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    (found,) = albert.load(tmp_path / "m").classify(TEXTS[:1])
    assert set(found.probabilities) == {"LABEL_0", "LABEL_1", "LABEL_2"}


def test_a_pretrained_folder_says_which_heads_it_has(tiny_folder):
    model = albert.load(tiny_folder)
    assert len(model.fill_mask(["the [MASK] left"])) == 1
    ways = {
        "classification": lambda: model.classify(TEXTS),
        "span": lambda: model.answer("who ?", CONTEXT),
        "choice": lambda: model.choose("who ?", ["he", "she"]),
        "token_classification": lambda: model.tag(TEXTS),
    }
    for head, ask in ways.items():
        with pytest.raises(InputError, match=f"no {head} head; it has mlm, sop"):
            ask()


def test_labels_that_are_not_as_many_as_the_outputs_are_refused(load, tmp_path):
    load(SENTIMENT)
    facts = SENTIMENT.model_copy(update={"labels": ("no", "yes")})
    (tmp_path / "m" / "task.json").write_text(json.dumps(facts.model_dump(mode="json")))
    with pytest.raises(AlbertError, match="answers with 3 outputs, and the task has 2 labels"):
        albert.load(tmp_path / "m").classify(TEXTS)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: m.classify("the dog"), "'the dog' is one text; give a list"),
        (lambda m: m.classify(["a", 3]), "text 2 is 3; give a text"),
        (lambda m: m.classify([("a", "b", "c")]), "text 1 is .* or a pair of texts"),
        (lambda m: m.answer(["a", "b"], ["c"]), "2 questions and 1 contexts"),
        (lambda m: m.answer("a", None), "context 1 is None; give texts"),
        (lambda m: m.choose("a", ["only"]), "question 1 has 1 options; give at least two"),
        (lambda m: m.choose(["a"], ["bc"]), "options of question 1 are 'bc'; give a list"),
        (lambda m: m.choose(["a"], [["b", "c"]], passage=["d", "e"]), "1 lists of options and 2 passages"),
        (lambda m: m.tag("a b"), "'a b' is one text"),
        (lambda m: m.tag([["a", ""]]), "text 1 has '' among its words"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(load, ask, message):
    with pytest.raises(InputError, match=message):
        ask(load(SENTIMENT))


def test_an_encoder_of_sentences_is_saved_with_what_sentence_transformers_wants(load, tmp_path):
    load(TaskConfig(task="embedding", kind="embedding", max_length=40)).save(tmp_path / "again")
    limits = json.loads((tmp_path / "again" / "sentence_bert_config.json").read_text())
    assert limits["max_seq_length"] == 40
    assert (tmp_path / "again" / "modules.json").exists()
    assert (tmp_path / "again" / "1_Pooling" / "config.json").exists()


def as_sentence_folder(source, folder, pooling):
    """The folder of another model of sentences, which says itself how it makes one vector of a text."""
    shutil.copytree(source, folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
    return albert.load(folder)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "include_prompt": True}, "cls"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"word_embedding_dimension": 32, "pooling_mode": "cls"}, "cls"),
        ({}, "mean"),
    ],
)
def test_vectors_are_made_as_the_folder_of_sentences_says(tiny_folder, tmp_path, said, expected):
    model = as_sentence_folder(tiny_folder, tmp_path / "m", said)
    np.testing.assert_array_equal(model.embed(TEXTS), albert.load(tiny_folder).embed(TEXTS, pooling=expected))


def test_a_pooling_that_there_is_not_is_refused_until_another_is_asked_for(tiny_folder, tmp_path):
    model = as_sentence_folder(tiny_folder, tmp_path / "m", {"pooling_mode_max_tokens": True})
    with pytest.raises(InputError, match=r"pooling of this model's folder is 'max_tokens'; there are"):
        model.embed(TEXTS)
    np.testing.assert_array_equal(model.embed(TEXTS, pooling="mean"), albert.load(tiny_folder).embed(TEXTS))


def test_vectors_have_the_length_that_the_folder_of_sentences_says(tiny_folder, tmp_path):
    plain = as_sentence_folder(tiny_folder, tmp_path / "m", {"pooling_mode_mean_tokens": True})
    module = {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}
    (tmp_path / "m" / "modules.json").write_text(json.dumps([module]))
    (tmp_path / "m" / "1_Pooling" / ".DS_Store").write_bytes(b"\x00\xff")  # what a file browser leaves there
    unit = albert.load(tmp_path / "m")
    np.testing.assert_allclose(np.linalg.norm(unit.embed(TEXTS), axis=1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(unit.embed(TEXTS), plain.embed(TEXTS, is_normalised=True))
    np.testing.assert_array_equal(unit.embed(TEXTS, is_normalised=False), plain.embed(TEXTS))


@pytest.mark.parametrize("facts", [SENTIMENT, STARS])
def test_saving_keeps_what_the_model_was_fine_tuned_for(load, tmp_path, facts):
    load(facts)
    (tmp_path / "m" / "README.md").write_text("# Mine, under a license of its own")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    if facts is STARS:
        config |= {"id2label": {"0": "stars"}, "label2id": {"stars": 0}}
        (tmp_path / "m" / "config.json").write_text(format_json(config))
    albert.load(tmp_path / "m").save(tmp_path / "again")
    assert read_tree(tmp_path / "again") == read_tree(tmp_path / "m")


@pytest.mark.parametrize(
    ("facts", "ask"),
    [
        (SENTIMENT, lambda model: model.classify(PAIRS)),
        (ANSWERS, lambda model: model.answer("who", CONTEXT)),
        (OPTIONS, lambda model: model.choose("who", ["the man", "a dog"])),
    ],
)
def test_a_model_with_one_kind_of_segment_is_asked_about_single_texts(tiny_folder, facts, ask):
    config = load_model(tiny_folder).config.model_copy(update={"type_vocab_size": 1})
    model = build_model(config, heads=build_kind(facts).heads)
    with pytest.raises(InputError, match="type_vocab_size 1 and cannot tell two texts apart"):
        ask(TaskPredictor(model, load_vocabulary(tiny_folder), facts=facts))


def test_embeddings_are_those_of_the_same_encoder(load, tiny_folder):
    with torch.inference_mode():
        np.testing.assert_allclose(
            load(SENTIMENT).embed(TEXTS), albert.load(tiny_folder).embed(TEXTS), atol=1e-6
        )
