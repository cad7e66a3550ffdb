"""Evaluation on held-out text."""

from albert.pretrained.folder import load_model
from albert.text.folder import load_tokenizer, save_tokenizer
from albert.training.losses import build_held_out_source, evaluate_pass
from albert.training.pretrain import open_data, pretrain
from albert.training.run_folder import read_pretrain_run
from tests.conftest import WORDS, write_vocabulary
from tests.examples.conftest import write_corpus
from tests.training.conftest import tell_stories


def test_documents_of_a_single_sentence_are_not_counted_as_pairs(recipe, tmp_path):
    corpus, run_dir = tmp_path / "half-single", tmp_path / "run"
    corpus.mkdir()
    tokenizer = load_tokenizer(write_vocabulary(tmp_path / "vocab.txt", WORDS))
    stories = [[" ".join(story)] if index % 2 else story for index, story in enumerate(tell_stories(300))]
    write_corpus(corpus, [tokenizer.encode_ids(story) for story in stories], tokenizer, per_shard=100)
    save_tokenizer(tokenizer, corpus / "vocab")
    pretrain(recipe, data=corpus, out=run_dir, overrides=["num_steps=2", "held_out.share=0.2"])
    settings, metadata = read_pretrain_run(run_dir)
    assert metadata.num_held_out is not None
    assert 0 < metadata.num_held_out < 16  # the number in the recipe
    data, model = open_data(corpus, settings.held_out), load_model(run_dir).model.eval()
    source = build_held_out_source(data.held_out, data.tokenizer, settings.examples, objective="sop")
    assert source.num_examples > 16
    pairs = evaluate_pass(model, source, num_examples=16, max_tokens=1000).pair_accuracy
    assert pairs is not None
    assert pairs.count == metadata.num_held_out
