"""Compare exact parameter counts with those of the paper, without torch."""

from collections.abc import Iterable
from dataclasses import dataclass

from albert.model.config import PRETRAINING_HEADS, ModelConfig, build_preset, count_parameters

# Millions, as in tables 1, 2 and 4 of the paper. Two of them do not match its own shapes: xlarge has 59
# and xxlarge 223 (elsewhere the paper has 233 and 225).
PAPER_SIZES = {
    "albert-base": 12, "albert-large": 18, "albert-xlarge": 60, "albert-xxlarge": 235,
    "bert-base": 108, "bert-large": 334, "bert-xlarge": 1270,
}  # fmt: skip
PAPER_SHARING = {
    768: {"all": 31, "attention": 83, "ffn": 57, "none": 108},
    128: {"all": 12, "attention": 64, "ffn": 38, "none": 89},
}
GROUPS = (1, 2, 3, 4, 6, 12)


@dataclass(frozen=True)
class SizeRow:
    """The shape and size of a model, and its size in the paper, if any."""

    name: str
    num_hidden_layers: int
    hidden_size: int
    embedding_size: int
    sharing: str
    num_hidden_groups: int
    encoder: int
    backbone: int
    with_heads: int
    paper_millions: int | None = None

    @property
    def agrees(self) -> bool | None:
        """Whether the count, with or without the pooler, rounds to that of the paper."""
        if self.paper_millions is None:
            return None
        unit = 10 if self.paper_millions >= 1000 else 1
        return self.paper_millions in [unit * round(n / unit / 1e6) for n in (self.encoder, self.backbone)]


def build_row(
    name: str, config: ModelConfig, *, paper: int | None = None, heads: Iterable[str] = PRETRAINING_HEADS
) -> SizeRow:
    """Count the parameters of a model."""
    count = count_parameters(config, heads=heads)
    keys = {"num_hidden_layers", "hidden_size", "embedding_size", "sharing", "num_hidden_groups"}
    values = {**config.model_dump(include=keys), "encoder": count.encoder, "backbone": count.backbone}
    return SizeRow(name=name, **values, with_heads=count.total, paper_millions=paper)


def list_sizes() -> list[SizeRow]:
    """List tables 1 and 2: the sizes of ALBERT and BERT."""
    rows = []
    for name, paper in PAPER_SIZES.items():
        heads = ("mlm", "nsp" if name.startswith("bert-") else "sop")
        rows.append(build_row(name, build_preset(name), paper=paper, heads=heads))
    return rows


def list_sharing() -> list[SizeRow]:
    """List table 4: albert-base by embedding size and sharing."""
    rows = []
    for width, sizes in PAPER_SHARING.items():
        for sharing, paper in sizes.items():
            overrides = [f"embedding_size={width}", f"sharing={sharing}"]
            config = build_preset("albert-base", overrides=overrides)
            rows.append(build_row(f"E={width}, {sharing}", config, paper=paper))
    return rows


def list_groups() -> list[SizeRow]:
    """List albert-base by number of layer groups, each with its own weights."""
    configs = {n: build_preset("albert-base", overrides=[f"num_hidden_groups={n}"]) for n in GROUPS}
    return [build_row(f"{number} groups", config) for number, config in configs.items()]
