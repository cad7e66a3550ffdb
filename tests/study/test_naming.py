"""Short names of models: what their paths do not share."""

from albert.study.asking import name_models


def test_what_lies_above_and_below_all_models_is_left_out():
    assert name_models(["runs/a/model", "runs/b/model"]) == ["a", "b"]
    assert name_models(["x/best", "y/best"]) == ["x", "y"]
    arms = [f"out/overall/arms/{arm}/seed-0/pretrain/model" for arm in ("all", "none")]
    assert name_models(arms) == ["all", "none"]


def test_models_of_different_places_are_called_by_their_last_words():
    assert name_models(["runs/a/model", "albert/albert-base-v2"]) == ["a", "albert-base-v2"]
    assert name_models(["x/1/a", "y/1/a", "y/1/b"]) == ["x/1/a", "y/1/a", "y/1/b"]


def test_a_model_by_itself_is_called_by_its_last_word():
    assert name_models(["albert/albert-base-v2"]) == ["albert-base-v2"]
    assert name_models(["/data/runs/a/model"]) == ["a"]
    assert name_models(["model"]) == ["model"]


def test_names_differ_where_paths_do():
    assert name_models(["runs/a", "runs/a/model"]) == ["runs/a", "runs/a/model"]
    assert name_models(["a", "b/a"]) == ["a", "b/a"]
    assert name_models([]) == []
