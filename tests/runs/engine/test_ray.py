"""Trials on a real Ray cluster, of one machine: nodes, workers and the run itself are killed, and the results stay the same."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.prepared import Prepared
from tests.processes import is_alive
from tests.runs.engine.killed_at_random import ACTOR, RAY, below
from whichloop.runs.engine.messages import WorkerError
from whichloop.runs.engine.ray import cluster_links
from whichloop.runs.store.trials import count_rows, each_record

LIMIT_S = 240.0
"""Far more than anything here takes."""
LOOPS, PROFILES = ("bare", "finish"), ("clean", "flaky-tools")
COMMAND = str(Path(sys.executable).with_name("ray"))
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")


def listening(pids: list[int]) -> set[str]:
    """The addresses at which these processes listen, as the kernel writes them."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):  # closed in the meantime
                inodes.add(os.readlink(link))
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes}


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def wait_until(holds: Callable[[], Any]) -> Any:
    """What `holds` gives, once it is true."""
    end = time.monotonic() + LIMIT_S
    while not (given := holds()):
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.05)
    return given


@dataclass(frozen=True)
class Cluster:
    address: str
    raylets: list[int]
    environment: dict[str, str]

    @property
    def actors(self) -> list[int]:
        return [actor for raylet in self.raylets for actor in below(raylet, ACTOR)]


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """What Ray leaves behind stays in a folder of its own, whose name is short."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield os.environ | {"HOME": folder, "TMPDIR": folder, "RAY_TMPDIR": folder}


@pytest.fixture(scope="module")
def cluster(environment: dict[str, str]) -> Iterator[Cluster]:
    own = RAY | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
    command = [sys.executable, str(Path(__file__).with_name("ray_nodes.py"))]
    with subprocess.Popen(command, env=environment | own, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        yield Cluster(**json.loads(process.stdout.readline()), environment=environment | own)
        process.communicate()


@dataclass
class Driver:
    """`whichloop compare` in a process of its own."""

    process: subprocess.Popen[str]
    runs: Path

    @property
    def folder(self) -> Path:
        return next(self.runs.iterdir())

    @property
    def finished(self) -> int:
        """Trials on the disk."""
        return sum(map(count_rows, self.runs.glob("*/")))

    def wait_for(self, trials: int) -> None:
        wait_until(lambda: self.finished >= trials or self.process.poll() is not None)
        assert self.process.poll() is None

    def end(self) -> tuple[dict[str, Any], str]:
        """What it printed, and what it said."""
        out, err = self.process.communicate(timeout=LIMIT_S)
        assert self.process.returncode == 0, err
        made: dict[str, Any] = json.loads(out)
        return made, err


@pytest.fixture
def compare(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    started: list[subprocess.Popen[str]] = []

    def call(
        tasks: int,
        environment: dict[str, str],
        *flags: str,
        profiles: tuple[str, ...] = PROFILES,
        as_process: type[subprocess.Popen[str]] = subprocess.Popen,
    ) -> Driver:
        runs = tmp_path / "runs"
        chosen = ["--loop", "bare", "--loop", "finish", *(word for profile in profiles for word in ("--profile", profile))]
        command = ["compare", *chosen, "--suite", f"arithmetic(size={tasks})", "--runs", str(runs), "--json"]
        process = as_process(
            [sys.executable, "-m", "whichloop", *command, "--engine", "ray", *flags],
            env=environment, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, text=True, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        return Driver(process, runs)

    yield call
    for process in started:
        process.kill()
        process.communicate()


def once_each(folder: Path, trials: int) -> bool:
    """No trial stands twice in the journal."""
    keys = [record.key for record in each_record(folder)]
    return len(keys) == len(set(keys)) == trials


@pytest.mark.slow
@needs_ray
@pytest.mark.timeout(LIMIT_S * 2)
def test_a_worker_and_a_node_may_be_killed_and_the_records_are_the_same(cluster, compare, undisturbed, tmp_path):
    """Trials wait in real time: those that are left after the second kill take seconds, however quick the machine is."""
    (tmp_path / "slow.toml").write_text('name = "slow"\nlatency_s = 0.1\n[rates]\n"tool.raises" = 0.1\n')
    profiles = (str(tmp_path / "slow.toml"),)
    flags = ("-s", f"address={cluster.address}", "-s", "real_time=true", "-s", "concurrency=16")
    driver = compare(40, cluster.environment, *flags, profiles=profiles, as_process=Prepared)
    assert listening(below(os.getpid(), "")) <= LOOPBACK
    driver.wait_for(10)
    os.kill(wait_until(lambda: cluster.actors)[0], signal.SIGKILL)
    driver.wait_for(driver.finished + 10)
    raylet = cluster.raylets[1]
    for pid in [raylet, *below(raylet, "")]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    made, said = driver.end()
    assert made["digest"] == undisturbed(loops=LOOPS, suite="arithmetic(size=40)", profiles=profiles).digest
    assert once_each(driver.folder, 80)
    assert "on 127.0.0.1 died" in said
    assert wait_until(lambda: not cluster.actors)


@pytest.mark.slow
@needs_ray
@pytest.mark.timeout(LIMIT_S * 2)
def test_a_cluster_for_one_run_is_heard_by_nobody_else_and_ends_with_it_however_it_ends(environment, compare, undisturbed):
    driver = compare(150, environment, "--workers", "2")
    driver.wait_for(1)
    within = below(driver.process.pid, "")
    assert below(driver.process.pid, ACTOR)
    assert listening([driver.process.pid, *within])
    assert listening([driver.process.pid, *within]) <= LOOPBACK
    made, _ = driver.end()
    assert made["digest"] == undisturbed(loops=LOOPS, suite="arithmetic(size=150)", profiles=PROFILES).digest
    assert not any(map(is_alive, within))
    assert not Path(environment["HOME"], ".ray").exists()
    killed = compare(400, environment, "--workers", "1")
    wait_until(lambda: below(killed.process.pid, ACTOR))
    agents = set(below(killed.process.pid, "Agent"))  # these wait a minute for a head that is gone
    within = [pid for pid in below(killed.process.pid, "") if pid not in agents]
    killed.process.kill()
    killed.process.communicate()
    wait_until(lambda: not any(map(is_alive, within)))


@pytest.mark.parametrize("address", ["ray://10.0.0.7:10001", "10.0.0.7", "127.0.0.1:99999", "127.0.0.1:1"])
def test_where_no_cluster_can_be_it_is_said_in_one_line(address):
    with pytest.raises(WorkerError, match=f"no Ray cluster at {address}: .+"), cluster_links(address, None):
        pass


@pytest.mark.slow
@needs_ray
@pytest.mark.timeout(LIMIT_S)
def test_a_run_whose_cluster_dies_ends_with_the_command_that_goes_on_with_it(environment, compare, tmp_path):
    (tmp_path / "slow.toml").write_text('name = "slow"\nlatency_s = 0.5\n')
    own = environment | RAY | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    head = [
        COMMAND,
        "start",
        "--head",
        "--block",
        "--num-cpus",
        "1",
        "--node-ip-address",
        "127.0.0.1",
        "--include-dashboard",
        "false",
    ]
    with subprocess.Popen([*head, "--port", str(port)], env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: below(process.pid, "/raylet/raylet"))
            flags = ("-s", f"address=127.0.0.1:{port}", "-s", "real_time=true", "--workers", "1")
            driver = compare(400, own, *flags, profiles=(str(tmp_path / "slow.toml"),))
            driver.wait_for(5)
            for child in below(process.pid, "/gcs_server "):
                os.kill(child, signal.SIGKILL)
            _, err = driver.process.communicate(timeout=60)
        finally:
            for child in (process.pid, *below(process.pid, "")):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
    assert driver.process.returncode == 130, err
    assert "the Ray cluster is lost: its head, or its node on this machine, has died: " in err
    assert f"\n  whichloop resume {driver.folder} " in err
    assert "Traceback" not in err
