"""Settings and models come in; all are asked the same minimal pairs, and a page about it goes out."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from albert.errors import AlbertError, InputError, WriteError
from albert.files import write_text
from albert.model.parameters import count_parameters
from albert.model.runtime import select_device
from albert.pretrained.folder import NewWeightsWarning, Pretrained, load_model
from albert.report.content import Page
from albert.reporting import Reporter
from albert.study.agreement.pairs import Pair, format_pairs, generate_pairs, identify_pairs
from albert.study.agreement.report import build_page
from albert.study.agreement.results import ModelAnswers, Refusal, identify_model
from albert.study.agreement.scoring import find_margins
from albert.study.agreement.settings import AgreementSettings
from albert.study.arms.folder import refuse_strangers
from albert.study.results import StudyResults, has_results, open_results
from albert.tasks.vocabulary_fit import load_own_vocabulary
from albert.text.tokenizer import Tokenizer

STUDY, PAIRS_NAME = "agreement", "pairs.jsonl"


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
    if not has_results(out):
        refuse_strangers(out)
    with open_results(out, study=STUDY, settings=settings) as results:
        write_text(out / PAIRS_NAME, format_pairs(pairs))
        for number, source in enumerate(sources, start=1):
            reporter.show(STUDY, f"{source}, {number} of {len(sources)}")
            try:
                found.append(_answer(source, pairs, settings=settings, results=results, reporter=reporter))
            except WriteError:  # what was answered is lost, and so would be the next one's
                raise
            except AlbertError as error:
                reason = str(error) if source in str(error) else f"{source}: {error}"
                refused.append(Refusal(source, reason))
                reporter.say(f"left out: {reason}")
    if not found:
        raise InputError(f"none of {len(sources)} models can be asked; {refused[0].reason}")
    return build_page(settings, pairs=pairs, models=found, refused=refused)


def _answer(
    source: str,
    pairs: Sequence[Pair],
    *,
    settings: AgreementSettings,
    results: StudyResults,
    reporter: Reporter,
) -> ModelAnswers:
    """The model's margins, from the folder where the same weights were asked before."""
    pretrained = _open(source)
    tokenizer = load_own_vocabulary(pretrained.path, pretrained.config)
    identity = identify_model(pretrained.model, tokenizer)
    # The pairs as well: another version of the grammar may draw others from the same seed.
    stamp = identify_pairs(pairs)
    if results.has(identity, stamp=stamp):
        reporter.say(f"{source}: was asked before")
    measure = partial(
        _ask, pretrained, tokenizer, pairs,
        source=source, identity=identity, depth=settings.depth, reporter=reporter,
    )  # fmt: skip
    answers = results.take(identity, ModelAnswers, measure=measure, stamp=stamp)
    return replace(answers, source=source)


def _ask(
    pretrained: Pretrained,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    *,
    source: str,
    identity: str,
    depth: int | None,
    reporter: Reporter,
) -> ModelAnswers:
    """The margins of a model that was not asked yet."""
    num_done = 0

    def advance(number: int) -> None:
        nonlocal num_done
        num_done += number
        reporter.show(STUDY, f"{source}: {num_done:,} pairs", fraction=num_done / len(pairs))

    begin = time.perf_counter()
    margins = find_margins(pretrained.model, tokenizer, pairs, depth=depth, advance=advance)
    config = pretrained.config
    return ModelAnswers(
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


def _open(source: str) -> Pretrained:
    """A model with the MLM head that it was trained with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NewWeightsWarning)
        pretrained = load_model(source, device=select_device())
    if "mlm" not in pretrained.model.heads:
        raise InputError(f"{source}: has no MLM head to ask; give a folder as pretraining leaves it")
    return pretrained
