"""The whole quickstart at toy size: its stages, its report, and what happens when it is started again."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

import albert
from albert.cli.command import ProgressDisplay
from albert.cli.commands import quickstart as command
from albert.cli.quickstart import _draw_pairs, list_commands
from albert.report.content import Series
from tests.cli.quickstart.conftest import run_tiny, tell_chapters
from tests.conftest import RunAlbert, read_tree
from tests.guides.typed_commands import check_typed, iter_typed

ROOT = Path(__file__).parents[3]


def list_words(settings: dict[str, Any]) -> list[str]:
    return [f"{key}={json.dumps(value)}" for key, value in settings.items() if key != "model"]


@pytest.mark.usefixtures("stocked")
def test_all_stages_run_and_a_second_start_keeps_what_is_done(tiny, tmp_path: Path) -> None:
    out = tmp_path / "out"
    values, lines = run_tiny(tiny, out)
    assert [line[:3] for line in lines if line[1:3] == "/6"] == [f"{number}/6" for number in range(1, 7)]
    assert values["left_out"] == []
    assert values["text"] == {"name": "the King James Bible", "is_fallback": False}
    names = ("corpus", "layers", "pretrain", "quickstart.json", "report.html", "reviews", "text", "vocab")
    assert set(names) <= {path.name for path in out.iterdir()}
    assert {path.stem for path in (out / "figures").iterdir()} >= {"loss", "order", "reviews", "layers-l2"}
    assert {path.stem for path in (out / "tables").iterdir()} == {"masked-words", "reviews", "sentence-order"}

    run = values["pretraining"]
    assert run["steps"] == 20
    assert run["end"]["mlm_loss"] < run["start"]["mlm_loss"]
    # Interrupted by a real signal, and resumed to the weights of a run that was not.
    (step,) = run["resumed_at"]
    assert 0 < step < 20
    assert any(line.startswith(f"interrupted on purpose at step {step} ") for line in lines)
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
    assert set(values) == {
        "is_finished", "report", "text", "pretraining", "reviews", "left_out", "seconds",
    }  # fmt: skip
    assert set(values["pretraining"]) == {
        "run", "parameters", "steps", "pieces", "seconds", "resumed_at", "unigram_loss", "start", "end",
    }  # fmt: skip
    assert values["text"] == {"name": str(stories), "is_fallback": False}
    assert values["reviews"] is None
    assert "vaderSentiment==3.3.2" in values["left_out"][0]
    assert f"left out: {values['left_out'][0]}\n" in done.err
    assert "Left out: " in (out / "report.md").read_text(encoding="utf-8")

    # Other settings or another text in the same folder are rejected, and nothing is changed.
    before = read_tree(out)
    error = run_albert(*words, *list_words({**tiny, "vocab_size": 100})).error
    assert error.startswith(f"{out}: vocab_size is 100 and was 128")
    (stories / "more.txt").write_text("More text.")
    error = run_albert(*words, *list_words(tiny)).error
    assert error.startswith(f"{out}: data is stories ")
    assert "--out" in error
    assert read_tree(out) == before


@pytest.mark.usefixtures("index_dir")
def test_without_a_network_the_text_is_pythons_documentation(
    tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = dict(enumerate(tell_chapters(240)))
    monkeypatch.setattr("pydoc_data.topics.topics", topics)
    for _ in range(2):
        values, _ = run_tiny(tiny, tmp_path / "out")
        assert values["text"] == {"name": "Python's documentation", "is_fallback": True}
    assert "Python Software Foundation" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


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
        assert f"stopped by {number.name}" in done.err
        assert "Traceback" not in done.err
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
        (["--model", "tests"], ["tests/config.json"]),
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
    typed = list(iter_typed(list_commands(out, "nano").replace("python -m albert", "albert")))
    assert [words[0] for words in typed] == ["fill-mask", "doctor", "pretrain", "quickstart", "finetune"]
    for words in typed:
        check_typed(words)


@pytest.mark.parametrize(
    ("share", "num_pairs", "words"),
    [
        (0.55, 160, "not distinguishable from chance"),
        (0.55, 4000, "above chance"),
        (0.3, 160, "below chance"),
    ],
)
def test_accuracy_on_pairs_is_called_above_chance_only_if_its_interval_is(share, num_pairs, words) -> None:
    chart = _draw_pairs(Series("held-out text", [0.0, 10.0], [0.48, share]), "sop", num_pairs)
    assert words in chart.told
