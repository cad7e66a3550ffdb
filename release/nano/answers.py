"""Ask a model questions that were chosen before it was trained; keep all answers, good and bad."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from albert.files import write_json
from albert.inference.predictor import Candidate, Predictor
from albert.progress import Reporter
from albert.settings import Settings, read_settings
from albert.tasks.predictor import load

QUESTIONS = Path(__file__).with_name("questions.yaml")
_TOP = 5


class MaskQuestion(Settings):
    """A sentence with one [MASK], and the words that would be right."""

    kind: str
    text: str
    expected: Annotated[tuple[str, ...], Field(min_length=1)]


class PairQuestion(Settings):
    """Two sentences, as they stand one after the other or swapped."""

    first: str
    second: str
    is_swapped: bool


class Questions(Settings):
    """All of them."""

    masks: tuple[MaskQuestion, ...]
    pairs: tuple[PairQuestion, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument("--model", required=True, help="a model folder or a run")
    parser.add_argument("--out", type=Path, required=True, help="answers.json")


def run(args: argparse.Namespace, reporter: Reporter) -> str:
    """Ask everything at once; it takes a second."""
    found = ask(load(args.model, device="cpu"), read_settings(Questions, QUESTIONS))
    write_json(args.out, found)
    first, order = found["num_first"], found["num_right"]
    return f"{args.out}: {first} of {len(found['masks'])} words, {order} of {len(found['pairs'])} orders"


def ask(predictor: Predictor, questions: Questions) -> dict[str, Any]:
    """The five likeliest words for each mask, with the rank of the right one, and each pair's order."""
    size = predictor.tokenizer.vocab_size
    filled = predictor.fill_mask([question.text for question in questions.masks], top=size)
    orders = predictor.sentence_order([(pair.first, pair.second) for pair in questions.pairs])
    masks = [
        _describe_mask(question, places[0]) for question, places in zip(questions.masks, filled, strict=True)
    ]
    pairs = [
        {**pair.model_dump(), "in_order": order.in_order, "is_right": order.is_swapped == pair.is_swapped}
        for pair, order in zip(questions.pairs, orders, strict=True)
    ]
    return {
        "masks": masks,
        "pairs": pairs,
        "num_first": sum(mask["rank"] == 1 for mask in masks),
        "num_among": sum(mask["rank"] is not None and mask["rank"] <= _TOP for mask in masks),
        "num_right": sum(pair["is_right"] for pair in pairs),
    }


def _describe_mask(question: MaskQuestion, found: Sequence[Candidate]) -> dict[str, Any]:
    """`rank` is that of the likeliest right word, from 1; None where no right word is a single piece."""
    ranks = [rank for rank, each in enumerate(found, start=1) if each.text.strip() in question.expected]
    guesses = [{"text": each.text, "probability": each.probability} for each in found[:_TOP]]
    return {**question.model_dump(mode="json"), "guesses": guesses, "rank": min(ranks, default=None)}
