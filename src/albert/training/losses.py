"""Pretraining objectives: losses of a batch as sums with their counts, and scores on held-out text.

Shapes: T tokens, B sequences, M masked positions, D hidden width, V vocabulary.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from albert.data.corpus import Corpus
from albert.errors import InputError
from albert.examples.batches import ExampleSource, PretrainingBatch, build_source, cut_batch
from albert.examples.settings import PAIR_OBJECTIVES, ExampleSettings
from albert.model.albert_model import AlbertModel
from albert.model.tokens import Tokens
from albert.text.tokenizer import Tokenizer
from albert.training.distributed import DistributedContext

MLM = "mlm"
# One seed for every run, so that all models are evaluated on the same examples.
_EVALUATION_SEED = 20_190_926
_EVALUATION_BATCH_SIZE = 64
_MAX_COUNTED_TOKENS = 20_000_000


def list_heads(*, pair_head: str | None) -> dict[str, None]:
    """List the heads that a model is pretrained with."""
    return {MLM: None} if pair_head is None else {MLM: None, pair_head: None}


def count_terms(batch: PretrainingBatch, *, pair_head: str | None) -> dict[str, int]:
    """Count the predictions of each objective in a batch, before the model has run."""
    counts = {MLM: len(batch.masked_M)}
    if pair_head is not None and batch.has_labels:
        counts[pair_head] = len(batch.lengths)
    return counts


def build_tokens(batch: PretrainingBatch, device: torch.device | str = "cpu") -> Tokens:
    """Convert a batch to tensors."""
    return Tokens(
        ids_T=_to_tensor(batch.ids_T, device),
        positions_T=_to_tensor(batch.positions_T, device),
        segments_T=_to_tensor(batch.segments_T, device),
        lengths=tuple(batch.lengths.tolist()),
    )


class PretrainLosses(nn.Module):
    """The losses of masked language modeling and, with a `pair_head`, of sentence pairs (section 3.1).

    Each is a sum over the batch, with the number of correct predictions; the loss of a step is the unweighted
    sum of both means. The model is a submodule, so that DDP and FSDP see all parameters.
    """

    def __init__(self, model: AlbertModel, *, pair_head: str | None) -> None:
        super().__init__()
        self.model, self.pair_head = model, pair_head

    def forward(
        self, batch: PretrainingBatch, *, depth: int | None = None
    ) -> dict[str, tuple[Tensor, Tensor]]:
        model, device = self.model, self.model.device
        tokens = build_tokens(batch, device)
        has_pairs = self.pair_head is not None and batch.has_labels
        # The last layer is computed at these positions only; [CLS] is never masked, so none is repeated.
        first_B = tokens.first_B if has_pairs else tokens.first_B[:0]
        positions_P = torch.cat([first_B, _to_tensor(batch.masked_M, device)])
        last_PD = model(tokens, depth=depth, indices_P=positions_P).last_TD
        first_BD, masked_MD = last_PD.split([len(first_B), len(batch.masked_M)])
        return self.compute_terms(batch, masked_MD, first_BD)

    def compute_terms(
        self, batch: PretrainingBatch, masked_MD: Tensor, first_BD: Tensor
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """Compute the losses from the last states of the masked tokens and of the first ones."""
        model, terms = self.model, dict[str, tuple[Tensor, Tensor]]()
        # The head runs even without a masked token, because DDP waits for every gradient.
        targets_M = _to_tensor(batch.targets_M, model.device)
        terms[MLM] = _sum_cross_entropy(model.mlm_logits(masked_MD), targets_M)
        if self.pair_head is not None and batch.has_labels:
            logits_B2 = model.head(self.pair_head)(model.pool_first(first_BD))
            terms[self.pair_head] = _sum_cross_entropy(logits_B2, _to_tensor(batch.labels_B, model.device))
        return terms


def _sum_cross_entropy(logits_MV: Tensor, targets_M: Tensor) -> tuple[Tensor, Tensor]:
    total = F.cross_entropy(logits_MV.float(), targets_M, reduction="sum")
    return total, (logits_MV.argmax(-1) == targets_M).sum()


def _to_tensor(array: "np.typing.NDArray[np.int64]", device: torch.device | str) -> Tensor:
    return torch.from_numpy(array).to(device, non_blocking=True)


@dataclass(frozen=True)
class Score:
    """A mean over `count` predictions, and its standard error, if there was more than one batch."""

    mean: float
    count: int
    standard_error: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% interval."""
        if self.standard_error is None:
            return None
        return self.mean - 1.96 * self.standard_error, self.mean + 1.96 * self.standard_error


@dataclass(frozen=True)
class PassScores:
    """The scores on examples of one objective; `pair_accuracy` if the model has a sentence head."""

    mlm_loss: Score
    mlm_accuracy: Score
    pair_accuracy: Score | None


@torch.inference_mode()
def evaluate_pretraining(
    model: AlbertModel,
    corpus: Corpus,
    tokenizer: Tokenizer,
    *,
    settings: ExampleSettings,
    num_examples: int,
    max_tokens: int = 4096,
    depth: int | None = None,
    advance: Callable[[int], None] | None = None,
) -> dict[str, Score]:
    """Evaluate masked language modeling and, with a sentence head, SOP and NSP.

    NSP is skipped if the corpus has a single document.
    """
    model.eval()
    objectives = ["none"]
    if _find_pair_head(model) is not None:
        objectives += ["sop"] + (["nsp"] if corpus.num_documents > 1 else [])
    scores: dict[str, Score] = {}
    for objective in objectives:
        source = build_held_out_source(corpus, tokenizer, settings, objective=objective)
        result = evaluate_pass(
            model, source, num_examples=num_examples, max_tokens=max_tokens, depth=depth, advance=advance
        )
        if objective == "none":
            scores |= {"mlm_loss": result.mlm_loss, "mlm_accuracy": result.mlm_accuracy}
        elif result.pair_accuracy is not None:
            scores[f"{objective}_accuracy"] = result.pair_accuracy
    return scores


def evaluate_pass(
    model: AlbertModel,
    source: ExampleSource,
    *,
    num_examples: int,
    max_tokens: int,
    depth: int | None = None,
    advance: Callable[[int], None] | None = None,
    context: DistributedContext | None = None,
) -> PassScores:
    """Evaluate a model on the first examples of a source.

    A head for SOP is also evaluated on NSP, and the reverse, as in table 5: label 1 means swapped in one and
    random in the other.
    """
    head, context = _find_pair_head(model), context or DistributedContext()
    compute_losses = PretrainLosses(model, pair_head=head)
    rows: list[tuple[str, float, float, int]] = []  # objective, summed loss, correct predictions, predictions
    for index, batch in enumerate(iter_batches(source, num_examples=num_examples, max_tokens=max_tokens)):
        if index % context.size == context.rank:
            counts = count_terms(batch, pair_head=head)
            for name, (total, num_correct) in compute_losses(batch, depth=depth).items():
                rows.append((name, total.item(), num_correct.item(), counts[name]))
            if advance is not None:
                advance(len(batch.lengths))
    rows = [row for part in context.gather(rows) for row in part]
    masked = [row for row in rows if row[0] == MLM]
    if not any(count for _, _, _, count in masked):
        raise InputError(f"{source.corpus.name}: has no examples to evaluate on; use more text")
    pairs = [(num_correct, count) for name, _, num_correct, count in rows if name == head]
    return PassScores(
        mlm_loss=_average([(total, count) for _, total, _, count in masked]),
        mlm_accuracy=_average([(num_correct, count) for _, _, num_correct, count in masked]),
        pair_accuracy=_average(pairs) if pairs else None,
    )


def _find_pair_head(model: AlbertModel) -> str | None:
    return next((name for name in PAIR_OBJECTIVES if name in model.heads), None)


def build_held_out_source(
    corpus: Corpus, tokenizer: Tokenizer, settings: ExampleSettings, *, objective: str
) -> ExampleSource:
    """Build the source of held-out examples, with the settings of training."""
    changed = settings.model_copy(update={"objective": objective})
    return build_source(corpus, tokenizer, settings=changed, seed=_EVALUATION_SEED)


def iter_batches(source: ExampleSource, *, num_examples: int, max_tokens: int) -> Iterator[PretrainingBatch]:
    """Yield the first examples of a source in batches of about `max_tokens` at most."""
    total = min(num_examples, source.num_examples)
    for start in range(0, total, _EVALUATION_BATCH_SIZE):
        indices = np.arange(start, min(start + _EVALUATION_BATCH_SIZE, total))
        batch = source.build(source.order.numbers(indices, epoch=0), epoch=0)
        yield from cut_batch(batch, max_tokens=max_tokens)


def _average(parts: list[tuple[float, int]]) -> Score:
    count, number = sum(size for _, size in parts), len(parts)
    mean = sum(total for total, _ in parts) / count
    if number < 2:
        return Score(mean, count, None)
    squares = sum((total - size * mean) ** 2 for total, size in parts)  # differences between batches
    return Score(mean, count, math.sqrt(squares * number / (number - 1)) / count)


def count_tokens(corpus: Corpus) -> "np.typing.NDArray[np.int64]":
    """Count each token of the vocabulary; of a large corpus, in parts spread over it."""
    counts = np.zeros(corpus.manifest.vocab_size, dtype=np.int64)
    stride = max(1, corpus.num_tokens // _MAX_COUNTED_TOKENS)
    for index in range(0, len(corpus.parts), stride):
        counts += np.bincount(corpus.parts[index].tokens, minlength=len(counts))
        corpus.release(index)
    return counts


def measure_held_out(corpus: Corpus, source: ExampleSource, *, num_examples: int) -> tuple[int, float]:
    """Count the held-out examples (those without two sentences are dropped) and compute their unigram loss.

    The unigram baseline predicts each token by its frequency in the corpus.
    """
    counts = count_tokens(corpus)
    log_shares = np.log((counts + 1.0) / (counts.sum() + len(counts)))
    num_examples_built, total, num_masked = 0, 0.0, 0
    for batch in iter_batches(source, num_examples=num_examples, max_tokens=1 << 30):
        num_examples_built += len(batch.lengths)
        total -= float(log_shares[batch.targets_M].sum())
        num_masked += len(batch.targets_M)
    if not num_masked:
        raise InputError(f"{source.corpus.name}: has no held-out examples to evaluate on; use more text")
    return num_examples_built, total / num_masked
