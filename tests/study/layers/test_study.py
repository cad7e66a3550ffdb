"""`run_layers` on whole folders: what it reads, what it keeps, what it says and what it refuses."""

import json
import shutil

import pytest

from albert.errors import AlbertError, InputError
from albert.model.albert_model import build_model
from albert.pretrained.folder import load_model, load_vocabulary, save_model
from albert.progress import NullReporter
from albert.report.write import write_page
from albert.settings import build_settings
from albert.study.layers import study as layers
from albert.study.layers.study import LayersSettings, read_sequences, run_layers
from albert.training.settings import RecipeFolder


@pytest.fixture(scope="module")
def bert_folder(tiny_folder, tmp_path_factory):
    """The tiny folder's shape as a BERT: nothing shared, E = H."""
    config = load_model(tiny_folder, heads={}).config
    changes = {"sharing": "none", "embedding_size": config.hidden_size, "hidden_act": "gelu"}
    model = build_model(config.model_copy(update=changes), heads={"mlm": None}, seed=3)
    folder = tmp_path_factory.mktemp("bert") / "bert"
    save_model(folder, model, tokenizer=load_vocabulary(tiny_folder))
    return folder


@pytest.fixture
def run(tmp_path):
    def run(*models, out=tmp_path / "out", **settings):
        models = [str(model) for model in models]
        return run_layers(LayersSettings(**settings), models=models, out=out, reporter=NullReporter())

    return run


@pytest.fixture
def measured(monkeypatch):
    """The models that are really measured."""
    sources = []
    real = layers.measure_model

    def measure(source, **others):
        sources.append(source)
        return real(source, **others)

    monkeypatch.setattr(layers, "measure_model", measure)
    return sources


def find_findings(page):
    return [finding for section in page.sections for finding in section.findings]


def test_both_families_beside_each_other(run, tiny_folder, bert_folder, tmp_path):
    page = run(tiny_folder, bert_folder)
    models, by_layer = page.tables
    assert [[cell.text for cell in row[:5]] for row in models.rows] == [
        ["tiny", "all", "3", "3", "32"],
        ["bert", "none", "3", "3", "32"],
    ]
    assert [row[1].value for row in by_layer.rows] == [1, 2, 3, 1, 2, 3]
    assert [chart.name for chart in page.charts] == ["layers-l2", "layers-cosine", "layers-angle"]
    for chart in page.charts:
        assert [series.name for series in chart.series] == ["tiny", "bert"]
        for series in chart.series:
            assert list(series.xs) == [1, 2, 3]
            ends = zip(series.lows, series.ys, series.highs, strict=True)
            assert all(low <= y <= high for low, y, high in ends)
    smoother, oscillates = find_findings(page)
    assert "tiny against bert, 3 layers, roughness: L2 distance" in smoother.ours
    assert oscillates.verdict == "cannot tell"  # of three layers
    write_page(tmp_path / "page", page)


def test_without_a_bert_nothing_is_compared(run, tiny_folder):
    smoother, oscillates = find_findings(run(tiny_folder, depth=12))
    assert (smoother.verdict, smoother.ours) == ("not asked", "No BERT was given to compare with.")
    assert "12 layers (3 of its own)" in oscillates.ours
    # Random weights, of seeds: the one block rises and falls, between 0.71 and 0.80 of its middle third.
    assert oscillates.ours.count("keeps a level with a turn") == 2
    assert oscillates.verdict == "agrees"


def test_layers_of_their_own_run_no_more_often_than_they_are(run, tiny_folder, bert_folder):
    page = run(tiny_folder, bert_folder, depth=7)
    drawn = {series.name: len(series.xs) for series in page.charts[0].series}
    assert drawn == {"tiny (trained with 3)": 7, "bert": 3}
    smoother = find_findings(page)[0]
    assert smoother.verdict == "cannot tell"
    assert "tiny 7, bert 3" in smoother.ours


def test_what_is_measured_is_kept(run, tiny_folder, bert_folder, tiny_copy, measured, tmp_path):
    first = run(tiny_folder)
    kept = json.loads((tmp_path / "out" / "results.json").read_text())
    assert run(tiny_folder) == first
    run(tiny_folder, bert_folder)  # another model may join
    assert measured == [str(tiny_folder), str(bert_folder)]
    now = json.loads((tmp_path / "out" / "results.json").read_text())
    assert now["parts"].items() >= kept["parts"].items()
    run(tiny_copy)
    config = tiny_copy / "config.json"
    config.write_text(config.read_text() + "\n")  # written again: not the model that was measured
    run(tiny_copy)
    assert measured[2:] == [str(tiny_copy), str(tiny_copy)]
    with pytest.raises(InputError, match=r"max_length is 16 and was 128; .* Choose another --out$"):
        run(tiny_folder, max_length=16)


def test_what_an_earlier_version_called_its_course_is_named_anew(run, tiny_folder, measured, tmp_path):
    page, path = run(tiny_folder, depth=12), tmp_path / "out" / "results.json"
    kept = json.loads(path.read_text())
    for part in kept["parts"].values():
        for curve in part["found"]["curves"].values():
            curve["course"] = "oscillates"
    path.write_text(json.dumps(kept))
    assert run(tiny_folder, depth=12) == page
    assert len(measured) == 1


def test_a_text_of_ones_own(run, tiny_folder, bert_folder, tmp_path):
    (tmp_path / "ours.txt").write_text("the dog was big .\n\nthe sea is cold .\n")
    (tmp_path / "theirs.txt").write_text("one\ntwo\nthree\n")
    texts = {str(bert_folder): tmp_path / "theirs.txt"}
    page = run(tiny_folder, bert_folder, text=tmp_path / "ours.txt", texts=texts)
    sizes = [[cell.value for cell in row[-2:]] for row in page.tables[0].rows]
    assert sizes == [[2, 14], [3, 9]]  # sequences, and pieces with [CLS] and [SEP]


def test_words_that_the_vocabulary_does_not_know_are_told(run, tiny_folder):
    cautions = run(tiny_folder).sections[0].paragraphs  # English of which it knows sixty words
    assert any("texts={MODEL: FILE}" in caution for caution in cautions)


def test_a_long_line_becomes_several_sequences(tiny_folder):
    tokenizer = load_vocabulary(tiny_folder)
    lines = ["the dog " * 10, "the sea", "the hill"]
    reading = read_sequences(lines, tokenizer, max_length=10, num_sequences=4)
    assert [len(sequence.ids) for sequence in reading.sequences] == [10, 10, 6, 4]
    pieces = [piece for sequence in reading.sequences[:3] for piece in sequence.ids[1:-1]]
    assert pieces == list(tokenizer.encode(lines[0]).ids)  # nothing is lost
    assert (reading.num_pieces, reading.num_unknown) == (30, 0)


def test_the_recipe_is_the_default():
    values, source = RecipeFolder("study").read_values("layers")
    assert build_settings(LayersSettings, values=values, source=source) == LayersSettings()


def test_mistakes_are_told_in_a_line(run, tiny_folder, tmp_path):
    empty, single = tmp_path / "empty.txt", tmp_path / "single.txt"
    empty.write_text("\n \n")
    single.write_text("the dog\n")
    shutil.copytree(tiny_folder, tmp_path / "bare")
    for name in ("vocab.txt", "tokenizer.json"):
        (tmp_path / "bare" / name).unlink(missing_ok=True)
    for said, models, settings in (
        ("no model is given", [], {}),
        ("is given more than once", [tiny_folder, tiny_folder], {}),
        ("'other', which is none of the models", [tiny_folder], {"texts": {"other": single}}),
        ("has no line of text", [tiny_folder], {"text": empty}),
        ("an interval needs at least 2", [tiny_folder], {"text": single}),
        ("check the path", [tiny_folder], {"text": tmp_path / "nowhere.txt"}),
        ("does not exist", [tmp_path / "nowhere"], {}),
        ("has no vocabulary", [tmp_path / "bare"], {}),
    ):
        with pytest.raises(AlbertError, match=said) as caught:
            run(*models, **settings)
        assert "\n" not in str(caught.value)
