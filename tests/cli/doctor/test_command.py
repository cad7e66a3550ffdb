"""`albert doctor` on the command line: table, JSON and plot."""

import json
import struct
from pathlib import Path

from albert.training.run_folder import METRICS_NAME
from tests.cli.doctor.synthetic import UNIGRAM, diagnose, plateau, spoil_tensors


def read_png_size(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    return width, height


def test_the_command_prints_a_table_or_the_same_as_data(build, run_albert):
    folder = build(words=plateau, skips=(3900,))
    done = run_albert("doctor", folder, "--json")
    assert (done.code, done.err) == (0, "")
    data = json.loads(done.out)
    assert (data["run"], data["plot"]) == (str(folder), str(folder / "doctor.png"))
    assert [found["severity"] for found in data["findings"]] == ["serious", "note"]
    assert set(data["findings"][0]) == {"kind", "severity", "title", "figures", "hint"}
    assert data["findings"][0]["figures"]["unigram_loss"] == UNIGRAM
    assert read_png_size(folder / "doctor.png")[0] > 1000

    done = run_albert("doctor", folder, "--plot", folder / "pictures" / "mine.png")
    assert (done.code, done.err) == (0, "")
    assert "stuck: the MLM loss has" in done.out
    assert "unigram loss 6" in done.out
    assert done.out.index("serious") < done.out.index("note")
    assert read_png_size(folder / "pictures" / "mine.png")[0] > 1000


def test_a_run_without_a_record_has_no_picture(build, run_albert):
    folder = build()
    (folder / METRICS_NAME).unlink()
    data = json.loads(run_albert("doctor", folder, "--json").out)
    assert data["plot"] is None
    assert not (folder / "doctor.png").exists()
    assert [found["title"] for found in data["findings"]] == ["unfinished run"]


def test_a_picture_that_cannot_be_written_does_not_keep_the_diagnosis_back(build, run_albert):
    folder = build()
    (folder / "doctor.png").mkdir()
    done = run_albert("doctor", folder, "--json")
    assert (done.code, json.loads(done.out)["plot"]) == (0, None)
    assert done.err.startswith("warning: no plot: ")
    assert "directory" in run_albert("doctor", folder, "--plot", folder / "doctor.png").error


def test_a_folder_may_be_called_anything(build, run_albert):
    folder = build()
    odd = folder.rename(folder.with_name("cost$5_$6"))
    done = run_albert("doctor", odd, "--json")
    assert (done.code, done.err) == (0, "")
    assert read_png_size(odd / "doctor.png")[0] > 1000


def test_a_folder_that_is_no_run_is_one_line(tmp_path, run_albert):
    assert "no run.json" in run_albert("doctor", tmp_path).error
    assert "no such folder" in run_albert("doctor", tmp_path / "nowhere").error
    assert "needs a run" in run_albert("doctor", "--plot", tmp_path / "a.png").error


def test_the_hints_of_a_real_run_are_commands_that_work(recipe, story_corpus, tmp_path, run_albert):
    folder = tmp_path / "out"
    words = ("pretrain", recipe, "--data", story_corpus, "--out", folder)
    assert run_albert(*words).code == 0
    data = json.loads(run_albert("doctor", folder, "--json").out)
    longer = next(each["hint"] for each in data["findings"] if "ended at the unigram loss" in each["title"])
    assert run_albert(*longer.split("`")[1].split()[1:]).code == 0
    assert (tmp_path / "out-2" / "model").is_dir()
    assert not [found for found in data["findings"] if found["kind"] == "damaged"]
    assert read_png_size(folder / "doctor.png")[0] > 1000

    spoil_tensors(folder / "checkpoints" / "step-20")
    (folder / "model" / "config.json").unlink()
    damaged = [found for found in diagnose(folder) if found.kind == "damaged"]
    assert {found.title for found in damaged} == {
        "damaged checkpoint: step-20",
        "all steps are done but the model was not written",
    }
    command = next(found.hint for found in damaged if "--resume" in found.hint).split("`")[1]
    done = run_albert(*command.split()[1:])
    assert done.code == 0, done
    assert [found for found in diagnose(folder) if found.kind == "damaged"] == []
