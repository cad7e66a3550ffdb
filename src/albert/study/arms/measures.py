"""A pretrained arm comes in; what it knows of held-out and of training text goes out."""

from pathlib import Path
from statistics import fmean, pstdev

import torch

from albert.corpus.corpus import Corpus
from albert.examples.settings import ExampleSettings
from albert.model.albert_model import AlbertModel
from albert.pretrained.folder import load_model
from albert.text.tokenizer import Tokenizer
from albert.training.evaluation import Score, build_held_out_source, evaluate_pass, evaluate_pretraining
from albert.training.losses import list_heads
from albert.training.metrics import list_records
from albert.training.pretrain_job import PretrainData

_MAX_TOKENS = 4096


def open_arm(model_dir: Path, settings: ExampleSettings) -> AlbertModel:
    """The model of a finished run with the heads that it was trained with."""
    return load_model(model_dir, heads=list_heads(pair_head=settings.pair_objective)).model.eval()


def ask_intrinsic(
    model: AlbertModel,
    data: PretrainData,
    *,
    settings: ExampleSettings,
    num_examples: int,
) -> dict[str, Score]:
    """Masked words, order and next sentence of held-out text; masked words of training text as well.

    `settings` are those of the study: every arm is asked about the same pairs of segments, whatever it was
    trained on, as in table 5.
    """
    scores = evaluate_pretraining(
        model,
        data.held_out,
        data.tokenizer,
        settings=settings,
        num_examples=num_examples,
        max_tokens=_MAX_TOKENS,
    )
    train = ask_words(model, data.train, data.tokenizer, settings=settings, num_examples=num_examples)
    return {**scores, "train_loss": train}


@torch.inference_mode()
def ask_words(
    model: AlbertModel, corpus: Corpus, tokenizer: Tokenizer, *, settings: ExampleSettings, num_examples: int
) -> Score:
    """The loss of masked words of some text."""
    source = build_held_out_source(corpus, tokenizer, settings, objective="none")
    return evaluate_pass(model, source, num_examples=num_examples, max_tokens=_MAX_TOKENS).word_loss


def describe_gradients(run_dir: Path) -> dict[str, float]:
    """The norm of the gradient in the second half of a run: its mean, and its deviation over that.

    The paper holds that sharing stabilises training (section 4.2 of its first version).
    """
    norms = [
        (record["step"], record["grad_norm"])
        for record in list_records(run_dir, "train")
        if record.get("grad_norm") is not None
    ]
    if not norms:
        return {}
    middle = norms[-1][0] / 2
    late = [norm for step, norm in norms if step > middle]
    mean = fmean(late)
    return {"grad_norm": mean, "grad_variation": pstdev(late) / mean if mean else 0.0}
