#!/usr/bin/env python3
"""test_keys: a fleet over tcp with keys: refused peers, changes of a list, log lines, listening sockets and their group."""
import re

from fleet import *

PARTS = {"coordinator": ("admin", None), "s1": ("coord", "rack1"), "w1": ("worker", "w1"), "ann": ("admin", "ann"), "met": ("metrics", "met"),
         "srv": ("serve", "srv"), "eve": ("admin", "eve")}


class Keyed:
    """A coordinator, a server and their keys; all but eve are listed."""

    def __init__(self, space):
        self.space, self.daemons, self.lines = space, {}, {}
        self.ports = free_port(), free_port()
        self.endpoint = f"tcp://127.0.0.1:{self.ports[0]}"
        for name, (role, called) in PARTS.items():
            pin = [] if name == "coordinator" else ["--coordinator", space / "coordinator.key.pub"]
            got = shoal("keygen", space / f"{name}.key", "--role", role, "--name", called or name, *pin)
            assert got.returncode == 0, got
            self.lines[name] = got.stdout
        self.allow(*[n for n in PARTS if n not in ("coordinator", "eve")])

    def allow(self, *names):
        (self.space / "allow.new").write_text("# who may come\n" + "".join(self.lines[n] for n in names))
        os.rename(self.space / "allow.new", self.space / "allow")

    def start(self, who, program, *words):
        with open(self.space / f"{who}.log", "a", encoding="utf-8") as log:
            self.daemons[who] = subprocess.Popen([BIN / program, *map(str, words)], stdout=log, stderr=log)
        return self.daemons[who]

    def coordinator(self, *words):
        return self.start("coordinator", "shoal-coordinator", "--set", f"listen={self.endpoint}", "--set", f"keys={self.space / 'coordinator.key'}",
                          "--set", f"allow={self.space / 'allow'}", "--set", f"data_dir={self.space / 'c'}", *words)

    def server(self, *words, key="s1", who="server"):
        return self.start(who, "shoal-server", "--set", f"listen=tcp://127.0.0.1:{self.ports[1]}", "--set", f"keys={self.space / key}.key", "--set",
                          f"coordinator={self.endpoint}", "--set", f"data_dir={self.space / 's'}", "--set", "name=s1", *words)

    def up(self):
        self.coordinator()
        self.server()
        within(20, "the server to be let in", lambda: "is shard 0" in self.said("coordinator") and "op=KEYLIST" in self.said("server"))
        return self

    def said(self, who):
        return (self.space / f"{who}.log").read_text(errors="replace")

    def audit(self, who):
        """Its audit lines, without time, number and key."""
        return [re.sub(r"run \d+", "run N", re.sub(r".* audit \d+ key=\S+ ", "", line)) for line in self.said(who).split("\n") if " audit " in line]

    def ask(self, key, *words):
        keys = [] if key is None else ["--keys", self.space / f"{key}.key"]
        return subprocess.run([SHOAL, *map(str, words), "--coordinator", self.endpoint, *map(str, keys)], capture_output=True, text=True, timeout=60,
                              check=False)

    def told(self):
        return self.ask("met", "status")

    def doctor(self):
        return self.ask("met", "doctor", "--cluster")

    def fits(self):
        within(15, "the cluster to fit", lambda: self.doctor().returncode == 0)

    def worker(self, job, key="w1"):
        return self.start("worker", "shoal-worker", "train", "--config", job, "--coordinator", self.endpoint, "--keys", self.space / f"{key}.key",
                          "--wait", "30", "--name", "w")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for daemon in self.daemons.values():
            daemon.kill()
            daemon.wait()


def a_day_is_in_the_audit_log(space):
    """Training over keys; clients that ask for more than their role allows; every line of the log."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 4000, 1))
    with Keyed(space).up() as f:
        worker = f.worker(job)
        assert f.ask("ann", "submit", job).returncode == 0
        assert worker.wait(60) == 0
        assert f.ask("met", "status").returncode == 0
        assert f.ask("met", "tables").returncode == 0
        for _ in range(5): # a probe
            assert f.ask("met", "status").returncode == 0
        for key, words in (("w1", ("submit", job)), ("srv", ("stop",)), ("met", ("digest",)), ("srv", ("inspect", "emb", "0x1"))):
            got = f.ask(key, *words)
            assert got.returncode == 77 and "may not send" in got.stderr, got
        assert f.ask("ann", "digest").returncode == 0
        assert f.ask("ann", "stop").returncode == 0
        orders = [line for line in f.audit("coordinator") if "op=CONNECT" not in line]
        assert orders == [
            'role=admin name=ann peer=127.0.0.1 op=SUBMIT object="run N" result=ok',
            'role=metrics name=met peer=127.0.0.1 op=JOB_TEXT object="" result=denied',  # names of tables are not for a reader of metrics
            'role=worker name=w1 peer=127.0.0.1 op=SUBMIT object="" result=denied',
            'role=serve name=srv peer=127.0.0.1 op=STOP object="" result=denied',
            'role=admin name=ann peer=127.0.0.1 op=STOP object="job" result=ok'], orders
        came = [line for line in f.audit("coordinator") if "op=CONNECT" in line]
        assert len([line for line in came if "name=met " in line]) == 1, came
        assert came[0] == 'role=coord name=rack1 peer=127.0.0.1 op=CONNECT object="" result=ok', came
        at_shard = [line for line in f.audit("server") if "op=CONNECT" not in line and "role=coordinator" not in line]
        assert at_shard == [
            'role=- name=- peer=- op=KEYLIST object="the coordinator\'s" result=ok',
            'role=metrics name=met peer=127.0.0.1 op=DIGEST object="" result=denied',
            'role=serve name=srv peer=127.0.0.1 op=INSPECT object="" result=denied'], at_shard
        text = "".join(f.said(who) for who in ("coordinator", "server", "worker"))
        for name in PARTS:  # no secret is said, nor seen in an argument
            secret = re.search(r"^secret (\S+)$", (space / f"{name}.key").read_text(), re.M).group(1)
            assert secret not in text
            for daemon in f.daemons.values():
                if daemon.poll() is None:
                    assert secret.encode() not in pathlib.Path(f"/proc/{daemon.pid}/cmdline").read_bytes()
                    assert secret.encode() not in pathlib.Path(f"/proc/{daemon.pid}/environ").read_bytes()


def commands_are_told_to_nobody_but_workers(space):
    """Tokens often lie in a job's commands: no reader gets them, and no log, sentence, status or report has them."""
    token, log = "t0kenT0ken", synth(space / "train.tsv", 4000, 1)
    hook = f"echo {token} > /dev/null; exit 3"
    job = job_file(space / "job.yaml", None, **{"data.train": [{"cmd": f"T={token} cat {log}"}], "data.valid.cmd": f"cat {log} # é {token}",
                                                "checkpoint.dir": str(space / "kept/job"), "checkpoint.at_end": True, "start_from": "fleet",
                                                "checkpoint.publish": ["sh", "-c", hook]})
    broken = job_file(space / "broken.yaml", None, **{"data.train": [{"cmd": f"T={token}; exit 3"}]})
    empty = job_file(space / "empty.yaml", None, **{"data.train": [{"object": {"list": f": {token}", "open": f"cat {token}"}}], "data.objects.tries": 1})
    started = job_file(space / "started.yaml", log, **{"checkpoint.dir": str(space / "kept/started"), "checkpoint.at_end": True,
                                                       "checkpoint.publish": [f"curl -H {token}"]})
    plain = job_file(space / "plain.yaml", log)
    outputs = []
    (space / "kept").mkdir()
    with Keyed(space) as f:
        f.coordinator("--set", "publish=true", "--set", f"checkpoint_root={space / 'kept'}")
        f.server("--set", f"checkpoint_root={space / 'kept'}")
        f.fits()

        def run(key, *words):
            outputs.append(f.ask(key, *words))
            return outputs[-1]

        refused = f.worker(plain)
        assert (got := run("ann", "submit", broken)).returncode == 77 and "data.train of the job is a command" in got.stderr, got
        refused.wait(30)

        def work(file):
            """With a worker that may run commands: it ends with the job."""
            worker = f.start(file.stem, "shoal-worker", "train", "--coordinator", f.endpoint, "--keys", space / "w1.key", "--allow-commands",
                             "--set", f"data.cache={space / 'cache'}", "--name", file.stem)
            got = run("ann", "submit", file)
            worker.wait(30)
            return got

        assert (got := work(broken)).returncode == 66 and "command 1 of data.train" in got.stderr, got
        assert (got := work(empty)).returncode == 66, got
        for file in (started, job):
            got = work(file)
            assert got.returncode != 0 and "checkpoint.publish" in got.stdout + got.stderr, got
        for words in (("status", "--json"), ("status",), ("tables",), ("doctor", "--cluster")):
            run("met", *words)
        for words in (("status", "--json"), ("status",), ("predict", plain, "--from", "fleet", "--in", log, "--out", space / "scores")):
            got = run("srv", *words)
            assert got.returncode == 0, got
        text = "".join(f.said(who) for who in f.daemons) + "".join(o.stdout + o.stderr for o in outputs)
        assert token not in text, [line for line in text.split("\n") if token in line]
        kept = sorted((space / "kept").glob("job/*/job.yaml"))  # a resume needs them
        assert token in kept[-1].read_text() and not kept[-1].stat().st_mode & 0o007


def strangers_are_refused(space):
    with Keyed(space).up() as f:
        assert f.ask("ann", "status").returncode == 0
        f.start("silent", "shoal-server", "--set", f"listen=tcp://127.0.0.1:{free_port()}", "--set", f"keys={space / 'eve.key'}", "--set",
                f"coordinator={f.endpoint}", "--set", f"data_dir={space / 'silent'}")
        shoal("keygen", space / "wrong.key", "--coordinator", space / "ann.key.pub")  # pins another's key for the coordinator's
        for key in (None, "eve", "wrong"):
            words = [SHOAL, "stop", "--coordinator", f.endpoint] + (["--keys", space / f"{key}.key"] if key else [])
            with subprocess.Popen([*map(str, words)], stderr=subprocess.PIPE, text=True) as asker:
                try:
                    _, text = asker.communicate(timeout=PATIENCE * 20)
                except subprocess.TimeoutExpired:
                    asker.kill()
                    raise
                assert asker.returncode == 69, (key, text)
        assert "result=not-listed" in f.said("coordinator")
        within(20, "the server that nobody answers to say so", lambda: "does its list have our key" in f.said("silent"))
        assert "op=STOP" not in f.said("coordinator"), "somebody was heard"
        for port in f.ports:  # raw bytes and a plain greeting get nothing but ZeroMQ's own
            with socket.create_connection(("127.0.0.1", port), 5) as s:
                s.settimeout(6)
                s.sendall(b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x00NULL" + bytes(48))
                got = b""
                with contextlib.suppress(OSError):
                    while part := s.recv(4096):
                        got += part
            assert len(got) <= 64 and b"READY" not in got, got


def a_list_that_changes_counts_within_a_second(space):
    with Keyed(space).up() as f:
        everybody = [n for n in PARTS if n not in ("coordinator", "eve")]
        assert f.ask("ann", "status").returncode == 0
        with subprocess.Popen([SHOAL, "submit", job_file(space / "job.yaml", synth(space / "t.tsv", 100, 1)), "--coordinator", f.endpoint, "--keys",
                               space / "ann.key"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as follower:  # an open connection
            within(10, "the job to be taken", lambda: "op=SUBMIT" in f.said("coordinator"))
            gone = time.monotonic()
            f.allow(*[n for n in everybody if n != "ann"])
            _, text = follower.communicate(timeout=PATIENCE * 10)
            took = time.monotonic() - gone
            assert follower.returncode == 77 and "nobody" in text, text
        assert took < PATIENCE * 2, f"refused only after {took:.2f} s"  # it asks each half second
        print(f"      an open connection of a revoked key was refused after {took:.2f} s")
        f.allow(*everybody, "eve")
        within(2, "the new key to be let in", lambda: f.ask("eve", "status").returncode == 0)
        assert f.ask("eve", "digest").returncode in (0, 69)
        (space / "allow").write_text("nonsense\n")  # not taken
        within(5, "the broken list to be told", lambda: "another allow-list is not taken" in f.said("coordinator"))
        assert f.ask("eve", "status").returncode == 0 and f.daemons["coordinator"].poll() is None
        f.allow(*[n for n in everybody if n != "ann"])
        f.daemons["coordinator"].send_signal(signal.SIGHUP)
        within(5, "the list to be taken again", lambda: f.said("coordinator").count('op=KEYLIST object="' + str(space / "allow") + '" result=ok') >= 3)
        assert f.daemons["coordinator"].poll() is None
        # the server changes its key, under the same name, while the coordinator runs
        got = shoal("keygen", space / "s2.key", "--role", "coord", "--name", "rack1", "--coordinator", space / "coordinator.key.pub")
        f.lines["s2"] = got.stdout
        f.allow(*everybody, "s2")
        f.daemons.pop("server").terminate()
        f.server(key="s2")
        within(20, "the server to be back", lambda: "ready" in f.ask("ann", "status").stdout)
        f.lines["x1"] = shoal("keygen", space / "x1.key", "--role", "coord", "--name", "rack9", "--coordinator", space / "coordinator.key.pub").stdout
        f.allow(*everybody, "s2", "x1")
        f.daemons.pop("server").kill()
        f.server(key="x1")
        within(20, "another key to be refused", lambda: "belongs to the key of the name rack1" in f.said("server"))


def the_coordinators_key_is_changed_while_all_run(space):
    """Both keys pinned, daemon by daemon; then the coordinator shows the new one: server, worker and administrator go on without a restart, the job
    too. A failed handshake is told by both sides, once."""
    job = job_file(space / "job.yaml", synth(space / "t.tsv", 20000, 1), **{"train.epochs": 100000, "coordinator.lease": None})
    with Keyed(space) as f:
        shoal("keygen", space / "next.key")
        old, both = space / "coordinator.key.pub", f"{space}/coordinator.key.pub,{space}/next.key.pub"
        for name in ("s1", "w1", "ann", "met"):
            before = (space / f"{name}.key").read_text()
            for _ in range(2):
                got = shoal("keygen", space / f"{name}.key", "--rotate", "--coordinator", both)
                assert got.returncode == 0 and got.stdout == "", got
            assert (space / f"{name}.key").read_text().startswith(before) and (space / f"{name}.key").stat().st_mode & 0o777 == 0o400
        f.up()
        worker = f.worker(job)
        assert f.ask("ann", "submit", job, "--no-wait").returncode == 0
        trained = lambda: json.loads(f.ask("met", "status", "--json").stdout or "{}").get("examples", 0)
        within(30, "the job to train", lambda: trained() > 0)
        daemon = f.daemons.pop("coordinator")
        daemon.terminate()
        daemon.wait(30)
        f.coordinator("--set", f"keys={space / 'next.key'}")
        at = within(60, "an administrator to be answered", trained)
        within(30, "the job to go on", lambda: trained() > at)
        assert f.daemons["server"].poll() is None and worker.poll() is None and f.said("server").count("1 shards ready") == 1
        for who in ("server", "worker"):
            within(10, f"{who} to say so", lambda who=who: "ends the handshake: its key is not one of the two" in f.said(who))
        # "a peer" where the connection was gone before a coordinator that just started could ask for its address
        within(10, "the coordinator to say so", lambda: re.search(
            "a handshake of (127.0.0.1|a peer) failed: it takes us for the holder of another key", f.said("coordinator")))
        got = f.ask("srv", "status") # which pins the old one alone
        assert got.returncode == 69 and "ends the handshake: its key is not the one" in got.stderr, got
        within(10, "its address to be told", lambda: "a handshake of 127.0.0.1 failed: it takes us for the holder of another key" in f.said("coordinator"))
        assert f.said("coordinator").count("takes us for the holder of another key") <= 2
        got = shoal("keygen", space / "ann.key", "--rotate", "--coordinator", space / "next.key.pub")
        assert got.returncode == 0 and (space / "ann.key").read_text().count("coordinator ") == 1, got
        assert f.ask("ann", "status").returncode == 0 and old.exists()
        for words, says in ((("--role", "admin"), "the key stays"), ((), "OLD.pub,NEW.pub"), (("--coordinator", both + f",{old}"), "at most 2")):
            got = shoal("keygen", space / "ann.key", "--rotate", *words)
            assert got.returncode == 64 and says in got.stderr, got


def a_broken_list_at_the_start_is_no_end(space):
    """The list that was taken last counts, and log, status and doctor tell why; a mended file counts at once. Without a former list: no start."""
    with Keyed(space).up() as f:
        for broken, says in (("nonsense\n", "allow:1: "), (None, "cannot read the allow-list")):
            (space / "allow").unlink()
            if broken is not None:
                (space / "allow").write_text(broken)
            within(5, "a running coordinator to keep its list", lambda: any("the former one stays" in p for p in problems(f)))
            daemon = f.daemons.pop("coordinator")
            daemon.terminate()
            daemon.wait(30)
            f.coordinator()
            told = within(20, "the status to tell", lambda: [p for p in problems(f) if "the list that was taken last counts" in p])
            assert says in told[0] and told[0] in f.said("coordinator"), told
            doctor = f.ask("met", "doctor", "--cluster")
            assert doctor.returncode == 69 and told[0] in doctor.stdout, doctor
            assert f.ask("eve", "stop").returncode == 69
            f.allow(*[n for n in PARTS if n not in ("coordinator", "eve")])
            within(5, "the mended list to count", lambda: not any("list that was taken last" in p for p in problems(f)))
            within(30, "the refused key to be forgotten", lambda: f.ask("met", "status").returncode == 0 and problems(f) == [])
        kept = space / "c" / "allow.last"
        assert kept.read_text() == (space / "allow").read_text() and kept.stat().st_mode & 0o777 == 0o640 & (space / "allow").stat().st_mode | 0o600


def problems(f):
    return json.loads(f.ask("met", "status", "--json").stdout or "{}").get("problems", [])


def nothing_else_listens(space):
    with Keyed(space).up() as f:
        for who, port in zip(("coordinator", "server"), f.ports):
            inodes = {os.readlink(p)[8:-1] for p in pathlib.Path(f"/proc/{f.daemons[who].pid}/fd").iterdir() if os.readlink(p).startswith("socket:")}
            listening = set()
            for table in ("tcp", "tcp6", "udp", "udp6"):
                for line in pathlib.Path(f"/proc/{f.daemons[who].pid}/net/{table}").read_text().split("\n")[1:]:
                    word = line.split()
                    if word and word[9] in inodes and (word[3] == "0A" or table.startswith("udp")):
                        listening.add(int(word[1].rsplit(":", 1)[1], 16))
            assert listening == {port}, (who, listening)


def daemons_refuse_to_start(space):
    """Address x keys x list x override, before anything is opened."""
    f = Keyed(space)
    coordinator = f"listen={f.endpoint}", f"data_dir={space / 'c'}"
    keys, allow, plain = f"keys={space / 'coordinator.key'}", f"allow={space / 'allow'}", "insecure_plaintext=true"
    (space / "empty").write_text("# nobody\n")
    loose = space / "loose.key"
    shutil.copy(space / "coordinator.key", loose)
    loose.chmod(0o644)
    for status, words, text in ((78, (), "shoal keygen"), (78, (keys,), "allow: FILE"), (78, (allow,), "without `keys`"), (78, (keys, allow, plain), "take one of them away"),
                                (78, (keys, f"allow={space / 'empty'}"), "lists no key"), (66, (keys, f"allow={space / 'none'}"), "none"),
                                (77, (f"keys={loose}", allow), "chmod 0400"), (66, (f"keys={space / 'none'}", allow), "none")):
        got = subprocess.run([BIN / "shoal-coordinator", *[f"--set={w}" for w in (*coordinator, *words)]], capture_output=True, text=True, timeout=30, check=False)
        assert got.returncode == status and text in got.stderr, (words, got)
    server = f"listen=tcp://127.0.0.1:{f.ports[1]}", f"data_dir={space / 's'}", f"coordinator={f.endpoint}"
    for status, words, text in ((78, (), "shoal keygen"), (78, (allow,), "coordinator.yaml"), (78, (f"keys={space / 's1.key'}", "coordinator=ipc:///x"), "both on ipc"),
                                (77, (f"keys={loose}",), "chmod 0400")):
        got = subprocess.run([BIN / "shoal-server", *[f"--set={w}" for w in (*server, *words)]], capture_output=True, text=True, timeout=30, check=False)
        assert got.returncode == status and text in got.stderr, (words, got)
    got = subprocess.run([BIN / "shoal-worker", "train", "--coordinator", f.endpoint], capture_output=True, text=True, timeout=30, check=False)
    assert got.returncode == 78 and "--keys FILE" in got.stderr, got
    assert not (space / "s").exists()


def keygen_prints_what_a_list_takes(space):
    """A line that the list would refuse is not printed, and no key is made that it would belong to."""
    for file, words, says in (("a.key", ["--name", "Ann Smith"], "--name 'Ann Smith'"), ("a.key", ["--name", ""], "--name ''"), ("a.key", ["--name", "x" * 64], "--name"),
                              ("ann@corp.key", [], "--name NAME"), (".key", [], "--name NAME")):
        got = shoal("keygen", space / file, "--role", "admin", *words)
        assert got.returncode == 64 and says in got.stderr and got.stdout == "", (file, got)
        assert not (space / file).exists() and not (space / f"{file}.pub").exists(), file
    for file, words, name in (("b.key", ["--name", "x" * 63], "x" * 63), ("y" * 64 + ".key", [], "y" * 63), ("ann.smith.key", [], "ann"), ("z" * 200, [], "z" * 63)):
        got = shoal("keygen", space / file, "--role", "admin", *words)
        assert got.returncode == 0 and got.stdout.split()[1:] == ["admin", name], got
    assert shoal("keygen", space / "c@o.key").returncode == 0, "without a role no name is told"


def plain(f):
    """Its daemons without keys."""
    f.start("coordinator", "shoal-coordinator", "--set", f"listen={f.endpoint}", "--set", "insecure_plaintext=true", "--set", f"data_dir={f.space / 'c'}")
    f.start("server", "shoal-server", "--set", f"listen=tcp://127.0.0.1:{f.ports[1]}", "--set", "insecure_plaintext=true", "--set",
            f"data_dir={f.space / 's'}", "--set", f"coordinator={f.endpoint}", "--set", "name=s1")


def the_override_is_told(space):
    with Keyed(space) as f:
        plain(f)
        told = within(20, "the status to tell it", lambda: (s := f.ask(None, "status", "--json").stdout) and json.loads(s).get("insecure") == ["coordinator", "s1"])
        assert told and "insecure_plaintext: whoever reaches these over tcp is obeyed: coordinator, s1" in f.ask(None, "status").stdout
        for who in ("coordinator", "server"):
            assert "warn" in f.said(who) and "insecure_plaintext" in f.said(who) and "op=START" in f.said(who)


def a_plain_fleet_is_scored(space):
    """`shoal predict` and `shoal eval` ask as all verbs do that were given no key; of a fleet that has keys they get nothing."""
    path = synth(space / "train.tsv", 2000, 1)
    job = job_file(space / "job.yaml", path)
    with Keyed(space) as f:
        plain(f)
        f.start("worker", "shoal-worker", "train", "--config", job, "--coordinator", f.endpoint, "--insecure-plaintext")
        assert f.ask(None, "submit", job).returncode == 0
        got = f.ask(None, "predict", job, "--from", "fleet", "--in", path, "--out", space / "scores")
        assert got.returncode == 0 and len((space / "scores").read_text().splitlines()) >= 2000, got
        got = f.ask(None, "eval", job, "--from", "fleet", "--in", path)
        assert got.returncode == 0 and "auc" in json.loads(got.stdout), got
    with Keyed(Space()) as f:
        f.up()
        got = f.ask(None, "predict", job, "--from", "fleet", "--in", path, "--out", space / "more")
        assert got.returncode == 69 and "does it ask for a key" in got.stderr, got
        f.space.remove()


def who_is_not_of_the_group_gets_nothing(space):
    """A socket of the group's; another user's connection is not taken."""
    if os.geteuid() != 0:
        raise Skip("needs root to be somebody else")
    os.chmod(space.path, 0o755)
    folder = space / "run"
    folder.mkdir()
    os.chown(folder, 0, 4711)
    folder.chmod(0o750)
    endpoint = f"ipc://{folder}/socket"
    program = shutil.copy(SHOAL, space / "shoal") # another user may not reach the tree

    def member(*groups):
        def change():
            os.setgroups(groups)
            os.setgid(65534)
            os.setuid(65534)
        return subprocess.run([program, "status", "--coordinator", endpoint], capture_output=True, text=True, timeout=60, preexec_fn=change, check=False)

    def daemon():
        os.setgid(4711)
        os.umask(0o007)
    with open(space / "log", "w", encoding="utf-8") as log, subprocess.Popen(
            [BIN / "shoal-coordinator", "--set", f"listen={endpoint}", "--set", f"data_dir={space / 'c'}"], stderr=log, preexec_fn=daemon) as process:
        try:
            within(10, "the socket", (folder / "socket").exists)
            assert (folder / "socket").stat().st_mode & 0o777 == 0o770, oct((folder / "socket").stat().st_mode)
            assert member(4711).returncode == 0
            got = member()
            assert got.returncode == 77 and "not open to this user" in got.stderr, got
        finally:
            process.kill()


if __name__ == "__main__":
    main([a_day_is_in_the_audit_log, commands_are_told_to_nobody_but_workers, strangers_are_refused, a_list_that_changes_counts_within_a_second,
          the_coordinators_key_is_changed_while_all_run, a_broken_list_at_the_start_is_no_end, nothing_else_listens, daemons_refuse_to_start, keygen_prints_what_a_list_takes,
          the_override_is_told, a_plain_fleet_is_scored, who_is_not_of_the_group_gets_nothing])
