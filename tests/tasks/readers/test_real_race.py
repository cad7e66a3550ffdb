"""The whole of RACE: every passage, question and level."""

from collections import Counter

import pytest

from albert.tasks.catalogue import find_task
from albert.tasks.encoding.choices import iter_encoded_choices
from albert.tasks.readers.published import find_passages, read_split
from tests.real_data import unpack


def count(folder, split: str):
    passages = {
        level: len(find_passages(folder / "race" / split, level=level)) for level in ("middle", "high")
    }
    found = read_split(find_task("race"), folder, split=split)
    assert found.problems.describe() == []
    assert {len(example.options) for example in found.examples} == {4}
    assert {example.label for example in found.examples} == {0, 1, 2, 3}
    assert len({example.id for example in found.examples}) == len(found.examples)
    return passages, Counter(example.level for example in found.examples), found.examples


def test_the_development_set(tmp_path, published):
    folder = unpack("race", tmp_path, under="dev")
    passages, questions, examples = count(folder, "dev")
    assert passages == {"middle": 368, "high": 1021}
    assert questions == {"middle": 1436, "high": 3451}
    encoded = iter_encoded_choices(examples[::20], tokenizer=published, max_length=512)
    for example, each in zip(examples[::20], encoded, strict=True):
        assert len(each.sequences) == 4
        assert max(len(sequence.ids) for sequence in each.sequences) <= 512
        assert (each.id, each.label) == (example.id, example.label)


@pytest.mark.slow
def test_the_training_set(tmp_path):
    """Two of its passages have no question."""
    passages, questions, examples = count(unpack("race", tmp_path, under="train"), "train")
    assert sum(passages.values()) == 25_137
    assert questions == {"middle": 25_421, "high": 62_445}
    assert len({example.id.rpartition("/")[0] for example in examples}) == 25_135
