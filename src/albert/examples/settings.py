"""The settings of pretraining examples."""

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from albert.settings import Settings

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Objective = Literal["sop", "nsp", "none"]
# Each is also the name of a head; `none` has no head.
PAIR_OBJECTIVES = tuple(name for name in get_args(Objective) if name != "none")


class ExampleSettings(Settings):
    """The settings of pretraining examples; the defaults are the paper's.

    `max_length` counts [CLS] and both [SEP]. `objective` none makes ordered pairs without a label, so
    that an ablation differs in nothing but the loss. `unit` sentences pairs two neighboring sentences; `unit`
    texts makes single texts of one or more sentences, of which `short_share` have a random length.
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
            raise ValueError(f"replace_with_mask and replace_with_random are {total:.3g} together; at most 1")
        if self.unit == "texts" and self.objective != "none":
            raise ValueError(f"objective {self.objective} needs pairs, and unit=texts makes single texts")
        return self

    @property
    def pair_objective(self) -> str | None:
        """`sop` or `nsp`, which is also the name of its head; None if there is no sentence objective."""
        return None if self.objective == "none" else self.objective

    @property
    def target_tokens(self) -> int:
        return self.max_length - 3  # without [CLS] and both [SEP]
