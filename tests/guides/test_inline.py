"""What a sentence of the pages names in passing is there: commands, their options, the keys of settings."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from albert.cli.quickstart import QuickstartSettings
from albert.model.config import ModelConfig
from albert.study.agreement import AgreementSettings
from albert.study.arms.plan import StudySettings
from albert.study.layers.study import LayersSettings
from albert.study.memory import MemorySettings
from albert.study.speed import SpeedSettings
from albert.tasks.catalogue import TABLE_TASKS
from albert.tasks.finetune_settings import FinetuneSettings
from albert.training.settings import PretrainSettings
from tests.guides.journeys import ROOT
from tests.guides.test_documents import PAGES, read_prose
from tests.guides.typed_commands import list_every_option, list_options

# The log tells of what was tried and is no more.
TOLD = [page for page in PAGES if page.name != "log.md"]
NAMES = [str(page.relative_to(ROOT)) for page in TOLD]
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_KEY = re.compile(r"(?<![\w.\-'\"/?&%{])([a-z_]+(?:\.[a-z_]+)*)=(?![=\s])")
SETTINGS = (
    PretrainSettings,
    FinetuneSettings,
    QuickstartSettings,
    ModelConfig,
    StudySettings,
    AgreementSettings,
    LayersSettings,
    SpeedSettings,
    MemorySettings,
)
# Of torchrun, of `python -m bench…` and `release…`; of Python's calls, a rendezvous, and of any setting.
OTHERS_OPTIONS = {
    "--nproc-per-node",
    "--max-restarts",
    "--nnodes",
    "--rdzv-endpoint",
    "--rdzv-id",
    "--rdzv-conf",
    "--local-addr",
    "--shutdown-timeout",
    "--watch",
    "--tasks",
}
OTHERS_KEYS = {"overrides", "revision", "is_host", "objective", "key", "a.b"}
COLUMNS = tuple({task.columns for task in TABLE_TASKS.values()})


def list_spans(page: Path) -> list[str]:
    return [" ".join(span.split()) for span in _SPAN.findall(read_prose(page))]


def iter_keys(cls: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, info in cls.model_fields.items():
        yield prefix + name
        for part in (info.annotation, *get_args(info.annotation)):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from iter_keys(part, f"{prefix}{name}.")


def list_keys() -> set[str]:
    known = {key for cls in SETTINGS for key in iter_keys(cls)}
    known |= {f"columns.{key}" for cls in COLUMNS for key in cls.model_fields}
    known |= {f"model.{key}" for key in iter_keys(ModelConfig)}
    known |= {f"pretrain.{key}" for key in list(known)} | {f"finetune.{key}" for key in list(known)}
    return known


@pytest.mark.parametrize("page", TOLD, ids=NAMES)
def test_a_command_or_an_option_named_in_passing_is_there(page):
    for span in list_spans(page):
        if span.startswith("albert "):
            known = list_options(span.split()[1:])
        elif span.startswith("--"):
            known = list_every_option() | OTHERS_OPTIONS
        else:
            continue
        assert set(_OPTION.findall(span)) <= known, span


@pytest.mark.parametrize("page", TOLD, ids=NAMES)
def test_a_key_named_in_passing_is_there(page):
    keys = [key for span in list_spans(page) if "bench." not in span for key in _KEY.findall(span)]
    assert set(keys) <= list_keys() | OTHERS_KEYS


def test_what_is_not_there_is_found():
    with pytest.raises(AssertionError, match="polish: there is no such command"):
        list_options(["polish", "MODEL"])
    assert set(_OPTION.findall("albert pretrain nano --bugdet 1h")) - list_options(["pretrain", "nano"])
    assert set(_KEY.findall("optimizer.learning_rat=1e-4")) - list_keys()
    assert set(_KEY.findall("optimizer.learning_rate=1e-4 has_exits=true columns.text=body")) <= list_keys()
