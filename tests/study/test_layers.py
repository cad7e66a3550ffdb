"""The layers study: distances and shapes of curves by hand, outcomes, and whole studies."""

import shutil

import numpy as np
import pytest
import torch
from torch import nn

from albert.errors import AlbertError
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.model.tokens import Tokens
from albert.pretrained.folder import load_model, load_vocabulary, save_model
from albert.progress import NullReporter
from albert.report.write import write_page
from albert.study.layers import (
    TITLES,
    LayersSettings,
    ModelCurves,
    build_curve,
    compare_states,
    compare_thirds,
    find_roughness,
    has_oscillation,
    list_findings,
    name_trend,
    run_layers,
    split_lines,
    sum_distances,
)
from albert.text.tokenizer import InputSequence
from tests.study.conftest import find_findings

LAYERS = np.arange(24)
SMOOTH, ROUGH = 4 + np.sin(LAYERS / 4), 4 + (-1.0) ** LAYERS
FALLING, GROWING = 4 * 0.9**LAYERS, 1.1**LAYERS
CONFIG = ModelConfig(
    vocab_size=20, embedding_size=6, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=16, max_position_embeddings=16, initializer_range=0.5,
)  # fmt: skip
SEQUENCES = [
    InputSequence(ids=ids, segments=(0,) * len(ids), spans=((0, 0),) * len(ids))
    for ids in ((2, 7, 8, 9, 3), (2, 11, 3), (2, 5, 6, 13, 14, 15, 3))
]


@pytest.mark.parametrize(
    ("before", "after", "l2", "cosine", "angle"),
    [([1.0, 2.0], [-2.0, -4.0], 45**0.5, -1.0, 180.0), ([1.0, 0.0], [1.0, 3**0.5], 3**0.5, 0.5, 60.0)],
)
def test_by_hand(before, after, l2, cosine, angle):
    found = compare_states(torch.tensor([before]), torch.tensor([after]))
    assert [float(found[name]) for name in ("l2", "cosine", "angle")] == pytest.approx(
        [l2, cosine, angle], abs=1e-5
    )


def build_bare_model():
    """Blocks that add nothing: a layer is its norms alone."""
    model = build_model(CONFIG, heads={})
    for blocks in (model.encoder.attention, model.encoder.ffn):
        for module in blocks.modules():
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.weight)
                nn.init.zeros_(module.bias)
    return model


def normalize(rows):
    centred = rows - rows.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True))


def test_a_layer_that_only_normalizes_has_its_equilibrium_after_one_step():
    model = build_bare_model()
    found = sum_distances(model, SEQUENCES, depth=9)
    tokens = Tokens.from_lists([sequence.ids for sequence in SEQUENCES])
    with torch.no_grad():  # what the first layer reads: three tables, a norm, and the map from E to H
        embedded = model.encoder.embeddings(tokens.ids_T, tokens.segments_T, tokens.positions_T).numpy()
    assert embedded.shape == (15, 8)
    moved = np.linalg.norm(normalize(embedded) - embedded, axis=-1)
    expected = [part.sum() for part in np.split(moved, np.cumsum(tokens.lengths)[:-1])]
    assert found["l2"][:, 0] == pytest.approx(expected, rel=1e-4)
    assert found["l2"][:, 1:] == pytest.approx(0.0, abs=1e-4)
    counts = np.array(tokens.lengths, np.float64)
    assert build_curve(found["l2"], counts).trend == "converges"


def test_a_mean_is_over_tokens_and_its_interval_over_sequences():
    # Ten tokens at distance 1 and thirty at 3: the mean is 2.5, and with either sequence alone 1 or 3.
    curve = build_curve(np.array([[10.0], [90.0]]), np.array([10.0, 30.0]))
    assert curve.means == (2.5,)
    assert (curve.lows, curve.highs) == ((1.0,), (3.0,))
    assert (curve.roughness, curve.change, curve.trend) == (None, None, "too few layers")
    alike = build_curve(np.full((5, 6), 4.0), np.full(5, 2.0))
    assert alike.lows == alike.means == alike.highs == (2.0,) * 6


def trend_of(heights):
    change = compare_thirds(np.asarray(heights, np.float64))
    return name_trend(None if change is None else float(change))


@pytest.mark.parametrize(
    ("heights", "trend"),
    [
        (5 * 0.9**LAYERS, "converges"),
        (np.where(LAYERS < 4, 8.0, 0.0), "converges"),  # nothing is left: the ratio of two zeros says nothing
        (10 * 0.5**LAYERS + 2 + 0.3 * np.sin(2 * LAYERS), "stays level"),  # falls at first, and not to 0
        (1.1**LAYERS, "grows"),
        ([4.0, 3.0, 2.0, 1.0, 0.5], "too few layers"),
    ],
)
def test_where_a_curve_goes(heights, trend):
    assert trend_of(heights) == trend
    assert trend_of(1000 * np.asarray(heights)) == trend  # whatever the scale


@pytest.mark.parametrize(
    ("heights", "expected"),
    [
        (3 + np.sin(LAYERS), True),
        (0.93**LAYERS, False),
        (2 + 0.001 * np.sin(LAYERS), False),  # next to nothing
        ([9.0, 1.0, 5.0, 5.0, 6.0, 6.0], False),  # what the first third does is not asked
    ],
)
def test_a_turn_is_a_rise_and_a_fall(heights, expected):
    assert has_oscillation(np.asarray(heights, np.float64)) == expected
    assert has_oscillation(1000 * np.asarray(heights, np.float64)) == expected


def test_roughness_by_hand():
    assert find_roughness(2 + 3.0 * LAYERS) == pytest.approx(0.0)  # a straight line, however steep
    zigzag = np.array([1.0, 2.0, 1.0, 2.0])
    assert find_roughness(zigzag) == pytest.approx(2.0 / 1.5)
    assert find_roughness(50 * zigzag) == pytest.approx(2.0 / 1.5)
    assert find_roughness(zigzag[:2]) is None


def model(heights, *, sharing="all", jump=0.0):
    """A model that moves every token of five sequences alike; `jump` is what its first layer adds."""
    heights = np.asarray(heights, np.float64) + jump * (np.arange(len(heights)) == 0)
    curve = build_curve(np.tile(heights, (5, 1)), np.ones(5))
    return ModelCurves(sharing, len(heights), 64, 5, 5, 0.0, dict.fromkeys(TITLES, curve))


@pytest.mark.parametrize(
    ("albert", "bert", "outcome"),
    [
        (model(SMOOTH), model(ROUGH, sharing="none"), "agrees"),
        (model(ROUGH), model(SMOOTH, sharing="none"), "disagrees"),
        (model(SMOOTH), model(SMOOTH, sharing="none"), "inconclusive"),
        # Smoother from its second layer on, and rougher with its first: it depends on what one looks at.
        (model(SMOOTH, jump=50.0), model(4 + 0.2 * (-1.0) ** LAYERS, sharing="none"), "inconclusive"),
        (model(SMOOTH), model(ROUGH[:12], sharing="none"), "inconclusive"),
    ],
)
def test_smoother(albert, bert, outcome):
    smoother, _ = list_findings({"albert": albert, "bert": bert})
    assert smoother.outcome == outcome


@pytest.mark.parametrize(
    ("heights", "outcome"),
    [
        (SMOOTH, "agrees"),
        (4 * 0.93 ** LAYERS[:12], "inconclusive"),  # it stays level by its thirds, and falls all the time
        (FALLING, "disagrees"),
        (GROWING, "disagrees"),
        (SMOOTH[:4], "inconclusive"),
    ],
)
def test_oscillates(heights, outcome):
    (smoother, oscillates) = list_findings({"albert": model(heights)})
    assert (smoother.outcome, oscillates.outcome) == ("not tested", outcome)


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
    assert smoother.outcome in ("agrees", "disagrees", "inconclusive")
    assert oscillates.outcome == "inconclusive"  # of three layers
    write_page(tmp_path / "page", page)


def test_layers_of_their_own_run_no_more_often_than_they_are(run, tiny_folder, bert_folder):
    page = run(tiny_folder, bert_folder, depth=7)
    drawn = {series.name: len(series.xs) for series in page.charts[0].series}
    assert drawn == {"tiny (trained with 3)": 7, "bert": 3}
    smoother = find_findings(page)[0]
    assert smoother.outcome == "inconclusive"
    assert "tiny 7, bert 3" in smoother.ours


def test_a_text_of_ones_own(run, tiny_folder, bert_folder, tmp_path):
    (tmp_path / "ours.txt").write_text("the dog was big .\n\nthe sea is cold .\n")
    (tmp_path / "theirs.txt").write_text("one\ntwo\nthree\n")
    texts = {str(bert_folder): tmp_path / "theirs.txt"}
    page = run(tiny_folder, bert_folder, text=tmp_path / "ours.txt", texts=texts)
    sizes = [[cell.value for cell in row[-2:]] for row in page.tables[0].rows]
    assert sizes == [[2, 14], [3, 9]]  # sequences, and tokens with [CLS] and [SEP]


def test_a_long_line_becomes_several_sequences(tiny_folder):
    tokenizer = load_vocabulary(tiny_folder)
    lines = ["the dog " * 10, "the sea", "the hill"]
    sequences = split_lines(lines, tokenizer, max_length=10, num_sequences=4)
    assert [len(sequence.ids) for sequence in sequences] == [10, 10, 6, 4]
    tokens = [token for sequence in sequences[:3] for token in sequence.ids[1:-1]]
    assert tokens == list(tokenizer.encode(lines[0]).ids)  # nothing is lost


def test_mistakes_are_rejected(run, tiny_folder, tmp_path):
    empty, single = tmp_path / "empty.txt", tmp_path / "single.txt"
    empty.write_text("\n \n")
    single.write_text("the dog\n")
    shutil.copytree(tiny_folder, tmp_path / "bare")
    for name in ("vocab.txt", "tokenizer.json"):
        (tmp_path / "bare" / name).unlink(missing_ok=True)
    for said, models, settings in (
        ("'other'", [tiny_folder], {"texts": {"other": single}}),
        ("empty.txt", [tiny_folder], {"text": empty}),
        ("1 sequence", [tiny_folder], {"text": single}),
        ("nowhere.txt", [tiny_folder], {"text": tmp_path / "nowhere.txt"}),
        ("nowhere", [tmp_path / "nowhere"], {}),
        ("bare", [tmp_path / "bare"], {}),
    ):
        with pytest.raises(AlbertError, match=said):
            run(*models, **settings)
