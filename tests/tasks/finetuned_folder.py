"""The tiny folder and facts come in; a folder with the head of that task, as if fine-tuned, goes out."""

import warnings
from pathlib import Path

from albert.files import format_json
from albert.pretrained.folder import load_model, load_vocabulary, save_model
from albert.pretrained.huggingface import TASK_NAME
from albert.tasks.task_facts import TaskConfig, build_kind
from albert.tasks.task_folder import PROBLEM_TYPES

SENTIMENT = TaskConfig(task="classification", kind="texts", labels=("bad", "fine", "good"), max_length=40)
TOPICS = TaskConfig(task="multilabel", kind="texts", label_kind="several", labels=("a", "b"), max_length=40)
STARS = TaskConfig(task="regression", kind="texts", label_kind="number", max_length=40)
PLACES = TaskConfig(task="words", kind="words", labels=("O", "B-PLACE", "I-PLACE"), max_length=40)
ANSWERS = TaskConfig(task="questions", kind="spans", max_length=40, stride=8, max_question=8)
OPTIONS = TaskConfig(task="choice", kind="choices", max_length=40, max_ending=16)
EARLY = SENTIMENT.model_copy(update={"has_exits": True})


def write_finetuned_folder(
    out: Path, tiny_folder: Path, facts: TaskConfig, *, seed: int = 1, has_facts: bool = True
) -> Path:
    """A fresh head, from a seed: its answers mean nothing, and are always the same."""
    kind = build_kind(facts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fresh head is what is wanted
        model = load_model(tiny_folder, heads=kind.heads, seed=seed).model
    save_model(
        out,
        model,
        tokenizer=load_vocabulary(tiny_folder),
        labels=facts.labels if facts.kind in ("texts", "words") else (),
        problem_type=PROBLEM_TYPES[facts.label_kind] if facts.kind == "texts" else None,
        extras={TASK_NAME: format_json(facts.model_dump(mode="json"))} if has_facts else {},
    )
    return out
