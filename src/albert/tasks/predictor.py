"""`albert.load`: open a pretrained or fine-tuned model for prediction in Python."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from albert.errors import InputError
from albert.inference.backends import Backend, open_model
from albert.inference.predictor import Predictor
from albert.model.albert_model import AlbertModel
from albert.model.runtime import Precision, RuntimeSettings, build_runtime
from albert.pretrained.folder import load_vocabulary, read_card, save_model
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
    """A `Predictor` with a method for each task; `albert.load` returns one.

    Methods other than that of the model's task raise `InputError`.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        config: The config of task.json, or inferred from another library's folder; None without a task.
        max_text: The number of tokens at which `embed` truncates a text.
        pooling: The pooling of `embed`.
        is_normalized: Whether the vectors of `embed` have length 1.
        sentence_files: The files of sentence-transformers, saved with the model.
        card: The model card, saved with the model.
        labels: Names of the outputs, if the config has none.
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
        is_normalized: bool = False,
        sentence_files: Mapping[str, str] | None = None,
        card: str | None = None,
        labels: Sequence[str] = (),
        runtime: RuntimeSettings | None = None,
    ) -> None:
        super().__init__(model, tokenizer, runtime=runtime)
        self.task_config = config
        self.max_text = (config.max_embedded if config is not None else None) or max_text
        self.num_truncated = 0  # texts that `embed` truncated
        self.default_pooling = pooling or self.default_pooling
        self.default_is_normalized = is_normalized
        self._card, self._labels = card, tuple(labels)
        self._sentence_files = dict(sentence_files or {})
        self._runtime = runtime or RuntimeSettings()

    def classify(
        self, texts: Iterable[TextOrPair], *, depth: int | None = None, patience: int | None = None
    ) -> list[Classification]:
        """Predict the label of each text or pair.

        Texts of more than `task_config.max_length` tokens are truncated, of a pair the longer text first.

        Args:
            texts: Texts, or pairs as tuples of two texts.
            depth: The number of layers to run.
            patience: Skip the remaining layers after one that agrees with so many before it (early exits).

        Returns:
            For each text the label and the probabilities of all labels.
        """
        return self._predict("classify", "classification", texts, depth=depth, patience=patience)

    def find_labels(
        self, texts: Iterable[TextOrPair], *, depth: int | None = None, patience: int | None = None
    ) -> list[LabelSet]:
        """Predict all labels of each text or pair with a multilabel model; arguments as in `classify`."""
        return self._predict("find_labels", "classification", texts, depth=depth, patience=patience)

    def rate(
        self, texts: Iterable[TextOrPair], *, depth: int | None = None, patience: int | None = None
    ) -> list[float]:
        """Predict a number for each text or pair with a regression model; arguments as in `classify`."""
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
        """Find the span of a context that answers a question.

        Args:
            questions: One question or several.
            contexts: One context for all questions, or one for each. Long ones are split into windows.
            depth: The number of layers to run.
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
        """Choose the best option of a question.

        Args:
            questions: One question or several.
            options: The options of the question, or of each.
            passage: One passage for all questions, or one for each.
            depth: The number of layers to run.
        """
        answers: list[Choice] = self._predict("choose", "choice", questions, options, passage, depth=depth)
        return answers[0] if isinstance(questions, str) else answers

    def tag(self, texts: Iterable[str | Sequence[str]], *, depth: int | None = None) -> list[Tagging]:
        """Predict a label for each word, and the entities.

        Args:
            texts: Texts, which are split at white space, or lists of words, which are joined by spaces. Long
                texts are split into windows.
            depth: The number of layers to run.
        """
        return self._predict("tag", "token_classification", texts, depth=depth)

    def save(self, folder: str | Path) -> None:
        """Write the model, its vocabulary and its config to a folder that `transformers` opens."""
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
        """Truncate texts of an embedding model as in training and in sentence-transformers."""
        if self.max_text is None:
            return super()._frame_text(encoding)
        size = self.max_text - 2  # without [CLS] and [SEP]
        self.num_truncated += len(encoding.ids) > size
        return self.tokenizer.build_sequence(Encoding(encoding.ids[:size], encoding.spans[:size]))

    def _predict(
        self, method: str, head: str, *inputs: Any, depth: int | None, patience: int | None = None
    ) -> list[Any]:
        """Predict with a method, if the model was fine-tuned for it."""
        name, config = "this model", self.task_config
        if config is None or head not in build_task(config).head_names:
            self.model.head(head)  # raises an error with the model's heads
        task = None if config is None else build_task(config)
        if task is None or task.method != method:
            known = "was not fine-tuned" if task is None else f"was fine-tuned for {task.config.task}"
            hint = "load a fine-tuned model" if task is None else f"use {task.method}"
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
    precision: Precision = "float32",
    revision: str | None = None,
    backend: Backend = "torch",
    is_shared: bool = False,
) -> TaskPredictor:
    """Load a model for prediction.

    The task is read from task.json, or inferred from the head and the labels of another library's folder. A
    warning names modules of sentence-transformers that are not supported.

    Args:
        source: A model folder, a run, a weights file beside its config.json, the folder of an original
            TensorFlow checkpoint, a released model such as "nano", or a name on the hub.
        device: auto, cpu, cuda, cuda:N or mps.
        precision: float32, bf16 where the hardware supports it, or int8 on the CPU. A folder written by
            `albert export int8` always runs in int8. Only that command checks the agreement with float32.
        revision: The version of a model on the hub.
        backend: torch, or onnx or onnx-int8 to run a folder of `export_onnx` with ONNX Runtime.
        is_shared: Share the memory of the weights with other processes of this machine that do the same: they
            are mapped from a float32 copy in `$ALBERT_CACHE/weights`.

    Returns:
        A predictor with the model's heads and tokenizer.

    Raises:
        AlbertError: If the model does not exist, is damaged, or has no vocabulary.

    >>> model = albert.load("folder")
    >>> candidates = model.fill_mask(["the [MASK] was cold"])[0][0]  # of the first text, at its first mask
    >>> print(candidates[0].text, candidates[0].probability)
    >>> vectors = model.embed(["a ship", "a dog"], depth=2)
    """
    asked = build_runtime(device, precision, source="albert.load")
    loaded, runtime = open_model(
        source, runtime=asked, backend=backend, revision=revision, is_shared=is_shared
    )
    path = loaded.path if loaded.path.is_dir() else loaded.path.parent
    if others := find_other_modules(path):
        warnings.warn(
            f"{path}: the modules {', '.join(others)} are not supported; `embed` skips them",
            stacklevel=2,
        )
    return TaskPredictor(
        loaded.model,
        load_vocabulary(loaded.path),
        config=read_config(path) or infer_config(loaded),
        max_text=read_max_length(path),
        pooling=read_pooling(path),
        is_normalized=is_normalizing(path),
        sentence_files=read_sentence_files(path),
        card=read_card(path),
        labels=loaded.folder_config.labels,
        runtime=runtime,
    )
