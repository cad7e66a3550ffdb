"""Settings: what a YAML file and overrides say comes out, and everything else is refused by its key."""

from pathlib import Path
from typing import Annotated, Literal

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
    parse_yaml,
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


def test_of_two_overrides_the_last_wins():
    assert build_settings(Training, overrides=["steps=20", "steps=30"]).steps == 30


def test_an_override_opens_a_section_that_the_file_does_not_mention():
    assert build_settings(Training, overrides=["optimizer.name=adamw"]).optimizer.name == "adamw"


def test_overrides_do_not_change_the_values_they_are_applied_to():
    values = {"optimizer": {"name": "adamw"}}
    build_settings(Training, values=values, overrides=["optimizer.name=lamb"])
    assert values == {"optimizer": {"name": "adamw"}}


@pytest.mark.parametrize("spelling", ["1e-4", "1E-4", "1.0e-4", "0.0001", "+1e-4", "1.e-4"])
def test_scientific_notation_is_a_number_everywhere(spelling, path):
    text = f"optimizer:\n  learning_rate: {spelling}\n"
    assert read(text, path=path).optimizer.learning_rate == 1e-4
    assert read("", f"optimizer.learning_rate={spelling}", path=path).optimizer.learning_rate == 1e-4


def test_a_quoted_number_stays_a_text():
    assert build_settings(Training, overrides=["title='1e-4'"]).title == "1e-4"
    assert build_settings(Training, overrides=["title='12'"]).title == "12"


def test_the_value_of_an_override_may_hold_equals_signs_and_be_empty():
    assert build_settings(Training, overrides=["title=a=b"]).title == "a=b"
    assert build_settings(Training, overrides=["title=''"]).title == ""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("#2 String", "#2 String"),
        ("Review #1", "Review #1"),
        ("|", "|"),
        (",", ","),
        ("0", "0"),
        ("yes", "yes"),
        ("a: b", "a: b"),
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


def test_other_sections_than_the_literal_one_are_yaml():
    found = apply_overrides({}, ["steps=5", "optimizer.rate=1e-4 # low"], literal="columns")
    assert found == {"steps": 5, "optimizer": {"rate": 1e-4}}


def test_a_whole_number_is_a_float_too():
    assert build_settings(Training, overrides=["optimizer.learning_rate=1"]).optimizer.learning_rate == 1.0


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
def test_an_unknown_key_is_refused_with_a_suggestion(text, said, path):
    message = refuse(text, path=path)
    assert said in message
    assert message.startswith(str(path))


def test_an_unknown_key_in_an_override_is_refused_the_same_way():
    with pytest.raises(SettingsError, match=r"unknown key optimizer\.nam; did you mean name\?"):
        build_settings(Training, overrides=["optimizer.nam=lamb"])


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("steps='12'", "steps", "'12'"),
        ("steps=12.5", "steps", "12.5"),
        ("steps=true", "steps", "True"),
        ("steps=", "steps", "None"),
        ("steps=[1]", "steps", "[1]"),
        ("is_resumed=1", "is_resumed", "1"),
        ("is_resumed='true'", "is_resumed", "'true'"),
        ("title=12", "title", "12"),
        ("title=yes", "title", "True"),
        ("optimizer.learning_rate=fast", "optimizer.learning_rate", "'fast'"),
        ("optimizer.name=sgd", "optimizer.name", "'sgd'"),
        ("optimizer.betas=[0.9]", "optimizer.betas.1", None),
        ("optimizer=lamb", "optimizer", "'lamb'"),
        ("stages=[{length: -8}]", "stages.0.length", "-8"),
        ("stages=[{share: 0.1}]", "stages.0.length", None),
        ("tags=a", "tags", "'a'"),
    ],
)
def test_a_wrong_type_is_refused_by_key_and_value(override, key, value, path):
    message = refuse("", override, path=path)
    assert f"{key} is {value if value else 'missing'}" in message


def test_all_that_is_wrong_is_said_at_once(path):
    message = refuse("steps: x\nis_resumed: 3\nfoo: 1\n", path=path)
    assert "steps is 'x'" in message
    assert "is_resumed is 3" in message
    assert "unknown key foo" in message


def test_an_impossible_combination_is_refused_naming_its_keys(path):
    assert refuse("steps: 5\n", path=path) == f"{path}: warmup_steps 10 exceeds steps 5; warm up for less"


@pytest.mark.parametrize("override", ["steps", "=5", ".steps=5", "optimizer.=5", "a..b=5", ""])
def test_what_is_no_override_is_refused_with_an_example(override, path):
    assert refuse("", override, path=path) == (
        f"override {override!r} is not of the form key=value, as in lr=1e-4"
    )


def test_a_value_is_not_entered_like_a_section(path):
    assert refuse("steps: 5\n", "steps.warm=1", path=path) == (
        "override 'steps.warm=1': steps is a value, not a section"
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [("steps: 5\ntitle: [1, 2\n", 3), ("steps: 5\n\ttitle: x\n", 2), ("a: b: c\n", 1), ("title: 'x\n", 2)],
)
def test_broken_yaml_is_refused_by_its_line(text, line, path):
    assert refuse(text, path=path).startswith(f"{path}: line {line}: not valid YAML (")


@pytest.mark.parametrize(
    "text",
    ["title: a\0b\n", "title: 2020-13-45\n", "title: !!python/object:os.system x\n", "title: *nobody\n"],
    ids=["control character", "impossible date", "foreign tag", "absent anchor"],
)
def test_yaml_that_stands_for_nothing_is_refused(text, path):
    assert "not valid YAML" in refuse(text, path=path)


@pytest.mark.parametrize("text", ["title: &x [*x]\n", "2020-01-01: 5\n"], ids=["a loop", "a date as a key"])
def test_yaml_that_is_no_plain_data_is_refused(text, path):
    assert "a value is not plain data" in refuse(text, path=path)


def test_broken_yaml_in_an_override_names_the_override(path):
    assert refuse("", "tags=[a", path=path).startswith("override 'tags=[a': line 1: not valid YAML")


@pytest.mark.parametrize(("text", "kind"), [("- a\n- b\n", "list"), ("steps\n", "str"), ("5\n", "int")])
def test_a_file_that_holds_no_keys_is_refused(text, kind, path):
    assert refuse(text, path=path) == f"{path}: holds a {kind}, not `key: value` lines"


def test_keys_and_values_with_line_breaks_stay_in_one_line(path):
    assert "unknown key a b" in refuse('"a\\nb": 1\n', path=path)
    assert r"steps is 'a\nb'" in refuse('steps: "a\\nb"\n', path=path)


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(AlbertError, match=r"absent\.yaml: No such file or directory; check the path"):
        read_settings(Training, tmp_path / "absent.yaml")


@pytest.mark.parametrize("values", [{"steps": "12"}, {"is_resumed": 1}, {"steps": True}, {"stpes": 5}])
def test_settings_made_in_python_are_as_strict(values):
    with pytest.raises(ValidationError):
        Training(**values)


def test_settings_are_frozen():
    settings = Training()
    with pytest.raises(ValidationError, match="frozen"):
        settings.steps = 5
    with pytest.raises(ValidationError, match="frozen"):
        settings.optimizer.name = "adamw"
    assert settings == Training()


def test_the_source_of_values_without_a_file_is_named():
    with pytest.raises(SettingsError, match=r"^preset nano: unknown key x"):
        build_settings(Training, values={"x": 1}, source="preset nano")


# "1e5", "no", "~", "2020-01-01" and their like: texts that YAML might take for something else.
TRICKY = st.from_regex(r"[-+]?[0-9_.]{1,4}([eE:-][-+]?[0-9]{1,3})?", fullmatch=True) | st.sampled_from(
    [
        "no",
        "yes",
        "null",
        "~",
        "true",
        "None",
        ".inf",
        ".nan",
        "0x1f",
        "1:30",
        "2020-01-01",
        "=",
        "<<",
        "",
        " ",
        "#",
    ]
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


def test_written_settings_keep_the_order_of_the_class_and_plain_letters():
    text = Training(title="Übung 中").to_yaml()
    assert "title: Übung 中" in text
    assert list(parse_yaml(text, source="text")) == list(Training.model_fields)


def test_a_change_is_named_by_its_keys_and_both_values():
    before = {"steps": 3, "optimizer": {"name": "lamb", "rate": 1}}
    assert find_change(before, before) is None
    found = find_change(before, {**before, "optimizer": {"name": "lamb", "rate": 2}})
    assert found is not None
    assert (found.key, str(found)) == ("optimizer.rate", "optimizer.rate is 2 and was 1")
    assert str(find_change(3, 4, key="steps")) == "steps is 4 and was 3"


def test_of_several_changes_the_first_is_named_in_the_order_of_the_keys():
    names = [f"key_{number}" for number in range(50)]
    before, after = dict.fromkeys(names, 1), {**dict.fromkeys(names, 2), "another": 3}
    assert str(find_change(before, after)) == "key_0 is 2 and was 1"


def test_a_key_that_is_null_differs_from_one_that_is_not_there():
    assert str(find_change({}, {"depth": None})) == "depth is None and was not there"
    assert str(find_change({"depth": None}, {})) == "depth is not there and was None"


def test_a_seed_is_an_override_unless_another_is_there():
    assert add_seed(["steps=5"], 3) == ["steps=5", "seed=3"]
    assert add_seed(["seed=5"], None) == ["seed=5"]
    assert add_seed(["seed=5"], 3, key="first_seed") == ["seed=5", "first_seed=3"]
    with pytest.raises(SettingsError, match=r"^seed=5 and --seed: leave seed=5 out, and give --seed$"):
        add_seed(["seed=5"], 5)
