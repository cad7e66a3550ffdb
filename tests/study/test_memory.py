"""The memory study: killed and resumed at a toy size; ratios and outcomes of given peaks."""

import json

from albert.model.config import build_preset, count_parameters
from albert.progress import NullReporter
from albert.report.write import write_page
from albert.study import step_costs
from albert.study.memory import (
    Case,
    MemoryPoint,
    MemorySettings,
    ShapeMemory,
    build_memory_page,
    run_memory,
)
from albert.study.step_costs import Footprint
from tests.study.conftest import TOY_PAIR, find_findings, find_table

SETTINGS = MemorySettings(**TOY_PAIR, batch_sizes=(2,), checkpointing=(True,))


def read_parts(out):
    path = out / "results.json"
    return json.loads(path.read_text())["parts"] if path.exists() else {}


def made_up(*, albert=(100, 50), bert=(1000, 50), counts=(5, 50)):
    """Peaks on straight lines: so much at once, and so much for each sequence."""
    points = {}
    for family, (fixed, each), count in (("ALBERT", albert, counts[0]), ("BERT", bert, counts[1])):
        for is_checkpointed in (False, True):
            slope = each // 5 if is_checkpointed else each
            points[Case(family, is_checkpointed)] = {
                size: MemoryPoint(Footprint(fixed + slope * size, 1.0, 0.1, 128 * size, count))
                for size in (1, 2, 4)
            }
    return ShapeMemory("base", points)


def test_ratios_by_hand():
    found = made_up()
    assert found.list_ratios(is_checkpointed=False) == {1: 1050 / 150, 2: 1100 / 200, 4: 1200 / 300}
    assert found.list_ratios(is_checkpointed=True) == {1: 1010 / 110, 2: 1020 / 120, 4: 1040 / 140}
    assert found.parameter_ratio == 10.0


def test_the_page_says_what_is_left_of_fewer_parameters(tmp_path):
    page = build_memory_page([made_up()], settings=SETTINGS, machine="A machine")
    parameters, lower = find_findings(page)
    assert parameters.outcome == "agrees"
    large = [count_parameters(build_preset(name)).backbone for name in ("albert-large", "bert-large")]
    assert f"{large[0]:,} against {large[1]:,}" in parameters.ours
    assert lower.outcome == "agrees"
    same = build_memory_page([made_up(bert=(100, 50))], settings=SETTINGS, machine="A machine")
    assert find_findings(same)[1].outcome == "disagrees"
    assert all(value in lower.ours for value in ("7.00", "5.50", "4.00"))
    assert [chart.name for chart in page.charts] == ["memory-base"]
    assert len(page.charts[0].series) == 4
    write_page(tmp_path, page)


def test_what_did_not_fit_is_tried_again_and_what_did_is_kept(tmp_path, monkeypatch):
    settings = SETTINGS.model_copy(update={"batch_sizes": (1, 4), "checkpointing": (False,)})
    rejected, asked = {4}, []

    def measure(request):
        asked.append((request.config.sharing, request.batch_size))
        if asked[-1][0] == "none" and request.batch_size in rejected:
            raise step_costs.DoesNotFitError("its process was ended by SIGSEGV")
        return Footprint(100 * request.batch_size, 1.0, 0.1, 8, 10)

    monkeypatch.setattr(step_costs, "measure_footprint", measure)
    page = run_memory(settings, out=tmp_path, reporter=NullReporter())
    assert list(read_parts(tmp_path)) == ["nano/ALBERT/1", "nano/ALBERT/4", "nano/BERT/1"]
    rejected.clear()
    asked.clear()
    page = run_memory(settings, out=tmp_path, reporter=NullReporter())
    assert asked == [("none", 4)]
    assert [row[1].value for row in find_table(page, "memory-ratios").rows] == [1, 4]
    rejected.add(2)
    between = settings.model_copy(update={"batch_sizes": (1, 2, 4, 8)})
    page = run_memory(between, out=tmp_path, reporter=NullReporter())
    series = {each.name: list(each.xs) for each in page.charts[0].series}
    assert series["BERT"] == [1, 4]  # 4 was measured before, and 8 is not tried
