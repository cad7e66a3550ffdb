"""Train linear probes on sentence vectors for order (SOP) and topic (NSP).

A head answers what it was trained for. A probe is trained for every model alike, so that models without a
head, or with another one, can be compared: it measures what the vector holds, not what the head says.
"""

import warnings

import numpy as np
import torch
from numpy.typing import NDArray

from albert.data.corpus import Corpus
from albert.examples.settings import ExampleSettings
from albert.examples.source import build_source
from albert.model.albert_model import AlbertModel
from albert.text.tokenizer import Tokenizer
from albert.training.losses import Score, build_tokens, iter_batches
from albert.training.pretrain import PretrainData

MAX_TOKENS = 4096
_SEED = 20_190_927
_STRENGTHS = (0.01, 0.1, 1.0)  # of scikit-learn's C; chosen by cross-validation


def probe_pairs(
    model: AlbertModel, data: PretrainData, *, settings: ExampleSettings, objective: str, num_examples: int
) -> Score:
    """Compute the accuracy of a linear classifier of the model's vectors on held-out pairs.

    It is trained on pairs of training text, which the model has seen, with four times as many examples.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    settings = settings.model_copy(update={"objective": objective})
    train = _encode(model, data.train, data.tokenizer, settings, num_examples=4 * num_examples)
    held_out, labels = _encode(model, data.held_out, data.tokenizer, settings, num_examples=num_examples)
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    with warnings.catch_warnings():
        # A weakly regularized probe may not converge in so many iterations; cross-validation decides.
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(probe, {"logisticregression__C": _STRENGTHS}, cv=3).fit(*train)
    share = float((search.predict(held_out) == labels).mean())
    return Score(share, len(labels), float(np.sqrt(share * (1.0 - share) / len(labels))))


@torch.inference_mode()
def _encode(
    model: AlbertModel, corpus: Corpus, tokenizer: Tokenizer, settings: ExampleSettings, *, num_examples: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """For each pair the vector of its first token and the means of both segments; and its label.

    Shapes: T tokens, B pairs, D hidden width.
    """
    source = build_source(corpus, tokenizer, settings=settings, seed=_SEED)
    vectors, labels = [], []
    for batch in iter_batches(source, num_examples=num_examples, max_tokens=MAX_TOKENS):
        states_TD = model.encoder(build_tokens(batch)).last_TD
        owners_T = torch.repeat_interleave(torch.arange(len(batch.lengths)), torch.as_tensor(batch.lengths))
        first_BD = states_TD[torch.as_tensor(batch.positions_T) == 0]
        parts = [first_BD]
        for segment in (0, 1):
            chosen_T = torch.as_tensor(batch.segments_T) == segment
            sums_BD = torch.zeros_like(first_BD).index_add_(0, owners_T[chosen_T], states_TD[chosen_T])
            counts_B = torch.bincount(owners_T[chosen_T], minlength=len(first_BD)).clamp(min=1)
            parts.append(sums_BD / counts_B[:, None])
        vectors.append(torch.cat(parts, dim=1).double().numpy())
        labels.append(batch.labels_B)
    return np.concatenate(vectors), np.concatenate(labels)
