"""The whole study on tiny models: what it writes, what it finds again, and what it refuses."""

import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from albert.errors import AlbertError, InputError, WriteError
from albert.model.albert_model import build_model
from albert.pretrained.folder import save_model
from albert.report.content import Page
from albert.reporting import Silence
from albert.study.agreement import scoring, study
from albert.study.agreement.answered import collect
from albert.study.agreement.claim import judge_sharing
from albert.study.agreement.pairs import generate_pairs
from albert.study.agreement.results import ModelAnswers
from albert.study.agreement.settings import AgreementSettings
from albert.study.agreement.study import run_agreement
from albert.study.results import StudyResults, open_results
from tests.study.agreement.conftest import SMALL, build_tiny


class Notes(Silence):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def run(out: Path, *models: Path, settings: AgreementSettings = SMALL, notes: Notes | None = None) -> Page:
    return run_agreement(
        settings, models=[str(model) for model in models], out=out, reporter=notes or Notes()
    )


def read_models(out: Path) -> list[Any]:
    """What was kept of each model, in the order in which they were asked."""
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    return [part["found"] for part in results["parts"].values()]


@pytest.fixture
def counted(monkeypatch) -> list[int]:
    """A number for each model that is really asked."""
    asked: list[int] = []
    real = scoring.find_margins

    def count(*args, **options):
        asked.append(len(asked))
        return real(*args, **options)

    monkeypatch.setattr(study, "find_margins", count)
    return asked


def test_one_page_and_the_files_beside_it(make_folder, tmp_path):
    out = tmp_path / "out"
    page = run(out, make_folder("shared"), make_folder("own", sharing="none"))
    assert sorted(path.name for path in out.iterdir()) == [".results.lock", "pairs.jsonl", "results.json"]
    assert len((out / "pairs.jsonl").read_text(encoding="utf-8").splitlines()) == 320
    assert [model["sharing"] for model in read_models(out)] == ["all", "none"]
    assert all(len(model["margins"]) == 320 for model in read_models(out))
    tables = {table.name: table for table in page.tables}
    assert [column.name for column in tables["agreement"].columns] == ["phenomenon", "shared", "own"]
    assert len(tables["agreement"].rows) == 21
    assert len(tables["examples"].rows) == 60
    assert set(tables) == {
        "agreement", "attractors", "distance", "comparison", "worst-1", "worst-2", "examples",
    }  # fmt: skip
    [row] = tables["comparison"].rows
    assert row[0].text == "own"
    [chart] = [chart for chart in page.charts if chart.name == "agreement"]
    assert (chart.kind, chart.levels[0].height, len(chart.x_names)) == ("points", 50.0, 20)
    assert all(len(table.rows) == 10 for name, table in tables.items() if name.startswith("worst"))
    margins = [row[2].value for row in tables["worst-1"].rows]
    assert margins == sorted(margins, reverse=True)


PAIRS = generate_pairs(SMALL)


def answer_all(name: str, *, is_right: bool, **changes: Any) -> ModelAnswers:
    """A model that is right in all pairs, or in none."""
    values: dict[str, Any] = {
        "source": name,
        "identity": name,
        "sharing": "all",
        "num_hidden_layers": 2,
        "hidden_size": 16,
        "embedding_size": 16,
        "intermediate_size": 32,
        "num_attention_heads": 2,
        "hidden_act": "gelu_new",
        "heads": ("mlm",),
        "num_parameters": 1,
        "vocabulary": "words",
        "seconds": 1.0,
        "margins": (1.0 if is_right else -1.0,) * len(PAIRS),
        **changes,
    }
    return ModelAnswers(**values)


def find_verdict(page: Page) -> str:
    [finding] = [finding for section in page.sections for finding in section.findings]
    return finding.verdict


def test_the_claim_needs_both_kinds_and_equal_shapes(make_folder, tmp_path):
    shared, own = make_folder("shared"), make_folder("own", sharing="none")
    wide = make_folder("wide", sharing="none", hidden_size=32)
    assert find_verdict(run(tmp_path / "a", shared)) == "not asked"
    assert find_verdict(run(tmp_path / "b", shared, wide)) == "cannot tell"
    [finding] = run(tmp_path / "c", shared, own).sections[0].findings
    assert "shared (all shared)" in finding.ours
    assert "give at least two of either kind" in finding.ours
    assert finding.verdict == "cannot tell"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"embedding_size": 8}, "differ in embedding size as well"),
        ({"hidden_act": "gelu"}, "differ in activation as well"),
        (
            {"num_attention_heads": 4, "intermediate_size": 16},
            "differ in inner width, attention heads as well",
        ),
        ({"heads": ("mlm", "sop")}, "differ in objectives as well"),
    ],
)
def test_what_differs_in_more_than_sharing_says_nothing_of_it(changes, said):
    ahead = [answer_all(f"shared-{seed}", is_right=True) for seed in range(2)]
    behind = [answer_all(f"own-{seed}", is_right=False, sharing="none", **changes) for seed in range(2)]
    finding = judge_sharing(collect([*ahead, *behind], PAIRS), PAIRS, seed=0)
    assert finding.verdict == "cannot tell"
    assert said in finding.ours


def test_a_verdict_needs_two_models_on_either_side():
    ahead = [answer_all(f"shared-{seed}", is_right=True) for seed in range(2)]
    behind = [answer_all(f"own-{seed}", is_right=False, sharing="none") for seed in range(2)]

    def judge(*models):
        return judge_sharing(collect(models, PAIRS), PAIRS, seed=0).verdict

    assert judge(*ahead, *behind) == "agrees"
    swapped = {"all": "none", "none": "all"}
    turned = [replace(each, sharing=swapped[each.sharing]) for each in (*ahead, *behind)]
    assert judge(*turned) == "disagrees"
    assert judge(ahead[0], *behind) == judge(*ahead, behind[0]) == "cannot tell"
    copy = replace(ahead[0], source="elsewhere")
    assert judge(ahead[0], copy, *behind) == "cannot tell"


def test_the_same_weights_at_another_depth_are_another_model(make_folder, tmp_path, counted):
    out = tmp_path / "out"
    page = run(out, make_folder("two"), make_folder("three", num_hidden_layers=3))
    assert counted == [0, 1]
    assert {table.name for table in page.tables} >= {"comparison"}
    assert [model["num_hidden_layers"] for model in read_models(out)] == [2, 3]


def test_who_was_asked_is_not_asked_again(make_folder, tmp_path, counted):
    out, first, second = tmp_path / "out", make_folder("a"), make_folder("b", seed=5)
    run(out, first)
    before = read_models(out)[0]
    notes = Notes()
    page = run(out, first, second, notes=notes)
    assert counted == [0, 1]
    assert notes.said == [f"{first}: was asked before"]
    assert read_models(out)[0] == before
    assert run(out, first, second) == page
    assert counted == [0, 1]


def test_other_weights_at_the_same_place_are_asked(make_folder, tmp_path, counted):
    out = tmp_path / "out"
    run(out, make_folder("a"))
    run(out, make_folder("a", seed=5))
    assert counted == [0, 1]


def test_after_a_kill_the_finished_are_found_again(make_folder, tmp_path, monkeypatch):
    out, first, second = tmp_path / "out", make_folder("a"), make_folder("b", seed=5)
    real, asked = scoring.find_margins, []

    def stop(*args, **options):
        asked.append(len(asked))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(study, "find_margins", stop)
    with pytest.raises(KeyboardInterrupt):
        run(out, first, second)
    assert len(read_models(out)) == 1
    run(out, first, second)
    assert len(asked) == 3
    assert len(read_models(out)) == 2


def test_other_settings_are_refused(make_folder, tmp_path):
    out, model = tmp_path / "out", make_folder("a")
    run(out, model)
    with pytest.raises(InputError) as caught:
        run(out, model, settings=AgreementSettings(num_pairs=8))
    told = "num_pairs is 8 and was 16; results go on as they began. Choose another --out"
    assert str(caught.value) == f"{out / 'results.json'}: {told}"


def test_pairs_of_another_grammar_are_asked_anew(make_folder, tmp_path, counted, monkeypatch):
    out, model = tmp_path / "out", make_folder("a")
    run(out, model)
    monkeypatch.setattr(study, "generate_pairs", lambda settings: generate_pairs(settings)[:-16])
    run(out, model)
    assert counted == [0, 1]
    assert len((out / "pairs.jsonl").read_text(encoding="utf-8").splitlines()) == 304
    assert [len(kept["margins"]) for kept in read_models(out)] == [304]


def test_one_process_at_a_time_asks_in_a_folder(make_folder, tmp_path):
    out, model = tmp_path / "out", make_folder("a")
    run(out, model)
    busy = pytest.raises(InputError, match="another process is measuring there")
    with open_results(out, study="agreement", settings=SMALL), busy:
        run(out, model)


def test_a_folder_of_before_there_were_parts_is_refused_in_a_line(make_folder, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "results.json").write_text('{"settings": {}, "pairs": "", "models": [], "refused": []}')
    with pytest.raises(AlbertError, match="holds no results of a study; choose another --out"):
        run(out, make_folder("a"))


def test_a_folder_of_something_else_is_refused(make_folder, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "diary.txt").write_text("dear diary")
    with pytest.raises(InputError, match="holds diary.txt"):
        run(out, make_folder("a"))


def test_who_cannot_be_asked_is_told_and_the_rest_go_on(make_folder, tiny_folder, words_tokenizer, tmp_path):
    headless = tmp_path / "headless"
    config = build_tiny(words_tokenizer).config
    save_model(headless, build_model(config, heads={"sop": None}), tokenizer=words_tokenizer)
    notes, good = Notes(), make_folder("a")
    page = run(tmp_path / "out", headless, tiny_folder, tmp_path / "nowhere", good, notes=notes)
    assert len(notes.said) == 3
    assert notes.said[0] == (
        f"left out: {headless}: has no MLM head to ask; give a folder as pretraining leaves it"
    )
    assert notes.said[1].startswith(f"left out: {tiny_folder}: of 320 pairs the vocabulary cuts")
    assert str(tmp_path / "nowhere") in notes.said[2]
    assert not any("\n" in line for line in notes.said)
    assert [each["source"] for each in read_models(tmp_path / "out")] == [str(good)]
    assert len(page.sections[1].paragraphs) == 5


def test_answers_that_cannot_be_kept_end_the_study(make_folder, tmp_path, monkeypatch):
    """A full disk says nothing of the model that was asked."""

    def refuse(_: StudyResults) -> None:
        raise WriteError(errno.ENOSPC, "No space left on device", "results.json")

    folder = make_folder("all")
    monkeypatch.setattr(StudyResults, "write", refuse)
    with pytest.raises(WriteError, match="No space left on device"):
        run(tmp_path / "out", folder)


def test_without_anybody_to_ask_there_is_no_page(tiny_folder, tmp_path):
    with pytest.raises(InputError, match=r"^none of 1 models can be asked; .*of 320 pairs"):
        run(tmp_path / "out", tiny_folder)
    with pytest.raises(InputError, match="no model to ask"):
        run(tmp_path / "other")
