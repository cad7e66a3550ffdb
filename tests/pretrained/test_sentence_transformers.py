"""A folder of embeddings opens in sentence-transformers, and gives the vectors that it gives here."""

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


def test_their_vectors_are_ours(folder, theirs):
    """Those of a text that is longer than texts were in training, too: both cut it there."""
    ours = albert.load(folder, device="cpu").embed([*TEXTS, LONG], is_normalised=True)
    assert np.abs(theirs.encode([*TEXTS, LONG]) - ours).max() < 1e-5


def test_what_the_task_answers_is_what_they_encode(folder, theirs):
    """Long texts, which both cut at the length of the training, among the others."""
    task, model = EmbeddingTask(EmbeddingConfig(task="embedding", max_length=24)), load_model(folder).model
    examples = [TextExample(str(place), text) for place, text in enumerate([*TEXTS, LONG])]
    items = task.encode(examples, load_vocabulary(folder))
    assert items[-1].is_truncated
    ours = [answer.first for answer in predict_items(model, task, items, max_tokens=1000)]
    assert np.abs(theirs.encode([*TEXTS, LONG]) - np.stack(ours)).max() < 1e-5


def test_it_is_an_encoder_to_transformers(folder, theirs):
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["AlbertModel"]
    assert theirs.max_seq_length == 24
    assert theirs.similarity_fn_name == "cosine"
    names = [name for name, _ in theirs[0].named_parameters()]
    assert names
    assert not [name for name in names if "pooler" in name]  # it would be random


def test_what_they_save_opens_here_and_may_be_replaced(folder, theirs, tmp_path):
    theirs.save(str(tmp_path / "back"))
    ours, back = (albert.load(path, device="cpu").embed(TEXTS) for path in (folder, tmp_path / "back"))
    assert np.array_equal(ours, back)
    save_model(tmp_path / "back", load_model(folder).model)
    assert not (tmp_path / "back" / "modules.json").exists()


def test_no_text_may_be_longer_than_the_model_reads(tiny_folder):
    config = load_model(tiny_folder, heads={}).config
    for asked, said in ((512, 40), (16, 16)):
        files = format_sentence_files(config, max_length=asked)
        assert json.loads(files["sentence_bert_config.json"])["max_seq_length"] == said


def test_what_is_saved_again_pools_and_cuts_as_before(folder, tmp_path):
    source = tmp_path / "first"
    shutil.copytree(folder, source)
    pooling = source / "1_Pooling" / "config.json"
    pooling.write_text('{"pooling_mode_cls_token": true}')
    before = albert.load(source, device="cpu")
    before.save(tmp_path / "second")
    after = albert.load(tmp_path / "second", device="cpu")
    assert after.default_pooling == "cls"
    assert np.array_equal(before.embed([*TEXTS, LONG]), after.embed([*TEXTS, LONG]))
    assert (tmp_path / "second" / "modules.json").exists()


def copy_with_a_layer(folder, target):
    shutil.copytree(folder, target)
    modules = json.loads((target / "modules.json").read_text())
    modules.append({"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"})
    (target / "modules.json").write_text(json.dumps(modules))
    return target


def test_a_layer_that_is_not_read_is_told_where_vectors_are_made(folder, tmp_path):
    source = copy_with_a_layer(folder, tmp_path / "dense")
    with pytest.warns(UserWarning, match="3_Dense"):
        model = albert.load(source, device="cpu")
    model.save(tmp_path / "alone")
    assert not (tmp_path / "alone" / "modules.json").exists()
    assert len(albert.load(tmp_path / "alone").embed([LONG])) == 1  # cut as before


def test_a_layer_that_is_not_converted_is_told_and_not_promised(folder, tmp_path, run_albert):
    """Else sentence-transformers would look for a folder that is not there."""
    source = copy_with_a_layer(folder, tmp_path / "dense")
    done = run_albert("convert", source, tmp_path / "out")
    assert done.code == 0, done.err
    assert "not converted: 3_Dense" in done.out
    assert not (tmp_path / "out" / "modules.json").exists()
    assert run_albert("convert", folder, tmp_path / "whole").code == 0
    assert (tmp_path / "whole" / "modules.json").exists()
