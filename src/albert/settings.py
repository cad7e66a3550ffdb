"""Frozen pydantic models for settings, read from YAML and changed by `a.b=c` overrides."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from albert.errors import SettingsError, one_line, suggest
from albert.files import read_text

S = TypeVar("S", bound="Settings")
_ABSENT = object()  # not null, which is a value
# Parsed as YAML even in a section of names: the empty value, null, lists and quoted strings.
_NOT_A_NAME = re.compile(r"""(null)?|\[.*\]|"[^"]*"|'[^']*'""", re.DOTALL)


class Settings(BaseModel):
    """Base class of settings: immutable, with strict types and no unknown keys.

    `former_names` maps keys of earlier versions to the current ones, so that old files can be read.
    """

    former_names: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, ser_json_inf_nan="constants")

    def to_yaml(self) -> str:
        values = self.model_dump(mode="json")
        return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


class _Loader(yaml.SafeLoader):
    """Load YAML with `1e-4` as a number, which YAML 1.1 reads as a string."""


class _Dumper(yaml.SafeDumper):
    """Dump YAML for `_Loader`: strings that look like its numbers are quoted."""


# Unicode line breaks such as U+0085 survive only in double quotes.
_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"'
    ),
)
for _class in (_Loader, _Dumper):
    _class.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"^[-+]?(\d[\d_]*)(\.\d*)?[eE][-+]?\d+$"),
        list("-+0123456789"),
    )


@dataclass(frozen=True)
class Change:
    """A key in which two dumped settings differ, such as `optimizer.name`, and both values."""

    key: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.key} is {self.after} and was {self.before}"


def find_change(before: Any, after: Any, *, key: str = "") -> Change | None:
    """Return the first difference of two dumped settings, or None; `key` is the prefix of their keys."""
    if isinstance(before, dict) and isinstance(after, dict):
        for each in {**before, **after}:
            inner = f"{key}.{each}" if key else str(each)
            found = find_change(before.get(each, _ABSENT), after.get(each, _ABSENT), key=inner)
            if found is not None:
                return found
        return None
    values = ["missing" if value is _ABSENT else str(value) for value in (before, after)]
    return None if before == after else Change(key, *values)


def build_settings(
    cls: type[S],
    *,
    values: Mapping[str, Any] | None = None,
    overrides: Iterable[str] = (),
    source: str = "settings",
) -> S:
    """Build settings from `values` and `a.b=c` overrides; errors name `source` as their origin."""
    try:
        merged = _rename_keys(cls, apply_overrides(values or {}, overrides))
        # JSON mode accepts a list as a tuple and a string as a path, but not "12" as a number.
        return cls.model_validate_json(json.dumps(merged), strict=True)
    except ValidationError as error:
        reasons = "; ".join(_explain(cls, detail) for detail in error.errors(include_url=False))
        raise SettingsError(one_line(f"{source}: {reasons}")) from error
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{source}: not JSON data ({error}); use numbers, strings and lists") from error


def read_settings(cls: type[S], path: Path, *, overrides: Iterable[str] = ()) -> S:
    """Read settings from a YAML file and apply the overrides."""
    values = parse_yaml(read_text(path), source=str(path))
    if values is not None and not isinstance(values, dict):
        raise SettingsError(f"{path}: expected `key: value` lines, got a {type(values).__name__}")
    return build_settings(cls, values=values, overrides=overrides, source=str(path))


def parse_yaml(text: str, *, source: str) -> Any:
    """Parse YAML; raise a SettingsError with the line number if it is invalid."""
    try:
        return yaml.load(text, Loader=_Loader)  # a SafeLoader
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date such as 2020-13-45
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        problem = one_line(getattr(error, "problem", None) or error)
        raise SettingsError(f"{source}: {line}not valid YAML ({problem})") from error


def check_overrides(overrides: Iterable[str]) -> list[str]:
    """List the overrides; raise a SettingsError for a string or a dict, which are iterable, too."""
    if isinstance(overrides, str | Mapping):
        found = type(overrides).__name__
        raise SettingsError(f"overrides: expected a list of strings such as num_epochs=3, got {found}")
    return list(overrides)


def apply_overrides(
    values: Mapping[str, Any], overrides: Iterable[str], *, literal: str | None = None
) -> dict[str, Any]:
    """Return a copy of `values` in which each override `a.b=c` sets key b of section a to the YAML value c.

    Values in the section `literal` are names, such as those of columns: `#2 String`, `0` and `,` are kept
    as strings there, and only null, lists and quoted strings are parsed.
    """
    merged: dict[str, Any] = json.loads(json.dumps(values, default=str))
    for override in check_overrides(overrides):
        key, equals, text = override.partition("=")
        if not equals or not all(key.split(".")):
            raise SettingsError(f"override {override!r} is not of the form key=value, such as num_epochs=3")
        *sections, last = key.split(".")
        target = merged
        for section in sections:
            inner = target.setdefault(section, {})
            if not isinstance(inner, dict):
                raise SettingsError(f"override {override!r}: {section} has no keys; write {section}=VALUE")
            target = inner
        is_name = sections[:1] == [literal] and not _NOT_A_NAME.fullmatch(text)
        target[last] = text if is_name else parse_yaml(text, source=f"override {override!r}")
    return merged


def add_seed(overrides: Iterable[str], seed: int | None, *, key: str = "seed") -> list[str]:
    """Add the value of `--seed` to the overrides; raise a SettingsError if they set it already."""
    given = list(overrides)
    if seed is None:
        return given
    if twice := [override for override in given if override.partition("=")[0] == key]:
        raise SettingsError(f"{twice[-1]} and --seed are both given; omit {twice[-1]}")
    return [*given, f"{key}={seed}"]


def _rename_keys(cls: type[Settings], values: dict[str, Any]) -> dict[str, Any]:
    """Replace former names of keys, also in nested sections and lists of sections."""
    renamed = {}
    for key, value in values.items():
        name = cls.former_names.get(key, key)
        if name != key and name in values:
            raise SettingsError(f"{key} is the former name of {name}, which is also set; set {name} only")
        field = cls.model_fields.get(name)
        for section in _iter_sections(field.annotation) if field else ():
            if isinstance(value, dict):
                value = _rename_keys(section, value)
            elif isinstance(value, list):
                value = [_rename_keys(section, each) if isinstance(each, dict) else each for each in value]
        renamed[name] = value
    return renamed


def _explain(cls: type[BaseModel], detail: Any) -> str:
    """Format a validation error: the key, its value and the expected value."""
    key = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        name = str(detail["loc"][-1])
        known = _known_keys(cls, detail["loc"][:-1])
        section = _find_section(cls, name) if key == name else None
        hint = f"did you mean {section}.{name}?" if section else suggest(name, known, lead="known keys:")
        return f"unknown key {key}; {hint}"
    if detail["type"] == "missing":
        return f"{key} is missing"
    message = detail["msg"].removeprefix("Value error, ")
    if not key:  # the message of a validator names the keys
        return str(message)
    return f"{key} is {detail['input']!r}: {message[0].lower()}{message[1:]}"


def _known_keys(cls: type[BaseModel], path: tuple[Any, ...]) -> list[str]:
    for part in path:
        field = cls.model_fields.get(str(part))
        # A list index or a dict key is not a field and keeps the class.
        cls = next(_iter_sections(field.annotation), cls) if field else cls
    return list(cls.model_fields)


def _find_section(cls: type[BaseModel], name: str) -> str | None:
    """Return the first section of the settings that has a key with this name."""
    for key, field in cls.model_fields.items():
        is_section = get_origin(field.annotation) not in (list, tuple, dict)
        if is_section and any(name in each.model_fields for each in _iter_sections(field.annotation)):
            return key
    return None


def _iter_sections(annotation: Any) -> Iterator[type[Settings]]:
    if isinstance(annotation, type) and not get_args(annotation) and issubclass(annotation, Settings):
        yield annotation
    for inner in get_args(annotation):
        yield from _iter_sections(inner)
