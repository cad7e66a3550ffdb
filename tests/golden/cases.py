"""The cases of the golden values: commands on fixed inputs, and what of their results must not change."""

import contextlib
import hashlib
import io
import json
import re
import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from safetensors.numpy import load_file

from tests.golden.inputs import (
    REPOSITORY,
    TASKS,
    list_lines,
    list_words,
    write_published,
    write_sources,
    write_task,
)

RECIPE: dict[str, Any] = {
    "model": {
        "embedding_size": 16, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
        "intermediate_size": 64, "max_position_embeddings": 128, "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1, "initializer_range": 0.2,
    },
    "examples": {"max_length": 48}, "batch_size": 8, "num_steps": 40, "micro_batch_tokens": 160,
    "optimizer": {"name": "adamw", "learning_rate": 0.002}, "schedule": {"warmup_share": 0.1},
    "held_out": {"num_examples": 32, "share": 0.1}, "num_evaluations": 2, "has_tensorboard": False,
    "num_workers": 0, "log_every": 5,
}  # fmt: skip
PRETRAINING = {
    "adamw-sop-all": "",
    "lamb-sop-all": "optimizer.name=lamb",
    "muon-sop-all": "optimizer.name=muon position_init=sinusoidal num_matching_heads=1",
    "adamw-nsp-all": "examples.objective=nsp",
    "adamw-none-all": "examples.objective=none examples.masking=token",
    "adamw-sop-attention": "model.sharing=attention",
    "adamw-sop-ffn": "model.sharing=ffn",
    "adamw-sop-none": "model.sharing=none",
    "adamw-sop-groups": "model.num_hidden_groups=2 model.inner_group_num=2",
    "adamw-sop-stages": 'depth_schedule=[{"until":0.5,"value":2}] length_schedule=[{"until":0.4,"value":16}] '
    "gradient_checkpointing=true",
}
FINETUNING = (
    "optimizer.name=adamw optimizer.learning_rate=0.004 num_steps=20 max_length=64 batch_size=8 "
    "has_tensorboard=false num_evaluations=2"
)
STUDY: dict[str, Any] = {
    "title": "Tiny", "paper": "table 4", "question": "?", "base": "all", "num_seeds": 1, "num_examples": 16,
    "has_footprint": False, "has_agreement": False,
    "arms": {"all": {"label": "all"}, "none": {"pretrain": {"model": {"sharing": "none"}}}},
    "claims": [{"text": "Sharing costs", "better": "none", "than": "all", "paper": 1.5}],
}  # fmt: skip
# Keys whose values depend on the machine or on the folder: times, sizes, paths and versions.
_VOLATILE = re.compile(
    r"second|time|started|rate$|_mb$|bytes|memory|path|model|data|report|out$|source|folder|file|version|run"
    r"|corpus|speed|host"
)
_METRICS = ("loss", "accuracy", "learning_rate", "grad_norm", "score")


@dataclass
class Record:
    """The result of a case.

    `exact` (hashes of integers and texts, lists of keys) is the same on every machine, `floats` within a
    tolerance; `bits` (hashes of floats) only on one machine.
    """

    exact: dict[str, Any] = field(default_factory=dict)
    floats: dict[str, list[float]] = field(default_factory=dict)
    bits: dict[str, str] = field(default_factory=dict)

    def add_json(self, name: str, value: Any) -> None:
        """Add a document: its keys, its integers and texts by hash, its floats apart."""
        self.add_keys(name, value)
        floats: list[float] = []
        self.exact[name] = _hash(json.dumps(_take_floats(value, floats), sort_keys=True).encode())
        self.add_floats(name, floats)

    def add_keys(self, name: str, value: Any) -> None:
        """Add the keys of a document at every depth, without their values."""
        self.exact[f"{name} keys"] = _hash(" ".join(sorted(_list_keys(value))).encode())

    def add_weights(self, name: str, path: Path) -> None:
        """Add a weights file: names and shapes, the norm of each tensor, all bytes."""
        tensors = sorted(load_file(path).items())
        self.exact[name] = _hash(json.dumps([(key, value.shape) for key, value in tensors]).encode())
        self.add_floats(name, [float(np.linalg.norm(value.astype(np.float64))) for _, value in tensors])
        self.bits[name] = _hash(b"".join(key.encode() + value.tobytes() for key, value in tensors))

    def add_run(self, run: Path) -> None:
        """Add a training run: its weights and its curve."""
        self.add_weights("model", run / "model" / "model.safetensors")
        lines = _read_lines(run / "metrics.jsonl")
        self.add_keys("metrics.jsonl", lines)
        kept = [{key: value for key, value in line.items() if key.endswith(_METRICS)} for line in lines]
        self.add_json("curve", kept)

    def add_floats(self, name: str, values: Sequence[float]) -> None:
        """Add floats: all by their bits, at most 40 by value."""
        self.bits[name] = _hash(np.array(values, np.float64).tobytes())
        if values:
            self.floats[name] = [float(f"{value:.7g}") for value in values[:: -(-len(values) // 40)]]


def _take_floats(value: Any, floats: list[float]) -> Any:
    if isinstance(value, float):
        floats.append(value)
        return "float"
    if isinstance(value, dict):
        return {key: _take_floats(each, floats) for key, each in value.items()}
    return [_take_floats(each, floats) for each in value] if isinstance(value, list) else value


def _list_keys(value: Any, prefix: str = "") -> set[str]:
    if isinstance(value, dict):
        own = {f"{prefix}{key}" for key in value}
        if prefix == "findings.":  # of the doctor: which ones there are depends on the machine's load
            return set()
        return own.union(*(_list_keys(each, f"{prefix}{key}.") for key, each in value.items()))
    return set().union(*(_list_keys(each, prefix) for each in value)) if isinstance(value, list) else set()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def drop_volatile(value: Any) -> Any:
    """Remove times, sizes, versions and paths from a document."""
    if isinstance(value, dict):
        return {key: drop_volatile(each) for key, each in value.items() if not _VOLATILE.search(key)}
    if isinstance(value, list):
        return [drop_volatile(each) for each in value]
    return re.sub(r"/\S*golden-\w+/", "", value) if isinstance(value, str) else value


def albert(command: str, *, stdin: str = "") -> str:
    """Run a command in this process; return what it printed on stdout."""
    out, before = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), (sys.argv, sys.stdin)
    sys.argv = ["albert", *command.split()]
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as err:
            runpy.run_module("albert", run_name="__main__")
    except SystemExit as done:
        if done.code != 0:
            raise AssertionError(f"albert {command}: {err.getvalue()}") from None
    finally:
        sys.argv, sys.stdin = before
    out.seek(0)
    return out.read()


def albert_json(command: str, *, stdin: str = "") -> Any:
    """Run a command with --json; return the document."""
    return json.loads(albert(f"{command} --json", stdin=stdin))


@dataclass
class Golden:
    """The inputs and models that cases share, each made by the first that needs it."""

    folder: Path

    def make(self, name: str, build: Callable[[Path], object]) -> Path:
        """A file or folder below ours."""
        path = self.folder / name
        if not path.exists():
            build(path)
        return path

    @property
    def sources(self) -> Path:
        return self.make("sources", write_sources)

    @property
    def vocab(self) -> Path:
        return self.make("vocab", lambda out: albert(f"vocab train {self.sources} --size 500 --out {out}"))

    @property
    def corpus(self) -> Path:
        command = f"corpus prepare {self.sources} --vocab {self.vocab} --workers 1"
        return self.make("corpus", lambda out: albert(f"{command} --out {out}"))

    @property
    def recipe(self) -> Path:
        return self.make("recipe.yaml", lambda path: path.write_text(yaml.safe_dump(RECIPE)))

    @property
    def study(self) -> Path:
        content = {**STUDY, "recipe": str(self.recipe)}
        return self.make("study.yaml", lambda path: path.write_text(yaml.safe_dump(content)))

    def pretrained(self, name: str = "adamw-sop-all") -> Path:
        command = f"pretrain {self.recipe} --data {self.corpus} --seed 1 {PRETRAINING[name]}"
        return self.make(f"pretrain-{name}", lambda out: albert(f"{command} --out {out}"))

    def data(self, task: str) -> Path:
        if task not in TASKS:
            return self.make("published", write_published)
        return self.make(f"data-{task}", lambda folder: write_task(folder, task))

    def finetuned(self, task: str, *, seed: int = 0, more: str = "") -> Path:
        command = (
            f"finetune {name_task(task)} --model {self.pretrained()} --data {self.data(task)} --seed {seed}"
        )
        command = f"{command} {FINETUNING} {name_columns(task)} {more}"
        name = f"finetune-{task}-{seed}-{_hash(more.encode())}"
        return self.make(name, lambda out: albert(f"{command} --out {out}"))


def name_task(task: str) -> str:
    return "classification" if task == "pairs" else task


def name_columns(task: str) -> str:
    return "columns.text_pair=other" if task in ("pairs", "embedding") else ""


def record_ids(golden: Golden, record: Record) -> None:
    """Ids and character spans of 1,000 lines, by each kind of vocabulary."""
    lines = list_lines()
    text = golden.make("lines.txt", lambda path: path.write_text("\n".join(lines[:200]), encoding="utf-8"))
    symbols = golden.folder / "symbols"
    albert(f"vocab train {text} --kind symbols --characters --out {symbols}")
    letters = [f"{mark}{letter}" for mark in ("", "##") for letter in "abcdefghijklmnopqrstuvwxyz.,\"'()01"]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *list_words()[:300], "##ing", "##tion"]
    content = "".join(f"{token}\n" for token in dict.fromkeys(tokens))
    wordpiece = golden.make("vocab.txt", lambda path: path.write_text(content))
    vocabularies = {"sentencepiece": golden.vocab, "nano": "nano", "symbols": symbols, "wordpiece": wordpiece}
    for name, vocab in vocabularies.items():
        record.add_json(name, albert_json(f"vocab tokenize - --vocab {vocab}", stdin="\n".join(lines)))


def record_corpus(golden: Golden, record: Record) -> None:
    """Shards of a corpus, with one worker and with two."""
    two = golden.folder / "corpus-2"
    albert(f"corpus prepare {golden.sources} --vocab {golden.vocab} --out {two} --workers 2")
    for folder in (golden.corpus, two):
        for path in sorted((folder / "shards").iterdir()):
            record.exact[f"{folder.name}/{path.name}"] = _hash(path.read_bytes())
    record.add_keys("show", albert_json(f"corpus show {golden.corpus}"))
    content = "\n".join(list_lines()[:50])
    lines = golden.make("overlap.txt", lambda path: path.write_text(content, encoding="utf-8"))
    record.add_json("overlap", drop_volatile(albert_json(f"corpus overlap {golden.corpus} {lines}")))


def record_examples(golden: Golden, record: Record) -> None:
    """The first pretraining examples of each objective."""
    for objective, number in (("sop", 100), ("nsp", 20), ("none", 20)):
        command = f"corpus show {golden.corpus} objective={objective} max_length=64 --seed 7 --example"
        record.add_json(objective, [albert_json(f"{command} {index}") for index in range(number)])


def record_pretraining(name: str) -> "Case":
    """40 steps, and the evaluation of the model."""

    def record_one(golden: Golden, record: Record) -> None:
        run = golden.pretrained(name)
        record.add_run(run)
        command = f"evaluate pretraining --model {run} --data {golden.corpus} --held-out --examples 40"
        found = albert_json(f"{command} max_length=48")
        record.add_keys("evaluate --json", found)
        record.add_json("evaluate", drop_volatile(found))

    return record_one


def record_task(task: str) -> "Case":
    """20 steps of fine-tuning, and the evaluation and predictions of the model."""

    def record_one(golden: Golden, record: Record) -> None:
        run, data, out = golden.finetuned(task), golden.data(task), golden.folder / f"evaluation-{task}"
        record.add_run(run)
        record.add_json("task.json", drop_volatile(json.loads((run / "model" / "task.json").read_text())))
        options = f"--model {run} {name_columns(task)}"
        found = albert_json(f"evaluate {name_task(task)} --data {data} --out {out} {options}")
        record.add_keys("evaluate --json", found)
        record.add_json("evaluate", drop_volatile(found))
        record.exact["files"] = sorted(str(path.relative_to(out)) for path in out.rglob("*"))
        record.add_json("predictions.jsonl", _read_lines(out / "predictions.jsonl"))
        if task in TASKS:
            lines = albert(f"predict {name_task(task)} {data}/dev.jsonl {options}").splitlines()
            record.add_json("predict", [json.loads(line) for line in lines])

    return record_one


def record_ensembles(golden: Golden, record: Record) -> None:
    """Ensembles of three seeds, all members and selected ones."""
    for task in ("classification", "words", "squad-2.0", "choice", "regression"):
        models = " ".join(f"--model {golden.finetuned(task, seed=seed)}" for seed in (0, 1, 2))
        for more in ("", "--select"):
            found = albert_json(f"evaluate {task} {models} --data {golden.data(task)} --seed 3 {more}")
            record.add_keys(f"{task} {more} --json", found)
            record.add_json(f"{task} {more}", drop_volatile(found))


def record_early_exit(golden: Golden, record: Record) -> None:
    """A classifier after each layer; predictions with patience and with fewer layers."""
    run, data = golden.finetuned("classification", more="has_exits=true"), golden.data("classification")
    record.add_run(run)
    for option in ("--patience 1", "--patience 2", "--depth 2"):
        lines = albert(f"predict classification {data}/dev.jsonl --model {run} {option}").splitlines()
        record.add_json(option, [json.loads(line) for line in lines])
    record.add_keys("--exits", albert_json(f"evaluate classification --model {run} --data {data} --exits"))


def record_submissions(golden: Golden, record: Record) -> None:
    """The submission files of GLUE."""
    for task, split in (
        ("sst-2", "test"), ("mnli", "test"), ("mnli", "test-mismatched"), ("sts-b", "test"), ("ax", "test"),
    ):  # fmt: skip
        model = golden.finetuned("mnli" if task == "ax" else task)
        out = golden.folder / f"submission-{task}-{split}"
        albert(f"evaluate {task} --model {model} --data {golden.data(task)} --split {split} --out {out}")
        (path,) = out.glob("*.tsv")
        rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        cells = [[float(cell) if re.fullmatch(r"\d+\.\d+", cell) else cell for cell in row] for row in rows]
        record.add_json(path.name, cells)


def record_tensorflow(golden: Golden, record: Record) -> None:
    """An original TensorFlow checkpoint, converted."""
    out = golden.folder / "from-tensorflow"
    found = albert_json(f"convert {REPOSITORY}/tests/data/tensorflow_albert {out}")
    record.add_keys("convert --json", found)
    record.add_weights("model", out / "model.safetensors")
    record.add_json("config", json.loads((out / "config.json").read_text(encoding="utf-8")))


def record_released(golden: Golden, record: Record) -> None:
    """Predictions of the released model, and parameter counts."""
    text = "he went to the [MASK] and saw a [MASK] ."
    record.add_json("fill-mask", albert_json("fill-mask --model nano -", stdin=text))
    pair = "It rained.\nSo we stayed in."
    record.add_json("sentence-order", albert_json("sentence-order --model nano -", stdin=pair))
    for depth in (2, 4, 6):
        record.add_json(f"embed {depth}", albert_json(f"embed --model nano --depth {depth} -", stdin=text))
    record.add_json("params", albert_json("params"))


def record_reports(golden: Golden, record: Record) -> None:
    """A study, and the keys of --json of every command that makes or reports something."""
    out, models = golden.folder / "study", f"--model nano --model {golden.pretrained()}"
    commands = {
        "study layers": f"study layers {models} --out {golden.folder}/layers",
        "study": f"study {golden.study} --data {golden.corpus} --out {out} pretrain.num_steps=10",
        "doctor": f"doctor {golden.pretrained()}",
        "pretrain": f"pretrain {golden.recipe} --data {golden.corpus} --out {golden.folder}/a num_steps=4",
        "corpus prepare": f"corpus prepare {golden.sources} --vocab {golden.vocab} --out {golden.folder}/b",
        "vocab train": f"vocab train {golden.sources} --size 300 --out {golden.folder}/c",
    }
    finetune = f"finetune classification --model {golden.pretrained()} --data {golden.data('classification')}"
    commands |= {
        "finetune": f"{finetune} --out {golden.folder}/d num_steps=4",
        "finetune --seeds": f"{finetune} --out {golden.folder}/e num_steps=4 --seeds 2",
    }
    for name, command in commands.items():
        record.add_keys(f"{name} --json", albert_json(command))
    for path in sorted(out.glob("*/*/seed-*/result.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        record.add_json("/".join(path.parts[-3:-1]), drop_volatile(result))


Case = Callable[[Golden, Record], None]
CASES: dict[str, Case] = {
    "ids": record_ids,
    "corpus": record_corpus,
    "examples": record_examples,
    **{f"pretrain-{name}": record_pretraining(name) for name in PRETRAINING},
    **{f"finetune-{task}": record_task(task) for task in (*TASKS, "sst-2", "squad-2.0", "race", "sts-b")},
    "ensembles": record_ensembles,
    "early-exit": record_early_exit,
    "submissions": record_submissions,
    "tensorflow": record_tensorflow,
    "released": record_released,
    "reports": record_reports,
}
