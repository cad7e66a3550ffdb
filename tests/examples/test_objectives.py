"""Every sentence objective is whole: it has a head, names for its weights, and words for its two answers."""

from typing import get_args

import pytest

from albert.examples.describe import ANSWERS
from albert.examples.settings import PAIR_OBJECTIVES, Objective
from albert.model.albert_model import HEADS
from albert.pretrained.names import ROWS


def test_the_paper_has_two_and_the_comparison_without():
    assert get_args(Objective)[:3] == ("sop", "nsp", "none")
    assert PAIR_OBJECTIVES[:2] == ("sop", "nsp")


@pytest.mark.parametrize("name", PAIR_OBJECTIVES)
def test_an_objective_has_a_head_whose_weights_are_saved_by_name(name):
    assert (HEADS[name].num_outputs, HEADS[name].is_pooled) == (2, True)
    (row,) = [row for row in ROWS if row.ours.startswith(f"heads.{name}.")]
    assert row.albert
    assert row.bert


@pytest.mark.parametrize("name", get_args(Objective))
def test_a_person_is_told_what_the_answer_means(name):
    first, second = ANSWERS[name]
    assert first
    assert (first == second) == (name == "none")
