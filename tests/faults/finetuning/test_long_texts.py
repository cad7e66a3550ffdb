"""Texts of 100,000 characters are learned from and answered, in time linear in their length."""

import time

import pytest

from albert.tasks.task_facts import build_kind
from albert.text.folder import load_tokenizer
from tests.faults.finetuning.asking import Row, assign
from tests.tasks.tables import draw_rows, write_rows

SENTENCE = "the woman was in the old house by the river "
LONG = SENTENCE * 2300


def lengthen(task: str, row: Row, text: str) -> Row:
    """The same row on a long text; an answer stands at its end."""
    if task == "words":
        return {"words": text.split(), "labels": ["O"] * len(text.split())}
    if task == "choice":
        return {**row, "passage": text, "question": text}
    if task == "classification":
        return {**row, "text": text}
    start = row["answers"]["answer_start"][0]
    answers = {**row["answers"], "answer_start": [len(text) + start]}
    return {**row, "context": text + row["context"], "answers": answers}


LONG_TASKS = ("classification", "words", "questions", "choice")


@pytest.mark.parametrize("task", LONG_TASKS)
def test_a_text_of_100_000_characters_is_learned_from_and_answered(finetune, tmp_path, task):
    assert len(LONG) > 100_000
    for split, seed in (("train", 1), ("dev", 2)):
        rows = draw_rows(task, 6, seed=seed)
        rows[1] = lengthen(task, rows[1], LONG)
        write_rows(tmp_path / "data" / f"{split}.jsonl", rows)
    began = time.process_time()
    outcome = finetune(task, tmp_path / "data")
    assert outcome.code == 0, outcome.err
    assert time.process_time() - began < 30  # a few seconds, where the machine is quiet
    num_sequences = int(outcome.err.split(" pieces in ")[1].split()[0].replace(",", ""))
    assert num_sequences > 500 if task in ("words", "questions") else num_sequences == 6


@pytest.mark.parametrize("task", LONG_TASKS)
def test_the_time_for_a_long_text_is_linear_in_its_length(tiny_folder, tmp_path, task):
    tokenizer = load_tokenizer(tiny_folder)

    def measure(text: str) -> float:
        rows = [lengthen(task, row, text) for row in draw_rows(task, 1, seed=1)]
        rows += draw_rows(task, 20, seed=2)  # labels that the long one has not
        began = time.process_time()
        found = assign(task, write_rows(tmp_path / "table.jsonl", rows))
        kind = build_kind(found.facts.model_copy(update={"max_question": 32, "max_ending": 32}))
        windows = kind.encode(
            [each for each in (*found.train, *found.dev) if len(repr(each)) > 50_000], tokenizer
        )
        for item in windows:
            kind.build_batch([item])
        return time.process_time() - began

    measure(LONG)
    # Of twice the length: linear is 4 and quadratic 16; a busy machine blurs both.
    assert min(measure(4 * LONG) for _ in range(2)) < 9 * min(measure(LONG) for _ in range(2))
