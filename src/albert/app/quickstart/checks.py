"""What was asked for comes in; a mistake in it is told before anything is written or removed."""

from pathlib import Path

from albert.app.quickstart.pretraining import describe_pretraining
from albert.app.quickstart.scores import check_teaching
from albert.app.quickstart.settings import RELEASED, QuickstartSettings
from albert.errors import AlbertError, InputError


def check_settings(settings: QuickstartSettings) -> Path | AlbertError:
    """Where the model to teach lies; of the released one, why it is not there.

    Refused: settings that a later stage would refuse, a model that is not there, unless it is the released
    one, and a place that is there and is no model.
    """
    describe_pretraining(settings)
    model = _find_model(settings.model)
    check_teaching(None if isinstance(model, AlbertError) else model, settings=settings)
    return model


def check_data(data: Path, out: Path) -> None:
    """Refuse text that is not there, and an `out` in it, which would be read as text the next time."""
    from albert.corpus.plain_texts import iter_plain_texts
    from albert.corpus.sources import find_sources

    for source in find_sources([data]):
        if source.kind == "dataset":
            raise InputError(
                f"--data {data}: a quickstart reads files, no datasets; give a folder or a file, or read it "
                f"with `albert corpus prepare {data}`"
            )
        if not Path(source.path).exists():
            raise InputError(f"{source.path}: is a link that leads nowhere; mend it, or remove it")
    if out.resolve().is_relative_to(data.resolve()):
        raise InputError(f"--out {out} lies in --data {data}; choose another --out")
    if next(iter_plain_texts([str(data)], warn=lambda _: None), None) is None:
        raise InputError(f"--data {data}: there is no text in it, only empty or binary files; give others")


def _find_model(name: str) -> Path | AlbertError:
    """Where the model lies; of the released one, why it is not there. Any other must be there."""
    from albert.pretrained.hub import find_released, resolve_source

    try:
        # By its name it is the one of the package, whatever a folder here is called.
        return (find_released(name) if name == RELEASED else None) or resolve_source(name)
    except AlbertError as error:
        if name != RELEASED:
            raise
        return error
