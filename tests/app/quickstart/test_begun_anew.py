"""A quickstart in the folder of another one: what took long stays, and nothing goes too early."""

import json
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from albert.app.quickstart.folder import QuickstartFolder
from albert.app.quickstart.run import drop_other_files
from albert.app.quickstart.settings import QuickstartSettings
from albert.app.quickstart.sources import TextSource, find_text
from albert.app.quickstart.stages import Stages
from albert.app.quickstart.vocabulary import train_vocabulary
from albert.errors import InputError
from albert.files import write_json
from albert.pretrained.hub import stamp_model
from albert.report.content import Column, Page, Section, Table
from tests.app.quickstart.conftest import FEW_EVALUATIONS, build_tiny, tell_chapters, write_recipe
from tests.conftest import read_tree
from tests.training.conftest import Listener


@dataclass(frozen=True)
class Place:
    """Text, and the folder in which a model was pretrained on it."""

    data: Path
    out: Path
    settings: QuickstartSettings

    def open(self, **changes: object) -> Stages:
        settings = self.settings.model_copy(update=changes)
        return Stages(settings, QuickstartFolder(self.out), Listener())

    def find_text(self) -> TextSource:
        return find_text(self.data, self.out / "text", reporter=Listener())


def write_stories(path: Path, *, seed: int = 3) -> None:
    text = "\n\n".join("\n".join(chapter) for chapter in tell_chapters(240, seed=seed))
    path.write_text(f"{text}\n", encoding="utf-8")


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Place:
    top = tmp_path_factory.mktemp("pretrained")
    (top / "data").mkdir()
    (top / "out").mkdir()
    write_stories(top / "data" / "stories.txt")
    write_json(top / "out" / "quickstart.json", {})
    steps = {**FEW_EVALUATIONS, "num_steps": 4}
    place = Place(top / "data", top / "out", build_tiny(Path("nano"), write_recipe(top), pretrain=steps))
    stages, text = place.open(), place.find_text()
    stages.prepare(text)
    stages.pretrain(text)
    return place


@pytest.fixture
def place(pretrained: Place, tmp_path: Path) -> Place:
    """A copy that a test may change."""
    for folder in (pretrained.data, pretrained.out):
        shutil.copytree(folder, tmp_path / folder.name)
    return replace(pretrained, data=tmp_path / "data", out=tmp_path / "out")


def list_lines(stages: Stages) -> list[str]:
    assert isinstance(stages.reporter, Listener)
    return stages.reporter.lines


def test_text_that_was_only_touched_is_the_same_text(place: Place) -> None:
    before = place.find_text().stamp
    os.utime(place.data / "stories.txt", (1, 1))
    assert place.find_text().stamp == before
    write_stories(place.data / "stories.txt", seed=4)
    assert place.find_text().stamp != before


def test_a_model_that_was_only_touched_is_the_same_model(tiny_copy: Path) -> None:
    before = stamp_model(tiny_copy)
    os.utime(tiny_copy / "config.json", (1, 1))
    assert stamp_model(tiny_copy) == before
    (tiny_copy / "config.json").write_text("{}", encoding="utf-8")
    assert stamp_model(tiny_copy) != before


def test_a_long_run_is_not_replaced(place: Place) -> None:
    (state,) = (place.out / "pretrain" / "checkpoints").glob("step-4/state.json")
    values = json.loads(state.read_text(encoding="utf-8"))
    values["progress"]["seconds"] = 36_000.0
    write_json(state, values)
    before, text, run = read_tree(place.out), place.find_text(), place.out / "pretrain"
    place.open().refuse_loss(text)  # the same goes on
    place.open(minutes=1.0).refuse_loss(text)  # steps are given, and minutes not looked at
    place.open(pretrain={**place.settings.pretrain, "log_every": 7}).refuse_loss(text)
    with pytest.raises(InputError) as caught:
        place.open(seed=1).refuse_loss(text)
    assert str(caught.value) == (
        f"{run}: holds a run of 10h 00m that would be lost, since seed is not what it began with; give "
        f"that again to go on, choose another --out, or delete {run} to begin anew"
    )
    write_stories(place.data / "stories.txt", seed=4)
    with pytest.raises(InputError, match="that would be lost, since text is not what it began with"):
        place.open().refuse_loss(place.find_text())
    with pytest.raises(InputError, match=r"lost, since settings\.num_steps is not what it began with"):
        place.open(pretrain=FEW_EVALUATIONS, minutes=600.0).refuse_loss(text)
    assert read_tree(place.out) == before
    write_json(place.out / "quickstart.json", {})
    with pytest.raises(InputError, match="that would be lost, since its mark is not what it began with"):
        place.open().refuse_loss(text)
    shutil.rmtree(run)
    place.open(seed=1).refuse_loss(text)


def test_other_text_begins_corpus_and_run_anew(place: Place) -> None:
    write_stories(place.data / "stories.txt", seed=4)
    stages, text = place.open(), place.find_text()
    stages.refuse_loss(text)
    stages.prepare(text)
    stages.pretrain(text)
    told = [line for line in list_lines(stages) if line.startswith("begins the")]
    assert told == [
        f"begins the {part} anew: text is not what it was the last time" for part in ("corpus", "pretraining")
    ]


def test_text_that_no_vocabulary_can_be_trained_on_leaves_all_as_it_was(place: Place) -> None:
    (place.data / "stories.txt").write_text("\n\n", encoding="utf-8")
    before = read_tree(place.out)
    with pytest.raises(InputError, match="no text to train a vocabulary on"):
        place.open().prepare(place.find_text())
    assert read_tree(place.out) == before


def test_lost_records_of_a_run_leave_its_last_figures(place: Place) -> None:
    before = place.open().pretrain(place.find_text())
    (place.out / "pretrain" / "metrics.jsonl").unlink()
    after = place.open().pretrain(place.find_text())
    assert after.end == before.end
    assert after.end.step == 4


def test_documents_of_one_sentence_are_refused_before_training_with_the_cure(place: Place) -> None:
    chapters = enumerate(tell_chapters(240, seed=5))
    rows = [json.dumps({"text": f"{chapter[0].partition('.')[0]} {number}."}) for number, chapter in chapters]
    (place.data / "stories.txt").unlink()
    (place.data / "rows.jsonl").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    text, before = place.find_text(), read_tree(place.out)
    with pytest.raises(
        InputError, match=r"asks about pairs; add pretrain\.examples\.objective=none, or give"
    ):
        place.open().prepare(text)
    assert read_tree(place.out) == before
    stages = place.open(pretrain={**place.settings.pretrain, "examples": {"objective": "none"}})
    stages.prepare(text)
    run = stages.pretrain(text)
    assert "sop_accuracy" not in run.end.figures


def test_a_batch_that_the_text_does_not_fill_is_told_in_words_of_a_quickstart(place: Place) -> None:
    steps, before = {**place.settings.pretrain, "batch_size": 4096}, read_tree(place.out)
    with pytest.raises(InputError, match=r"use a pretrain\.batch_size of at most \d+, or more text"):
        place.open(pretrain=steps).prepare(place.find_text())
    assert read_tree(place.out) == before


def test_a_run_for_which_there_is_no_time_leaves_the_last_one(place: Place) -> None:
    before = read_tree(place.out)
    with pytest.raises(InputError, match="give more --minutes"):
        place.open(pretrain=FEW_EVALUATIONS, minutes=1e-4).pretrain(place.find_text())
    assert read_tree(place.out) == before


def test_text_of_many_characters_gets_a_vocabulary_that_has_them(place: Place) -> None:
    letters = [chr(0x4E00 + number) for number in range(300)]
    lines = ["".join(letters[start : start + 20]) + "." for start in range(0, 300, 20)] * 3
    (place.data / "stories.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    stages = place.open(vocab_size=128)
    tokenizer = train_vocabulary(place.find_text(), settings=stages.settings, reporter=stages.reporter)
    assert tokenizer.vocab_size > 300
    (told,) = list_lines(stages)
    size = f"{tokenizer.vocab_size:,}"
    assert told == f"the text has many characters: a vocabulary of {size} pieces instead of 128"


def test_figures_and_tables_of_an_earlier_report_go(tmp_path: Path) -> None:
    for name in ("figures/loss.svg", "tables/kept.csv", "tables/gone.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    page = Page("title", "lead", [Section("all", tables=[Table("kept", [Column("x")], [])])])
    drop_other_files(tmp_path, page)
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["kept.csv"]
