"""Run the model on fixed examples that were written before it was trained, and save all predictions."""

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

EXAMPLES = Path(__file__).with_name("examples.yaml")
_TOP = 5


class MaskedSentence(Settings):
    """A sentence with one [MASK], and the words that count as correct."""

    text: str
    expected: Annotated[tuple[str, ...], Field(min_length=1)]


class SentencePair(Settings):
    """Two consecutive sentences, in order or swapped."""

    first: str
    second: str
    is_swapped: bool


class Examples(Settings):
    """The examples of the card."""

    masks: tuple[MaskedSentence, ...]
    pairs: tuple[SentencePair, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the step."""
    parser.add_argument("--model", required=True, help="a model folder or a run")
    parser.add_argument("--out", type=Path, required=True, help="predictions.json")


def run(args: argparse.Namespace, reporter: Reporter) -> str:
    """Predict all examples; this takes a second."""
    found = predict(load(args.model, device="cpu"), read_settings(Examples, EXAMPLES))
    write_json(args.out, found)
    return (
        f"{args.out}: {found['num_top_1']} of {len(found['masks'])} masks and {found['num_correct']} of "
        f"{len(found['pairs'])} pairs correct"
    )


def predict(predictor: Predictor, examples: Examples) -> dict[str, Any]:
    """Predict the top tokens of each mask, the rank of the best expected word, and the order of each pair."""
    candidates = predictor.fill_mask(
        [sentence.text for sentence in examples.masks], top=predictor.tokenizer.vocab_size
    )
    orders = predictor.sentence_order([(pair.first, pair.second) for pair in examples.pairs])
    masks = [
        {**sentence.model_dump(mode="json"), **_describe_candidates(found[0], sentence.expected)}
        for sentence, found in zip(examples.masks, candidates, strict=True)
    ]
    pairs = [
        {**pair.model_dump(), "in_order": order.in_order, "is_correct": order.is_swapped == pair.is_swapped}
        for pair, order in zip(examples.pairs, orders, strict=True)
    ]
    ranks = [mask["rank"] for mask in masks if mask["rank"] is not None]
    return {
        "masks": masks,
        "pairs": pairs,
        "num_top_1": sum(rank == 1 for rank in ranks),
        "num_top_5": sum(rank <= _TOP for rank in ranks),
        "num_correct": sum(pair["is_correct"] for pair in pairs),
    }


def _describe_candidates(candidates: Sequence[Candidate], expected: Sequence[str]) -> dict[str, Any]:
    """`rank` counts from 1; it is None if no expected word is a single token."""
    ranks = [rank for rank, each in enumerate(candidates, start=1) if each.text.strip() in expected]
    top = [{"text": each.text, "probability": each.probability} for each in candidates[:_TOP]]
    return {"top": top, "rank": min(ranks, default=None)}
