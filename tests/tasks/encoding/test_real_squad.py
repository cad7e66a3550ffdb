"""For every SQuAD question of the real data: the gold answer comes back from the pieces of every window."""

from collections import Counter
from dataclasses import replace

import pytest

from albert.tasks.catalogue import find_task
from albert.tasks.encoding.windows import EncodedQuestion, build_slides, iter_encoded_questions, place_answer
from albert.tasks.readers.published import read_split

# The others cut a piece: numbers without their % or $, Japan of Japanese, slips such as `e Red Army`.
EXPECTED = {
    ("squad-1.1", "train"): {
        "questions": 3838, "first exact": 3835, "answers": 3838, "in a window": 3838, "exact": 3835,
        "begins inside": 2, "ends inside": 1, "windows of 384": 3886, "windows of 512": 3841,
    },
    ("squad-1.1", "dev"): {
        "questions": 781, "first exact": 781, "answers": 2340, "in a window": 2340, "exact": 2335,
        "begins inside": 1, "ends inside": 4, "windows of 384": 793, "windows of 512": 781,
    },
    ("squad-2.0", "train"): {
        "questions": 4481, "impossible": 2352, "first exact": 2124, "answers": 7712, "in a window": 7712,
        "exact": 7694, "begins inside": 1, "ends inside": 17, "windows of 384": 4778, "windows of 512": 4629,
    },
    ("squad-2.0", "dev"): {
        "questions": 1597, "impossible": 816, "first exact": 781, "answers": 2340, "in a window": 2340,
        "exact": 2335, "begins inside": 1, "ends inside": 4, "windows of 384": 1620, "windows of 512": 1597,
    },
}  # fmt: skip


def count(encoded: EncodedQuestion) -> Counter[str]:
    """One question, and each of its answers in turn as the gold one, read back in all windows with it."""
    counts = Counter({"questions": 1, "impossible": int(encoded.example.is_impossible)})
    for max_length in (384, 512):
        size = max_length - len(encoded.head) - 1
        counts[f"windows of {max_length}"] = len(
            build_slides(len(encoded.context.ids), size=size, stride=128)
        )
    for answer in encoded.example.answers:
        placed = replace(encoded, gold=place_answer(answer, encoded.context))
        read = {window.read(*window.answer) for window in placed.windows if window.answer}
        assert placed.gold is not None
        counts += Counter({"answers": 1, "in a window": len(read), "exact": int(read == {answer.text})})
        start, end = answer.start, answer.start + len(answer.text)
        first, last = encoded.context.starts[placed.gold.first], encoded.context.ends[placed.gold.last]
        assert ((first, last) == (start, end)) == (read == {answer.text})
        counts["begins inside"] += first < start
        counts["ends inside"] += last > end
        counts["white space lost"] += first > start or last < end
    return counts


@pytest.mark.parametrize(("name", "split"), EXPECTED)
def test_every_answer_within_a_window_comes_back_exactly_unless_it_cuts_a_piece(
    real_squad, published, name, split
):
    task = find_task(name)
    found = read_split(task, real_squad, split=split)
    assert found.problems.describe() == []
    encoded = iter_encoded_questions(found.examples, tokenizer=published, max_length=task.max_length)
    counts = Counter()
    for example, each in zip(found.examples, encoded, strict=True):
        assert each.example is example
        counts.update(count(each))
        assert len(each.head) == 2 + len(published.encode_ids([example.question])[0])
        if example.answers:  # the first is the one to train on
            gold = {window.read(*window.answer) for window in each.windows if window.answer}
            counts["first exact"] += gold == {example.answers[0].text}
    assert +counts == EXPECTED[name, split]


def test_windows_smaller_than_the_contexts_leave_nothing_out(real_squad, published):
    """Many windows for each question: every piece has its own, and answers that fit are in one."""
    examples = read_split(find_task("squad-2.0"), real_squad, split="dev").examples
    num_windows = 0
    for encoded in iter_encoded_questions(
        examples, tokenizer=published, max_length=96, stride=16, max_question=24
    ):
        num_windows += len(encoded.windows)
        assert sum(window.own_end - window.own_start for window in encoded.windows) == len(
            encoded.context.ids
        )
        read = {window.read(*window.answer) for window in encoded.windows if window.answer}
        if encoded.gold is not None and encoded.gold.last - encoded.gold.first < 40:
            assert read == {encoded.example.places[0].text}
    assert num_windows > 10_000
