"""Ray does the same work as the processes here: the same bytes on two nodes, and when nodes are killed."""

import os
import signal
import socket
import threading
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from albert.data.engines import WorkerError, build_engine
from albert.data.prepare import prepare_corpus
from albert.errors import InputError
from tests.conftest import read_tree
from tests.data.conftest import read_files, sentence
from tests.data.test_prepare import UNIT, Listener, is_running

ray = pytest.importorskip("ray", reason="needs the extra `ray`")
from ray.cluster_utils import Cluster  # noqa: E402

NODE = {"num_cpus": 1, "object_store_memory": 80 * 1024 * 1024, "include_dashboard": False}


@pytest.fixture(scope="module")
def cluster(plugin_path):
    """Two nodes of one core each; only the first can be counted on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", plugin_path)
        # A node is given up after a second without a sign of life, instead of half a minute.
        quick = {"health_check_period_ms": 300, "health_check_failure_threshold": 3,
                 "health_check_initial_delay_ms": 300}  # fmt: skip
        found = Cluster(initialize_head=True, head_node_args={**NODE, "_system_config": quick})
        found.add_node(**NODE)
        yield found
        found.shutdown()


def prepare(books, vocab_path, out, **options):
    return prepare_corpus([books], vocab=vocab_path, out=out, **{"unit_bytes": UNIT, **options})


def test_two_nodes_give_the_bytes_of_the_processes_here(cluster, books, vocab_path, tmp_path):
    listener = Listener()
    manifest = prepare(books, vocab_path, tmp_path / "one")
    prepare(books, vocab_path, tmp_path / "two", engine="ray", address=cluster.address, reporter=listener)
    assert len(manifest.shards) >= 4
    assert read_tree(tmp_path / "one") == read_tree(tmp_path / "two")
    assert not ray.is_initialized()


def locate(number: int) -> str:
    time.sleep(0.3)
    return str(ray.get_runtime_context().get_node_id())


def refuse(number: int) -> int:
    raise InputError(f"not {number}; another")


def stumble(number: int) -> int:
    raise ZeroDivisionError("our own mistake")


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_tasks_are_spread_and_their_errors_come_through_as_they_were_raised(cluster, monkeypatch):
    monkeypatch.setattr("albert.data.engines.MAX_RETRIES", 0)
    with build_engine("ray", address=cluster.address) as engine:
        done = list(engine.run(locate, list(range(10))))
        assert sorted(task for task, _ in done) == list(range(10))
        assert len({node for _, node in done}) == len(cluster.list_all_nodes())
        with pytest.raises(InputError, match="^not [0-2]; another$"):
            list(engine.run(refuse, [0, 1, 2]))
        with pytest.raises(ZeroDivisionError, match="our own mistake"):
            list(engine.run(stumble, [0]))
        with pytest.raises(
            WorkerError, match="the cluster lost a task 1 times .* run the same command again"
        ):
            list(engine.run(die, [0]))


def test_every_node_puts_its_shards_into_the_store(cluster, books, vocab_path, bucket, tmp_path):
    prepare(books, vocab_path, tmp_path / "here")
    prepare(books, vocab_path, f"{bucket.url}/b/corpus", engine="ray", address=cluster.address)
    assert bucket.read_tree("b/corpus") == read_files(tmp_path / "here")
    assert bucket.puts[-1] == "b/corpus/manifest.json"


def wait_for_end(pids):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and any(map(is_running, pids)):
        time.sleep(0.1)
    assert not [pid for pid in pids if is_running(pid)]


def tell_pid(number: int) -> int:
    time.sleep(0.2 if number == 0 else 300)
    return os.getpid()


def test_what_runs_on_a_cluster_ends_with_the_one_who_asked(cluster):
    raylets = [node.all_processes["raylet"][0].process for node in cluster.list_all_nodes()]
    working = []

    def stop_early():
        with build_engine("ray", address=cluster.address) as engine:
            for _ in engine.run(tell_pid, [0, 1]):
                while not working:  # the other one has begun, too
                    working.extend(pid for raylet in raylets for pid in find_at_work(raylet))
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop_early()
    wait_for_end(working)


def find_at_work(raylet):
    """The processes of a node that are in the midst of a task of ours: Ray writes it into their names."""
    try:
        workers = psutil.Process(raylet.pid).children()
        return [worker.pid for worker in workers if "ray::_run_task" in " ".join(worker.cmdline())]
    except psutil.Error:
        return []


def kill_at_work(raylet, scratch, record, killed):
    """Kill a node, without a word to anything of it, when it is at work and its pass has left a record."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and raylet.poll() is None:
        if any(scratch.glob(f"{record}-*.json")) and (working := find_at_work(raylet)):
            raylet.kill()
            raylet.wait()
            killed += working
            return
        time.sleep(0.002)


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs Linux's /proc")
def test_a_node_killed_in_each_pass_changes_no_byte(cluster, vocab_path, tmp_path):
    books = tmp_path / "books"
    books.mkdir()
    for number in range(24):
        lines = (f"{sentence(number * 900 + k)} {sentence(number * 900 + k + 70)}" for k in range(900))
        (books / f"{number:02d}.txt").write_text("\n".join(lines))
    prepare(books, vocab_path, tmp_path / "whole", unit_bytes=90_000)
    for attempt in range(4):  # a pass may end before its node was seen at work
        out = tmp_path / f"killed-{attempt}"
        killed = kill_in_each_pass(cluster, books, vocab_path, out)
        assert read_tree(out) == read_tree(tmp_path / "whole")
        if all(killed.values()):
            return
    raise AssertionError(f"a node was never seen at work: {killed}")


def kill_in_each_pass(cluster, books, vocab_path, out) -> dict[str, list[int]]:
    """Prepare with two nodes more; one dies in the first pass, one in the second. Who was at work then."""
    nodes = [cluster.add_node(**NODE), cluster.add_node(**NODE)]
    raylets = [node.all_processes["raylet"][0].process for node in nodes]
    killed: dict[str, list[int]] = {"reading": [], "writing": []}

    for raylet, record in zip(raylets, killed, strict=True):
        arguments = (raylet, out / ".prepare", record, killed[record])
        threading.Thread(target=kill_at_work, args=arguments, daemon=True).start()
    prepare(books, vocab_path, out, engine="ray", address=cluster.address, unit_bytes=90_000)
    # A process whose node is gone notices within seconds, and until then goes on with what it does.
    dead = [raylet for raylet, record in zip(raylets, killed, strict=True) if killed[record]]
    wait_for_end([*(raylet.pid for raylet in dead), *killed["reading"], *killed["writing"]])
    for node in nodes:
        cluster.remove_node(node, allow_graceful=False)
    return killed


def test_an_address_where_nobody_answers(run_albert, books, vocab_path, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and never listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run_albert(
            "corpus", "prepare", books, "--vocab", vocab_path, "--out", tmp_path / "out",
            "--engine", "ray", "--address", address,
        )  # fmt: skip
    assert f"address {address}: cannot connect to a Ray cluster ([Errno 111] Connection refused)" in done.err
