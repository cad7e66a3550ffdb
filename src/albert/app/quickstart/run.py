"""Settings, and perhaps a folder of text, come in; all stages run one by one, and a report goes out."""

import time
from collections.abc import Mapping
from pathlib import Path

from albert.app.quickstart.checks import check_data, check_settings
from albert.app.quickstart.folder import open_quickstart
from albert.app.quickstart.page import build_page
from albert.app.quickstart.questions import ask_model, list_questions
from albert.app.quickstart.result import TRAINED, QuickstartResult, name_model
from albert.app.quickstart.settings import QuickstartSettings
from albert.app.quickstart.stages import Stages, open_data
from albert.report.content import Page
from albert.report.write import FIGURES, TABLES, write_page
from albert.reporting import Reporter


def run_quickstart(
    settings: QuickstartSettings, *, data: Path | None, out: Path, reporter: Reporter
) -> tuple[Path, QuickstartResult]:
    """Do what is left of all stages and write the report; its path goes out with what is in it.

    Refused: a folder that holds something else or a longer run that would be lost, text that cannot be read,
    and a model that is not there, unless it is the released one.
    """
    began = time.monotonic()
    if data is not None:
        check_data(data, out)
    model = check_settings(settings)
    with open_quickstart(out) as folder:
        stages = Stages(settings, folder, reporter)
        found = stages.gather(data, model)
        stages.refuse_loss(found.text)
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
        page = build_page(result)
        report = write_page(out, page)
        drop_other_files(out, page)
        return report, result


def drop_other_files(out: Path, page: Page) -> None:
    """Remove figures and tables that an earlier report had and this one has not: the folder is ours."""
    kept = {
        FIGURES: {f"{chart.name}.svg" for chart in page.charts},
        TABLES: {f"{table.name}.csv" for table in page.tables},
    }
    for folder, names in kept.items():
        for path in (out / folder).glob("*.*"):
            if path.name not in names:
                path.unlink()
