"""The records of a run, read again: by their kind, and what of them was learned."""

import json

from albert.training.metrics import METRICS_NAME, keep_figures, list_records

RECORDS = (
    {"kind": "start", "step": 0},
    {"kind": "train", "step": 10, "mlm_loss": 5.0},
    {"kind": "evaluate", "step": 10, "mlm_loss": 6.0, "sop_accuracy": 0.5, "seconds": 2.0},
    {"kind": "train", "step": 20, "mlm_loss": None},
)


def test_the_records_of_a_kind_are_listed_in_order_without_lines_that_are_none(tmp_path):
    lines = [*map(json.dumps, RECORDS), '{"step": 25}', '{"kind": "train", "st']
    (tmp_path / METRICS_NAME).write_text("\n".join(lines))
    assert [record["step"] for record in list_records(tmp_path, "train")] == [10, 20]
    assert list_records(tmp_path, "end") == []
    assert list_records(tmp_path / "nowhere", "train") == []


def test_figures_are_losses_and_accuracies_that_are_numbers():
    assert keep_figures(RECORDS[2]) == {"mlm_loss": 6.0, "sop_accuracy": 0.5}
    assert keep_figures(RECORDS[3]) == {}
