"""The model card: a model comes in, the README.md of its folder goes out."""

from collections.abc import Mapping

from albert import __version__
from albert.model.albert_model import AlbertModel


def format_card(model: AlbertModel) -> str:
    """What can be said of a model from its weights alone: shape, size, heads and how to open it."""
    config = model.config
    count = sum(parameter.numel() for parameter in model.parameters())
    heads = ", ".join(model.heads) or "none"
    return f"""---
library_name: transformers
tags:
- {"bert" if config.is_bert else "albert"}
---

# A text encoder

| | |
|---|---|
| parameters | {count:,} |
| layers × width | {config.num_hidden_layers} × {config.hidden_size} |
| sharing | {config.sharing}, {config.num_hidden_groups} group(s), {config.inner_group_num} inner block(s) |
| embedding width | {config.embedding_size} |
| vocabulary | {config.vocab_size:,} |
| longest input | {config.max_position_embeddings} pieces |
| heads | {heads} |

Open it with `albert.load(folder)`, or with `AutoModel.from_pretrained(folder)` of `transformers`.

Written by albert {__version__}. What else it was trained on, and its limits, only you can say: do so above
before you share it.
"""


def format_rows(rows: Mapping[str, str]) -> str:
    """A table of names and values for a card."""
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])
