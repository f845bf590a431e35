#!/usr/bin/env python3
"""units.py: what the shipped units promise together with the code: MemoryHigh= and MemoryMax= stand above what a server with the default budget
takes, on machines of every size; no two daemons are one user or share a folder of state; a worker may not write checkpoints; each unit has what it
must not lack, and users and folders that are not made. Control: units with one line changed are found."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB, GIB = 1 << 20, 1 << 30
MACHINES = [GIB, 2 * GIB, 3 * GIB, 8 * GIB, 64 * GIB, 1024 * GIB, 8192 * GIB]
UNITS = {"shoal-server": "shoal-server@", "shoal-coordinator": "shoal-coordinator", "shoal-worker": "shoal-worker@"}
# Settings of every unit.
ALL = {"Type": "notify", "Restart": "on-failure", "RestartPreventExitStatus": "64 65 77 78", "WatchdogSec": "30",
       "Group": "shoal", "LimitCORE": "infinity", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "ProtectSystem": "strict", "ProtectHome": "yes",
       "IPAddressDeny": "any", "MemorySwapMax": "0", "RestartSec": "1", "RuntimeDirectoryPreserve": "restart"}


def lines(text):
    """Key -> its values, in order."""
    found = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", text, re.M):
        found.setdefault(key, []).append(value)
    return found


def default_share():
    """The rows' part of what is allowed, as the server has it."""
    below, above = re.search(r'machine_memory\(""\) / (\d+) \* (\d+)', (ROOT / "server/server_memory.c").read_text(encoding="utf-8")).groups()
    return int(above) / int(below)


def memory_faults(unit, share):
    high, most = (int(unit[key][0].rstrip("%")) / 100 for key in ("MemoryHigh", "MemoryMax"))
    for machine in MACHINES:
        for kind, allowed in (("v2", min(high, most)), ("v1", most)): # v1 has no high
            takes = machine * allowed * share * 1.05 + 64 * MIB
            if takes > machine * allowed:
                yield f"shoal-server on {machine // GIB} GiB, cgroup {kind}: takes {takes / MIB:.0f} MiB, may have {machine * allowed / MIB:.0f}"


def folder_faults(units):
    users = [unit["User"][0] for unit in units.values()]
    states = [unit[key][0] for unit in units.values() for key in ("StateDirectory", "CacheDirectory", "RuntimeDirectory") if key in unit]
    if len(set(users)) < len(users) or any(other.startswith(state + "/") for state in states for other in states):
        yield f"units share a user or a folder: {users}, {states}"
    for kind in ("StateDirectory", "CacheDirectory", "RuntimeDirectory"):
        of_kind = [unit[kind][0] for unit in units.values() if kind in unit]
        if len(set(of_kind)) < len(of_kind):
            yield f"two units have one {kind}: {of_kind}"
    if "shoal-store" in units["shoal-worker"].get("SupplementaryGroups", []):
        yield "shoal-worker: it has the group that may change checkpoints"


def boot_faults(unit):
    """A machine that started again is known by its boot id (proto/base/machine.h), which lies outside of a /proc of processes alone."""
    if unit.get("ProcSubset") == ["pid"] and "SHOAL_BOOT=%b" not in unit.get("Environment", []):
        yield "shoal-server: nobody tells it the start of the machine: Environment=SHOAL_BOOT=%b"


def user_faults(units):
    """Over a socket the user says the role (proto/net/local.h), which a user namespace of the daemon's own hides, but for root and the
    daemon's own user: a worker's socket is for workers, which are that user."""
    for name, unit in units.items():
        if name != "shoal-worker" and unit.get("PrivateUsers", ["no"]) != ["no"]:
            yield f"{name}: it cannot tell the users of its socket apart: PrivateUsers=yes"


def final_faults(units):
    """A daemon does not wait (proto/net/starts.c) where systemd does not try again."""
    said = re.search(r"bool is_final\(int status\)\n{\n    return (.*);", (ROOT / "proto/net/starts.c").read_text(encoding="utf-8"))[1]
    for name, unit in units.items():
        if unit.get("RestartPreventExitStatus") != [" ".join(re.findall(r"\d+", said))]:
            yield f"{name}: is_final says {said}"


def line_faults(units, users, folders):
    for name, unit in units.items():
        yield from (f"{name}: {key}={unit.get(key)}, not {value}" for key, value in ALL.items() if unit.get(key) != [value])
        checked = f"/usr/bin/env -u CREDENTIALS_DIRECTORY {unit['ExecStart'][0]} --check"
        if unit.get("ExecReload") != [checked, "/bin/sh -c 'kill -HUP $MAINPID'"]:
            yield f"{name}: a reload does not look at the files first: {checked}"
        if "shoal.target" not in unit["After"][0].split():
            yield f"{name}: a stop of shoal.target does not wait for it"
        for who, kind in ((unit["User"][0], "u"), (unit["Group"][0], "g"), *((g, "g") for g in unit.get("SupplementaryGroups", []))):
            if not re.search(rf"^{kind} {who} ", users, re.M):
                yield f"{name}: nobody makes {kind} {who}"
        for root, kind in (("/var/lib", "StateDirectory"), ("/var/cache", "CacheDirectory"), ("/run", "RuntimeDirectory")):
            for folder in unit.get(kind, []):
                if f"d {root}/{folder.rsplit('/', 1)[0]} " not in folders:
                    yield f"{name}: nobody makes the folder of {root}/{folder}"


def faults(texts, users, folders):
    units = {name: lines(text) for name, text in texts.items()}
    return [*memory_faults(units["shoal-server"], default_share()), *folder_faults(units), *boot_faults(units["shoal-server"]), *user_faults(units), *final_faults(units), *line_faults(units, users, folders)]


def main():
    read = lambda name: (ROOT / "deploy/systemd" / name).read_text(encoding="utf-8")
    texts = {name: read(f"{file}.service") for name, file in UNITS.items()}
    made = read("shoal.sysusers"), read("shoal.tmpfiles")
    found = faults(texts, *made)
    planted = [("shoal-server", "MemoryHigh=85%", "MemoryHigh=15%"), ("shoal-server", "MemoryMax=90%", "MemoryMax=10%"), ("shoal-worker", " shoal.target", ""),
               ("shoal-server", "User=shoal-server", "User=shoal-coordinator"), ("shoal-server", "shoal/server-%i", "shoal"),
               ("shoal-coordinator", "Directory=shoal/coordinator", "Directory=other/coordinator"),
               ("shoal-server", "Directory=shoal/server-%i", "Directory=shoal/coordinator"),
               ("shoal-worker", "Group=shoal", "Group=shoal\nSupplementaryGroups=shoal-store"),
               ("shoal-worker", "RestartPreventExitStatus=64 65 77 78", ""), ("shoal-coordinator", "ProtectHome=yes", "ProtectHome=read-only"),
               ("shoal-server", "SHOAL_BOOT=%b", ""), ("shoal-worker", " --check", ""), ("shoal-server", "Group=shoal", "Group=shoals"),
               ("shoal-coordinator", "PrivateMounts=yes", "PrivateMounts=yes\nPrivateUsers=yes")]
    missed = [line for name, line, wrong in planted if not faults({**texts, name: texts[name].replace(line, wrong)}, *made)]
    for line in found + [f"control: a wrong {line} is not found" for line in missed]:
        print(line)
    return 1 if found or missed else 0


sys.exit(main())
