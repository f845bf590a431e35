"""booted: systemd in containers over throw-away layers, with a network between, and the guide typed there; for test-systemd."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from bare import HERE, WORDS, run, say

GUIDE = HERE / "deploy/manual/guide.md"
CHECKPOINTS = "/var/lib/shoal/checkpoints"
ASK = """
import sys, urllib.error, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout=10) as answer:
        print(answer.status, answer.read().decode(), end="")
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode(), end="")
"""


def child_of(parent, name):
    for entry in pathlib.Path("/proc").iterdir() if parent else ():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                head, tail = entry.joinpath("stat").read_text().rsplit(")", 1)
                if int(tail.split()[1]) == parent and head.endswith("(" + name):
                    return int(entry.name)
    return 0


def wait(what, seconds, ready):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = ready()
        if got:
            return got
        time.sleep(0.2)
    raise AssertionError(f"{what}: not within {seconds} s")


class Machine:
    """systemd in a container: a folder as its disk, a network namespace as its network."""

    def __init__(self, disk, name, binds=()):
        self.disk, self.name, self.binds = disk, name, binds
        self.console, self.nspawn, self.init, self.environment, self.folder = None, None, 0, [], "/root"

    def boot(self):
        began = time.monotonic()
        self.console = open(self.disk.parent / f"console-{self.name}", "a", encoding="utf-8")
        binds = " ".join(f"--bind={ours}:{theirs}" for ours, theirs in self.binds)
        words = (f"systemd-nspawn -q -D {self.disk} -M {self.name} {binds} --network-namespace-path=/run/netns/{namespace(self.name)} --register=no "
                 "--keep-unit -b")
        self.nspawn = subprocess.Popen(["script", "-qc", words, "/dev/null"], stdin=subprocess.DEVNULL, stdout=self.console,
                                       stderr=self.console, start_new_session=True)
        self.init = wait("the container's init", 30, lambda: child_of(child_of(self.nspawn.pid, "systemd-nspawn"), "systemd"))
        wait("the container's boot", 90, lambda: self.ask("systemctl", "is-system-running").strip() in ("running", "degraded"))
        say(f"{self.name} booted in {time.monotonic() - began:.1f} s")

    def within(self, *words):
        """The words that run a command in the container."""
        return ["nsenter", "-t", str(self.init), "-m", "-u", "-i", "-n", "-p", "--", *WORDS, *self.environment, *map(str, words)]

    def ask(self, *words):
        """What a command in the container prints; its status is not asked for."""
        got = subprocess.run(self.within(*words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False)
        return got.stdout + got.stderr

    def do(self, line):
        """A line of shell in the container that must succeed."""
        got = subprocess.run(self.within("sh", "-ec", line), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False)
        assert got.returncode == 0, (line, got.returncode, got.stdout, got.stderr)
        return got.stdout

    def good(self, *words):
        """Whether a command in the container succeeds."""
        return subprocess.run(self.within(*words), stdin=subprocess.DEVNULL, capture_output=True, timeout=900, check=False).returncode == 0

    def fetch(self, port, path):
        """Status and text that HTTP answers at a port of the container's loopback; (0, why) without an answer."""
        got = subprocess.run(["nsenter", "-t", str(self.init), "-n", sys.executable, "-c", ASK, f"http://127.0.0.1:{port}{path}"], capture_output=True,
                             text=True, check=False)
        status, _, text = got.stdout.partition(" ")
        return (int(status), text) if got.returncode == 0 else (0, got.stderr[-300:])

    def show(self, unit, what):
        return self.ask("systemctl", "show", unit, "--value", "-p", what).strip()

    def journal(self, unit):
        return self.ask("journalctl", "--no-pager", "-o", "cat", "-u", unit)

    def pid(self, unit):
        """The unit's process as this machine numbers it, or 0."""
        inner = self.show(unit, "MainPID")
        if inner in ("", "0"):
            return 0
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if not entry.name.isdigit() or not entry.joinpath("cmdline").read_bytes().startswith(b"/usr/bin/shoal"):
                    continue
                numbers = re.search(r"^NSpid:\s+(.*)$", entry.joinpath("status").read_text(), re.M).group(1).split()
                if numbers[-1] == inner and len(numbers) == 2 and os.readlink(entry / "ns/net") == os.readlink(f"/proc/{self.init}/ns/net"):
                    return int(entry.name)
        return 0

    def halt(self, word):
        """Ends the container by `systemctl WORD` and waits for its end (a reboot ends it too: boot() it again)."""
        self.ask("systemctl", word)
        self.nspawn.wait(180)
        self.console.close()
        self.nspawn = None

    def burn(self):
        """No peer hears of its end."""
        run("ip", "-n", namespace(self.name), "link", "set", "host0", "down")
        os.kill(self.init, signal.SIGKILL)
        self.nspawn.wait(60)
        self.console.close()
        self.nspawn = None

    def close(self):
        if self.nspawn is not None:
            with contextlib.suppress(Exception):
                self.halt("poweroff")
        if self.nspawn is not None:
            os.killpg(self.nspawn.pid, signal.SIGKILL)


# ---- their network

def namespace(name):
    return f"shoal-{os.getpid()}-{name}"


@contextlib.contextmanager
def network(disks):
    """A network of the machines (name -> disk), who find each other by name."""
    addresses = {name: f"10.99.1.{i}" for i, name in enumerate(disks, 1)}
    bridge = f"shoal{os.getpid()}"[:15]
    made = []
    try:
        run("ip", "link", "add", bridge, "type", "bridge")
        run("ip", "link", "set", bridge, "up")
        for i, (name, address) in enumerate(addresses.items()):
            space, cable = namespace(name), f"{bridge[:13]}{i}"
            run("ip", "netns", "add", space)
            made.append(space)
            run("ip", "link", "add", cable, "type", "veth", "peer", "name", "host0", "netns", space)
            run("ip", "link", "set", cable, "master", bridge, "up")
            for words in (["addr", "add", f"{address}/24", "dev", "host0"], ["link", "set", "host0", "up"], ["link", "set", "lo", "up"]):
                run("ip", "-n", space, *words)
        for name, disk in disks.items():
            (disk / "etc/hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{at} {who}\n" for who, at in addresses.items()), encoding="utf-8")
            (disk / "etc/hostname").write_text(name + "\n", encoding="utf-8")
        yield addresses
    finally:
        for space in made:
            subprocess.run(["ip", "netns", "del", space], check=False)
        subprocess.run(["ip", "link", "del", bridge], check=False)


# ---- the guide

def guide_sections():
    """Heading -> steps (machine, command, what one sees) of the guide's blocks."""
    sections = {}
    for part in re.split(r"(?m)^## ", GUIDE.read_text(encoding="utf-8"))[1:]:
        heading, body = part.split("\n", 1)
        steps = sections[heading.strip()] = []
        for block in re.findall(r"(?ms)^```\n(.*?)^```$", body):
            for line in block.splitlines():
                prompt = re.match(r"([a-z])# (.*)", line)
                if prompt:
                    steps.append((prompt[1], prompt[2], []))
                else:
                    steps[-1][2].append(line)
    return sections


def as_it_says(wanted, got):
    """Whether what was printed is what the guide shows: `...` is anything."""
    form = re.escape("\n".join(wanted)).replace(re.escape("..."), "(?s:.*)")
    return re.fullmatch(form, got.strip()) is not None


def type_step(machines, host, command, wanted):
    """One step, in a shell that keeps its folder and its environment."""
    m = machines[host]
    copy = re.fullmatch(r"scp (.*) ([a-z]):(\S+)", command)
    if copy: # no ssh here: what it does
        for name in copy[1].split():
            source, target = m.disk / m.folder[1:] / name, machines[copy[2]].disk / copy[3][1:] / name
            shutil.copy(source, target)
            shutil.copymode(source, target)
        return
    export = re.fullmatch(r"export (.*)", command)
    if export:
        for other in machines.values():
            other.environment = export[1].split()
        return
    line = f"cd {m.folder}; {command}\nstatus=$?; pwd >/run/guide-folder; exit $status"
    got = subprocess.run(m.within("bash", "-c", line), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         timeout=900, check=False)
    assert got.returncode == 0 and as_it_says(wanted, got.stdout), (host, command, got.returncode, got.stdout, wanted)
    m.folder = m.ask("cat", "/run/guide-folder").strip() or m.folder


def guide_type(machines, heading):
    steps = guide_sections()[heading]
    for host, command, wanted in steps:
        type_step(machines, host, command, wanted)
    say(f"guide, {heading}: {len(steps)} commands")


@contextlib.contextmanager
def booted(disks):
    """Machines (name -> Machine) on one network, with one folder for checkpoints."""
    shared = pathlib.Path(tempfile.mkdtemp(prefix="shoal-checkpoints-", dir=next(iter(disks.values())).parent))
    with network(disks):
        machines = {name: Machine(disk, name, [(shared, CHECKPOINTS)]) for name, disk in disks.items()}
        try:
            for m in machines.values():
                m.boot()
            yield machines
        finally:
            for m in machines.values():
                m.close()
            shutil.rmtree(shared, ignore_errors=True)
