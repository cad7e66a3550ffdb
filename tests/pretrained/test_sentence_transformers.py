"""An embedding folder opens in sentence-transformers and gives the same vectors."""

import json
import shutil

import numpy as np
import pytest

import albert
from albert.pretrained.folder import load_model, load_vocabulary, save_model
from albert.pretrained.sentence_transformers import format_sentence_files
from albert.tasks.classification import TextExample
from albert.tasks.embedding import EmbeddingConfig, EmbeddingTask
from albert.tasks.models import predict_items

TEXTS = ["the dog is big .", "a ship", "it was cold , and they went from the sea to the old town by night !"]
LONG = "the man came to the river and saw the house on the hill " * 9


@pytest.fixture(scope="module")
def folder(tiny_folder, tmp_path_factory):
    """The tiny encoder without its heads, saved twice: a folder with these files may be written again."""
    path = tmp_path_factory.mktemp("embedding") / "model"
    model, tokenizer = load_model(tiny_folder, heads={}).model, load_vocabulary(tiny_folder)
    for _ in range(2):
        files = format_sentence_files(model.config, max_length=24)
        save_model(path, model, tokenizer=tokenizer, extras=files)
    return path


@pytest.fixture(scope="module")
def theirs(folder):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu")


def test_vectors_are_the_same(folder, theirs):
    """Also those of a text longer than max_length, which both truncate."""
    expected = theirs.encode([*TEXTS, LONG])
    ours = albert.load(folder, device="cpu").embed([*TEXTS, LONG], is_normalized=True)
    assert np.abs(expected - ours).max() < 1e-5
    task, model = EmbeddingTask(EmbeddingConfig(task="embedding", max_length=24)), load_model(folder).model
    examples = [TextExample(str(index), text) for index, text in enumerate([*TEXTS, LONG])]
    items = task.encode(examples, load_vocabulary(folder))
    assert items[-1].is_truncated
    outputs = [output.first for output in predict_items(model, task, items, max_tokens=1000)]
    assert np.abs(expected - np.stack(outputs)).max() < 1e-5


def test_the_folder_is_an_encoder_without_a_pooler(folder, theirs):
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["AlbertModel"]
    assert theirs.max_seq_length == 24
    assert theirs.similarity_fn_name == "cosine"
    assert not [name for name, _ in theirs[0].named_parameters() if "pooler" in name]


def test_folders_of_sentence_transformers_are_read_and_replaced(folder, theirs, tmp_path):
    theirs.save(str(tmp_path / "back"))
    ours, back = (albert.load(path, device="cpu").embed(TEXTS) for path in (folder, tmp_path / "back"))
    assert np.array_equal(ours, back)
    save_model(tmp_path / "back", load_model(folder).model)
    assert not (tmp_path / "back" / "modules.json").exists()


def test_max_length_is_at_most_that_of_the_model(tiny_folder):
    config = load_model(tiny_folder, heads={}).config
    for max_length, expected in ((512, 40), (16, 16)):
        files = format_sentence_files(config, max_length=max_length)
        assert json.loads(files["sentence_bert_config.json"])["max_seq_length"] == expected


def copy_with_a_layer(folder, target):
    shutil.copytree(folder, target)
    modules = json.loads((target / "modules.json").read_text())
    modules.append({"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"})
    (target / "modules.json").write_text(json.dumps(modules))
    return target


def test_other_layers_are_reported_and_not_saved(folder, tmp_path, run_albert):
    source = copy_with_a_layer(folder, tmp_path / "dense")
    with pytest.warns(UserWarning, match="3_Dense"):
        model = albert.load(source, device="cpu")
    model.save(tmp_path / "saved")
    assert len(albert.load(tmp_path / "saved").embed([LONG])) == 1  # truncated as before
    done = run_albert("convert", source, tmp_path / "converted")
    assert done.code == 0, done.err
    assert "3_Dense" in done.out
    assert run_albert("convert", folder, tmp_path / "complete").code == 0
    has_modules = [(tmp_path / name / "modules.json").exists() for name in ("saved", "converted", "complete")]
    assert has_modules == [False, False, True]
