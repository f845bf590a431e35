#!/usr/bin/env python3
"""test_users: over sockets of one machine the user of a process says what it may send: every message to coordinator and server as each user."""
import re

from fleet import *
from stranger import ROOT, Refused, Stranger

SHOAL_GROUP, ADMIN_GROUP = 4710, 4720
USERS = {"root": 0, "shoal-coordinator": 4711, "shoal-server": 4712, "shoal-worker": 4713, "anna": 4721, "ben": 4722, None: 4723}
GROUPS = {"anna": [SHOAL_GROUP, ADMIN_GROUP]}
# (user, daemon) -> letter of the table in allow.h; "L": all that is not a coordinator's order.
MAY = {("root", "coordinator"): "L", ("shoal-coordinator", "coordinator"): "L", ("shoal-server", "coordinator"): "C", ("shoal-worker", "coordinator"): "W",
       ("anna", "coordinator"): "L", ("ben", "coordinator"): "M", (None, "coordinator"): "M",
       ("root", "server"): "L", ("shoal-coordinator", "server"): "C", ("shoal-server", "server"): "L", ("shoal-worker", "server"): "W",
       ("anna", "server"): "L", ("ben", "server"): "M", (None, "server"): "M"}
FRAMES = {name: int(frames) for name, frames in re.findall(r"X\((\w+), \d+, (\d), \d\)", (ROOT / "proto/wire/wire.h").read_text())}
RIGHTS = re.findall(r'X\((\w+), "[^"]*", ([^,]+), ([^,]+), [^,]+, \w+\)', (ROOT / "proto/wire/allow.h").read_text())
WORDS = {"PULL": {"lane": 0xffffffff}, "PULL_LANE": {"lane": 0}, "PULL_STATE": {"lane": 0xffffffff, "parts": 1}, "ASSIGN_ROWS": {"key_count": 1, "tablet_count": 1}, "STOP": {"job_only": 1}}


def databases(space):
    """Users and groups of a machine that has the packages."""
    (space / "passwd").write_text("".join(f"{name}:x:{uid}:{uid if name == 'root' else SHOAL_GROUP if name.startswith('shoal') else uid}::/:/bin/sh\n"
                                          for name, uid in USERS.items() if name))
    (space / "group").write_text(f"root:x:0:\nshoal:x:{SHOAL_GROUP}:anna,ben\nshoal-admin:x:{ADMIN_GROUP}:anna\n")


def as_user(uid, gid, groups):
    os.setgroups(groups)
    os.setgid(gid)
    os.umask(0o007)
    os.setuid(uid)


class Machine:
    """A coordinator and a server as their units run them, on a machine that has their users."""

    def __init__(self, space):
        self.space, self.running = space, []
        databases(space)
        os.chmod(space.path, 0o755)

    def endpoint(self, who):
        return f"ipc://{self.space}/run/{who}"

    def start(self, who, *words):
        folder = self.space / f"{who}.d"
        folder.mkdir()
        (self.space / "run").mkdir(exist_ok=True)
        (self.space / "run").chmod(0o770)
        uid = USERS[f"shoal-{who}"]
        os.chown(folder, uid, SHOAL_GROUP)
        os.chown(self.space / "run", 0, SHOAL_GROUP)
        inside = (f"mount --bind {self.space}/passwd /etc/passwd && mount --bind {self.space}/group /etc/group && "
                  f"umask 007 && exec setpriv --reuid {uid} --regid {SHOAL_GROUP} --clear-groups \"$@\"")
        log = open(self.space / f"{who}.log", "w", encoding="utf-8")
        self.running.append(subprocess.Popen(["unshare", "-m", "sh", "-c", inside, "sh", BIN / f"shoal-{who}", "--set", f"listen={self.endpoint(who)}", "--set",
                                              f"data_dir={folder}/data", *words], stdout=log, stderr=log))

    def said(self, who):
        return (self.space / f"{who}.log").read_text(errors="replace")

    def up(self):
        self.start("coordinator")
        within(10, "the coordinator's socket", (self.space / "run/coordinator").exists)
        self.start("server", "--set", f"coordinator={self.endpoint('coordinator')}")
        within(20, "the server of the user shoal-server to be taken", lambda: "is shard 0" in self.said("coordinator"))
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            process.kill()
            process.wait()


def answers(endpoint, rights):
    """Right -> denied, passed or unread (no such message could be made here)."""
    found, s = {}, None
    for right in rights:
        message = {"PULL_LANE": "PULL", "PULL_STATE": "PULL", "ASSIGN_ROWS": "ASSIGN"}.get(right, right)
        s = s or Stranger(endpoint, timeout=1)
        try:
            number = s.send(message, *[bytes(12) if right == "ASSIGN_ROWS" else b""] * FRAMES[message], **WORDS.get(right, {}))
            found[right] = answered(s, number)
        except OSError: # no answer, which only what is taken may be given; a busy daemon is late, so it is asked for what it answers at once
            with contextlib.suppress(OSError):
                s.s.settimeout(60)
                found[right] = answered(s, number, s.send("STATUS" if endpoint.endswith("coordinator") else "SHARD_STATUS"))
            found.setdefault(right, "passed")
            s.close()
            s = None
    return found


def answered(s, number, later=None):
    """What is answered to a request; passed where the answer to a later one comes first."""
    header = {"id": None}
    while header["id"] not in (number, later or number):
        header, _, _ = s.answer()
    if header["id"] != number or header["status"] == 0:
        return "passed"
    text = header["error"].decode()
    return "denied" if "may not send" in text or "coordinator alone" in text else "unread" if header["status"] == -15 else "passed"


def asked_by(uid, groups, endpoint, rights):
    """The same, in a process of that user."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            as_user(uid, uid if uid != 0 else 0, groups)
            os.write(write, json.dumps(answers(endpoint, rights)).encode())
            status = 0
        except Exception: # pylint: disable=broad-except
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(write)
    with open(read, encoding="utf-8") as said:
        text = said.read()
    assert os.waitpid(child, 0)[1] == 0, f"the questions of user {uid} failed"
    return json.loads(text)


def the_user_says_what_it_may_send(space):
    """Each message as each user to each daemon: taken or denied as the table of roles says; the log names role and user of an order."""
    if os.geteuid() != 0:
        raise Skip("needs root to be other users")
    with Machine(space).up() as m:
        decided = 0
        for (user, daemon), letter in MAY.items():
            column = 1 if daemon == "coordinator" else 2
            rights = [r[0] for r in RIGHTS if r[column].strip() != "0"]
            if daemon == "coordinator" and letter in "LC":
                rights.remove("SHARD_BEAT") # the server is the proof
            got = asked_by(USERS[user], GROUPS.get(user, [SHOAL_GROUP]), m.endpoint(daemon), rights)
            for name, *columns in RIGHTS:
                if name not in got or got[name] == "unread":
                    continue
                letters = {part.strip() for part in columns[column - 1].split("|")}
                may = bool(letters - {"BOSS"}) if letter == "L" else letter in letters
                assert (got[name] == "passed") == may, (user, daemon, name, got[name], letters)
                decided += 1
        print(f"      {decided} cells")
        assert decided > 300, decided
        orders = [line for line in m.said("coordinator").split("\n") if "op=SUBMIT" in line]
        for user, role, result in (("shoal-worker", "worker", "denied"), ("shoal-server", "coord", "denied"), ("ben", "metrics", "denied")):
            assert any(f"role={role} name=- peer=uid:{USERS[user]} op=SUBMIT object=\"\" result={result}" in line for line in orders), (user, orders)
        assert any(f"role=local name=- peer=uid:{USERS['anna']} op=SUBMIT" in line and "denied" not in line for line in orders), orders


def a_routing_id_of_another_user_is_another_peer(space):
    """A worker that takes up the routing id of an administrator that has left is no administrator."""
    if os.geteuid() != 0:
        raise Skip("needs root to be other users")
    with Machine(space).up() as m:
        for uid, denied in ((0, False), (USERS["shoal-worker"], True)):
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                as_user(uid, uid, [SHOAL_GROUP])
                s = Stranger(m.endpoint("coordinator"), identity=b"the same")
                try:
                    s.ask("STOP", job_only=1)
                    os.write(write, b"taken")
                except Refused as e:
                    os.write(write, b"denied" if "may not send STOP" in str(e) else str(e).encode())
                finally:
                    os._exit(0)
            os.close(write)
            with open(read, encoding="utf-8") as said:
                assert said.read() == ("denied" if denied else "taken"), uid
            os.waitpid(child, 0)


def orders_are_told_whatever_else_is_asked(space):
    """With `log: error`, amid a thousand denied orders: each order of an administrator has its line, and one that is sent again has one."""
    endpoint = f"ipc://{space}/c.sock"
    log = open(space / "log", "w", encoding="utf-8")
    with subprocess.Popen([BIN / "shoal-coordinator", "--set", f"listen={endpoint}", "--set", f"data_dir={space}/c", "--set", "log=error"], stderr=log) as daemon:
        try:
            within(10, "the socket", (space / "c.sock").exists)
            if os.geteuid() == 0: # only root can act as a user without the right
                for path, mode in ((space.path, 0o755), (space / "c.sock", 0o777)):
                    os.chmod(path, mode)
                child = os.fork()
                if child == 0:
                    try:
                        as_user(4722, 4722, [])
                        stranger = Stranger(endpoint)
                        for _ in range(1000):
                            with contextlib.suppress(Refused):
                                stranger.ask("STOP", job_only=1)
                        os._exit(0)
                    finally:
                        os._exit(1)
                assert os.waitpid(child, 0)[1] == 0
            ours = Stranger(endpoint)
            for number in (7, 7, 7, 8):
                ours.send("STOP", job_only=1, number=number)
                ours.answer()
            lines = [line for line in (space / "log").read_text().split("\n") if "op=STOP" in line]
            assert len([line for line in lines if "role=local" in line and "result=ok" in line]) == 2, lines[-5:]
            denied = len([line for line in lines if "role=metrics" in line])
            assert denied < 400 and (denied >= 200 or os.geteuid() != 0), denied
        finally:
            daemon.kill()


if __name__ == "__main__":
    main([orders_are_told_whatever_else_is_asked, the_user_says_what_it_may_send, a_routing_id_of_another_user_is_another_peer])
