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
from albert.tasks.catalogue import build_task, infer_config, read_config
from albert.tasks.classification import Classification, LabelSet, TextOrPair
from albert.tasks.models import FinetunedModel, check_heads, save_finetuned
from albert.tasks.multiple_choice import Choice
from albert.tasks.question_answering import ContextAnswer
from albert.tasks.task import TaskConfig
from albert.tasks.token_classification import Tagging
from albert.text.tokenizer import Encoding, InputSequence, Tokenizer

# Not any sequence of texts: a single text is such a sequence, too.
Texts = list[str] | tuple[str, ...]


class TaskPredictor(Predictor):
    """A `Predictor` that also predicts what its model was fine-tuned for; `load` returns one.

    Methods for another task raise `InputError`.

    Args:
        model: The model.
        tokenizer: Its vocabulary.
        config: The content of task.json, or inferred from another library's folder; None for a model that
            was only pretrained.
        max_text: The number of tokens at which `embed` truncates a text.
        pooling: How `embed` makes one vector of a text.
        is_normalised: Whether that vector has length 1.
        sentence_files: The files of sentence-transformers, saved with the model.
        card: The model card, saved with the model.
        labels: The folder's names of the outputs.
        runtime: Device and precision.
    """

    def __init__(
        self,
        model: AlbertModel,
        tokenizer: Tokenizer,
        *,
        config: TaskConfig | None = None,
        max_text: int | None = None,
        pooling: str | None = None,
        is_normalised: bool = False,
        sentence_files: Mapping[str, str] | None = None,
        card: str | None = None,
        labels: Sequence[str] = (),
        runtime: RuntimeSettings | None = None,
    ) -> None:
        super().__init__(model, tokenizer, runtime=runtime)
        self.task_config = config
        self._max_text = (config.max_embedded if config is not None else None) or max_text
        self.default_pooling = pooling or self.default_pooling
        self.default_is_normalised = is_normalised
        self._card, self._labels = card, tuple(labels)
        self._sentence_files = dict(sentence_files or {})
        self._runtime = runtime or RuntimeSettings()

    def classify(
        self, texts: Iterable[TextOrPair], *, depth: int | None = None, patience: int | None = None
    ) -> list[Classification]:
        """Predict the label of each text, or of each pair (a tuple of two texts), with probabilities.

        Texts longer than `task_config.max_length` tokens are truncated, of a pair the longer text.

        Args:
            texts: Texts and pairs.
            depth: The number of layers to run.
            patience: A model with early exits stops once so many layers in a row agree with the one before.
        """
        return self._predict("classify", "classification", texts, depth=depth, patience=patience)

    def find_labels(
        self, texts: Iterable[TextOrPair], *, depth: int | None = None, patience: int | None = None
    ) -> list[LabelSet]:
        """Predict all labels of each text or pair, of a multilabel model; arguments as in `classify`."""
        return self._predict("find_labels", "classification", texts, depth=depth, patience=patience)

    def rate(
        self, texts: Iterable[TextOrPair], *, depth: int | None = None, patience: int | None = None
    ) -> list[float]:
        """Predict a number for each text or pair, of a regression model; arguments as in `classify`."""
        return self._predict("rate", "classification", texts, depth=depth, patience=patience)

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
        answers: list[ContextAnswer] = self._predict("answer", "span", questions, contexts, depth=depth)
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
        """Choose the best option of a question, or of each of a list; one passage may serve all."""
        answers: list[Choice] = self._predict("choose", "choice", questions, options, passage, depth=depth)
        return answers[0] if isinstance(questions, str) else answers

    def tag(self, texts: Iterable[str | Sequence[str]], *, depth: int | None = None) -> list[Tagging]:
        """Predict a label for each word; words are separated by white space, or given as lists.

        The characters of words from a list are those of the words joined by spaces. A text of any length is
        read in overlapping windows.
        """
        return self._predict("tag", "token_classification", texts, depth=depth)

    def save(self, folder: str | Path) -> None:
        """Write the model, its vocabulary and its config, as `transformers` opens it."""
        path, files = Path(folder), self._sentence_files
        if self.task_config is None:
            save_model(path, self.model, tokenizer=self.tokenizer, card=self._card, extras=files)
            return
        save_finetuned(
            path,
            self.model,
            config=self.task_config,
            tokenizer=self.tokenizer,
            card=self._card,
            labels=self._labels,
            extras=files,
        )

    def _frame_text(self, encoding: Encoding) -> InputSequence:
        """Truncate a text of an embedding model as in training, and as sentence-transformers does."""
        if self._max_text is None:
            return super()._frame_text(encoding)
        size = self._max_text - 2  # without [CLS] and [SEP]
        return self.tokenizer.build_sequence(Encoding(encoding.ids[:size], encoding.spans[:size]))

    def _predict(
        self, method: str, head: str, *inputs: Any, depth: int | None, patience: int | None = None
    ) -> list[Any]:
        """Predict the inputs of a method, if it is the one that the model was fine-tuned for."""
        name, config = "this model", self.task_config
        if config is None or head not in build_task(config).head_names:
            self.model.head(head)  # raises, and names the heads that the model has
        task = None if config is None else build_task(config)
        if task is None or task.method != method:
            known = "was not fine-tuned" if task is None else f"was fine-tuned for {task.config.task}"
            hint = "load a fine-tuned one" if task is None else f"use {task.method}"
            raise InputError(f"{method}: {name} {known}; {hint}")
        check_heads(name, self.model, task)
        model = FinetunedModel(name, self.model, self.tokenizer, task, self._runtime).with_patience(patience)
        examples = task.parse_inputs(*inputs)
        answers = model.predict(examples, depth=depth)
        return [
            task.build_record(task.describe(answer, example), example)
            for answer, example in zip(answers, examples, strict=True)
        ]


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
    if others := find_other_modules(path):
        warnings.warn(
            f"{path}: the modules {', '.join(others)} are not supported; vectors are the encoder's alone",
            stacklevel=2,
        )
    return TaskPredictor(
        loaded.model,
        load_vocabulary(loaded.path),
        config=read_config(path) or infer_config(loaded),
        max_text=read_max_length(path),
        pooling=read_pooling(path),
        is_normalised=is_normalizing(path),
        sentence_files=read_sentence_files(path),
        card=read_card(path),
        labels=loaded.folder_config.labels,
        runtime=runtime,
    )
