#!/usr/bin/env python3
"""test_notify: what systemd is told by daemons that are units: READY, STATUS, RELOADING, STOPPING, time; their folders; SIGHUP."""
import re
import socket

from fleet import within
from lib import *


class Unit:
    """A daemon with a notify socket and the folders that systemd gives a unit."""

    def __init__(self, space, name, program, *words):
        self.folder, self.socket = space / name, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        for kind in ("state", "run", "cache"):
            (self.folder / kind).mkdir(parents=True, exist_ok=True)
        path = self.folder / "notify"
        path.unlink(missing_ok=True)
        self.socket.bind(str(path))
        self.socket.setblocking(False)
        self.told = []
        environment = dict(os.environ, NOTIFY_SOCKET=str(path), STATE_DIRECTORY=str(self.folder / "state"), RUNTIME_DIRECTORY=str(self.folder / "run"),
                           CACHE_DIRECTORY=str(self.folder / "cache"), SHOAL_CONFIG_DIR=str(space.path))
        self.log = open(self.folder / "log", "a", encoding="utf-8")
        self.process = subprocess.Popen([BIN / program, *map(str, words)], env=environment, stdout=self.log, stderr=self.log)

    def lines(self):
        """All that was told so far, a line each."""
        while True:
            try:
                self.told += self.socket.recv(4096).decode().split("\n")
            except BlockingIOError:
                return self.told

    def says(self, pattern, seconds=30):
        return within(seconds, f"{pattern} of {self.folder.name}", lambda: next((m for line in self.lines() if (m := re.search(pattern, line))), None))

    def said(self):
        return (self.folder / "log").read_text(encoding="utf-8")

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        status = self.process.wait(30)
        self.lines()
        self.socket.close()
        self.log.close()
        return status


def fleet(space):
    """Three units, with no settings but what a unit gives and whom to talk to."""
    endpoint = f"ipc://{space / 'coordinator'}/run/socket"
    (space / "server.yaml").write_text(f"coordinator: {endpoint}\n")
    (space / "worker.yaml").write_text(f"coordinator: {endpoint}\ncores: 1\nlanes: 1\n")
    report = space / "report.json"
    return endpoint, report, {"coordinator": lambda: Unit(space, "coordinator", "shoal-coordinator", "--set", f"report={report}"),
                              "server": lambda: Unit(space, "server", "shoal-server", "--instance", "1"),
                              "worker": lambda: Unit(space, "worker", "shoal-worker", "run", "--instance", "1")}


def says_while_it_trains(unit, report, pattern):
    """A daemon tells its state every second or two: a job that was over between two of them was too short to be told of."""

    def told():
        over = report.exists()  # looked at first: what was told until then counts
        match = next((m for line in unit.lines() if (m := re.search(pattern, line))), None)
        if over and match is None:
            raise TooShort(pattern)
        return match

    return within(60, f"{pattern} of {unit.folder.name}", told)


def units_tell_what_they_do(space):
    endpoint, report, start = fleet(space)
    train = synth(space / "train.tsv", 200000, 1)
    job = job_file(space / "job.yaml", train, **{"data.cache": None, "train.epochs": longer(6)})
    units = {name: begin() for name, begin in start.items()}
    try:
        for unit in units.values():
            unit.says("^READY=1$")
        units["worker"].says("^STATUS=waiting for a job$")
        units["coordinator"].says("^STATUS=no job, 1 of 1 shards ready$")
        got = subprocess.run([SHOAL, "submit", job, "--coordinator", endpoint, "--no-wait"], capture_output=True, text=True, timeout=60, check=False)
        assert got.returncode == 0, got
        says_while_it_trains(units["worker"], report, r"^STATUS=job e2e: 1 lanes, \d+ examples, [1-9]\d*/s$")
        says_while_it_trains(units["coordinator"], report, r"^STATUS=job e2e: train, epoch [1-9]\d* of \d+, \d+ examples, [1-9]\d*/s, 1 workers$")
        says_while_it_trains(units["server"], report, r"^STATUS=serving: [1-9]\d* rows, [1-9]\d* keys/s pulled, [1-9]\d* pushed$")
        assert (space / "server/state/name").exists() and (space / "coordinator/state/state.log").exists()
        # what is told is read meanwhile, as systemd does: on a slow machine nobody's room for it is full
        within(120, "the job's end", lambda: report.exists() or not [unit.lines() for unit in units.values()])
        assert any((space / "worker/cache/data").iterdir())
        units["coordinator"].says("^STATUS=no job, 1 of 1 shards ready; the last, e2e: done$")
        before = subprocess.run([SHOAL, "digest", "--coordinator", endpoint], capture_output=True, text=True, timeout=60, check=False).stdout
        units["server"].process.kill()  # what it has in its journal is read back
        units["server"].end()
        units["server"] = start["server"]()
        units["server"].says(r"^STATUS=(recovers|serving: .*)")
        units["server"].says("^READY=1$")
        within(30, "the rows", lambda: subprocess.run([SHOAL, "digest", "--coordinator", endpoint], capture_output=True, text=True, timeout=60, check=False).stdout == before)
    finally:
        ended = {name: (unit.end(), unit.told) for name, unit in units.items()}
    assert {name: status for name, (status, _) in ended.items()} == dict.fromkeys(units, 0), ended
    assert all("STOPPING=1" in told for _, told in ended.values()), ended


def a_unit_is_ready_once_the_coordinator_has_taken_it(space):
    """A server that is refused was `active` for ever; units are named after themselves."""
    endpoint, _, start = fleet(space)
    units = {name: begin() for name, begin in start.items()}
    try:
        for unit in units.values():
            unit.says("^READY=1$")
        units["second"] = Unit(space, "second", "shoal-server", "--instance", "2")
        units["second"].says("^STATUS=the coordinator does not take this server")
        end = time.monotonic() + 12  # longer than one that has no answer is waited for
        while time.monotonic() < end:  # what is told is read meanwhile, as systemd does
            assert "READY=1" not in units["second"].lines(), units["second"].told
            time.sleep(0.2)
        status = subprocess.run([SHOAL, "status", "--coordinator", endpoint], capture_output=True, text=True, timeout=60, check=False).stdout
        units["second"].lines()
        units.pop("second").end()
        host = os.uname().nodename.split(".")[0]
        assert f"shard 0   {host}-1 " in status and f"problem: server {host}-2 " in status and f"worker    {host}-1 " in status, status
        units.pop("coordinator").end()
        units["alone"] = Unit(space, "alone", "shoal-server", "--instance", "3")
        units["alone"].says("^STATUS=waits for the coordinator")
        units["alone"].says("^READY=1$", seconds=40)  # a boot does not wait for another machine
    finally:
        for unit in units.values():
            unit.end()


def a_hang_up_reads_the_file_again(space):
    _, _, start = fleet(space)
    units = {name: start[name]() for name in ("server", "worker")}
    try:
        for name, unit in units.items():
            unit.says("^READY=1$")
            file = space / f"{name}.yaml"
            good = file.read_text()
            file.write_text(good.replace("cores: 1\n", "") + "log: debug\n" + ("shards: 4\n" if name == "server" else "cores: 7\n"))
            unit.process.send_signal(signal.SIGHUP)
            unit.says("^RELOADING=1$")
            unit.says(r"^MONOTONIC_USEC=\d+$")
            within(10, "READY again", lambda unit=unit: unit.lines().count("READY=1") == 2)
            assert "log has changed\n" in unit.said(), unit.said()
            assert ("shards" if name == "server" else "cores") + " has changed, which counts from the next start" in unit.said(), unit.said()
            file.write_text("nothing: 1\n")
            unit.process.send_signal(signal.SIGHUP)
            within(10, "READY once more", lambda unit=unit: unit.lines().count("READY=1") == 3)
            assert "unknown key nothing" in unit.said() and "what was read before stays" in unit.said(), unit.said()
            assert unit.process.poll() is None
    finally:
        ended = {name: unit.end() for name, unit in units.items()}
    assert ended == dict.fromkeys(units, 0), ended


if __name__ == "__main__":
    main([units_tell_what_they_do, a_unit_is_ready_once_the_coordinator_has_taken_it, a_hang_up_reads_the_file_again])
