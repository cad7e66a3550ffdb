"""What a run learns from: a prepared corpus comes in; text to train on and text to be asked about go out."""

from dataclasses import dataclass

from albert.data.corpus import Corpus, hold_out, keep_beginning, open_corpus
from albert.data.manifest import VOCAB_DIR, refuse_other_vocabulary
from albert.data.paths import PathOrUrl
from albert.reporting import Reporter
from albert.text.folder import load_tokenizer
from albert.text.tokenizer import Tokenizer
from albert.training.evaluation_settings import HeldOutSettings


@dataclass(frozen=True)
class PretrainData:
    """The whole corpus, what of it is learned from, what is asked about, and the vocabulary."""

    whole: Corpus
    train: Corpus
    held_out: Corpus
    tokenizer: Tokenizer


def open_data(
    place: PathOrUrl,
    settings: HeldOutSettings,
    *,
    objective: str = "sop",
    share: float = 1.0,
    reporter: Reporter | None = None,
) -> PretrainData:
    """Open a prepared corpus and the one it is to be evaluated on, or hold out its last documents.

    Of the rest, the first `share` is learned from, and nothing else of it is ever seen. A random next
    sentence comes from another document, so `nsp` needs two to be asked about.
    """
    corpus = open_corpus(place, reporter=reporter)
    tokenizer = load_tokenizer(corpus.folder / VOCAB_DIR)
    refuse_other_vocabulary(corpus.manifest, corpus.name, tokenizer.fingerprint)
    if settings.data is not None:
        other = open_corpus(settings.data, fingerprint=tokenizer.fingerprint, reporter=reporter)
        return PretrainData(corpus, _keep(corpus, corpus, share), other, tokenizer)
    split = hold_out(
        corpus,
        share=settings.share,
        max_pieces=settings.max_pieces,
        min_documents=max(settings.min_documents, 2 if objective == "nsp" else 1),
    )
    return PretrainData(corpus, _keep(corpus, split.train, share), split.held_out, tokenizer)


def _keep(whole: Corpus, train: Corpus, share: float) -> Corpus:
    return train if share == 1.0 else keep_beginning(whole, train, share=share)
