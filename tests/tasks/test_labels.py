"""Labels: found in any order, sorted always the same way, and few enough to be names."""

import pytest
from albert.tasks.labels import Labels, build_labels, plain_label
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.data.rows import BadRow
from albert.errors import FileFormatError


@settings(deadline=None)
@given(st.lists(st.text(min_size=1), min_size=2, unique=True), st.randoms())
def test_the_order_of_the_rows_changes_nothing(names, random):
    shuffled = names * 2
    random.shuffle(shuffled)
    assert build_labels(shuffled, source="train.csv") == build_labels(names, source="train.csv")


def test_numbers_go_by_size_and_words_by_alphabet():
    assert build_labels(["10", "9", "-1"], source="x").names == ("-1", "9", "10")
    assert build_labels(["b", "10", "a", "9"], source="x").names == ("9", "10", "a", "b")


def test_a_number_too_long_to_be_read_is_a_name_as_it_is_written():
    long = "1" * 5000 + ".0"
    assert (plain_label("-12.00"), plain_label(long)) == ("-12", long)


def test_places_lead_back_to_names():
    labels = Labels(("no", "yes"))
    assert [labels.names[labels.place(name)] for name in ("yes", "no")] == ["yes", "no"]
    with pytest.raises(BadRow) as caught:
        labels.place("maybe")
    assert caught.value.is_fatal
    assert caught.value.detail == "known: no, yes"


def test_one_label_and_a_thousand_are_refused():
    with pytest.raises(FileFormatError, match="x.csv: has only the label 'a', and at least 2 are needed"):
        build_labels(["a", "a"], source="x.csv")
    with pytest.raises(FileFormatError, match="1,001 different labels, and 1,000 .* ask for regression"):
        build_labels(map(str, range(1001)), source="x.csv")
