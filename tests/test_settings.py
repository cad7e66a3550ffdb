"""Settings are read from YAML and overrides; errors name the key and the value."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from pydantic import Field, model_validator

from albert.errors import AlbertError, SettingsError
from albert.settings import (
    Settings,
    add_seed,
    apply_overrides,
    build_settings,
    find_change,
    read_settings,
)
from tests.conftest import rejects


class Optimizer(Settings):
    name: Literal["lamb", "adamw"] = "lamb"
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)


class Stage(Settings):
    length: Annotated[int, Field(gt=0)]
    share: float = 1.0


class Training(Settings):
    steps: int = 100
    warmup_steps: int = 10
    is_resumed: bool = False
    title: str = ""
    out_dir: Path | None = None
    optimizer: Optimizer = Optimizer()
    stages: tuple[Stage, ...] = ()
    tags: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_combinations(self) -> "Training":
        if self.warmup_steps > self.steps:
            raise ValueError(f"warmup_steps {self.warmup_steps} exceeds steps {self.steps}; warm up for less")
        return self


def read(text: str, *overrides: str, path: Path) -> Training:
    path.write_text(text, encoding="utf-8")
    return read_settings(Training, path, overrides=overrides)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recipe.yaml"


def test_a_file_sets_some_keys_and_the_others_keep_their_defaults(path):
    settings = read("steps: 7\nwarmup_steps: 2\noptimizer:\n  name: adamw\n", path=path)
    assert settings == Training(steps=7, warmup_steps=2, optimizer=Optimizer(name="adamw"))
    assert read("# nothing but a comment\n", path=path) == Training()


def test_overrides_win_over_the_file_and_reach_into_sections(path):
    text = "steps: 7\nwarmup_steps: 2\noptimizer:\n  name: adamw\n  learning_rate: 0.5\n"
    settings = read(text, "steps=9", "optimizer.learning_rate=0.25", path=path)
    assert settings.steps == 9
    assert settings.optimizer == Optimizer(name="adamw", learning_rate=0.25)


@pytest.mark.parametrize("spelling", ["1e-4", "1E-4", "1.0e-4", "0.0001", "+1e-4", "1.e-4"])
def test_scientific_notation_is_a_number_everywhere(spelling, path):
    text = f"optimizer:\n  learning_rate: {spelling}\n"
    assert read(text, path=path).optimizer.learning_rate == 1e-4
    assert read("", f"optimizer.learning_rate={spelling}", path=path).optimizer.learning_rate == 1e-4


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("#2 String", "#2 String"),
        (",", ","),
        ("0", "0"),
        ("'0'", "0"),
        ('"#1"', "#1"),
        (r'"\t"', "\t"),
        ('"a" or "b"', '"a" or "b"'),
        ("null", None),
        ("", None),
        ("[a, b]", ["a", "b"]),
    ],
)
def test_values_of_a_literal_section_are_not_parsed(text, value):
    assert apply_overrides({}, [f"columns.text={text}"], literal="columns") == {"columns": {"text": value}}


def test_lists_tuples_sections_in_lists_and_paths(path):
    text = "tags: [a, b]\nout_dir: runs/one\nstages:\n- length: 128\n- {length: 512, share: 0.1}\n"
    assert read(text, "optimizer.betas=[0.8, 0.99]", path=path) == Training(
        tags=["a", "b"],
        out_dir=Path("runs/one"),
        stages=(Stage(length=128), Stage(length=512, share=0.1)),
        optimizer=Optimizer(betas=(0.8, 0.99)),
    )


@pytest.mark.parametrize(
    ("text", "override", "values"),
    [
        ("stpes: 5\n", "steps=5", ("stpes", "steps?")),
        ("optimizer: {learning_rat: 0.1}\n", "steps=50", ("optimizer.learning_rat", "learning_rate?")),
        ("stages: [{length: 8, shar: 0.1}]\n", "steps=50", ("stages.0.shar", "share?")),
        ("learning_rate: 0.1\n", "steps=50", ("learning_rate", "optimizer.learning_rate?")),
        ("length: 8\n", "steps=50", ("unknown key length", "known keys")),
        ("optimizer: {zzz: 1}\n", "steps=50", ("optimizer.zzz", "name, learning_rate, betas")),
        ("", "steps='12'", ("steps", "'12'")),
        ("", "steps=12.5", ("steps", "12.5")),
        ("", "steps=true", ("steps", "True")),
        ("", "is_resumed='true'", ("is_resumed", "'true'")),
        ("", "title=12", ("title", "12")),
        ("", "optimizer.learning_rate=fast", ("optimizer.learning_rate", "'fast'")),
        ("", "optimizer.name=sgd", ("optimizer.name", "'sgd'")),
        ("", "optimizer.betas=[0.9]", ("optimizer.betas.1",)),
        ("", "stages=[{length: -8}]", ("stages.0.length", "-8")),
        ("", "stages=[{share: 0.1}]", ("stages.0.length",)),
        ("", "steps=5", ("recipe.yaml", "warmup_steps 10", "steps 5")),
        ("", "steps", ("'steps'", "key=value")),
        ("", "=5", ("'=5'", "key=value")),
        ("", "a..b=5", ("'a..b=5'", "key=value")),
        ("steps: 5\n", "steps.warm=1", ("'steps.warm=1'",)),
        ("steps: 5\ntitle: [1, 2\n", "steps=50", ("recipe.yaml", "line 3")),
        ("steps: 5\n\ttitle: x\n", "steps=50", ("recipe.yaml", "line 2")),
        ("- a\n- b\n", "steps=50", ("recipe.yaml", "list")),
    ],
)
def test_mistakes_are_rejected_by_key_and_value(text, override, values, path):
    with rejects(SettingsError, *values):
        read(text, override, path=path)


@pytest.mark.parametrize("overrides", [{"steps": 5}, "steps=5"])
def test_overrides_must_be_a_list(overrides):
    with rejects(SettingsError, "num_epochs=3", type(overrides).__name__):
        build_settings(Training, overrides=overrides)


def test_a_missing_file_is_rejected(path):
    with rejects(AlbertError, path):
        read_settings(Training, path)


# Texts that YAML may read as something else.
TRICKY = st.from_regex(r"[-+]?[0-9_.]{1,4}([eE:-][-+]?[0-9]{1,3})?", fullmatch=True) | st.sampled_from(
    ["no", "null", "~", "true", ".inf", ".nan", "0x1f", "1:30", "2020-01-01", "=", "<<", "", " ", "#"]
)
TEXTS = st.text() | TRICKY


@effort(max_examples=200, deadline=None)
@given(
    title=TEXTS,
    tags=st.lists(TEXTS, max_size=3),
    learning_rate=st.floats(allow_nan=False),
    steps=st.integers(min_value=10),
    is_resumed=st.booleans(),
)
def test_settings_written_and_read_again_are_equal(
    tmp_path_factory, title, tags, learning_rate, steps, is_resumed
):
    settings = Training(
        title=title,
        tags=tags,
        steps=steps,
        is_resumed=is_resumed,
        optimizer=Optimizer(learning_rate=learning_rate),
        stages=(Stage(length=3),),
        out_dir=Path("somewhere"),
    )
    path = tmp_path_factory.getbasetemp() / "settings.yaml"
    path.write_text(settings.to_yaml(), encoding="utf-8")
    assert read_settings(Training, path) == settings


def test_a_change_is_described_by_its_key_and_both_values():
    before = {"steps": 3, "optimizer": {"name": "lamb", "rate": 1}}
    assert find_change(before, before) is None
    found = find_change(before, {**before, "optimizer": {"name": "lamb", "rate": 2}})
    assert (found.key, str(found)) == ("optimizer.rate", "optimizer.rate is 2 and was 1")
    assert find_change(3, 4, key="steps").key == "steps"
    assert find_change({}, {"depth": None}).key == find_change({"depth": None}, {}).key == "depth"


def test_a_seed_is_added_as_an_override_and_not_twice():
    assert add_seed(["steps=5"], 3) == ["steps=5", "seed=3"]
    assert add_seed(["seed=5"], None) == ["seed=5"]
    assert add_seed(["seed=5"], 3, key="first_seed") == ["seed=5", "first_seed=3"]
    with rejects(SettingsError, "seed=5", "--seed"):
        add_seed(["seed=5"], 5)


class Renamed(Settings):
    former_names: ClassVar[Mapping[str, str]] = {"num_pieces": "num_tokens"}
    num_tokens: int
    parts: tuple["Renamed", ...] = ()


def test_former_names_of_keys_are_read_at_every_depth():
    values = {"num_pieces": 3, "parts": [{"num_pieces": 1}, {"num_tokens": 2}]}
    built = build_settings(Renamed, values=values)
    assert built == Renamed(num_tokens=3, parts=(Renamed(num_tokens=1), Renamed(num_tokens=2)))
    assert build_settings(Renamed, overrides=["num_pieces=4"]).num_tokens == 4
    with rejects(SettingsError, "num_tokens"):
        build_settings(Renamed, values={"num_tokens": 1}, overrides=["num_pieces=4"])
