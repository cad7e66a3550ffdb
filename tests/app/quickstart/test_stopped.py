"""SIGTERM and Ctrl-C in any stage: one line, nothing half-written, and the same command goes on."""

import signal
from pathlib import Path

import pytest

from albert.app.commands import quickstart as command
from albert.app.progress import ProgressDisplay
from tests.app.quickstart.conftest import FEW_EVALUATIONS, SIZES, write_recipe
from tests.conftest import Outcome, RunAlbert


@pytest.mark.usefixtures("stocked")
def test_stopped_in_other_stages_than_pretraining_the_same_command_goes_on(
    stories: Path, tiny_folder: Path, tmp_path: Path, run_albert: RunAlbert, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    words = ["quickstart", "--data", stories, "--out", out, "--model", tiny_folder]
    words += [f"{name}={value}" for name, value in SIZES.items()]
    words += [f"recipe={write_recipe(tmp_path)}", "finetune.num_epochs=1", "finetune.num_evaluations=1"]
    words += ["finetune.log_every=1", "finetune.batch_size=8"]
    words += [f"pretrain={ {**FEW_EVALUATIONS, 'num_steps': 6} }"]

    def stop(number: signal.Signals, *, stage: str) -> Outcome:
        class Impatient(ProgressDisplay):
            """Someone who has enough at the first sight of a stage."""

            def show(self, name: str, message: str, *, fraction: float | None = None) -> None:
                if name == stage:
                    signal.raise_signal(number)

        with monkeypatch.context() as patch:
            patch.setattr(command, "ProgressDisplay", Impatient)
            return run_albert(*words)

    done = stop(signal.SIGTERM, stage="training")  # of the vocabulary, before any corpus is there
    assert (done.code, done.out) == (143, "")
    assert done.err.endswith("\nerror: stopped by SIGTERM\n")
    assert sorted(path.name for path in out.iterdir()) == [".lock", "quickstart.json"]

    done = stop(signal.SIGINT, stage="finetune")
    assert (done.code, done.out) == (130, "")
    assert done.err.endswith("\nstopped by SIGINT and saved; the same command goes on\n")
    assert not (out / "report.html").exists()

    done = run_albert(*words)
    assert done.code == 0, done.err
    for part in ("corpus", "pretraining", "fine-tuning"):
        assert f"goes on with the {part} of the last time in {out}\n" in done.err
    assert done.out.endswith(f"report: {out / 'report.html'}\n")
