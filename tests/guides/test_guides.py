"""Every guide works: its blocks are run in order in an empty folder."""

import json
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.guides.journeys import GUIDES, list_guides, read_blocks, run_block, run_guide
from tests.tasks.published import write_squad

TENSORFLOW = Path(__file__).parents[1] / "data" / "tensorflow_albert"
TWO_MACHINES = "needs two machines"
# What a reader has in the end.
RESULTS = {
    "pretrain-your-language": ("run/model/model.safetensors", "run/doctor.png", "vectors.npy"),
    "continue-on-your-domain": ("corpus/manifest.json", "domain/model/model.safetensors"),
    "distill-your-domain": ("small/model/modules.json", "small-half/model.safetensors", "query.npy"),
    "fine-tune-your-csv": ("mood/model/task.json", "scores/report.html", "answers.jsonl"),
    "question-answering": ("reader/model/task.json", "scores/report.html", "answers.jsonl"),
    "phonemes-for-speech": ("vocab/symbols.txt", "run/model/symbols.txt", "frontend.pt"),
    "many-machines": tuple(f"{run}/model/model.safetensors" for run in ("run", "moved", "both")),
    "many-texts": ("vectors/000000.parquet", "vectors/_manifest.json"),
    "bring-a-published-model": ("base/spiece.model", "from-tensorflow/config.json", "rooms/model/task.json"),
    "add-a-task": ("tickets/model/task.json", "scores/report.html"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list_guides())
def test_a_guide_works(name, tmp_path):
    if name == "bring-a-published-model":
        shutil.copytree(TENSORFLOW, tmp_path / "albert_base")  # what its reader has unpacked
    if name == "question-answering":
        dev = write_squad(tmp_path) / "squad" / "dev-v2.0.json"  # SQuAD's own files are not ours to hand out
        shutil.copy(dev, dev.with_name("train-v2.0.json"))
    run_guide(name, tmp_path)
    if name == "many-machines":
        run_on_two_machines(tmp_path)
    assert [path for path in RESULTS[name] if not (tmp_path / path).is_file()] == []


def run_on_two_machines(folder: Path) -> None:
    """The block that is typed on two machines, typed twice on this one, with the rehearsal's recipe."""
    (block,) = [each for each in read_blocks(GUIDES / "many-machines.md") if each.skip_reason == TWO_MACHINES]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = block.text
    for words, others in (
        ("node1:29400", f"127.0.0.1:{port}"), ("albert-base", "rehearsal.yaml"),
        ("/shared/corpus", "corpus"), ("/shared/run", "both"),
    ):  # fmt: skip
        assert words in text
        text = text.replace(words, others)
    with ThreadPoolExecutor(2) as machines:
        typed = [machines.submit(run_block, replace(block, text=text), folder) for _ in range(2)]
        for each in typed:
            each.result()
    first = (folder / "both" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[0]
    assert json.loads(first)["processes"] == 2
