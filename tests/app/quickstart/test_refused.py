"""What a quickstart does not do, each in one line; and Ctrl-C, after which it goes on."""

import signal
from pathlib import Path

import pytest

from albert.app.commands import quickstart as command
from albert.app.progress import ProgressDisplay
from albert.app.quickstart.checks import check_settings
from albert.app.quickstart.settings import QuickstartSettings
from albert.errors import InputError
from tests.app.quickstart.conftest import write_recipe
from tests.conftest import RunAlbert, read_tree

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--minutes", "0"], "quickstart: minutes is 0.0: input should be greater than 0"),
        (["--minutes", "inf"], "quickstart: minutes is inf: input should be a finite number"),
        (["vocab_sise=100"], "quickstart: unknown key vocab_sise; did you mean vocab_size?"),
        (["--model", "./absent"], "'./absent' does not exist; check the path, or give a name on the hub"),
        (["--model", "tests"], "--model tests is no model to teach: tests/config.json: No such file or"),
        (["recipe=absent"], "no recipe 'absent'; there are "),
        (["pretrain.batch_sise=16"], "recipe nano: unknown key batch_sise; did you mean batch_size?"),
        (
            ["finetune.num_epoch=1"],
            "recipe narrow-classification: unknown key num_epoch; did you mean num_ep",
        ),
        (
            ["--data", "hf:wikitext"],
            "--data hf:wikitext: a quickstart reads files, no datasets; give a folder",
        ),
    ],
)
def test_a_mistake_is_told_before_anything_is_written(words, said, tmp_path, run_albert, monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    assert run_albert("quickstart", "--out", tmp_path / "out", *words).error.startswith(said)
    assert read_tree(tmp_path) == {}


def test_text_that_is_none_and_a_link_that_leads_nowhere_are_refused(
    tmp_path: Path, run_albert: RunAlbert
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "empty.txt").touch()
    (data / "binary.txt").write_bytes(bytes(range(256)) * 8)
    words = ["quickstart", "--data", data, "--out", tmp_path / "out"]
    said = f"--data {data}: there is no text in it, only empty or binary files; give others"
    assert run_albert(*words).error == said
    (data / "gone.txt").symlink_to(tmp_path / "nowhere.txt")
    error = run_albert(*words).error
    assert error == f"{data / 'gone.txt'}: is a link that leads nowhere; mend it, or remove it"
    assert not (tmp_path / "out").exists()


def test_a_folder_here_called_like_the_released_model_is_not_taken_for_it(tmp_path, monkeypatch) -> None:
    (tmp_path / "nano").mkdir()
    monkeypatch.chdir(tmp_path)
    settings = QuickstartSettings()
    found = check_settings(settings)
    assert found != Path("nano")
    with pytest.raises(InputError, match=r"--model \./nano is no model to teach: "):
        check_settings(settings.model_copy(update={"model": "./nano"}))


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path, tiny_folder, run_albert) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    before = read_tree(tmp_path)
    error = run_albert("quickstart", "--out", out, "--model", tiny_folder).error
    assert error == f"{out}: holds thesis.tex, which is no quickstart; choose another --out"
    error = run_albert("quickstart", "--out", out / "thesis.tex", "--model", tiny_folder).error
    assert (
        error == f"{out / 'thesis.tex'}: is a file, and a folder is to be written there; choose another --out"
    )
    assert read_tree(tmp_path) == before


def test_text_that_is_not_there_and_an_out_within_it_are_refused(stories, tiny_folder, tmp_path, run_albert):
    words = ["--model", tiny_folder, "--out"]
    error = run_albert("quickstart", *words, stories / "out", "--data", stories).error
    assert error == f"--out {stories / 'out'} lies in --data {stories}; choose another --out"
    error = run_albert("quickstart", *words, tmp_path / "out", "--data", tmp_path / "absent").error
    assert error.startswith(f"{tmp_path / 'absent'}: no such file or folder")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("index_dir")
def test_ctrl_c_saves_with_one_line_and_the_same_command_goes_on(
    stories: Path, tiny_folder: Path, tmp_path: Path, run_albert: RunAlbert, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Impatient(ProgressDisplay):
        """Someone who presses Ctrl-C at the first sight of a step."""

        def show(self, stage: str, message: str, *, fraction: float | None = None) -> None:
            if stage == "pretrain":
                signal.raise_signal(signal.SIGINT)

    words = ["quickstart", "--data", stories, "--out", tmp_path / "out", "--model", tiny_folder]
    steps = ["pretrain.num_steps=12", "pretrain.num_evaluations=2", "pretrain.held_out.num_examples=16"]
    sizes = ["vocab_size=128", f"recipe={write_recipe(tmp_path)}", *steps]
    with monkeypatch.context() as patch:
        patch.setattr(command, "ProgressDisplay", Impatient)
        done = run_albert(*words, *sizes)
    assert (done.code, done.out) == (130, "")
    assert done.err.endswith("\nstopped by SIGINT and saved; the same command goes on\n")
    assert "Traceback" not in done.err
    assert not (tmp_path / "out" / "report.html").exists()

    done = run_albert(*words, *sizes)
    assert done.code == 0
    assert f"goes on with the pretraining of the last time in {tmp_path / 'out'}\n" in done.err
    assert "goes on at step 2 of 12\n" in done.err
    assert done.out.endswith(f"report: {tmp_path / 'out' / 'report.html'}\n")
