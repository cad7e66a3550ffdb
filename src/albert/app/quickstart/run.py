"""Settings, and perhaps a folder of text, come in; all stages run one by one, and a report goes out."""

import time
from collections.abc import Mapping
from pathlib import Path

from albert.app.quickstart.folder import open_quickstart
from albert.app.quickstart.page import build_page
from albert.app.quickstart.questions import ask_model, list_questions
from albert.app.quickstart.result import TRAINED, QuickstartResult, name_model
from albert.app.quickstart.settings import RELEASED, QuickstartSettings
from albert.app.quickstart.stages import Stages, open_data
from albert.errors import AlbertError, InputError
from albert.pages.write import write_page
from albert.reporting import Reporter


def run_quickstart(
    settings: QuickstartSettings, *, data: Path | None, out: Path, reporter: Reporter
) -> tuple[Path, QuickstartResult]:
    """Do what is left of all stages and write the report; its path goes out with what is in it.

    Refused: a folder that holds something else, text that cannot be read, and a model that is not there,
    unless it is the released one.
    """
    began = time.monotonic()
    if data is not None:
        _check_data(data, out)
    model = _find_model(settings.model)
    with open_quickstart(out) as folder:
        stages = Stages(settings, folder, reporter)
        found = stages.gather(data, model)
        stages.prepare(found.text)
        run = stages.pretrain(found.text)
        scores = stages.score(found)
        layers = stages.draw_layers(found, has_untrained=scores is not None)
        stages.tell(6, "asking the models and writing the report")
        held_out = open_data(folder)
        masks, orders = list_questions(held_out.held_out, held_out.tokenizer)
        models: Mapping[str, Path] = {
            TRAINED: run.run_dir,
            **({} if found.model is None else {name_model(settings.model): found.model}),
        }
        result = QuickstartResult(
            settings=settings,
            out=out,
            text=found.text,
            pretraining=run,
            reviews=scores,
            reviews_note="" if found.reviews is None else found.reviews.note,
            masks=masks,
            orders=orders,
            answers={name: ask_model(place, masks, orders) for name, place in models.items()},
            layers=layers,
            left_out=found.left_out,
            seconds=time.monotonic() - began,
            has_gone_on=not folder.is_new,
        )
        return write_page(out, build_page(result)), result


def _check_data(data: Path, out: Path) -> None:
    """Refuse text that is not there, and an `out` in it, which would be read as text the next time."""
    from albert.corpus.sources import find_sources

    find_sources([data])
    if out.resolve().is_relative_to(data.resolve()):
        raise InputError(f"--out {out} lies in --data {data}; choose another --out")


def _find_model(name: str) -> Path | AlbertError:
    """Where the model lies; of the released one, why it is not there. Any other must be there."""
    from albert.pretrained.hub import resolve_source

    try:
        return resolve_source(name)
    except AlbertError as error:
        if name != RELEASED:
            raise
        return error
