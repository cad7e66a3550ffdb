"""The commands at the end of the report can be typed as they stand, wherever everything lies."""

import shlex
import sys
from pathlib import Path

import pytest

from albert.app.quickstart.go_on import find_own_name, format_commands
from albert.app.quickstart.questions import MaskQuestion
from albert.app.quickstart.result import QuickstartResult
from albert.pretrained.hub import find_released
from tests.app.quickstart.made_up import make_result, make_reviews, make_run
from tests.guides.typed_commands import check_typed, iter_typed


def list_typed(result: QuickstartResult) -> list[list[str]]:
    return list(iter_typed(format_commands(result).replace(find_own_name(), "albert")))


def test_paths_with_spaces_and_texts_with_quotes_stay_whole() -> None:
    run = make_run(run_dir=Path("my out/pretrain"))
    masks = [MaskQuestion("he said 'the [MASK]'; $HOME", "word")]
    typed = list_typed(make_result(out=Path("my out"), pretraining=run, masks=masks))
    for words in typed:
        check_typed(words)
    assert typed[0] == ["fill-mask", "--model", "my out/pretrain", "he said 'the [MASK]'; $HOME"]
    assert typed[2][typed[2].index("--data") + 1] == "my out/corpus"


def test_a_text_that_begins_with_a_dash_is_no_option() -> None:
    (words, *_) = list_typed(make_result(masks=[MaskQuestion("--top [MASK] rain", "more")]))
    check_typed(words)
    assert words[-2:] == ["--", "--top [MASK] rain"]


def test_the_same_with_an_hour_takes_the_settings_of_the_run() -> None:
    words = list_typed(make_result())[2]
    assert words[:2] == ["pretrain", "out/pretrain/settings.yaml"]
    assert words[-2:] == ["--budget", "1h"]


def test_without_a_question_there_is_a_sentence_to_ask_about() -> None:
    assert list_typed(make_result(masks=[]))[0][-1] == "the [MASK] was dark"


def test_a_folder_here_with_the_name_of_the_released_model_is_not_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = make_result(reviews=make_reviews(0.5, 1.0, 1.5))
    words = list_typed(result)[-1]
    assert words[words.index("--model") + 1] == "nano"
    (tmp_path / "nano").mkdir()
    words = list_typed(result)[-1]
    assert Path(words[words.index("--model") + 1]) == find_released("nano")


def test_a_command_beside_us_is_no_bare_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "albert").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["albert"])
    assert find_own_name() == "./albert"


def test_an_installed_command_is_named_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "my env" / "bin" / "albert"
    script.parent.mkdir(parents=True)
    script.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert shlex.split(find_own_name()) == ["my env/bin/albert"]


@pytest.mark.parametrize(
    ("on_path", "name"), [(True, "python"), (False, "my env/bin/python")], ids=["active", "not active"]
)
def test_a_module_is_run_by_the_same_python(
    on_path: bool, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "my env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["src/albert/__main__.py"])
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", str(python.parent if on_path else tmp_path))
    assert shlex.split(find_own_name()) == [name, "-m", "albert"]
