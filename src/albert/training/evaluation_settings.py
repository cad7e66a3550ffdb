"""What is asked of a model while it is trained, and about which text: the settings of evaluation."""

from typing import Annotated

from pydantic import Field

from albert.settings import Settings


class HeldOutSettings(Settings):
    """What is asked of a model during training.

    `data` is a prepared corpus to ask about; without one, the last documents of the corpus are kept from
    training: `share` of its pieces, about `max_pieces` at most (whole documents up to three times as much,
    of a longer one its end), and at least `min_documents`, which from two on are whole, however long. The
    other sentence question, which any head may be asked, is the last evaluation's alone unless `asks_both`.
    """

    data: str | None = None
    share: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.01
    max_pieces: Annotated[int, Field(ge=1)] = 200_000
    min_documents: Annotated[int, Field(ge=1)] = 1
    num_examples: Annotated[int, Field(ge=1)] = 512
    asks_both: bool = False
