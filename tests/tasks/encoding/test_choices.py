"""RACE's sequences: the option in the blank, the end of the question kept, the passage cut."""

import pytest

from albert.errors import InputError
from albert.tasks.encoding.choices import fill_blank, iter_encoded_choices
from albert.tasks.examples import ChoiceExample

PASSAGE = "The ship left the harbour in 1990, and nobody on the quay waved. " * 20


@pytest.mark.parametrize(
    ("question", "filled"),
    [
        ("The ship  _  in 1990.", "The ship  \\1 left  in 1990."),
        ("from _ to _ .", "from \\1 left to \\1 left ."),
        ("It was ____", "It was \\1 left"),
        ("They came by_.", "They came by\\1 left."),
        ("the _s of the ship", "the \\1 lefts of the ship"),
        ("What is my_var, or a__b?", "What is my_var, or a__b? \\1 left"),
        ("my_var is ___ .", "my_var is \\1 left ."),
        ("What happened?", "What happened? \\1 left"),
        ("", " \\1 left"),
    ],
)
def test_a_blank_takes_the_option(question, filled):
    assert fill_blank(question, "\\1 left") == filled


def test_a_question_of_race_has_its_blank_also_within_a_word(tokenizer):
    """As the published rule has it: "The article is mainly about_in Venice"."""
    for level, ending in (("high", "The ship andwas"), ("", "The ship and_was the dog")):
        example = ChoiceExample("a", "The ship left.", "The ship and_was", ("the dog", "the sea"), 1, level)
        (encoded,) = iter_encoded_choices([example], tokenizer=tokenizer, max_length=140)
        wanted = ending.replace("andwas", "andthe dogwas")
        assert encoded.endings[0] == tuple(tokenizer.encode_ids([wanted])[0])


def test_each_option_is_a_sequence_with_the_passage_in_front(tokenizer):
    example = ChoiceExample("a", "The ship left.", "The dog _ .", ("walked", "was cold"), 1, "high")
    (encoded,) = iter_encoded_choices([example], tokenizer=tokenizer, max_length=140)
    assert (encoded.id, encoded.label, encoded.level, encoded.num_cut) == ("a", 1, "high", 0)
    for option, sequence in zip(example.options, encoded.sequences, strict=True):
        passage, ending = (tokenizer.encode(text) for text in (example.passage, f"The dog {option} ."))
        expected = tokenizer.build_sequence(passage, ending)
        assert (sequence.ids, sequence.segments) == (expected.ids, expected.segments)


def test_the_last_pieces_of_a_question_and_the_first_of_a_passage_stay(tokenizer):
    question = "the dog and the dog and " * 30
    example = ChoiceExample("a", PASSAGE, question, ("the ship", "the gate with the dog"))
    (encoded,) = iter_encoded_choices([example], tokenizer=tokenizer, max_length=200)
    passage = tokenizer.encode_ids([PASSAGE])[0]
    whole = tokenizer.encode_ids([fill_blank(question, option) for option in example.options])
    for sequence, ending in zip(encoded.sequences, whole, strict=True):
        assert len(sequence.ids) == 200
        assert sequence.ids[-129:-1] == tuple(ending[-128:])
        assert sequence.ids[1 : sequence.num_first - 1] == tuple(passage[: 197 - 128])
    assert encoded.num_lost == sum(len(ending) - 128 for ending in whole)
    assert encoded.num_cut == encoded.num_lost + len(passage) - (197 - 128)


def test_a_shorter_option_leaves_more_of_the_passage(tokenizer):
    example = ChoiceExample("a", PASSAGE, "Why?", ("the ship", "nobody on the quay waved"))
    (encoded,) = iter_encoded_choices([example], tokenizer=tokenizer, max_length=140)
    first, second = encoded.sequences
    assert len(first.ids) == len(second.ids) == 140
    assert first.num_first > second.num_first


def test_a_length_without_room_for_the_passage_is_refused(tokenizer):
    with pytest.raises(InputError, match="max_length is 128, and at least 132 .* or max_ending shorter"):
        list(iter_encoded_choices([], tokenizer=tokenizer, max_length=128))
