"""`encode` of a `SentenceTransformer` in flat batches: sorted by tokens, with equal work in each batch.

The original sorts by characters, pads batches of 32 texts and calls the tokenizer for each.

Shapes: T tokens, B sequences, D hidden width.
"""

import logging
from collections.abc import Callable
from itertools import chain
from types import MethodType
from typing import Any

import torch
from torch import Tensor

from albert.inference.predictor import MAX_BATCH_TOKENS, iter_batches
from albert.integrations.accelerate import FlatForward
from albert.model.tokens import build_layout

# Texts that are tokenized together, sorted by their number of characters.
_MAX_TEXTS = 4096
# Modules that read only the vector of a text.
_FOLLOWING = ("Normalize", "Dense", "LayerNorm", "Dropout")


def accelerate_encode(model: Any) -> None:
    """Replace `encode` if the model is an encoder, a pooling, and modules that read the pooled vector."""
    modules = list(model.children())
    names = [type(module).__name__ for module in modules]
    if names[:2] == ["Transformer", "Pooling"] and set(names[2:]) <= set(_FOLLOWING):
        model.encode = FlatEncode(model)


class FlatEncode:
    """The `encode` of a `SentenceTransformer`; an object, so that models can be copied and pickled."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The original, which `inspect.signature` also reads."""
        return MethodType(type(self.model).encode, self.model)

    def __call__(
        self,
        inputs: Any = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        output_value: str | None = "sentence_embedding",
        precision: str = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: Any = None,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        **others: Any,
    ) -> Any:
        """Return what the original returns. Vectors of texts are computed in batches of equal work."""
        model, (first, pooling) = self.model, list(self.model.children())[:2]
        texts = [inputs] if isinstance(inputs, str) else inputs
        full_prompt = prompt
        if prompt is None:
            full_prompt = model.prompts.get(prompt_name or model.default_prompt_name)
        is_flat = (
            isinstance(texts, list | tuple)
            and bool(texts)
            and all(isinstance(text, str) for text in texts)
            and (prompt_name is None or prompt is not None or prompt_name in model.prompts)
            and (pooling.include_prompt or not full_prompt)
            and output_value == "sentence_embedding"
            and precision == "float32"
            and first.auto_model.dtype == torch.float32
            and getattr(pooling, "pooling_mode", None) in ("mean", "cls")
            and isinstance(first.auto_model.forward, FlatForward)
            and not first.processing_kwargs
            and (device is None or (isinstance(device, str) and torch.device(device) == model.device))
            # A task may have its own length.
            and not any(others[name] is not None for name in others.keys() - {"task"})
            and (
                others.get("task") is None
                or first.query_length is first.document_length is first.query_expansion
            )
        )
        if not is_flat:
            return self.__wrapped__(
                inputs, prompt_name=prompt_name, prompt=prompt, batch_size=batch_size,
                show_progress_bar=show_progress_bar, output_value=output_value, precision=precision,
                convert_to_numpy=convert_to_numpy, convert_to_tensor=convert_to_tensor, device=device,
                normalize_embeddings=normalize_embeddings, truncate_dim=truncate_dim, **others,
            )  # fmt: skip
        if full_prompt:
            texts = [full_prompt + text for text in texts]
        if show_progress_bar is None:
            show_progress_bar = logging.getLogger("sentence_transformers").getEffectiveLevel() <= logging.INFO
        with torch.inference_mode():
            vectors_BD = self._encode(texts, show_progress_bar)
            vectors_BD = vectors_BD[:, : truncate_dim if truncate_dim is not None else model.truncate_dim]
            if normalize_embeddings:
                vectors_BD = torch.nn.functional.normalize(vectors_BD, dim=1)
        found: Any = vectors_BD
        if convert_to_numpy and not convert_to_tensor:
            found = vectors_BD.cpu().numpy()
        elif not convert_to_tensor:
            found = list(vectors_BD)
        return found[0] if isinstance(inputs, str) else found

    def _encode(self, texts: list[str], has_progress_bar: bool) -> Tensor:
        from tqdm.autonotebook import tqdm

        modules = list(self.model.children())
        tokenizer, encoder = modules[0].tokenizer, modules[0].auto_model
        if self.model.training:
            self.model.eval()
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        indices: list[int] = []
        vectors: list[Tensor] = []
        with tqdm(total=len(texts), desc="Texts", disable=not has_progress_bar) as progress:
            for start in range(0, len(order), _MAX_TEXTS):
                part = order[start : start + _MAX_TEXTS]
                rows = tokenizer([texts[i] for i in part], truncation=True)["input_ids"]
                for batch in iter_batches([len(row) for row in rows], max_tokens=MAX_BATCH_TOKENS):
                    features = {"sentence_embedding": self._pool(encoder, [rows[i] for i in batch])}
                    for module in modules[2:]:
                        features = module(features)
                    vectors.append(features["sentence_embedding"])
                    indices += [part[i] for i in batch]
                    progress.update(len(batch))
        if len(texts) == 1:
            return vectors[0]
        return torch.cat(vectors)[torch.tensor(indices).argsort()]

    def _pool(self, encoder: Any, rows: list[list[int]]) -> Tensor:
        """Compute the mean or the first token of each row of ids; rows are sorted by length."""
        forward: FlatForward = encoder.forward
        layout = build_layout(tuple(map(len, rows)), encoder.device)
        ids_1T = torch.tensor([list(chain.from_iterable(rows))], device=encoder.device)
        table_1L = encoder.embeddings.position_ids
        positions = [table_1L[:, : run.length].expand(run.count, -1).reshape(-1) for run in layout.runs]
        positions_1T = torch.cat(positions).unsqueeze(0)
        is_first_only = self.model[1].pooling_mode == "cls"
        x_TD = forward.run(ids_1T, None, positions_1T, layout, is_first_only=is_first_only)
        if is_first_only:
            return x_TD
        parts = zip(layout.runs, x_TD.split(layout.run_sizes), strict=True)
        return torch.cat([x.view(run.count, run.length, -1).mean(1) for run, x in parts])
