"""`python -m bench.accelerate [PART…]`: compare models of other libraries with themselves, accelerated.

SENTENCE_MODEL is the folder of a `SentenceTransformer` built on BERT, TASK_DATA has glue/ and squad/. The
parts are encode, one, loop, trainer, lora and latency. PROCESSOR_TIME=1 measures the processor time of one
thread, for busy machines.
"""

import copy
import csv
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

import albert
from bench.against_transformers import THREADS, build_ours, build_theirs, our_logits, their_logits
from bench.batches import dense_batch
from bench.timing import median_ratio, summarize, time_interleaved

BATCH_SIZE = 32
NUM_STEPS = 8
IS_PROCESSOR_TIME = "PROCESSOR_TIME" in os.environ


def compare(theirs: Callable[[], Any], ours: Callable[[], Any], *, repeats: int, title: str) -> str:
    """Time both sides, and format a row of the table."""
    clock = time.process_time if IS_PROCESSOR_TIME else time.perf_counter
    times = time_interleaved({"theirs": theirs, "ours": ours}, repeats=repeats, clock=clock)
    ratio = median_ratio(times["theirs"], times["ours"])
    row = f"| {title} | {summarize(times['theirs'])} | {summarize(times['ours'])} | **{ratio:.2f}×** |"
    print(row, file=sys.stderr, flush=True)
    return row


def find_folder(variable: str) -> Path:
    """Return the folder that an environment variable names."""
    if variable not in os.environ:
        raise SystemExit(f"{variable} is not set; see bench/accelerate.py")
    return Path(os.environ[variable])


def read_short_texts() -> list[str]:
    """Read the first sentences of the dev pairs of STS-B."""
    return [row["sentence1"] for row in _read_table("STS-B/dev.tsv")]


def read_mixed_texts() -> list[str]:
    """Read 200 paragraphs and 300 questions of SQuAD and 300 sentences of STS-B, in random order."""
    articles = json.loads((find_folder("TASK_DATA") / "squad" / "train-v1.1.json").read_text())["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    generator = random.Random(0)
    texts = [
        *generator.sample([paragraph["context"] for paragraph in paragraphs], 200),
        *generator.sample([qa["question"] for paragraph in paragraphs for qa in paragraph["qas"]], 300),
        *generator.sample(read_short_texts(), 300),
    ]
    generator.shuffle(texts)
    return texts


def _read_table(name: str) -> list[dict[str, str]]:
    with (find_folder("TASK_DATA") / "glue" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def load_sides() -> tuple[Any, Any]:
    """Load the sentence model twice, one accelerated."""
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(find_folder("SENTENCE_MODEL")), device="cpu")
    return theirs, albert.accelerate(copy.deepcopy(theirs))


def measure_encode() -> list[str]:
    """Encode many texts with the defaults of `encode`."""
    theirs, ours = load_sides()
    mixed, short = read_mixed_texts(), read_short_texts()[:400]
    rows = []
    for title, texts, repeats in (("800 mixed texts", mixed, 3), ("400 sentences", short, 7)):
        theirs_step, ours_step = partial(theirs.encode, texts), partial(ours.encode, texts)
        rows.append(compare(theirs_step, ours_step, repeats=repeats, title=f"`encode`, {title}"))
    return rows


def measure_one() -> list[str]:
    """Encode one text at a time."""
    theirs, ours = load_sides()
    texts = read_short_texts()[:40]

    def encode(model: Any) -> Callable[[], Any]:
        return lambda: [model.encode(text) for text in texts]

    return [compare(encode(theirs), encode(ours), repeats=9, title="`encode`, 40 sentences one by one")]


def measure_loop() -> list[str]:
    """Run the encoder of `transformers` over padded batches in the order of arrival."""
    sides = load_sides()
    texts, tokenizer = read_mixed_texts()[: 10 * BATCH_SIZE], sides[0].tokenizer
    parts = [texts[start : start + BATCH_SIZE] for start in range(0, len(texts), BATCH_SIZE)]

    def tokenize(part: list[str]) -> Any:
        return tokenizer(part, padding=True, truncation=True, return_tensors="pt")

    def encode(model: Any) -> Callable[[], Any]:
        def run() -> None:
            with torch.inference_mode():
                for part in parts:
                    model(**tokenize(part))

        return run

    masks = [tokenize(part)["attention_mask"] for part in parts]
    factor = sum(mask.numel() for mask in masks) / sum(int(mask.sum()) for mask in masks)
    theirs, ours = (side[0].auto_model for side in sides)
    title = f"loop over batches of {BATCH_SIZE}, 320 mixed texts, padded ÷ real {factor:.2f}"
    return [compare(encode(theirs), encode(ours), repeats=2, title=title)]


def measure_training(*, has_lora: bool) -> list[str]:
    """Fine-tune on SST-2 with the `Trainer` and its default collator; compare the losses of all steps."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

    folder = str(find_folder("SENTENCE_MODEL"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = random.Random(0).sample(_read_table("SST-2/train.tsv"), NUM_STEPS * BATCH_SIZE)
    items = [{**tokenizer(row["sentence"], truncation=True), "label": int(row["label"])} for row in rows]
    torch.manual_seed(0)
    start = AutoModelForSequenceClassification.from_pretrained(
        folder, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    if has_lora:
        from peft import LoraConfig, get_peft_model

        start = get_peft_model(start, LoraConfig(task_type="SEQ_CLS", target_modules=["query", "value"]))
    losses: dict[bool, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        settings = TrainingArguments(
            name, per_device_train_batch_size=BATCH_SIZE, max_steps=NUM_STEPS, logging_steps=1,
            save_strategy="no", report_to=[], disable_tqdm=True, learning_rate=1e-4, use_cpu=True,
        )  # fmt: skip

        def train(is_ours: bool) -> Callable[[], None]:
            def run() -> None:
                model = copy.deepcopy(start)
                if is_ours:
                    model = albert.accelerate(model)
                trainer = Trainer(model, settings, train_dataset=items, processing_class=tokenizer)
                trainer.train()
                losses[is_ours] = [row["loss"] for row in trainer.state.log_history if "loss" in row]

            return run

        name = "LoRA with the `Trainer`" if has_lora else "`Trainer`"
        title = f"{name}, {NUM_STEPS} steps of {BATCH_SIZE} sentences of SST-2"
        row = compare(train(False), train(True), repeats=2, title=title)
    difference = max(abs(a - b) for a, b in zip(losses[False], losses[True], strict=True))
    return [row, f"| largest difference of a step's loss | | | {difference:.1e} |"]


def measure_latency() -> list[str]:
    """Classify a single sequence at base width: our own model, and that of `transformers` accelerated."""
    ours, theirs = build_ours(), build_theirs()
    faster = albert.accelerate(copy.deepcopy(theirs))
    rows = []
    for length in (8, 16, 32):
        batch = dense_batch(1, length)
        for name, logits, model in (("albert", our_logits, ours), ("accelerated", their_logits, faster)):

            def run(logits: Any, model: Any, batch: Any = batch) -> Callable[[], None]:
                def step() -> None:
                    with torch.inference_mode():
                        for _ in range(5):
                            logits(model, batch)

                return step

            title = f"albert-base-v2, one sequence of {length} tokens, 5 times, {name}"
            rows.append(compare(run(their_logits, theirs), run(logits, model), repeats=9, title=title))
    return rows


PARTS: dict[str, Callable[[], list[str]]] = {
    "encode": measure_encode,
    "one": measure_one,
    "loop": measure_loop,
    "trainer": lambda: measure_training(has_lora=False),
    "lora": lambda: measure_training(has_lora=True),
    "latency": measure_latency,
}


def format_section(names: list[str] | None = None) -> str:
    """Measure the named parts, or all, and format the table."""
    torch.set_num_threads(1 if IS_PROCESSOR_TIME else THREADS)
    rows = [row for name in names or PARTS for row in PARTS[name]()]
    return "\n".join(
        [
            "The same model and code without and with `albert.accelerate`, float32, medians (quartiles).",
            "Training without dropout.",
            "Processor time of one thread." if IS_PROCESSOR_TIME else "Two threads.",
            "",
            "| | original | accelerated | ratio |",
            "|---|---|---|---|",
            *rows,
        ]
    )


if __name__ == "__main__":
    print(format_section(sys.argv[1:]))
