#!/usr/bin/env python3
"""takeover.py: deploy/takeover, which makes the packages' fleet of one that was set up by hand, on made-up trees, with a systemctl and owners of
its own: nothing is lost, what ran runs, and killed before a command of it and called again it ends in the same tree. Control: a takeover that
forgets a step is found."""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "deploy/takeover"
ROLES = ["server", "coordinator", "worker"]
COUNTED = ["mv", "rm", "rmdir", "mkdir", "chmod", "find"] # none of them beside another in one pipeline
WRAPPER = """#!/bin/sh
read n <"$FAKE/count"
n=$((n + 1))
echo $n >"$FAKE/count"
[ $n -ne "$DIE" ] || kill -KILL 0
"""
SYSTEMCTL = WRAPPER + r"""
unit=${2:-}
case $1 in
    is-active) [ -e "$FAKE/active/$unit" ] && echo active || { echo inactive; exit 3; } ;;
    stop) rm -f "$FAKE/active/$unit" ;;
    start) touch "$FAKE/active/$unit" ;;
    enable) mkdir -p "$SHOAL_ROOT/etc/systemd/system/multi-user.target.wants"
            ln -sf "/usr/lib/systemd/system/$(echo "$unit" | sed 's/@.*\./@./')" "$SHOAL_ROOT/etc/systemd/system/multi-user.target.wants/$unit" ;;
    list-units) for path in "$FAKE"/active/*; do echo "${path##*/} loaded active running x"; done ;;
esac
"""
CHOWN = WRAPPER + """
[ "$1" != -h ] || shift
owner=${1%%:*}
shift
for path; do echo "$path $owner" >>"$FAKE/owners"; done
"""
STAT = """#!/bin/sh
[ "$2" = %U ] || exec /usr/bin/stat "$@"
found=$(grep "^$3 " "$FAKE/owners" | tail -n 1)
echo "${found##* }"
"""


def tools(fake):
    (fake / "bin").mkdir()
    (fake / "active").mkdir()
    (fake / "owners").touch()
    bodies = {name: WRAPPER + f'exec {shutil.which(name)} "$@"\n' for name in COUNTED}
    bodies |= {"systemctl": SYSTEMCTL, "chown": CHOWN, "chgrp": WRAPPER, "stat": STAT}
    for name, body in bodies.items():
        (fake / "bin" / name).write_text(body if body.startswith("#!") else "#!/bin/sh\n" + body, encoding="utf-8")
        (fake / "bin" / name).chmod(0o755)


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def by_hand(root, oldest):
    """Two servers, a coordinator and a worker as the manual's lines set them up; oldest: when all were one user in one folder."""
    units, etc, private = root / "etc/systemd/system", root / "etc/shoal", root / "var/lib/private/shoal"
    for name in ("coordinator", "server", "server@", "worker", "worker@"):
        folder = "shoal" if oldest else "shoal/x"
        put(units / f"shoal-{name}.service", f"[Service]\nDynamicUser=yes\nStateDirectory={folder}\n")
    for name in ("shoal-coordinator", "shoal-server", "shoal-server@2", "shoal-worker"):
        link = units / f"multi-user.target.wants/{name}.service"
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(f"/etc/systemd/system/{re.sub('@.*', '@', name)}.service")
    put(units / "shoal-server.service.d/net.conf", "[Service]\nIPAddressAllow=10.0.0.0/8\n")
    put(etc / "server.yaml", "listen: tcp://127.0.0.1:7070\ndata_dir: /var/lib/shoal/server   # rows\n")
    put(etc / "server2.yaml", "data_dir: /var/lib/shoal/server2\nlisten: tcp://127.0.0.1:7080\n")
    put(etc / "coordinator.yaml", f"data_dir: /var/lib/shoal/coordinator\nreport: /var/lib/shoal/{'' if oldest else 'coordinator/'}report.json\n")
    put(etc / "worker.env", "SHOAL_COORDINATOR=tcp://10.0.0.1:7000\n")
    put(root / "usr/share/shoal/worker.yaml", "# one\ncoordinator: tcp://127.0.0.1:7000\nlanes: 2\n")
    for name in ("server", "server2", "coordinator"):
        put(private / name / "rows", f"of {name}")
        put(private / name / "lock", "")
    put(root / "var/cache/private/shoal/worker/data/block", "decoded")
    if oldest:
        put(private / "report.json", "{}")
        put(private / "checkpoints/000001/manifest.json", "{}")
        (root / "var/lib/shoal").symlink_to("private/shoal")
    else:
        put(root / "var/lib/shoal/checkpoints/000001/manifest.json", "{}")
        for name in ("server", "server2", "coordinator"):
            (root / "var/lib/shoal" / name).symlink_to(f"../private/shoal/{name}")
    (root / "run/systemd/system").mkdir(parents=True)


def listing(root):
    """Everything but the fakes: path -> what it is."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if not name.startswith("fake"):
            found[name] = f"-> {os.readlink(path)}" if path.is_symlink() else "folder" if path.is_dir() else path.read_text(encoding="utf-8")
    return found


class Space:
    def __init__(self, folder, oldest, script=SCRIPT):
        self.root, self.fake, self.script = folder, folder / "fake", script
        self.fake.mkdir(parents=True)
        tools(self.fake)
        by_hand(folder, oldest)
        for name in ("shoal-coordinator", "shoal-server", "shoal-server@2"):
            (self.fake / f"active/{name}.service").touch()

    def run(self, die=0):
        """All roles, one after the other, up to a death; whether there was none."""
        (self.fake / "count").write_text("0")
        for role in ROLES:
            got = subprocess.run([self.script, role], start_new_session=True, capture_output=True, text=True, check=False,
                                 env={"PATH": f"{self.fake}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "SHOAL_ROOT": str(self.root), "FAKE": str(self.fake),
                                      "DIE": str(die)})
            if got.returncode == -9:
                return False
            assert got.returncode == 0, (role, got)
        return True

    def commands(self):
        return int((self.fake / "count").read_text())

    def owners(self):
        lines = (line.rsplit(" ", 1) for line in (self.fake / "owners").read_text().splitlines())
        return {path.replace(str(self.root) + "/", ""): owner for path, owner in lines}

    def end(self):
        return {**listing(self.root), "active": sorted(p.name for p in (self.fake / "active").iterdir()), "owners": self.owners()}


PLAIN = "insecure_plaintext: true # as before, without keys: man 7 shoal\n"


def right(end, oldest):
    """Returns what is wrong with a tree after the takeover."""
    state = "var/lib/shoal"
    wanted = {f"{state}/server-main/rows": "of server", f"{state}/server-2/rows": "of server2", f"{state}/coordinator/rows": "of coordinator",
              f"{state}/checkpoints/000001/manifest.json": "{}", "var/cache/shoal/worker-main/data/block": "decoded",
              "etc/shoal/server-main.yaml": f"listen: tcp://127.0.0.1:7070\ndata_dir: /var/lib/shoal/server-main   # rows\ncoordinator: tcp://127.0.0.1:7000\n{PLAIN}",
              "etc/shoal/server-2.yaml": f"data_dir: /var/lib/shoal/server-2\nlisten: tcp://127.0.0.1:7080\ncoordinator: tcp://127.0.0.1:7000\n{PLAIN}",
              "etc/shoal/server.yaml.shoal-old": "listen: tcp://127.0.0.1:7070\ndata_dir: /var/lib/shoal/server   # rows\n",
              "etc/shoal/coordinator.yaml": f"data_dir: /var/lib/shoal/coordinator\nreport: /var/lib/shoal/coordinator/report.json\nlisten: tcp://127.0.0.1:7000\n{PLAIN}",
              "etc/shoal/worker-main.yaml": f"# one\ncoordinator: tcp://10.0.0.1:7000\nlanes: 2\n{PLAIN}",
              "etc/systemd/system/shoal-server@main.service.d/net.conf": "[Service]\nIPAddressAllow=10.0.0.0/8\n",
              "active": ["shoal-coordinator.service", "shoal-server@2.service", "shoal-server@main.service"]}
    wanted |= {f"etc/systemd/system/multi-user.target.wants/{new}.service": f"-> /usr/lib/systemd/system/{re.sub('@.*', '@', new)}.service"
               for new in ("shoal-coordinator", "shoal-server@main", "shoal-server@2", "shoal-worker@main")}
    if oldest:
        wanted[f"{state}/coordinator/report.json"] = "{}"
    faults = [f"{path}: {end.get(path)!r}, not {text!r}" for path, text in wanted.items() if end.get(path) != text]
    faults += [f"{path} is still there" for path in end if re.search(r"system/shoal-[^/]*\.service$|wants/shoal-(server|worker)\.service|takeover-|\.part$|"
                                                                     r"shoal/server2?(\.yaml)?$|private/shoal/.", path)]
    owners = {f"{state}/server-main": "shoal-server", f"{state}/server-2/rows": "shoal-server", f"{state}/coordinator": "shoal-coordinator",
              "var/cache/shoal/worker-main": "shoal-worker"}
    return faults + [f"{path} is {end['owners'].get(path)}'s" for path, owner in owners.items() if end["owners"].get(path) != owner]


def faults(folder, oldest, every, script=SCRIPT):
    plain = Space(folder / "plain", oldest, script)
    if not plain.run():
        return ["it ends before its end"]
    wanted, commands = plain.end(), plain.commands()
    found = right(wanted, oldest)
    plain.run()
    if plain.end() != wanted:
        found.append("called once more it changes something")
    for die in range(commands - oldest, 0, -every):
        if found:
            break
        space = Space(folder / str(die), oldest, script)
        assert not space.run(die), (die, commands)
        if not space.run() or space.end() != wanted:
            end = space.end()
            found.append(f"killed before command {die} of {commands}: " +
                         "; ".join(f"{path}: {end.get(path)!r}, not {wanted.get(path)!r}" for path in sorted({*end, *wanted}) if end.get(path) != wanted.get(path)))
        shutil.rmtree(space.root)
    return found


def untouched(folder):
    """Without anything of the old kind, or where a folder cannot move, nothing moves."""
    found = []
    for case in ("nothing", "taken"):
        space = Space(folder / case, False)
        if case == "nothing":
            for path in [p for p in space.root.iterdir() if p.name != "fake"]:
                shutil.rmtree(path)
            put(space.root / "etc/shoal/server-main.yaml", "data_dir: /var/lib/shoal/server-main\n")
            put(space.root / "var/lib/shoal/server-main/rows", "new")
        else:
            put(space.root / "var/lib/shoal/server-main/rows", "others")
        before = space.end()
        space.run()
        after = space.end()
        if case == "nothing" and after != before:
            found.append("a fleet of packages is changed")
        if case == "taken" and (after.get("var/lib/shoal/server-main/rows") != "others" or after.get("var/lib/private/shoal/server/rows") != "of server"
                                or "shoal-server@main.service" in after["active"] or "shoal-server@2.service" not in after["active"]):
            found.append("a folder whose place is taken is not left alone")
    return found


# The last one is right where it is not killed.
PLANTED = [('    ! [ -L "$state" ] || rm "$state"\n', ""), ("server) own shoal-server", "server) : shoal-server"),
           ('        ! [ -f "$etc/takeover-$1" ] || sed', '        ! [ -f "$etc/takeover-none" ] || sed')]


def main():
    every = int(os.environ.get("TAKEOVER_EVERY", "20")) # 1: every command, by hand
    with tempfile.TemporaryDirectory() as space:
        folder = pathlib.Path(space)
        found = untouched(folder / "untouched")
        for oldest in (False, True):
            found += [f"{'oldest' if oldest else 'by hand'}: {fault}" for fault in faults(folder / str(oldest), oldest, every)]
        text = SCRIPT.read_text(encoding="utf-8")
        for i, (line, wrong) in enumerate(PLANTED):
            assert text.count(line) >= 1, f"control: no such line: {line}"
            bad = folder / f"bad{i}"
            bad.write_text(text.replace(line, wrong, 1), encoding="utf-8")
            bad.chmod(0o755)
            with contextlib.suppress(AssertionError):
                if not faults(folder / f"bad{i}-1", True, 1, bad):
                    found.append(f"control: a takeover with {wrong.strip()!r} is not found")
    print("\n".join(found) or "the takeover ends right, from wherever it was killed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
