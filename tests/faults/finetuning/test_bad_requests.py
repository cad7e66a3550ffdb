"""What cannot be asked for, and models that are not whole: refused, and nothing is left behind."""

import json
import shutil

import pytest

from tests.conftest import WORDS, write_vocabulary
from tests.tasks.tables import OWN_TABLES, write_rows, write_tables


@pytest.mark.parametrize(
    ("task", "words", "said"),
    [
        ("clasification", (), "no task 'clasification'; did you mean classification?"),
        ("ax", (), "ax has no examples to learn from; fine-tune mnli"),
        ("sst-2", ("columns.text=a",), "sst-2 has files of its own; leave columns out"),
        ("sst-2", ("--dev", "dev.csv"), "sst-2 has files of its own; leave --dev out"),
        ("sst-2", (), "SST-2/train.tsv: not there"),
        ("classification", ("columns.txt=a",), "unknown key txt; did you mean text?"),
        ("classification", ("columns.text=[5]",), "text is [5]: input should be a valid string"),
        (
            "classification",
            ("columns.label_kind=several",),
            "where it is one; leave it out, or ask for multilabel",
        ),
        ("classification", ("columns=5",), "columns is 5: input should be an object"),
        ("classification", ("num_step=5",), "unknown key num_step; did you mean num_steps?"),
        ("classification", ("max_length=4",), "max_length is 4: input should be greater than or equal to 8"),
        ("classification", ("--recipe", "smal"), "no recipe 'smal'; did you mean small?"),
        ("classification", ("--seeds", "0"), "--seeds is 0; at least 1"),
        (
            "classification",
            ("--seeds", "2", "seed=3"),
            "seed=3 and --seeds: leave seed=3 out, and give --seed",
        ),
        ("classification", ("--seed", "2", "seed=3"), "seed=3 and --seed are both given"),
        ("regression", ("class_weights=balanced",), "class_weights=balanced for regression: only classes"),
        ("words", ("has_exits=true",), "only texts that get labels or a number can be answered early"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(refuse, tmp_path, task, words, said):
    table = task if task in OWN_TABLES else "classification"
    assert said in refuse(task, write_tables(tmp_path / "data", table, num_train=20), *words)


def test_pairs_whose_scores_are_all_too_low_are_told_of_the_limit(finetune, tmp_path):
    rows = [{"text": f"the dog {n}", "other": "the ship", "score": n / 20} for n in range(20)]
    data = write_rows(tmp_path / "train.csv", rows)
    write_rows(tmp_path / "dev.csv", rows[:5])
    outcome = finetune("embedding", data.parent, "columns.text_pair=other")
    said = outcome.err.splitlines()[-1]
    assert outcome.code == 2
    assert "error: none of the 20 pairs of embedding has a score of min_similarity, 4, or more" in said
    assert said.endswith("the highest is 0.95: set min_similarity=0.76")


def test_weights_are_for_classes(refuse, tmp_path):
    data = write_tables(tmp_path / "data", "choice", num_train=20)
    assert "class_weights=balanced for choice" in refuse("choice", data, "class_weights=balanced")


@pytest.mark.parametrize("words", [(), ("--seeds", "2")])
def test_a_folder_of_other_things_is_left_alone(refuse, tmp_path, words):
    data = write_tables(tmp_path / "data", "classification", num_train=20)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")
    assert "run: holds thesis.txt, which is no " in refuse("classification", data, *words)
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").write_text("mine")
    assert "run: is a file, not a folder" in refuse("classification", data, *words)


def test_a_model_folder_without_its_parts_is_refused(refuse, data, tiny_copy):
    assert "does not exist; check the path" in refuse("classification", data, model=data / "nowhere")
    for name in ("vocab.txt", "tokenizer.json"):
        (tiny_copy / name).unlink()
    assert "model: has no vocabulary (" in refuse("classification", data, model=tiny_copy)
    (tiny_copy / "model.safetensors").unlink()
    assert "model: no model.safetensors and no pytorch_model.bin; is it a model folder?" in refuse(
        "classification", data, model=tiny_copy
    )


def test_a_longer_vocabulary_is_not_the_models(refuse, data, tiny_copy):
    write_vocabulary(tiny_copy / "vocab.txt", [*WORDS, "zebra"])
    error = refuse("classification", data, model=tiny_copy)
    assert f"model: the vocabulary has {len(WORDS) + 1} tokens and the embedding table {len(WORDS)}" in error
    assert "use the vocabulary that the model was trained with" in error


def test_an_exchanged_vocabulary_of_the_same_size_is_seen_by_its_other_file(refuse, data, tiny_copy):
    write_vocabulary(tiny_copy / "vocab.txt", [*WORDS[:5], *(f"{word}x" for word in WORDS[5:])])
    error = refuse("classification", data, model=tiny_copy)
    assert f"{len(WORDS) - 5} of {len(WORDS)} pieces in vocab.txt are others than in tokenizer.json" in error


def test_a_vocabulary_of_another_language_is_seen_by_what_it_does_not_know(
    finetune, data, tiny_copy, tmp_path
):
    write_vocabulary(tiny_copy / "vocab.txt", [*WORDS[:5], *(f"{word}x" for word in WORDS[5:])])
    (tiny_copy / "tokenizer.json").unlink()
    outcome = finetune("classification", data, model=tiny_copy)
    assert outcome.code == 2
    assert "100% of the pieces that the examples are cut into are unknown to the model's" in outcome.err
    assert "give a model of this language and script, or check the column of the text" in outcome.err
    assert not (tmp_path / "run").exists()


def test_a_question_without_its_answer_among_published_ones_is_refused(refuse, tmp_path):
    """RACE's test has no answers; by such questions no model could be chosen."""
    passage = {"article": "the dog was big .", "questions": ["the dog was _"], "options": [["big", "old"]]}
    for split, extra in (("train", {"answers": ["A"]}), ("dev", {})):
        for level in ("middle", "high"):
            path = tmp_path / "race" / split / level / "1.txt"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps({**passage, **extra}))
    error = refuse("race", tmp_path)
    assert "dev: question 'middle/1.txt/0' comes without its answer" in error
    assert "give a development set with answers" in error


PAIRED = "columns.text_pair=other"


def test_sentences_need_pairs_to_be_asked_about(refuse, tmp_path):
    singles = write_rows(tmp_path / "singles.csv", [{"text": f"the {word} ."} for word in WORDS[10:40]])
    assert "singles.csv, those to be asked about: the text '" in refuse("embedding", singles)
    error = refuse("embedding", singles, "--dev", singles)
    assert "singles.csv: the text '2' has no second to be compared with" in error
    assert "give pairs with --dev" in error
    rows = [{"text": f"the {word} .", "other": word, "score": 4.5} for word in WORDS[10:30]]
    half = write_rows(tmp_path / "half.csv", [*rows[:5], {**rows[5], "score": ""}, *rows[6:]])
    error = refuse("embedding", singles, "--dev", half, PAIRED)
    assert "half.csv: the pairs '2' and '7': one has a number that says how similar it is" in error


def test_single_sentences_are_learned_from_and_pairs_asked_about(finetune, tmp_path):
    singles = write_rows(tmp_path / "singles.csv", [{"text": f"the {word} ."} for word in WORDS[10:40]])
    pairs = [
        {"text": f"the {word} .", "other": word, "score": place} for place, word in enumerate(WORDS[10:20])
    ]
    outcome = finetune("embedding", singles, "--dev", write_rows(tmp_path / "pairs.jsonl", pairs), PAIRED)
    assert outcome.code == 0, outcome.err
    assert "dev, spearman" in outcome.out
