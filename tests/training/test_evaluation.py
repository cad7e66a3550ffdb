"""How many questions held-out text gives: those that were asked, not those that were wanted."""

from pathlib import Path

import pytest

from albert.model.albert_model import AlbertModel
from albert.pretrained.folder import load_model
from albert.text.folder import load_tokenizer, save_tokenizer
from albert.training.evaluation import build_held_out_source, evaluate_pass
from albert.training.pretrain import pretrain
from albert.training.pretrain_job import open_data
from albert.training.run_folder import read_pretrain_run
from tests.conftest import WORDS, write_vocabulary
from tests.examples.conftest import write_corpus
from tests.training.conftest import tell_stories


@pytest.fixture
def half_single_corpus(tmp_path: Path) -> Path:
    """Stories of which every second one is a single sentence: it has no order to ask about."""
    folder = tmp_path / "half-single"
    folder.mkdir()
    tokenizer = load_tokenizer(write_vocabulary(tmp_path / "vocab.txt", WORDS))
    stories = [[" ".join(story)] if number % 2 else story for number, story in enumerate(tell_stories(300))]
    write_corpus(folder, [tokenizer.encode_ids(story) for story in stories], tokenizer, per_shard=100)
    save_tokenizer(tokenizer, folder / "vocab")
    return folder


def count_pairs(model: AlbertModel, corpus: Path, run_dir: Path, *, num_examples: int) -> int:
    settings, _ = read_pretrain_run(run_dir)
    data = open_data(corpus, settings.held_out)
    source = build_held_out_source(data.held_out, data.tokenizer, settings.examples, objective="sop")
    assert source.num_examples > num_examples
    pairs = evaluate_pass(model.eval(), source, num_examples=num_examples, max_tokens=1000).pair_accuracy
    assert pairs is not None
    return pairs.count


def test_documents_of_a_single_sentence_are_not_counted_as_pairs_that_were_asked(
    half_single_corpus: Path, recipe: Path, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    pretrain(recipe, data=half_single_corpus, out=run_dir, overrides=["num_steps=2", "held_out.share=0.2"])
    _, facts = read_pretrain_run(run_dir)
    assert facts.num_asked is not None
    assert 0 < facts.num_asked < 16  # of which the recipe wants so many
    asked = count_pairs(load_model(run_dir).model, half_single_corpus, run_dir, num_examples=16)
    assert facts.num_asked == asked
