"""`albert.load`: open a pretrained or fine-tuned model for prediction in Python."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

from albert.errors import InputError
from albert.inference.predictor import Predictor
from albert.model.albert_model import AlbertModel
from albert.model.runtime import RuntimeSettings, build_runtime
from albert.pretrained.folder import load_model, load_vocabulary, read_card, save_model
from albert.pretrained.sentence_transformers import (
    find_other_modules,
    is_normalizing,
    read_max_length,
    read_pooling,
    read_sentence_files,
)
from albert.tasks.answering import Answerer, check_heads
from albert.tasks.examples import Example, TokenExample
from albert.tasks.kinds.logits import LabelKind
from albert.tasks.predicted import (
    Choice,
    Classification,
    ContextAnswer,
    LabelSet,
    Tagging,
    TextOrPair,
    read_choices,
    read_questions,
    read_texts,
    read_words,
)
from albert.tasks.task_facts import (
    KindName,
    TaskConfig,
    build_kind,
    read_facts,
)
from albert.tasks.task_folder import guess_facts, save_finetuned
from albert.text.tokenizer import Encoding, InputSequence, Tokenizer

# Not any sequence of texts: one text is such a sequence, too.
Texts = list[str] | tuple[str, ...]
_HEADS: dict[KindName, str] = {
    "texts": "classification", "words": "token_classification", "spans": "span", "choices": "choice",
}  # fmt: skip
_METHODS: dict[LabelKind, str] = {"one": "classify", "several": "find_labels", "number": "rate"}
_NAME = "this model"


class TaskPredictor(Predictor):
    """A `Predictor` that also predicts what its model was fine-tuned for; `load` returns one.

    `facts` is the config in the folder's task.json, or inferred from the head and the labels of other
    libraries' folders; None for a model that was only pretrained. `max_text` is the number of tokens at which
    `embed` truncates a text, `pooling` how it makes one vector of it, and `is_normalised` whether that has
    length 1, as far as sentence-transformers' files say; these `sentence_files` are saved with the model, as
    are the folder's `card` and the `labels` of its outputs. Methods for another task are rejected.
    """

    def __init__(
        self,
        model: AlbertModel,
        tokenizer: Tokenizer,
        *,
        facts: TaskConfig | None = None,
        max_text: int | None = None,
        pooling: str | None = None,
        is_normalised: bool = False,
        sentence_files: Mapping[str, str] | None = None,
        card: str | None = None,
        labels: Sequence[str] = (),
        runtime: RuntimeSettings | None = None,
    ) -> None:
        super().__init__(model, tokenizer, runtime=runtime)
        self.facts = facts
        self._max_text = facts.max_length if facts is not None and facts.kind == "embedding" else max_text
        self.default_pooling = pooling or self.default_pooling
        self.default_is_normalised = is_normalised
        self._card, self._labels = card, tuple(labels)
        self._sentence_files = dict(sentence_files or {})
        self._runtime = runtime or RuntimeSettings()

    def classify(
        self, texts: Iterable[TextOrPair], *, depth: int | None = None, patience: int | None = None
    ) -> list[Classification]:
        """Predict the label of each text, or of each pair (a tuple of two texts), with probabilities.

        Texts longer than `facts.max_length` tokens are truncated, of a pair the longer text. With `patience`,
        a model with early exits stops where so many layers in a row agree with the one before.
        """
        rows = self._ask_texts(texts, "one", depth=depth, patience=patience)
        return [
            Classification(row["label"], row["probabilities"][row["label"]], row["probabilities"])
            for row in rows
        ]

    def find_labels(
        self, texts: Iterable[TextOrPair], *, depth: int | None = None, patience: int | None = None
    ) -> list[LabelSet]:
        """Predict all labels of each text or pair, of a multilabel model; arguments as in `classify`."""
        rows = self._ask_texts(texts, "several", depth=depth, patience=patience)
        return [LabelSet(tuple(row["labels"]), row["probabilities"]) for row in rows]

    def rate(
        self, texts: Iterable[TextOrPair], *, depth: int | None = None, patience: int | None = None
    ) -> list[float]:
        """Predict a number for each text or pair, of a regression model; arguments as in `classify`."""
        rows = self._ask_texts(texts, "number", depth=depth, patience=patience)
        return [row["number"] for row in rows]

    @overload
    def answer(self, questions: str, contexts: str, *, depth: int | None = None) -> ContextAnswer: ...

    @overload
    def answer(
        self, questions: Texts, contexts: str | Texts, *, depth: int | None = None
    ) -> list[ContextAnswer]: ...

    def answer(
        self, questions: str | Texts, contexts: str | Texts, *, depth: int | None = None
    ) -> ContextAnswer | list[ContextAnswer]:
        """Find the span of its context that answers a question, or each of a list; one context may serve all.

        A context of any length is read in overlapping windows.
        """
        examples = read_questions(questions, contexts)
        answers = [
            ContextAnswer(row["answer"], row["start"], row["end"], row["probability"], row.get("null_odds"))
            for row in self._ask(examples, "spans", depth=depth)
        ]
        return answers[0] if isinstance(questions, str) else answers

    @overload
    def choose(
        self, questions: str, options: Texts, *, passage: str = "", depth: int | None = None
    ) -> Choice: ...

    @overload
    def choose(
        self,
        questions: Texts,
        options: Sequence[Texts],
        *,
        passage: str | Texts = "",
        depth: int | None = None,
    ) -> list[Choice]: ...

    def choose(
        self,
        questions: str | Texts,
        options: Texts | Sequence[Texts],
        *,
        passage: str | Texts = "",
        depth: int | None = None,
    ) -> Choice | list[Choice]:
        """Choose the best option of a question, or of each of a list; one passage may serve all.

        Question and option keep `facts.max_ending` tokens, and the passage the space that is left.
        """
        examples = read_choices(questions, options, passage)
        rows = self._ask(examples, "choices", depth=depth)
        answers = []
        for row, example in zip(rows, examples, strict=True):
            found = tuple(row["probabilities"])
            place = found.index(max(found))
            answers.append(Choice(place, example.options[place], found[place], found))
        return answers[0] if isinstance(questions, str) else answers

    def tag(self, texts: Iterable[str | Sequence[str]], *, depth: int | None = None) -> list[Tagging]:
        """Predict a label for each word; words are separated by white space, or given as lists.

        The characters of words from a list are those of the words joined by spaces. A text of any length is
        read in overlapping windows.
        """
        read = read_words(texts)
        examples = [TokenExample(str(place), each.words) for place, each in enumerate(read) if each.words]
        rows = iter(self._ask(examples, "words", depth=depth))
        return [Tagging.of(next(rows), each) if each.words else Tagging(()) for each in read]

    def save(self, folder: str | Path) -> None:
        """Write the model, its vocabulary and its config, as `transformers` opens it."""
        facts, extras = self.facts, self._sentence_files
        if facts is None:
            save_model(Path(folder), self.model, tokenizer=self.tokenizer, card=self._card, extras=extras)
            return
        save_finetuned(
            Path(folder),
            self.model,
            facts=facts,
            tokenizer=self.tokenizer,
            card=self._card,
            labels=self._labels,
            extras=extras,
        )

    def _frame_text(self, encoding: Encoding) -> InputSequence:
        """Truncate a text of an embedding model as in training, and as sentence-transformers does."""
        if self._max_text is None:
            return super()._frame_text(encoding)
        room = self._max_text - 2  # [CLS] and [SEP]
        return self._frame(Encoding(encoding.ids[:room], encoding.spans[:room]))

    def _ask_texts(
        self, texts: Iterable[TextOrPair], label_kind: LabelKind, *, depth: int | None, patience: int | None
    ) -> list[dict[str, Any]]:
        facts = self.facts
        if facts is not None and facts.kind == "texts" and facts.label_kind != label_kind:
            raise InputError(
                f"{_METHODS[label_kind]} is not what this model was fine-tuned for ({facts.task}); use "
                f"{_METHODS[facts.label_kind]}"
            )
        return self._ask(read_texts(texts), "texts", depth=depth, patience=patience)

    def _ask(
        self, examples: Sequence[Example], wanted: KindName, *, depth: int | None, patience: int | None = None
    ) -> list[dict[str, Any]]:
        """Describe the answer to each example, under the names in JSON."""
        facts = self.facts
        if facts is None or facts.kind != wanted:
            self.model.head(_HEADS[wanted])  # rejected with the heads that the model has
            task = "no task" if facts is None else facts.task
            raise InputError(f"this model was fine-tuned for {task}; load one for {wanted}")
        kind = build_kind(facts)
        check_heads(_NAME, self.model, kind)
        answerer = Answerer(_NAME, self.model, self.tokenizer, facts, kind, self._runtime)
        if patience is not None:
            answerer = answerer.with_patience(patience)
        pairs = zip(answerer.answer(examples, depth=depth), examples, strict=True)
        return [answerer.kind.describe(answer, example) for answer, example in pairs]


def load(
    source: str | Path,
    *,
    device: str = "auto",
    precision: Literal["float32", "bf16"] = "float32",
    revision: str | None = None,
) -> TaskPredictor:
    """Open a model for prediction, with the heads and the vocabulary it has.

    A fine-tuned folder predicts by its task.json, another library's by its head and its labels. A module of
    sentence-transformers that is not supported is reported in a warning.

    Args:
        source: A model folder, a run, a weights file with its config.json beside it, the folder of an
            original TensorFlow checkpoint, a released model such as "nano", or a name on the hub.
        device: auto, cpu, cuda, cuda:N or mps.
        precision: "bf16" computes in half the bits where the hardware can.
        revision: The version of a model on the hub.

    Raises:
        InputError: If the model does not exist, is damaged, or has no vocabulary.

    >>> model = albert.load("folder")
    >>> candidates = model.fill_mask(["the [MASK] was cold"])[0][0]  # of the first text, at its first mask
    >>> print(candidates[0].text, candidates[0].probability)
    >>> vectors = model.embed(["a ship", "a dog"], depth=2)
    """
    loaded = load_model(source, revision=revision)
    path = loaded.path if loaded.path.is_dir() else loaded.path.parent
    runtime = build_runtime(device, precision, source="albert.load")
    facts = read_facts(path) or guess_facts(loaded)
    if others := find_other_modules(path):
        warnings.warn(
            f"{path}: {', '.join(others)} is not read; its vectors are the encoder's alone, without that",
            stacklevel=2,
        )
    return TaskPredictor(
        loaded.model,
        load_vocabulary(loaded.path),
        facts=facts,
        max_text=read_max_length(path),
        pooling=read_pooling(path),
        is_normalised=is_normalizing(path),
        sentence_files=read_sentence_files(path),
        card=read_card(path),
        labels=loaded.folder_config.labels,
        runtime=runtime,
    )
