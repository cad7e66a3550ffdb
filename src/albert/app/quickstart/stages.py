"""The stages of a quickstart: each says a line, does what is left of it, and hands on what it found."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from albert import __version__
from albert.app.quickstart.folder import (
    CORPUS,
    LAYERS,
    REVIEWS,
    RUN,
    SAMPLE_NAME,
    TEXT,
    VOCAB,
    QuickstartFolder,
)
from albert.app.quickstart.pretraining import (
    PretrainingResult,
    check_corpus,
    describe_pretraining,
    drop_free_keys,
    find_spent,
    pretrain_model,
)
from albert.app.quickstart.questions import iter_sentences, spread
from albert.app.quickstart.reviews import ReviewSource, find_reviews, write_tables
from albert.app.quickstart.scores import (
    PRETRAINED,
    UNTRAINED,
    ReviewScores,
    has_begun_teaching,
    score_reviews,
)
from albert.app.quickstart.settings import RECIPE_OF_RELEASED, QuickstartSettings
from albert.app.quickstart.sources import TextSource, find_text
from albert.app.quickstart.vocabulary import save_vocabulary, train_vocabulary
from albert.app.quickstart.wording import in_words_of_quickstart
from albert.errors import AlbertError, InputError
from albert.files import write_text
from albert.pretrained.hub import stamp_model
from albert.report.content import Page
from albert.report.write import write_page
from albert.reporting import Reporter, format_seconds

if TYPE_CHECKING:
    from albert.corpus.units import PrepareSettings
    from albert.training.pretrain_job import PretrainData

_NUM_STAGES = 6
_NUM_SAMPLES = 200
# A run that took so many seconds is made anew without asking: that is what a quickstart takes.
_REPLACED_SECONDS = 600
_CHANGES = {"albert": "the version of albert"}


@dataclass(frozen=True)
class Found:
    """What the first stage found; `model` is the pretrained one, None where it is not there."""

    text: TextSource
    reviews: ReviewSource | None
    model: Path | None
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Stages:
    """All stages of one quickstart but the last."""

    settings: QuickstartSettings
    folder: QuickstartFolder
    reporter: Reporter

    def tell(self, number: int, text: str) -> None:
        """Say that a stage begins."""
        self.reporter.say(f"{number}/{_NUM_STAGES} {text}")

    def gather(self, data: Path | None, model: Path | AlbertError) -> Found:
        """Text and labelled reviews; without a network, or a model to teach, there are no reviews."""
        text_of = "the King James Bible" if data is None else f"text from {data}"
        self.tell(1, f"gathering {text_of} and labelled reviews; what is fetched is kept in the cache")
        text = find_text(data, self.folder.path(TEXT), reporter=self.reporter)
        if isinstance(model, AlbertError):
            why = f"fine-tuning, since the model {self.settings.model!r} is not there ({model})"
            return self._leave_out(Found(text, None, None, (why,)))
        try:
            return Found(text, find_reviews(), model, ())
        except InputError as error:  # no network, or no pip; an archive of another content is an error
            why = f"fine-tuning, since there are no labelled reviews ({error})"
            return self._leave_out(Found(text, None, model, (why,)))

    def refuse_loss(self, text: TextSource) -> None:
        """Refuse to replace a run that took long, before anything is removed."""
        run, stamp = self.folder.path(RUN), self._stamp_pretraining(text)
        spent = 0.0 if self.folder.has("pretraining", stamp) else find_spent(run)
        if spent > _REPLACED_SECONDS:
            changed = self.folder.find_change("pretraining", stamp) or "its mark"
            raise InputError(
                f"{run}: holds a run of {format_seconds(spent)} that would be lost, since "
                f"{_CHANGES.get(changed, changed)} is not "
                "what it began with; give that again to go on, choose another --out, or delete "
                f"{run} to begin anew"
            )

    def prepare(self, text: TextSource) -> None:
        """The vocabulary, and the text cut into its pieces."""
        from albert.corpus.prepare import prepare_corpus
        from albert.text.folder import has_tokenizer

        self.tell(2, f"training a vocabulary on {text.name}, and preparing the corpus")
        stamp, vocab = self._stamp_corpus(text), self.folder.path(VOCAB)
        tokenizer = None
        if not (self.folder.has("corpus", stamp) and has_tokenizer(vocab)):
            # It reads all of the text: what is refused is refused while all of the last time is there.
            with in_words_of_quickstart():
                tokenizer = train_vocabulary(text, settings=self.settings, reporter=self.reporter)
        corpus = self.folder.path(CORPUS)
        with in_words_of_quickstart(), self._begin("corpus", stamp, VOCAB, CORPUS):
            if tokenizer is not None:
                save_vocabulary(tokenizer, vocab)
            prepare_corpus(
                text.places,
                vocab=vocab,
                out=corpus,
                settings=_choose_settings(text),
                reporter=self.reporter,
            )
            if not self.folder.has("pretraining", self._stamp_pretraining(text)):
                check_corpus(corpus, settings=self.settings, text_name=text.name)

    def pretrain(self, text: TextSource) -> PretrainingResult:
        """A model from fresh weights, stopped and resumed on the way."""
        from albert.training.run_folder import has_run

        settings = self.settings
        steps = settings.pretrain.get("num_steps")
        time = f"for {settings.minutes:g} minutes" if steps is None else f"for {steps} steps"
        self.tell(3, f"pretraining from fresh weights {time}")
        corpus, run, stamp = self.folder.path(CORPUS), self.folder.path(RUN), self._stamp_pretraining(text)
        begun = self._begin("pretraining", stamp, RUN, is_under_way=lambda: has_run(run))
        with in_words_of_quickstart(), begun:
            return pretrain_model(corpus, run, settings=settings, reporter=self.reporter)

    def score(self, found: Found) -> ReviewScores | None:
        """The pretrained model, a fresh one and a bag of words on the same reviews."""
        settings = self.settings
        if found.reviews is None or found.model is None:
            self.tell(4, "fine-tuning is left out")
            return None
        from albert.pretrained.folder import save_untrained
        from albert.training.recipes import read_recipe

        self.tell(4, f"fine-tuning {settings.model} on reviews, and the same model untrained")
        tables = self.folder.path(REVIEWS)
        sizes = {name: getattr(settings, name) for name in ("num_train", "num_dev", "num_test")}
        stamp = {
            "albert": __version__,
            "reviews": found.reviews.stamp,
            "model": stamp_model(found.model),
            "seed": settings.seed,
            "finetune": drop_free_keys(settings.finetune),
            **sizes,
        }
        begun = self._begin("fine-tuning", stamp, REVIEWS, is_under_way=lambda: has_begun_teaching(tables))
        with in_words_of_quickstart(), begun:
            write_tables(found.reviews.reviews, tables, settings=settings)
            if not (tables / UNTRAINED).exists():
                start = read_recipe(RECIPE_OF_RELEASED).fresh_start
                save_untrained(found.model, tables / UNTRAINED, seed=settings.seed, start=start)
            models = {UNTRAINED: tables / UNTRAINED, PRETRAINED: found.model}
            return score_reviews(tables, models=models, settings=settings, reporter=self.reporter)

    def draw_layers(self, found: Found, *, has_untrained: bool) -> Page:
        """Figure 1 for the models at hand; the one that was trained here reads its own kind of text."""
        from albert.study.layers.study import LayersSettings, run_layers

        self.tell(5, "looking at what each layer does")
        trained, out = str(self.folder.path(RUN)), self.folder.path(LAYERS)
        models = [trained] if found.model is None else [trained, str(found.model)]
        if has_untrained:
            models.append(str(self.folder.path(REVIEWS) / UNTRAINED))
        settings = LayersSettings(texts={trained: self._write_sample()})
        page = run_layers(settings, models=models, out=out, reporter=self.reporter)
        write_page(out, page)
        return page

    def _leave_out(self, found: Found) -> Found:
        """Say at once what there will not be: it may be mended before the long stages."""
        for reason in found.left_out:
            self.reporter.say(f"left out: {reason}")
        return found

    def _begin(
        self,
        part: str,
        stamp: Mapping[str, Any],
        *folders: str,
        is_under_way: Callable[[], bool] = lambda: False,
    ) -> AbstractContextManager[None]:
        return self.folder.begin(
            part, stamp, folders=folders, reporter=self.reporter, is_under_way=is_under_way
        )

    def _stamp_corpus(self, text: TextSource) -> dict[str, Any]:
        return {
            "albert": __version__,
            "text": text.stamp,
            "vocab_size": self.settings.vocab_size,
            "seed": self.settings.seed,
            "prepare": _choose_settings(text).model_dump(mode="json"),
        }

    def _stamp_pretraining(self, text: TextSource) -> dict[str, Any]:
        return {**self._stamp_corpus(text), **describe_pretraining(self.settings)}

    def _write_sample(self) -> Path:
        """Some held-out sentences, one on each line."""
        data, path = open_data(self.folder), self.folder.path(SAMPLE_NAME)
        documents = iter_sentences(data.held_out, data.tokenizer)
        sentences = [text for document in documents for text in document if text]
        write_text(path, "".join(f"{text}\n" for text in spread(sentences, _NUM_SAMPLES)))
        return path


def _choose_settings(text: TextSource) -> "PrepareSettings":
    from albert.corpus.units import PrepareSettings

    return PrepareSettings(layout=text.layout)


def open_data(folder: QuickstartFolder) -> "PretrainData":
    """What the run learned from, and what was kept from it."""
    from albert.training.pretrain_job import open_data as open_corpus_data
    from albert.training.run_folder import read_pretrain_run

    settings, _ = read_pretrain_run(folder.path(RUN))
    return open_corpus_data(
        folder.path(CORPUS),
        settings.held_out,
        objective=settings.examples.objective,
        share=settings.data_share,
    )
