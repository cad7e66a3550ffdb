"""How much of everything a quickstart does: settings that a person rarely changes."""

from typing import Annotated, Any

from pydantic import Field, PositiveFloat, PositiveInt

from albert.settings import Settings

# The model that comes with the package, and that a quickstart does without where it is not there.
RELEASED = "nano"
RECIPE_OF_RELEASED = "albert-nano-en"


class QuickstartSettings(Settings):
    """About ten minutes of two cores, of which pretraining takes `minutes`.

    `pretrain` and `finetune` are differences from their recipes. With `pretrain.num_steps`, that many steps
    are taken, however long they last. Of the labelled reviews, `num_train` are learned from, `num_dev` choose
    the best step and `num_test` are asked about at the end.
    """

    minutes: Annotated[PositiveFloat, Field(allow_inf_nan=False)] = 3.0
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    model: str = RELEASED
    recipe: str = "nano"
    vocab_size: Annotated[int, Field(ge=64, le=100_000)] = 8_000
    num_train: Annotated[int, Field(ge=4)] = 4_000
    num_dev: PositiveInt = 400
    num_test: Annotated[int, Field(ge=2)] = 2_800
    pretrain: dict[str, Any] = Field(default_factory=dict)
    finetune: dict[str, Any] = Field(default_factory=dict)
