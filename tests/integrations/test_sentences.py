"""`encode` of an accelerated `SentenceTransformer` gives the vectors of the original, for all its options."""

import copy
import pickle

import numpy as np
import pytest
import torch

import albert
from albert.integrations.sentences import FlatEncode
from albert.pretrained.folder import load_model, load_vocabulary, save_model
from albert.pretrained.sentence_transformers import format_sentence_files

TEXTS = ["the dog is big .", "a ship", "it was cold , and they went from the sea !", "", "a man " * 30]


@pytest.fixture(scope="module", params=["mean", "cls"])
def sides(request, tiny_folder, tmp_path_factory):
    from sentence_transformers import SentenceTransformer

    path = tmp_path_factory.mktemp("sentences") / "model"
    model, tokenizer = load_model(tiny_folder, heads={}).model, load_vocabulary(tiny_folder)
    for _ in range(2):
        save_model(
            path, model, tokenizer=tokenizer, extras=format_sentence_files(model.config, max_length=24)
        )
    theirs = SentenceTransformer(str(path), device="cpu", prompts={"query": "the sea : "})
    theirs[1].pooling_mode = request.param
    return theirs, albert.accelerate(copy.deepcopy(theirs))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prompt_name": "query"},
        {"prompt": "a house . "},
        {"normalize_embeddings": True, "truncate_dim": 4},
        {"convert_to_tensor": True},
        {"convert_to_numpy": False, "show_progress_bar": True},
        {"output_value": "token_embeddings"},
        {"precision": "binary"},
        {"device": "cpu", "batch_size": 2},
    ],
    ids=lambda options: "-".join(options) or "defaults",
)
@pytest.mark.parametrize(
    "texts", [TEXTS, TEXTS[0], (TEXTS[0],), np.array(TEXTS), [tuple(TEXTS[:2])]], ids=str
)
def test_vectors_are_those_of_the_original(sides, texts, options):
    expected, found = (model.encode(texts, **options) for model in sides)
    assert type(found) is type(expected)
    if isinstance(expected, list):
        assert [each.shape for each in found] == [each.shape for each in expected]
        found, expected = torch.cat(list(map(torch.atleast_1d, found))), torch.cat(list(expected))
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), atol=2e-5)


def test_queries_are_encoded_without_padding(sides, monkeypatch):
    theirs, ours = sides
    calls = []
    pool = FlatEncode._pool
    monkeypatch.setattr(FlatEncode, "_pool", lambda *given: calls.append(given) or pool(*given))
    np.testing.assert_allclose(ours.encode_query(TEXTS), theirs.encode_query(TEXTS), atol=2e-5)
    assert len(calls) == 1


def test_an_unknown_prompt_is_an_error(sides):
    with pytest.raises(ValueError, match="nothing"):
        sides[1].encode(TEXTS, prompt_name="nothing")


def test_a_prompt_that_is_not_pooled(sides):
    theirs, ours = (copy.deepcopy(model) for model in sides)
    for model in (theirs, ours):
        model[1].include_prompt = False
    vectors = [model.encode(TEXTS[:3], prompt="the sea : ") for model in (theirs, ours)]
    np.testing.assert_allclose(vectors[1], vectors[0], atol=2e-5)


def test_can_be_saved_and_sent_to_other_processes(sides, tmp_path):
    from sentence_transformers import SentenceTransformer

    theirs, ours = sides
    ours.save(str(tmp_path))
    saved = SentenceTransformer(str(tmp_path), device="cpu")
    saved[1].pooling_mode = ours[1].pooling_mode
    for model in (saved, pickle.loads(pickle.dumps(ours))):
        np.testing.assert_allclose(model.encode(TEXTS), theirs.encode(TEXTS), atol=2e-5)
