"""Write a folder with int8 weights, if the rounded model agrees with the model in float32.

Shapes: T tokens, B sequences, M masked positions, D hidden width.
"""

import copy
import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from albert.errors import InputError
from albert.files import atomic_dir, read_json, read_text, reject_other_content, write_json, write_text
from albert.inference.predictor import Predictor
from albert.model.albert_model import AlbertModel
from albert.model.heads import HEADS
from albert.model.int8 import is_saturating, list_modules, list_weights, quantize_model, quantize_weight
from albert.model.tokens import Tokens
from albert.pretrained.folder import MODEL_FILES, read_weights, write_weights
from albert.pretrained.huggingface import CARD_NAME, CONFIG_NAME, SAFETENSORS_NAME, parse_config
from albert.pretrained.int8 import INT8_CONFIG_NAME, INT8_NAME, join_scales
from albert.pretrained.names import iter_names
from albert.tasks.predictor import load
from albert.text.tokenizer import InputSequence, Tokenizer

MAX_NLL_RISE = 0.01
MIN_SAME = 0.98
MIN_COSINE = 0.97
_MIN_MARGIN = 0.5  # nat, between the two most probable outputs in float32
_MAX_TEXTS = 128
_MAX_TOKENS = 128  # of a text
_MASK_EVERY = 7
_NOTE = "The weights in this folder are int8, which only `albert.load` opens. Compared with float32: {}."
_PRETRAINING_HEADS = ("mlm", "sop", "nsp", "exits", "vector_exits", "teacher_map")


@dataclass(frozen=True)
class Agreement:
    """How an int8 model differs from float32; None where the model has no such head.

    `nll_rise` is relative, `same` the share of the same predictions among the `num_predictions` that are
    certain in float32, and `cosine` the mean over the texts.
    """

    cosine: float
    nll: float | None = None
    nll_rise: float | None = None
    same: float | None = None
    num_predictions: int = 0

    @property
    def excess(self) -> float:
        """The difference as a multiple of what is allowed; a model without heads is judged by its vectors."""
        found = [] if self.nll_rise is None else [self.nll_rise / MAX_NLL_RISE]
        found += [] if self.same is None else [(1 - self.same) / (1 - MIN_SAME)]
        return max(found, default=(1 - self.cosine) / (1 - MIN_COSINE))

    def describe(self) -> str:
        """List the figures in one line."""
        parts = [f"mean cosine {self.cosine:.4f}"]
        if self.nll_rise is not None:
            parts.append(f"masked-token NLL {self.nll:.4f} ({self.nll_rise:+.2%})")
        if self.same is not None:
            parts.append(f"{self.same:.1%} of {self.num_predictions} predictions the same")
        return ", ".join(parts)


@dataclass(frozen=True)
class Int8Export:
    """A written folder: how it agrees with float32, and the bytes of its weights and of float32 weights."""

    folder: Path
    agreement: Agreement
    num_bytes: int
    num_float_bytes: int
    reduce_range: bool


def export_int8(
    source: str | Path,
    out: str | Path,
    *,
    texts: Sequence[str] | None = None,
    float_modules: Sequence[str] = (),
    reduce_range: bool | None = None,
    revision: str | None = None,
) -> Int8Export:
    """Write a model folder with int8 weights, which `albert.load` opens and runs in int8.

    Args:
        source: A model as in `albert.load`.
        out: The folder to write; a model there is replaced.
        texts: Texts like those that the model will read, for the check; two texts of a pair are separated by
            a tab. The first 128 are used, and the first 128 tokens of each. By default 32 English sentences.
        float_modules: Modules that stay in float, such as ffn.0.output, or ffn for all of that type.
        reduce_range: Whether weights have 7 bits; by default if this CPU's kernel needs that. Weights of 8
            bits are rounded to 7 where they are loaded on such a CPU.
        revision: The version of a model on the hub.

    Returns:
        The folder with its size and its agreement.

    Raises:
        InputError: If the int8 model differs too much from float32; the message names the module that causes
            most of the difference.
    """
    predictor, folder = load(source, revision=revision), Path(out)
    reject_other_content(folder, MODEL_FILES, doing="exporting")
    if predictor.precision == "int8":
        raise InputError(f"{source}: has int8 weights already; export the float model")
    reduce_range = is_saturating() if reduce_range is None else reduce_range
    texts = read_text(Path(__file__).with_name("texts.txt")).splitlines() if texts is None else texts
    check = AgreementCheck(predictor, texts)
    found = check.run(float_modules, reduce_range=reduce_range)
    if not found.excess <= 1:
        worst = check.find_worst(float_modules, reduce_range=reduce_range)
        raise InputError(
            f"{source}: int8 differs too much from float32: {found.describe()}; allowed are "
            f"{MAX_NLL_RISE:+.0%} NLL, {MIN_SAME:.0%} the same predictions, and for models without heads a "
            f"cosine of {MIN_COSINE}. Leave {worst} in float, which costs most: --float-modules "
            f"{','.join([*float_modules, worst])}"
        )
    chosen = {
        weight
        for name in list_modules(predictor.model)
        if not any(f"{name}.".startswith(f"{start}.") for start in float_modules)
        for weight in list_weights(name)
    }
    with tempfile.TemporaryDirectory() as directory, atomic_dir(folder) as temporary:
        plain = Path(directory) / "model"
        predictor.save(plain)
        config = parse_config(read_json(plain / CONFIG_NAME), source=plain)
        names = {pair.theirs for pair in iter_names(config.model, config.layout) if pair.ours in chosen}
        tensors = read_weights(plain / SAFETENSORS_NAME)
        rounded = {
            name: quantize_weight(tensor, reduce_range=reduce_range)
            for name, tensor in tensors.items()
            if name in names
        }
        others = {name: tensor for name, tensor in tensors.items() if name not in names}
        write_weights(temporary / INT8_NAME, {**others, **join_scales(rounded)})
        num_float_bytes = (plain / SAFETENSORS_NAME).stat().st_size
        (plain / SAFETENSORS_NAME).unlink()
        for file in plain.rglob("*"):
            target = temporary / file.relative_to(plain)
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.is_file():
                target.write_bytes(file.read_bytes())
        write_json(
            temporary / INT8_CONFIG_NAME,
            {
                "float_modules": list(float_modules),
                "reduce_range": reduce_range,
                "agreement": {**dataclasses.asdict(found), "num_texts": check.num_texts},
            },
        )
        card = read_text(plain / CARD_NAME)
        write_text(temporary / CARD_NAME, f"{card.rstrip()}\n\n{_NOTE.format(found.describe())}\n")
    num_bytes = (folder / INT8_NAME).stat().st_size
    return Int8Export(folder, found, num_bytes, num_float_bytes, reduce_range)


class AgreementCheck:
    """Compares int8 forms of a model with float32 on texts; `run` takes the options of `quantize_model`."""

    def __init__(self, predictor: Predictor, texts: Sequence[str]) -> None:
        self._model, self._tokenizer = predictor.model, predictor.tokenizer
        self._pooling = predictor.default_pooling
        limit = self._model.config.max_position_embeddings
        self._sequences = _encode(self._tokenizer, texts[:_MAX_TEXTS], limit=limit)
        self.num_texts = len(self._sequences)
        if not self._sequences:
            raise InputError("no text for the check; give at least one")
        self._expected = self._read(self._model)

    @torch.inference_mode()
    def run(self, float_modules: Sequence[str] = (), *, reduce_range: bool | None = None) -> Agreement:
        """Compare the model rounded in this way."""
        rounded = copy.deepcopy(self._model)
        quantize_model(rounded, float_modules=float_modules, reduce_range=reduce_range)
        expected, found = self._expected, self._read(rounded)
        cosine = float(F.cosine_similarity(expected.vectors_BD, found.vectors_BD).mean())
        agreement = Agreement(cosine if cosine == cosine else 0.0)
        if expected.nll is not None and found.nll is not None:
            rise = found.nll / expected.nll - 1
            agreement = dataclasses.replace(agreement, nll=found.nll, nll_rise=rise)
        margins, predictions = expected.margins, expected.predictions
        if is_certain := [margin > _MIN_MARGIN for margin in margins]:
            pairs = [a == b for a, b, c in zip(predictions, found.predictions, is_certain, strict=True) if c]
            same = sum(pairs) / len(pairs) if pairs else None
            agreement = dataclasses.replace(agreement, same=same, num_predictions=len(pairs))
        return agreement

    def find_worst(self, float_modules: Sequence[str], *, reduce_range: bool) -> str:
        """Find the module that differs most if it alone is int8."""
        known = list_modules(self._model)
        chosen = [n for n in known if not any(f"{n}.".startswith(f"{start}.") for start in float_modules)]

        def measure(name: str) -> tuple[float, float]:
            found = self.run([each for each in known if each != name], reduce_range=reduce_range)
            return found.excess, -found.cosine

        return max(chosen, key=measure)

    @torch.inference_mode()
    def _read(self, model: AlbertModel) -> "_Outputs":
        tokens = Tokens.from_lists(
            [each.ids for each in self._sequences], [each.segments for each in self._sequences]
        )
        last_TD = model(tokens).last_TD
        if self._pooling == "mean":
            vectors_BD = model.pool_mean(last_TD, tokens)
        else:
            vectors_BD = last_TD[tokens.first_B] if self._pooling == "cls" else model.pool(last_TD, tokens)
        margins, predictions = [], []
        for logits in _iter_logits(model, last_TD, tokens):
            best = logits.topk(2, dim=-1)
            margins += (best.values[:, 0] - best.values[:, 1]).tolist()
            predictions += best.indices[:, 0].tolist()
        return _Outputs(vectors_BD, self._measure_nll(model, tokens), predictions, margins)

    def _measure_nll(self, model: AlbertModel, tokens: Tokens) -> float | None:
        """Measure the mean NLL of all tokens, of which every seventh is masked at a time."""
        if "mlm" not in model.heads:
            return None
        special = torch.tensor([self._tokenizer.cls_id, self._tokenizer.sep_id])
        is_text_T = ~torch.isin(tokens.ids_T, special)
        losses = []
        for start in range(_MASK_EVERY):
            is_masked_T = is_text_T & (torch.arange(len(is_text_T)) % _MASK_EVERY == start)
            indices_M = is_masked_T.nonzero().squeeze(1)
            ids_T = tokens.ids_T.masked_fill(is_masked_T, self._tokenizer.mask_id)
            states_MD = model(dataclasses.replace(tokens, ids_T=ids_T), indices_P=indices_M).last_TD
            losses.append(
                F.cross_entropy(model.mlm_logits(states_MD), tokens.ids_T[indices_M], reduction="none")
            )
        return float(torch.cat(losses).mean())


@dataclass(frozen=True)
class _Outputs:
    """What is compared: vectors, masked-token NLL, and predictions with their margins."""

    vectors_BD: Tensor
    nll: float | None
    predictions: list[int]
    margins: list[float]


def _encode(tokenizer: Tokenizer, texts: Sequence[str], *, limit: int) -> list[InputSequence]:
    sequences = []
    for text in texts:
        parts = tokenizer.encode_batch(text.split("\t")[:2])
        size = (min(limit, _MAX_TOKENS) - 1) // len(parts) - 1
        cut = [
            dataclasses.replace(part, ids=part.ids[:size], spans=part.spans[:size])
            for part in parts
            if part.ids
        ]
        if cut:
            sequences.append(tokenizer.build_sequence(*cut))
    return sequences


def _iter_logits(model: AlbertModel, last_TD: Tensor, tokens: Tokens) -> Iterator[Tensor]:
    """Yield logits [predictions, choices] of the task heads; a single output is compared between texts."""
    for name, head in model.heads.items():
        if name in _PRETRAINING_HEADS:
            continue
        if name in ("span", "beam_span"):  # the choices are the tokens of a sequence
            scores_TK = head.get_submodule("linear" if name == "span" else "start")(last_TD)
            yield from (part_LK.t() for part_LK in scores_TK.split(tokens.lengths))
            continue
        pool = HEADS[name].pool
        inputs = last_TD if pool is None else pool(last_TD, tokens)
        logits = head(model.pool(last_TD, tokens) if HEADS[name].is_pooled else inputs)
        yield logits if logits.shape[1] > 1 else logits[: len(logits) // 2 * 2].view(-1, 2)
