#!/usr/bin/env python3
"""test_guide: the guide's sections on what happens to a fleet, typed one after another as in deploy/test-systemd, without systemd: `systemctl` starts and
ends processes here, and both machines are this one."""
import pathlib
import sys

TREE = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(TREE / "deploy"))
# pylint: disable=wrong-import-position
from booted import as_it_says, guide_sections
from fleet import Fleet, within
from lib import *

SECTIONS = ["The first job", "Backup and restore", "A fourth server", "The disk of a server is lost", "A server less", "The coordinator's machine is lost"]
UNITS = {"shoal-coordinator": None, "shoal-server@1": "a-1", "shoal-server@2": "a-2", "shoal-server@3": "b-3", "shoal-server@4": "b-4", "shoal-worker@1": "a-1", "shoal-worker@2": "b-2"}


class Machines(Fleet):
    """The guide's fleet; the name of a process is that of its unit."""

    def __init__(self, space):
        super().__init__(space, "g", 3)
        for name in ("srv", "points", "var", "etc/keys"):
            (space / name).mkdir(parents=True)
        (space / "etc/server.yaml").write_text("listen: tcp://0.0.0.0:7070\n")
        subprocess.run([SHOAL, "keygen", space / "etc/keys/coordinator.key"], check=True, stdout=subprocess.DEVNULL)
        self.shell = space.path
        self.paths = {"/etc/shoal": space / "etc", "/var/lib/shoal/checkpoints": space / "points", "/var/lib/shoal": space / "var", "/srv": space / "srv",
                      "/usr/share/doc/shoal-tools/examples/jobs": TREE / "deploy/jobs"}

    def here(self, text):
        for path, own in self.paths.items():
            text = text.replace(path, str(own))
        return text

    def unit_start(self, unit):
        state = self.space / "var" / unit.removeprefix("shoal-").replace("@", "-")
        if unit == "shoal-coordinator":
            self.start(unit, "--set", f"listen={self.endpoint}", "--set", f"data_dir={state}", "--set", "shards=3", program=unit)
        elif unit.startswith("shoal-server@"):
            self.start(unit, "--set", f"listen={self.at(unit)}", "--set", f"data_dir={state}", "--set", f"name={UNITS[unit]}", "--set",
                       f"coordinator={self.endpoint}")
        else:
            self.start(unit, "run", "--set", f"name={UNITS[unit]}", "--set", f"coordinator={self.endpoint}", "--set", f"cache={state}", program="shoal-worker")

    def systemctl(self, verb, *units):
        for unit in list(self.running) if units == ("shoal.target",) else units:
            if verb in ("stop", "restart", "disable"):
                self.stop(unit)
            if verb in ("start", "restart", "enable"):
                self.unit_start(unit)

    def type(self, command, wanted):
        if command.startswith("systemctl "):
            self.systemctl(*[word for word in command.split()[1:] if not word.startswith("--")])
        if command.startswith(("systemctl ", "scp ")):
            return
        environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "SHOAL_COORDINATOR": self.endpoint}
        sleeps, command = re.fullmatch(r"(sleep \d+; )?(.*)", command).groups()
        line = f"cd {self.shell}; {self.here(command)}\nstatus=$?; pwd >{self.space}/pwd; exit $status"
        end = time.monotonic() + PATIENCE * 30
        while True:
            got = subprocess.run(["bash", "-c", line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 timeout=PATIENCE * 60, check=False, env=environment)
            good = got.returncode == 0 and as_it_says([self.here(line) for line in wanted], got.stdout)
            if good or not sleeps or time.monotonic() > end:  # what the page waits for with a sleep may take longer on a busy machine
                break
            time.sleep(1)
        assert good, (command, got.returncode, got.stdout, wanted)
        self.shell = (self.space / "pwd").read_text().strip()


def what_happens_to_a_fleet(space):
    sections = guide_sections()
    with Machines(space) as machines:
        for unit in UNITS:
            if unit != "shoal-server@4":
                machines.unit_start(unit)
        within(20, "the servers", lambda: len(machines.state().get("servers", [])) == 3)
        for heading in SECTIONS:
            for _, command, wanted in sections[heading]:
                try:
                    machines.type(command, wanted)
                except subprocess.TimeoutExpired as e:
                    raise AssertionError(f"{command}: {machines.told().stdout}") from e
            print(f"      {heading}: {len(sections[heading])} commands", flush=True)


if __name__ == "__main__":
    main([what_happens_to_a_fleet])
