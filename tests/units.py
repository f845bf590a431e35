#!/usr/bin/env python3
"""units.py: what the shipped units promise together with the code: MemoryHigh= and MemoryMax= stand above what a server with the default budget
takes, on machines of every size; no two daemons are one user or share a folder of state; what coordinator.yaml and server.yaml name is theirs to
write. Control: units with one line changed are found."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB, GIB = 1 << 20, 1 << 30
MACHINES = [GIB, 2 * GIB, 3 * GIB, 8 * GIB, 64 * GIB, 1024 * GIB, 8192 * GIB]
UNITS = ["shoal-server", "shoal-coordinator", "shoal-worker"]


def lines(text):
    """Key -> its values, in order."""
    found = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", text, re.M):
        found.setdefault(key, []).append(value)
    return found


def default_share():
    """The rows' part of what is allowed, as the server has it."""
    below, above = re.search(r'machine_memory\(""\) / (\d+) \* (\d+)', (ROOT / "server/server_main.c").read_text(encoding="utf-8")).groups()
    return int(above) / int(below)


def memory_faults(unit, share):
    high, most = (int(unit[key][0].rstrip("%")) / 100 for key in ("MemoryHigh", "MemoryMax"))
    for machine in MACHINES:
        for kind, allowed in (("v2", min(high, most)), ("v1", most)): # v1 has no high
            takes = machine * allowed * share * 1.05 + 64 * MIB
            if takes > machine * allowed:
                yield f"shoal-server on {machine // GIB} GiB, cgroup {kind}: takes {takes / MIB:.0f} MiB, may have {machine * allowed / MIB:.0f}"


def folder_faults(units, settings):
    users = [unit["User"][0] for unit in units.values()]
    states = [unit[key][0] for unit in units.values() for key in ("StateDirectory", "CacheDirectory") if key in unit]
    if len(set(users)) < len(users) or len(set(states)) < len(states) or any(other.startswith(state + "/") for state in states for other in states):
        yield f"units share a user or a folder: {users}, {states}"
    for name, folder in settings.items():
        if folder != "/var/lib/" + units[name]["StateDirectory"][0].replace("%i", ""):
            yield f"{name}: data_dir {folder} is not its StateDirectory"
    if "Group" in units["shoal-worker"]:
        yield "shoal-worker: it has the group that may change checkpoints"


def faults(texts, settings):
    units = {name: lines(text) for name, text in texts.items()}
    return [*memory_faults(units["shoal-server"], default_share()), *folder_faults(units, settings)]


def main():
    texts = {name: (ROOT / f"deploy/systemd/{name}.service").read_text(encoding="utf-8") for name in UNITS}
    settings = {f"shoal-{name}": re.search(r"^data_dir: (\S+)", (ROOT / f"deploy/systemd/{name}.yaml").read_text(encoding="utf-8"), re.M).group(1)
                for name in ("server", "coordinator")}
    found = faults(texts, settings)
    planted = [("shoal-server", "MemoryHigh=85%", "MemoryHigh=15%"), ("shoal-server", "MemoryMax=90%", "MemoryMax=10%"),
               ("shoal-server", "User=shoal-server", "User=shoal-coordinator"), ("shoal-server", "shoal/server%i", "shoal"),
               ("shoal-coordinator", "StateDirectory=shoal/coordinator", "StateDirectory=shoal/other"),
               ("shoal-worker", "User=shoal-worker", "User=shoal-worker\nGroup=shoal")]
    missed = [line for name, line, wrong in planted if not faults({**texts, name: texts[name].replace(line, wrong)}, settings)]
    for line in found + [f"control: a wrong {line} is not found" for line in missed]:
        print(line)
    return 1 if found or missed else 0


sys.exit(main())
