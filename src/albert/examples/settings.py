"""The settings of pretraining examples."""

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from albert.settings import Settings

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Objective = Literal["sop", "nsp", "none"]
# The objectives with a head of the same name.
PAIR_OBJECTIVES = tuple(name for name in get_args(Objective) if name != "none")


class ExampleSettings(Settings):
    """The settings of pretraining examples; the defaults are the paper's.

    `max_length` includes [CLS] and both [SEP]. The objective `none` makes ordered pairs without a label, so
    that an ablation differs only in the loss. The unit `sentences` pairs two neighboring sentences; `texts`
    makes single texts of one or more sentences.
    """

    max_length: Annotated[int, Field(ge=8, le=65_536)] = 512
    objective: Objective = "sop"
    unit: Literal["segments", "sentences", "texts"] = "segments"
    masking: Literal["ngram", "token"] = "ngram"
    mask_share: Annotated[float, Field(gt=0.0, le=0.5)] = 0.15
    max_ngram: Annotated[int, Field(ge=1, le=10)] = 3
    short_share: Share = 0.1
    replace_with_mask: Share = 0.8
    replace_with_random: Share = 0.1

    @model_validator(mode="after")
    def _check_shares(self) -> "ExampleSettings":
        total = self.replace_with_mask + self.replace_with_random
        if total > 1.0 + 1e-9:
            raise ValueError(f"replace_with_mask + replace_with_random is {total:.3g}; it must be at most 1")
        if self.unit == "texts" and self.objective != "none":
            raise ValueError(f"objective {self.objective} needs pairs, and unit=texts makes single texts")
        return self

    @property
    def pair_objective(self) -> str | None:
        """The sentence objective, `sop` or `nsp`, which is also the name of its head, or None."""
        return None if self.objective == "none" else self.objective

    @property
    def target_tokens(self) -> int:
        return self.max_length - 3  # without [CLS] and both [SEP]
