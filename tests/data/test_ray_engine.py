"""Ray gives the bytes of local processes, on two nodes and when nodes are killed."""

import os
import socket
import threading
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from albert.data.engines import WorkerError, build_engine
from albert.data.prepare import prepare_corpus
from albert.errors import InputError
from albert.tasks.many_texts import embed_files, predict_files
from tests.conftest import WORDS, read_tree
from tests.data.conftest import read_files, sentence
from tests.data.test_engines import die, reject
from tests.data.test_prepare import UNIT, is_running
from tests.tasks.finetuned_folder import SENTIMENT, write_finetuned_folder
from tests.training.conftest import Listener

ray = pytest.importorskip("ray", reason="needs the extra `ray`")
from ray.cluster_utils import Cluster  # noqa: E402

NODE = {"num_cpus": 1, "object_store_memory": 80 * 1024 * 1024, "include_dashboard": False}


@pytest.fixture(scope="module")
def cluster(plugin_path, tmp_path_factory):
    """Two nodes of one core each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", plugin_path)
        patch.setenv("ALBERT_CACHE", str(tmp_path_factory.mktemp("cache")))
        # A node is lost after three seconds without a heartbeat, instead of half a minute.
        quick = {"period_ms": 300, "failure_threshold": 10, "initial_delay_ms": 300}
        config = {f"health_check_{key}": value for key, value in quick.items()}
        config["worker_niceness"] = 0  # by default 15: other programs come first
        found = Cluster(initialize_head=True, head_node_args={**NODE, "_system_config": config})
        found.add_node(**NODE)
        yield found
        found.shutdown()


def prepare(books, vocab_path, out, **options):
    return prepare_corpus([books], vocab=vocab_path, out=out, **{"unit_bytes": UNIT, **options})


def test_two_nodes_give_the_bytes_of_local_processes(cluster, books, vocab_path, bucket, tmp_path):
    ray_options = {"engine": "ray", "address": cluster.address, "reporter": Listener()}
    manifest = prepare(books, vocab_path, tmp_path / "one")
    prepare(books, vocab_path, tmp_path / "two", **ray_options)
    assert len(manifest.shards) >= 4
    assert read_tree(tmp_path / "one") == read_tree(tmp_path / "two")
    assert not ray.is_initialized()
    prepare(books, vocab_path, f"bucket://{bucket}", **ray_options)
    assert read_files(bucket) == read_files(tmp_path / "one")
    assert list(read_files(bucket))[-1] == "manifest.json"


def test_two_nodes_embed_and_predict_the_bytes_of_local_processes(cluster, tiny_folder, bucket, tmp_path):
    table = tmp_path / "texts.txt"
    table.write_text("".join(f"the {first} saw the {second}\n" for first in WORDS for second in WORDS[5:15]))
    options = {"model": tiny_folder, "shard_rows": 100}
    embed_files(table, out=tmp_path / "out", num_workers=2, **options)
    found = embed_files(table, out=f"bucket://{bucket}", engine="ray", address=cluster.address, **options)
    assert found.num_shards == 7
    assert read_files(bucket) == read_files(tmp_path / "out")
    model = write_finetuned_folder(tmp_path / "model", tiny_folder, SENTIMENT)
    for name, where in (("local", {}), ("ray", {"engine": "ray", "address": cluster.address})):
        predict_files("classification", table, models=[model], out=tmp_path / name, shard_rows=100, **where)
    assert read_tree(tmp_path / "ray") == read_tree(tmp_path / "local")


def locate(number: int) -> str:
    time.sleep(0.3)
    return str(ray.get_runtime_context().get_node_id())


def fail(number: int) -> int:
    raise ZeroDivisionError("an internal error")


def test_tasks_run_on_the_cluster_and_their_errors_are_raised(cluster, monkeypatch):
    monkeypatch.setattr("albert.data.engines.MAX_RETRIES", 0)
    with build_engine("ray", address=cluster.address) as engine:
        done = list(engine.run(locate, list(range(10))))
        assert sorted(task for task, _ in done) == list(range(10))
        assert {node for _, node in done} <= {
            node["NodeID"] for node in ray.nodes()
        }  # Ray chooses among them
        for function, error in ((reject, InputError), (fail, ZeroDivisionError), (die, WorkerError)):
            with pytest.raises(error):
                list(engine.run(function, [0, 1, 2]))


def wait_for_end(pids):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and any(map(is_running, pids)):
        time.sleep(0.1)
    assert not [pid for pid in pids if is_running(pid)]


def tell_pid(number: int) -> int:
    time.sleep(0.2 if number == 0 else 300)
    return os.getpid()


def test_tasks_on_a_cluster_end_with_the_run(cluster):
    raylets = [node.all_processes["raylet"][0].process for node in cluster.list_all_nodes()]
    working = []

    def stop_early():
        with build_engine("ray", address=cluster.address) as engine:
            for _ in engine.run(tell_pid, [0, 1]):
                while not working:  # the other task has started, too
                    working.extend(pid for raylet in raylets for pid in find_workers(raylet))
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop_early()
    wait_for_end(working)


def find_workers(raylet):
    """The processes of a node that run one of our tasks: Ray writes it into their names."""
    try:
        workers = psutil.Process(raylet.pid).children()
        return [worker.pid for worker in workers if "ray::_run_task" in " ".join(worker.cmdline())]
    except psutil.Error:
        return []


def kill_while_working(raylet, scratch, record, killed):
    """Kill a node while it runs a task of a pass that has left a record."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and raylet.poll() is None:
        if any(scratch.glob(f"{record}-*.json")) and (working := find_workers(raylet)):
            raylet.kill()
            raylet.wait()
            killed += working
            return
        time.sleep(0.002)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="needs Linux's /proc")
def test_a_node_killed_in_each_pass_changes_no_byte(cluster, vocab_path, tmp_path):
    books = tmp_path / "books"
    books.mkdir()
    for number in range(24):
        lines = (f"{sentence(number * 900 + k)} {sentence(number * 900 + k + 70)}" for k in range(900))
        (books / f"{number:02d}.txt").write_text("\n".join(lines))
    prepare(books, vocab_path, tmp_path / "fresh", unit_bytes=90_000)
    for attempt in range(4):  # a pass may end before a task was seen on its node
        out = tmp_path / f"killed-{attempt}"
        killed = kill_in_each_pass(cluster, books, vocab_path, out)
        assert read_tree(out) == read_tree(tmp_path / "fresh")
        if all(killed.values()):
            return
    raise AssertionError(f"no task was seen on a node: {killed}")


def kill_in_each_pass(cluster, books, vocab_path, out) -> dict[str, list[int]]:
    """Prepare with two more nodes and kill one in each pass; return the processes that ran tasks then."""
    nodes = [cluster.add_node(**NODE), cluster.add_node(**NODE)]
    raylets = [node.all_processes["raylet"][0].process for node in nodes]
    killed: dict[str, list[int]] = {"reading": [], "writing": []}

    for raylet, record in zip(raylets, killed, strict=True):
        arguments = (raylet, out / ".prepare", record, killed[record])
        threading.Thread(target=kill_while_working, args=arguments, daemon=True).start()
    prepare(books, vocab_path, out, engine="ray", address=cluster.address, unit_bytes=90_000)
    # A process ends within seconds after its node.
    dead = [raylet for raylet, record in zip(raylets, killed, strict=True) if killed[record]]
    wait_for_end([*(raylet.pid for raylet in dead), *killed["reading"], *killed["writing"]])
    for node in nodes:
        cluster.remove_node(node, allow_graceful=False)
    return killed


def test_an_address_without_a_cluster_is_rejected(run_albert, books, vocab_path, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and never listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run_albert(
            "corpus", "prepare", books, "--vocab", vocab_path, "--out", tmp_path / "out",
            "--engine", "ray", "--address", address,
        )  # fmt: skip
    assert done.code == 2
    assert address in done.err
