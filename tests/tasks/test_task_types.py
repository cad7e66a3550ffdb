"""Only the module of a task type knows its type: no other module branches on it."""

import re
from pathlib import Path

import albert
from albert.tasks.catalogue import TASK_TYPES

ROOT = Path(albert.__file__).parent
TYPE_MODULES = {ROOT / "tasks" / f"{each.__module__.rpartition('.')[2]}.py" for each in TASK_TYPES}


def test_no_other_module_branches_on_a_task_type():
    classes = "|".join(
        name for path in TYPE_MODULES for name in re.findall(r"^class (\w+)", path.read_text("utf-8"), re.M)
    )
    is_instance = rf"(isinstance|issubclass)\([^()]*[(,|.\s]({classes})\b"
    compared = rf"\b(task_type|label_kind|task\.method) (==|!=|in|not in) [\"'(]|\bcase ({classes})\("
    branch = re.compile(f"{is_instance}|{compared}")
    assert branch.search("isinstance(item, WordWindow | EncodedText)")
    assert branch.search("if config.task_type in ('classification',")
    others = [path for path in ROOT.rglob("*.py") if path not in TYPE_MODULES]
    assert [f"{path}: {hit[0]}" for path in others for hit in branch.finditer(path.read_text("utf-8"))] == []
