"""Sequences for classification: framed, cut as published, and counted."""

from hypothesis import given, settings
from hypothesis import strategies as st

from albert.tasks.encoding.sequence import iter_encoded_texts, share_room
from albert.tasks.examples import TextExample

LONG = "The ship left the harbour in 1990, and nobody on the quay waved. " * 1600


def cut_as_published(num_first: int, num_second: int, room: int) -> tuple[int, int]:
    """The published loop: take a piece from the longer text, from the second where both are equally long."""
    while num_first + num_second > room:
        if num_first > num_second:
            num_first -= 1
        else:
            num_second -= 1
    return num_first, num_second


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(2, 60))
def test_the_longer_text_is_cut_first_as_published(num_first, num_second, room):
    assert share_room(num_first, num_second, room=room) == cut_as_published(num_first, num_second, room)


def test_short_texts_are_framed_and_keep_all(tokenizer):
    examples = [TextExample("a", "The ship left.", label=1), TextExample("b", "The dog", "walked home.", 0.5)]
    single, pair = iter_encoded_texts(examples, tokenizer=tokenizer, max_length=64)
    for encoded, example in ((single, examples[0]), (pair, examples[1])):
        first = tokenizer.encode(example.first)
        second = tokenizer.encode(example.second) if example.second is not None else None
        expected = tokenizer.build_sequence(first, second)
        assert encoded.sequence.ids == expected.ids
        assert encoded.sequence.segments == expected.segments
        assert (encoded.id, encoded.label, encoded.num_cut) == (example.id, example.label, 0)


def test_100_000_characters_are_cut_to_their_first_pieces_and_counted(tokenizer):
    assert len(LONG) > 100_000
    pieces = tokenizer.encode_ids([LONG])[0]
    short = tokenizer.encode_ids(["The dog"])[0]
    examples = [TextExample("a", LONG), TextExample("b", LONG, "The dog"), TextExample("c", LONG, LONG)]
    alone, beside_short, twice = iter_encoded_texts(examples, tokenizer=tokenizer, max_length=128)
    assert alone.sequence.ids == (tokenizer.cls_id, *pieces[:126], tokenizer.sep_id)
    assert alone.num_cut == len(pieces) - 126
    room = 125 - len(short)
    assert beside_short.sequence.ids[1:-1] == (*pieces[:room], tokenizer.sep_id, *short)
    assert (twice.sequence.num_first, len(twice.sequence.ids)) == (65, 128)
    assert twice.num_cut == 2 * len(pieces) - 125


def test_an_empty_text_is_a_frame(tokenizer):
    alone, beside = iter_encoded_texts(
        [TextExample("a", ""), TextExample("b", "", "dog")], tokenizer=tokenizer, max_length=8
    )
    assert alone.sequence.ids == (tokenizer.cls_id, tokenizer.sep_id)
    assert beside.sequence.segments[:3] == (0, 0, 1)


def test_examples_are_taken_as_they_are_needed(tokenizer):
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield TextExample(str(taken), "The ship left.")

    encoded = iter_encoded_texts(endless(), tokenizer=tokenizer, max_length=16)
    assert [next(encoded).id for _ in range(1000)] == [str(i) for i in range(1, 1001)]
    assert taken <= 2048
