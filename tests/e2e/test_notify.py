#!/usr/bin/env python3
"""test_notify: what systemd is told by daemons that are units: READY, STATUS, RELOADING, STOPPING, time; their folders; SIGHUP."""
import re
import socket

from fleet import within
from lib import *

HEALTHY = pathlib.Path(__file__).resolve().parents[2] / "deploy/healthy"


class Unit:
    """A daemon with a notify socket and the folders that systemd gives a unit."""

    def __init__(self, space, name, program, *words, **environment):
        self.folder, self.socket = space / name, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        for kind in ("state", "run", "cache"):
            (self.folder / kind).mkdir(parents=True, exist_ok=True)
        path = self.folder / "notify"
        path.unlink(missing_ok=True)
        self.socket.bind(str(path))
        self.socket.setblocking(False)
        self.told = []
        self.environment = dict(os.environ, NOTIFY_SOCKET=str(path), STATE_DIRECTORY=str(self.folder / "state"), RUNTIME_DIRECTORY=str(self.folder / "run"),
                           CACHE_DIRECTORY=str(self.folder / "cache"), SHOAL_CONFIG_DIR=str(space.path), **environment)
        self.log = open(self.folder / "log", "a", encoding="utf-8")
        self.process = subprocess.Popen([BIN / program, *map(str, words)], env=self.environment, stdout=self.log, stderr=self.log)

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
        status = self.process.wait(PATIENCE * 30)
        self.lines()
        self.socket.close()
        self.log.close()
        return status


def fleet(space):
    """Three units, with only the settings that a unit gives, and the coordinator's endpoint."""
    endpoint = f"ipc://{space / 'coordinator'}/run/socket"
    (space / "server.yaml").write_text(f"coordinator: {endpoint}\n")
    (space / "worker.yaml").write_text(f"coordinator: {endpoint}\ncores: 1\nlanes: 1\n")
    report = space / "report.json"
    return endpoint, report, {"coordinator": lambda **e: Unit(space, "coordinator", "shoal-coordinator", "--set", f"report={report}", **e),
                              "server": lambda **e: Unit(space, "server", "shoal-server", "--instance", "1", **e),
                              "worker": lambda **e: Unit(space, "worker", "shoal-worker", "run", "--instance", "1", **e)}


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
        assert (space / "server/state/name").exists() and (space / "coordinator/state/store/CURRENT").exists()
        # messages are read meanwhile, as by systemd: on a slow machine no daemon's buffer for them fills up
        within(120, "the job's end", lambda: report.exists() or not [unit.lines() for unit in units.values()])
        assert any((space / "worker/cache/data").iterdir())
        units["coordinator"].says("^STATUS=no job, 1 of 1 shards ready; the last, e2e: done$")
        before = subprocess.run([SHOAL, "digest", "--coordinator", endpoint], capture_output=True, text=True, timeout=60, check=False).stdout
        units["server"].process.kill()  # the records in its journal are read back
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
        while time.monotonic() < end:  # messages are read meanwhile, as by systemd
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
            # ExecReload= checks first, with all that systemd gives the unit: that is no start, failed or not
            for text, status in ((good, 0), ("nothing: 1\n", 78)):
                file.write_text(text)
                words = ["run"] if name == "worker" else []
                got = subprocess.run([BIN / f"shoal-{name}", *words, "--instance", "1", "--check"], env=unit.environment, capture_output=True, text=True,
                                     timeout=60, check=False)
                assert got.returncode == status and not (space / name / "run/starts").exists(), got
    finally:
        ended = {name: unit.end() for name, unit in units.items()}
    assert ended == dict.fromkeys(units, 0), ended


def a_unit_that_fails_to_start_is_named_with_the_cause(space):
    """Its coordinator cannot know of it: status and doctor on its machine tell how often, and why."""
    endpoint, _, start = fleet(space)
    units = space / "units"  # as /run/shoal
    units.mkdir()
    (units / "server-1").symlink_to(space / "server/run")
    broken = space / "server/state/name"

    def look(verb, status):
        got = subprocess.run([SHOAL, *verb.split(), "--coordinator", endpoint], capture_output=True, text=True, timeout=60, check=False,
                             env=dict(os.environ, SHOAL_RUNTIME_DIR=str(units)))
        assert got.returncode == status, (verb, got)
        return got.stdout

    coordinator = start["coordinator"]()
    try:
        coordinator.says("^READY=1$")
        broken.mkdir(parents=True)  # not the file that it is to be
        for _ in range(3):
            server = start["server"]()
            cause = server.says(r"^STATUS=has failed to start \d times in \d+ s: (.*)$")[1]
            assert server.process.wait(PATIENCE * 30) in (69, 73, 74), server.said()
            server.end()
        for verb, status in (("status", 0), ("doctor --cluster", 69)):
            said = look(verb, status)
            assert re.search("problem: (units +)?shoal-server@1 on this machine has failed to start 3 times in ", said) and cause in said, said
        broken.rmdir()
        server = start["server"]()
        server.says("^READY=1$")
        assert "fail" not in look("status", 0) + look("doctor --cluster", 0)
        assert server.end() == 0
    finally:
        coordinator.end()


def a_daemon_that_hangs_is_not_healthy(space):
    """Health as containers check it: by each daemon's own work. A coordinator that is away makes no daemon unhealthy."""
    _, _, start = fleet(space)

    def healthy(name):
        return subprocess.run([HEALTHY, "6"], env=dict(os.environ, RUNTIME_DIRECTORY=str(space / name / "run")), check=False).returncode == 0

    units = {name: start[name](WATCHDOG_USEC="6000000") for name in start}
    try:
        for name in units:
            within(40, f"{name}'s pulse", lambda name=name: healthy(name) or not [unit.lines() for unit in units.values()])
        assert units.pop("coordinator").end() == 0
        end = time.monotonic() + 12
        while time.monotonic() < end:
            assert healthy("server") and healthy("worker"), [unit.told for unit in units.values()]
            [unit.lines() for unit in units.values()]
            time.sleep(1)
        assert not healthy("coordinator")
        units["server"].process.send_signal(signal.SIGSTOP)
        within(15, "a server that hangs", lambda: not healthy("server"))
        assert healthy("worker")
        units["server"].process.send_signal(signal.SIGCONT)
        within(15, "a server that goes on", lambda: healthy("server"))
    finally:
        for unit in units.values():
            unit.end()


if __name__ == "__main__":
    main([units_tell_what_they_do, a_unit_is_ready_once_the_coordinator_has_taken_it, a_hang_up_reads_the_file_again,
          a_unit_that_fails_to_start_is_named_with_the_cause, a_daemon_that_hangs_is_not_healthy])
