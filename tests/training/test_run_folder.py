"""The records of a run, and the state of the machine."""

import json

from albert.training.run_folder import (
    METRICS_NAME,
    STATUS_PATH,
    list_records,
    measure_machine,
    read_amounts,
)

RECORDS = (
    {"kind": "start", "step": 0},
    {"kind": "train", "step": 10, "mlm_loss": 5.0},
    {"kind": "evaluate", "step": 10, "mlm_loss": 6.0, "sop_accuracy": 0.5, "seconds": 2.0},
    {"kind": "train", "step": 20, "mlm_loss": None},
)


def test_records_of_a_kind_without_damaged_lines(tmp_path):
    lines = [*map(json.dumps, RECORDS), '{"step": 25}', '{"kind": "train", "st']
    (tmp_path / METRICS_NAME).write_text("\n".join(lines))
    assert [record["step"] for record in list_records(tmp_path, "train")] == [10, 20]
    assert list_records(tmp_path, "end") == []
    assert list_records(tmp_path / "nowhere", "train") == []


def test_memory_amounts_are_bytes(tmp_path):
    path = tmp_path / "status"
    path.write_text("Name:\tpython\nUmask:\t0022\nVmHWM:\t    2048 kB\nHugePages_Total:  0\nVmSwap: ? kB\n")
    assert read_amounts(path) == {"VmHWM": 2048 * 1024}
    assert read_amounts(tmp_path / "nothing") == {}
    found = measure_machine()
    assert found["peak_mb"] > 10
    if STATUS_PATH.exists():
        assert found["peak_mb"] >= round(read_amounts(STATUS_PATH)["VmRSS"] / 1024**2, 1)
