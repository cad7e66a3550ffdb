"""What a fine-tuning run is made of: the settings that its recipe holds."""

from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from albert.training.schedules import ScheduleSettings
from albert.training.settings import GuardSettings, LoopSettings, OptimizerSettings

Share = Annotated[float, Field(ge=0.0, lt=1.0)]


class FinetuneSettings(LoopSettings):
    """A recipe of fine-tuning, complete; the defaults are for small models.

    `num_steps` stands where it is given, else `num_epochs`. `dropout` is that of the encoder and
    `head_dropout` that of the classifier; None keeps the model's own. `rename_share` of the vocabulary takes
    other pieces' names at each step, the same in all places: a small model then compares texts instead of
    learning them by heart. `class_weights` balanced counts the mistakes in a rare class for more. After
    `patience` evaluations without a better score the run ends. `has_exits` trains a classifier after each
    layer, so that the model can answer easy texts early. Of an own table, `columns` names the columns, and
    `dev_share` of it is kept to be asked about where there is no other. Of questions, an answer that is given
    has at most `max_answer` pieces. Of embeddings, `similarity_temperature` divides the cosines, and pairs
    with a score below `min_similarity` teach nothing.
    """

    batch_size: PositiveInt = 32
    num_epochs: PositiveFloat = 3.0
    num_steps: PositiveInt | None = None
    max_length: Annotated[int, Field(ge=8, le=65_536)] = 128
    micro_batch_tokens: PositiveInt = 2048
    dropout: Share | None = None
    head_dropout: Share | None = 0.1
    rename_share: Share = 0.0
    class_weights: Literal["equal", "balanced"] = "equal"
    has_exits: bool = False
    columns: dict[str, Any] = Field(default_factory=dict)
    dev_share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.1
    max_answer: PositiveInt = 30
    similarity_temperature: PositiveFloat = 0.05
    min_similarity: float = 4.0
    optimizer: OptimizerSettings = OptimizerSettings(name="adamw", learning_rate=1e-4)
    schedule: ScheduleSettings = ScheduleSettings(name="linear", warmup_share=0.1)
    # No watch for spikes: a batch that holds a rare class is one, and is what there is to be learned.
    guard: GuardSettings = GuardSettings(spike_factor=0.0)
    num_evaluations: Annotated[int, Field(ge=1)] = 6
