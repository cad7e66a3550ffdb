"""Settings: what a YAML file and overrides say comes out, and everything else is refused by its key."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from pydantic import Field, ValidationError, model_validator

from albert.errors import AlbertError, SettingsError
from albert.settings import (
    Settings,
    add_seed,
    apply_overrides,
    build_settings,
    find_change,
    read_settings,
)


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


def refuse(text: str, *overrides: str, path: Path) -> str:
    """The one line with which these settings are refused."""
    with pytest.raises(SettingsError) as caught:
        read(text, *overrides, path=path)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_file_sets_what_it_names_and_leaves_the_rest(path):
    settings = read("steps: 7\nwarmup_steps: 2\noptimizer:\n  name: adamw\n", path=path)
    assert settings == Training(steps=7, warmup_steps=2, optimizer=Optimizer(name="adamw"))
    assert settings.optimizer.learning_rate == 1e-3


def test_an_empty_file_is_all_defaults(path):
    assert read("", path=path) == Training()
    assert read("# nothing but a comment\n", path=path) == Training()


def test_overrides_win_over_the_file_and_reach_into_sections(path):
    text = "steps: 7\nwarmup_steps: 2\noptimizer:\n  name: adamw\n  learning_rate: 0.5\n"
    settings = read(text, "steps=9", "optimizer.learning_rate=0.25", path=path)
    assert settings.steps == 9
    assert settings.optimizer == Optimizer(name="adamw", learning_rate=0.25)


def test_overrides_do_not_change_the_values_they_are_applied_to():
    values = {"optimizer": {"name": "adamw"}}
    build_settings(Training, values=values, overrides=["optimizer.name=lamb"])
    assert values == {"optimizer": {"name": "adamw"}}


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
def test_names_below_a_literal_section_are_taken_as_they_stand(text, value):
    assert apply_overrides({}, [f"columns.text={text}"], literal="columns") == {"columns": {"text": value}}


def test_lists_tuples_sections_in_lists_and_paths(path):
    text = "tags: [a, b]\nout_dir: runs/one\nstages:\n- length: 128\n- {length: 512, share: 0.1}\n"
    settings = read(text, "optimizer.betas=[0.8, 0.99]", path=path)
    assert settings.tags == ["a", "b"]
    assert settings.out_dir == Path("runs/one")
    assert settings.stages == (Stage(length=128), Stage(length=512, share=0.1))
    assert settings.optimizer.betas == (0.8, 0.99)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stpes: 5\n", "unknown key stpes; did you mean steps?"),
        (
            "optimizer: {learning_rat: 0.1}\n",
            "unknown key optimizer.learning_rat; did you mean learning_rate?",
        ),
        ("stages: [{length: 8, shar: 0.1}]\n", "unknown key stages.0.shar; did you mean share?"),
        ("optimizer: {zzz: 1}\n", "unknown key optimizer.zzz; known keys: name, learning_rate, betas"),
        ("1: 2\n", "unknown key 1; known keys: steps,"),
    ],
)
def test_an_unknown_key_is_rejected_with_a_suggestion(text, said, path):
    message = refuse(text, path=path)
    assert said in message
    assert message.startswith(str(path))


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("steps='12'", "steps", "'12'"),
        ("steps=12.5", "steps", "12.5"),
        ("steps=true", "steps", "True"),
        ("is_resumed='true'", "is_resumed", "'true'"),
        ("title=12", "title", "12"),
        ("optimizer.learning_rate=fast", "optimizer.learning_rate", "'fast'"),
        ("optimizer.name=sgd", "optimizer.name", "'sgd'"),
        ("optimizer.betas=[0.9]", "optimizer.betas.1", None),
        ("stages=[{length: -8}]", "stages.0.length", "-8"),
        ("stages=[{share: 0.1}]", "stages.0.length", None),
    ],
)
def test_a_wrong_type_is_rejected_by_key_and_value(override, key, value, path):
    message = refuse("", override, path=path)
    assert f"{key} is {value if value else 'missing'}" in message


def test_an_impossible_combination_is_rejected_naming_its_keys(path):
    assert refuse("steps: 5\n", path=path) == f"{path}: warmup_steps 10 exceeds steps 5; warm up for less"


@pytest.mark.parametrize("override", ["steps", "=5", ".steps=5", "optimizer.=5", "a..b=5", ""])
def test_what_is_no_override_is_rejected_with_an_example(override, path):
    assert f"override {override!r} is not of the form key=value" in refuse("", override, path=path)


def test_a_value_is_not_entered_like_a_section(path):
    assert refuse("steps: 5\n", "steps.warm=1", path=path) == (
        "override 'steps.warm=1': steps has no keys; write steps=VALUE"
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [("steps: 5\ntitle: [1, 2\n", 3), ("steps: 5\n\ttitle: x\n", 2), ("a: b: c\n", 1), ("title: 'x\n", 2)],
)
def test_broken_yaml_is_rejected_by_its_line(text, line, path):
    assert refuse(text, path=path).startswith(f"{path}: line {line}: not valid YAML (")


@pytest.mark.parametrize(("text", "kind"), [("- a\n- b\n", "list"), ("steps\n", "str"), ("5\n", "int")])
def test_a_file_that_holds_no_keys_is_rejected(text, kind, path):
    assert f"{path}: expected `key: value` lines, got a {kind}" in refuse(text, path=path)


def test_a_missing_file_is_rejected_by_name(tmp_path):
    with pytest.raises(AlbertError, match=r"absent\.yaml: No such file or directory; check the path"):
        read_settings(Training, tmp_path / "absent.yaml")


def test_settings_are_frozen():
    settings = Training()
    with pytest.raises(ValidationError, match="frozen"):
        settings.steps = 5
    with pytest.raises(ValidationError, match="frozen"):
        settings.optimizer.name = "adamw"
    assert settings == Training()


# "1e5", "no", "~", "2020-01-01" and their like: texts that YAML might take for something else.
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


def test_a_change_is_named_by_its_keys_and_both_values():
    before = {"steps": 3, "optimizer": {"name": "lamb", "rate": 1}}
    assert find_change(before, before) is None
    found = find_change(before, {**before, "optimizer": {"name": "lamb", "rate": 2}})
    assert found is not None
    assert (found.key, str(found)) == ("optimizer.rate", "optimizer.rate is 2 and was 1")
    assert str(find_change(3, 4, key="steps")) == "steps is 4 and was 3"


def test_a_key_that_is_null_differs_from_one_that_is_not_there():
    assert str(find_change({}, {"depth": None})) == "depth is None and was missing"
    assert str(find_change({"depth": None}, {})) == "depth is missing and was None"


def test_a_seed_is_an_override_unless_another_is_there():
    assert add_seed(["steps=5"], 3) == ["steps=5", "seed=3"]
    assert add_seed(["seed=5"], None) == ["seed=5"]
    assert add_seed(["seed=5"], 3, key="first_seed") == ["seed=5", "first_seed=3"]
    with pytest.raises(SettingsError, match="seed=5 and --seed"):
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
    with pytest.raises(SettingsError, match="num_tokens"):
        build_settings(Renamed, values={"num_tokens": 1}, overrides=["num_pieces=4"])
