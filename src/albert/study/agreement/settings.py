"""What is asked of a model: a seed, a number of pairs and phenomena come in, checked settings go out."""

from typing import Annotated

from pydantic import Field, field_validator

from albert.errors import suggest
from albert.settings import Settings
from albert.study.agreement.phenomena import PHENOMENA

_WHOLE_FRAMES = max(each.num_drafts for each in PHENOMENA.values())


class AgreementSettings(Settings):
    """How many minimal pairs are asked of each phenomenon, drawn from `seed`.

    `depth` runs fewer layers than a model has, or more where they are all one; None runs what it has.
    """

    seed: Annotated[int, Field(ge=0)] = 0
    num_pairs: Annotated[int, Field(ge=8, le=1000, multiple_of=_WHOLE_FRAMES)] = 200
    phenomena: tuple[str, ...] = tuple(PHENOMENA)
    depth: Annotated[int, Field(ge=1)] | None = None

    @field_validator("phenomena")
    @classmethod
    def _check_phenomena(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if not names or len(set(names)) < len(names):
            raise ValueError("give at least one phenomenon, and each once")
        for name in names:
            if name not in PHENOMENA:
                raise ValueError(f"no phenomenon {name!r}; {suggest(name, PHENOMENA)}")
        return names
