"""Settings and models come in; all are asked the same minimal pairs, and a page about it goes out."""

import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from albert.errors import AlbertError, InputError
from albert.model.parameters import count_parameters
from albert.model.runtime import select_device
from albert.pages.content import Page
from albert.pretrained.folder import NewWeightsWarning, Pretrained, load_model
from albert.reporting import Reporter
from albert.study.agreement.pairs import Pair, generate_pairs
from albert.study.agreement.report import build_page
from albert.study.agreement.results import (
    ModelAnswers,
    Refusal,
    begin_folder,
    find_answers,
    identify_model,
    keep_answers,
    write_results,
)
from albert.study.agreement.scoring import find_margins
from albert.study.agreement.settings import AgreementSettings
from albert.tasks.vocabulary_fit import load_own_vocabulary


def run_agreement(
    settings: AgreementSettings, *, models: Sequence[str], out: Path, reporter: Reporter
) -> Page:
    """Ask each model; those that are finished in `out` are not asked again.

    A model that cannot be asked is told in a line and the others go on. Refused: an `out` of other settings,
    and models of which none can be asked.
    """
    sources = list(dict.fromkeys(str(model) for model in models))
    if not sources:
        raise InputError("no model to ask; give the folder of at least one")
    pairs, found, refused = generate_pairs(settings), [], []
    begin_folder(out, settings, pairs)
    for number, source in enumerate(sources, start=1):
        reporter.show("agreement", f"{source}, {number} of {len(sources)}")
        try:
            found.append(_answer(source, pairs, settings=settings, out=out, reporter=reporter))
        except AlbertError as error:
            reason = str(error) if source in str(error) else f"{source}: {error}"
            refused.append(Refusal(source, reason))
            reporter.say(f"left out: {reason}")
        write_results(out, settings, pairs=pairs, models=found, refused=refused)
    if not found:
        raise InputError(f"none of {len(sources)} models can be asked; {refused[0].reason}")
    return build_page(settings, pairs=pairs, models=found, refused=refused)


def _answer(
    source: str, pairs: Sequence[Pair], *, settings: AgreementSettings, out: Path, reporter: Reporter
) -> ModelAnswers:
    """The model's margins, from the folder where it was asked before."""
    pretrained = _open(source)
    tokenizer = load_own_vocabulary(pretrained.path, pretrained.config)
    identity = identify_model(pretrained.model, tokenizer)
    known = find_answers(out, identity)
    if known is not None:
        reporter.say(f"{source}: was asked before")
        return known.model_copy(update={"source": source})
    num_done = 0

    def advance(number: int) -> None:
        nonlocal num_done
        num_done += number
        reporter.show("agreement", f"{source}: {num_done:,} pairs", fraction=num_done / len(pairs))

    begin = time.perf_counter()
    margins = find_margins(pretrained.model, tokenizer, pairs, depth=settings.depth, advance=advance)
    config = pretrained.config
    answers = ModelAnswers(
        source=source,
        identity=identity,
        sharing=config.sharing,
        num_hidden_layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        embedding_size=config.embedding_size,
        intermediate_size=config.intermediate_size,
        num_attention_heads=config.num_attention_heads,
        hidden_act=config.hidden_act,
        heads=tuple(sorted(pretrained.model.heads)),
        num_parameters=count_parameters(config).encoder,
        vocabulary=tokenizer.fingerprint,
        seconds=round(time.perf_counter() - begin, 3),
        margins=tuple(None if margin is None else round(margin, 5) for margin in margins),
    )
    keep_answers(out, answers)
    return answers


def _open(source: str) -> Pretrained:
    """A model with the MLM head that it was trained with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NewWeightsWarning)
        pretrained = load_model(source, device=select_device())
    if "mlm" not in pretrained.model.heads:
        raise InputError(f"{source}: has no MLM head to ask; give a folder as pretraining leaves it")
    return pretrained
