"""Every guide is a journey that works as it stands: its blocks are run in their order in an empty folder."""

import shutil
from pathlib import Path

import pytest

from tests.guides.journeys import GUIDES, RUNNERS, SHOWN, list_guides, read_blocks, run_guide
from tests.guides.stand_in import put_stand_in

TENSORFLOW = Path(__file__).parents[1] / "data" / "tensorflow_albert"
# What a reader has in the end, besides what was seen on the way.
RESULTS = {
    "pretrain-your-language": ("run/model/model.safetensors", "run/doctor.png", "vectors.npy"),
    "continue-on-your-domain": ("corpus/manifest.json", "domain/model/model.safetensors"),
    "fine-tune-your-csv": ("mood/model/task.json", "scores/report.html", "answers.jsonl"),
    "question-answering": ("reader/model/task.json", "scores/report.html", "answers.jsonl"),
    "phonemes-for-speech": ("vocab/symbols.txt", "run/model/symbols.txt", "frontend.pt"),
    "many-machines": ("run/model/model.safetensors", "moved/model/model.safetensors"),
    "bring-a-published-model": ("base/spiece.model", "from-tensorflow/config.json", "mood/model/task.json"),
    "add-a-task": ("tickets/model/task.json", "scores/report.html"),
}
SEEN = {
    "pretrain-your-language": "mlm loss",
    "continue-on-your-domain": "mlm loss",
    "fine-tune-your-csv": "unhappy",
    "phonemes-for-speech": "▁ l a ▁ n i ɲ a ▁ e n k o n t ɾ ˈo ▁ e l ▁ k e s o .",
    "many-machines": "\ngoes on at step ",
    "bring-a-published-model": "largest difference: ",
    "add-a-task": "levels on average",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list_guides())
def test_a_journey_arrives(name, tmp_path):
    put_stand_in(tmp_path)
    if name == "bring-a-published-model":
        shutil.copytree(TENSORFLOW, tmp_path / "albert_base")  # what its reader has unpacked
    said = run_guide(name, tmp_path)
    assert [path for path in RESULTS[name] if not (tmp_path / path).is_file()] == []
    assert SEEN.get(name, "") in said


def test_the_index_has_a_line_for_every_guide():
    index = (GUIDES / "README.md").read_text(encoding="utf-8")
    assert list_guides() == sorted(RESULTS)
    assert [name for name in list_guides() if index.count(f"]({name}.md)") != 1] == []


def test_no_block_escapes_quietly():
    """Every block is run, or is one that only shows something; what is left out is counted here."""
    blocks = [block for name in list_guides() for block in read_blocks(GUIDES / f"{name}.md")]
    assert [block for block in blocks if block.language not in (*RUNNERS, *SHOWN)] == []
    skipped = {(block.guide, block.skip_reason) for block in blocks if block.skip_reason is not None}
    assert skipped == {
        ("many-machines", "needs two machines"),
        ("question-answering", "needs SQuAD's files, which are not ours to hand out"),
    }
    assert sum(block.is_run for block in blocks) > 40
