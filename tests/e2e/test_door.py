#!/usr/bin/env python3
"""test_door: workers listen for each other (train.dense: allreduce): where, with which keys, and what strangers get."""
import re

from fleet import *
from stranger import Refused, Stranger
from test_keys import Keyed

REACHED = re.compile(r"other workers reach this one at (\S+)")
NETWORK = {"train.dense": "allreduce", "train.lanes": 2}


class Ring(Keyed):
    """A fleet with keys and workers w1 and w2; eve's key is a listed worker's, that of no member."""

    def __init__(self, space):
        super().__init__(space)
        for name in ("w2", "eve"):
            (space / f"{name}.key").unlink(missing_ok=True)
            (space / f"{name}.key.pub").unlink(missing_ok=True)
            got = shoal("keygen", space / f"{name}.key", "--role", "worker", "--name", name, "--coordinator", space / "coordinator.key.pub")
            self.lines[name] = got.stdout
        self.allow("s1", "w1", "w2", "ann", "met", "eve")

    def works(self, job, name, *words):
        return self.start(name, "shoal-worker", "train", "--config", job, "--coordinator", self.endpoint, "--keys", self.space / f"{name}.key", "--wait", "20",
                          "--name", name, "--lanes", "1", *words)

    def submits(self, job, *words):
        self.start("submit", "shoal", "submit", job, "--coordinator", self.endpoint, "--keys", self.space / "ann.key", *words)

    def reached(self, name):
        within(30, f"{name} to listen", lambda: REACHED.search(self.said(name)))
        return REACHED.search(self.said(name))[1]

    def asks(self, key, endpoint, of):
        """What a command gets that takes the worker `of` for its coordinator."""
        pinned = self.space / f"{key}-{of}.key"
        if not pinned.exists():
            pinned.write_bytes((self.space / f"{key}.key").read_bytes())
            pinned.chmod(0o600)
            got = shoal("keygen", pinned, "--rotate", "--coordinator", self.space / f"{of}.key.pub")
            assert got.returncode == 0, got
        return subprocess.run([SHOAL, "status", "--coordinator", endpoint, "--keys", pinned], capture_output=True, text=True, timeout=60, check=False)


def workers_with_keys_listen_for_each_other(space):
    """By default at the address by which they reach the coordinator, on a port of their own; members alone may connect."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 20000, 1), **NETWORK, **{"train.epochs": 100000})
    with Ring(space).up() as f:
        f.submits(job, "--workers", "2")
        workers = [f.works(job, "w1"), f.works(job, "w2", "--listen", "tcp://0.0.0.0:*")]
        at = [f.reached("w1"), f.reached("w2")]
        for endpoint in at:
            assert re.fullmatch(r"tcp://127\.0\.0\.1:\d+", endpoint), at
        assert at[0] != at[1], at
        for name in ("w1", "w2"):
            within(60, "the ring", lambda: [line for line in f.audit(name) if re.fullmatch(
                r'role=worker name=worker-[12] peer=127.0.0.1 op=CONNECT object="" result=ok', line)])
        got = f.asks("eve", at[0], "w1")  # a worker's key that the fleet lists, but no member's
        assert got.returncode == 69, got
        assert [line for line in f.audit("w1") if re.search(r'role=- .*op=CONNECT object="" result=not-listed', line)], f.said("w1")
        got = f.asks("w2", at[0], "w1")  # a member's key, and a message that is none of a ring's
        assert got.returncode == 77 and "a worker takes no STATUS" in got.stderr, got
        assert [line for line in f.audit("w1") if "role=worker" in line and "op=STATUS" in line and "result=denied" in line], f.said("w1")
        assert f.ask("ann", "stop").returncode == 0
        for worker in workers:
            worker.wait(60)


def a_job_over_keys_ends_well(space):
    """Each of two workers has a lane, and is connected to by the other."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 20000, 1), **NETWORK)
    with Ring(space).up() as f:
        f.submits(job, "--workers", "2")
        workers = [f.works(job, "w1"), f.works(job, "w2")]
        assert [worker.wait(120) for worker in workers] == [0, 0], f.said("w1") + f.said("w2")
        assert f.daemons["submit"].wait(30) == 0, f.said("submit")
        for name in ("w1", "w2"):
            assert re.search(r"role=worker name=worker-\d+ peer=127.0.0.1 op=CONNECT .*result=ok", f.said(name)), f.said(name)


def a_ring_that_changes_has_another_list(space):
    """One of two dies, another one with a third key comes: it reads the network from the survivor, and the dead one's key is out."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 20000, 1), **NETWORK, **{"train.epochs": 100000})
    with Ring(space).up() as f:
        f.submits(job, "--workers", "2")
        f.works(job, "w1")
        dead = f.works(job, "w2")
        at = f.reached("w1")
        within(60, "the ring", lambda: re.search(r"name=worker-[12] .*op=CONNECT .*result=ok", f.said("w1")))
        dead.kill()
        dead.wait()
        f.works(job, "eve")  # a worker like any other, now that it is a member
        within(60, "the new ring", lambda: re.search(r"name=worker-3 peer=127.0.0.1 op=CONNECT .*result=ok", f.said("w1")))
        within(60, "the other half of it", lambda: re.search(r"name=worker-[12] .*op=CONNECT .*result=ok", f.said("eve")))
        got = f.asks("w2", at, "w1")
        assert got.returncode == 69, got  # no member any more
        assert f.ask("ann", "stop").returncode == 0


def in_a_network_that_is_trusted_no_keys_are_shown(space):
    """insecure_plaintext on all sides: the ring stands over tcp."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 4000, 1), **NETWORK)
    endpoint, running = f"tcp://127.0.0.1:{free_port()}", []

    def start(name, program, *words):
        with open(space / f"{name}.log", "w", encoding="utf-8") as log:
            running.append(subprocess.Popen([BIN / program, *map(str, words)], stdout=log, stderr=log))
        return running[-1]

    try:
        start("c", "shoal-coordinator", "--set", f"listen={endpoint}", "--set", f"data_dir={space / 'c'}", "--set", "insecure_plaintext=true")
        start("s", "shoal-server", "--set", f"listen=tcp://127.0.0.1:{free_port()}", "--set", f"coordinator={endpoint}", "--set", f"data_dir={space / 's'}",
              "--set", "insecure_plaintext=true")
        submit = start("submit", "shoal", "submit", job, "--coordinator", endpoint, "--workers", "2")
        workers = [start(f"w{i}", "shoal-worker", "train", "--config", job, "--coordinator", endpoint, "--insecure-plaintext", "--name", f"w{i}", "--lanes", "1")
                   for i in range(2)]
        assert [worker.wait(120) for worker in workers] == [0, 0], (space / "w0.log").read_text()
        assert submit.wait(30) == 0
        for i in range(2):
            assert re.search(r"reach this one at tcp://127\.0\.0\.1:\d+", (space / f"w{i}.log").read_text())
    finally:
        for process in running:
            process.kill()
            process.wait()


def strangers_that_say_nothing_are_cut(space):
    """Four hundred connections without a handshake: 256 at most are held, each for three seconds, and the ring that stands goes on."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 20000, 1), **NETWORK, **{"train.epochs": 100000})
    with Ring(space).up() as f:
        f.submits(job, "--workers", "2")
        f.works(job, "w1")
        f.works(job, "w2")
        host, port = f.reached("w1").removeprefix("tcp://").split(":")
        within(60, "the ring", lambda: re.search(r"op=CONNECT .*result=ok", f.said("w1")))
        began = time.monotonic()
        silent = [socket.create_connection((host, int(port)), 10) for _ in range(400)]

        def held():
            """Those that the worker has not closed; the kernel may have taken more of them than the worker has seen yet."""
            return len([line for line in pathlib.Path(f"/proc/{f.daemons['w1'].pid}/net/tcp").read_text().split("\n")
                        if f":{int(port):04X} " in line[:25] and " 01 " in line[:40]])
        most = within(5, "those beyond 256 to be cut", lambda: (n := held()) <= 260 and (n,))[0]
        before = f.said("coordinator").count("epoch ")
        for s in silent:
            s.settimeout(PATIENCE * 15)
            with contextlib.suppress(ConnectionResetError):
                while s.recv(4096):
                    pass
        lasted = time.monotonic() - began
        assert lasted < PATIENCE * 10, lasted  # three seconds, on a busy machine
        within(30, "the job to go on", lambda: f.said("coordinator").count("epoch ") > before)
        assert 200 < most, most
        assert f.ask("ann", "stop").returncode == 0


def a_worker_whose_port_is_taken_leaves_alone(space):
    """It says what is in use and ends with 69; the job goes on with the other."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 4000, 1), **NETWORK)
    with socket.create_server(("127.0.0.1", 0)) as taken, Ring(space).up() as f:
        f.submits(job)
        port = taken.getsockname()[1]
        assert f.works(job, "w1", "--listen", f"tcp://127.0.0.1:{port}").wait(60) == 69
        assert f"listen): tcp://127.0.0.1:{port} is in use by another process" in f.said("w1"), f.said("w1")
        assert f.works(job, "w2").wait(120) == 0, f.said("w2")


def no_other_job_makes_a_worker_listen(space):
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 4000, 1))
    with Ring(space).up() as f:
        f.submits(job)
        assert f.works(job, "w1").wait(120) == 0, f.said("w1")
        assert not REACHED.search(f.said("w1"))


def over_a_socket_the_user_decides(space):
    """Beside the coordinator's socket; a message that is none of a worker's is refused by its name, another user's by its role."""
    os.chmod(space.path, 0o755)
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 20000, 1), **NETWORK, **{"train.epochs": 100000})
    run = Plain(space, job)
    try:
        at = run.reached()
        path = at.removeprefix("ipc://")
        assert re.fullmatch(re.escape(f"ipc://{space}/c.socket.worker-") + r"\d+", at), at
        assert os.stat(path).st_mode & 0o077 == 0, oct(os.stat(path).st_mode)  # this user's alone
        own = Stranger(at)
        for message in ("STATUS", "STOP", "JOBS"):
            try:
                own.ask(message)
                raise AssertionError(f"{message} was taken")
            except Refused as e:
                assert "a worker takes no " + message in str(e), e
        try:
            own.ask("RING_READ", run=1, ring=999)
            raise AssertionError("a piece of no ring was given")
        except Refused as e:
            assert "may not send" not in str(e) and "takes no" not in str(e), e
        if os.geteuid() == 0:
            os.chmod(path, 0o777)
            os.seteuid(65534)
            try:
                other = Stranger(at)
            finally:
                os.seteuid(0)
            try:
                other.ask("RING_READ", run=1, ring=1)
                raise AssertionError("another user's request was taken")
            except Refused as e:
                assert "the role metrics may not send RING_READ to a worker" in str(e), e
    finally:
        run.end()


class Plain:
    """A coordinator, a server and a worker of this user, on sockets."""

    def __init__(self, space, job):
        self.space, self.running = space, []
        self.coordinator = f"ipc://{space}/c.socket"
        self.start("coordinator", "shoal-coordinator", "--set", f"listen={self.coordinator}", "--set", f"data_dir={space / 'c'}")
        self.start("server", "shoal-server", "--set", f"listen=ipc://{space}/s.socket", "--set", f"data_dir={space / 's'}", "--set",
                   f"coordinator={self.coordinator}")
        self.start("submit", "shoal", "submit", job, "--coordinator", self.coordinator)
        self.start("worker", "shoal-worker", "train", "--config", job, "--coordinator", self.coordinator)

    def start(self, who, program, *words):
        with open(self.space / f"{who}.log", "w", encoding="utf-8") as log:
            self.running.append(subprocess.Popen([BIN / program, *map(str, words)], stdout=log, stderr=log))

    def reached(self):
        within(30, "the worker to listen", lambda: REACHED.search((self.space / "worker.log").read_text(errors="replace")))
        return REACHED.search((self.space / "worker.log").read_text(errors="replace"))[1]

    def end(self):
        for process in self.running:
            process.kill()
            process.wait()


def a_run_on_this_machine_has_a_socket_for_each_worker(space):
    """In the folder of the daemons' sockets, whose path is short however deep the run's folder lies; it goes with the run."""
    deep = space / ("d" * 100)
    deep.mkdir()
    run_job(job_file(space / "job.yaml", synth(space / "train.tsv", 4000, 1), **NETWORK), deep / "run", workers=2)
    at = [REACHED.search((deep / f"run/log/worker-{i}.log").read_text()) for i in range(2)]
    assert all(at) and at[0][1] != at[1][1], at
    for where in at:
        assert re.fullmatch(r"ipc://\S+/shoal-\w+/coordinator\.worker-\d+", where[1]), where
        assert not pathlib.Path(where[1].removeprefix("ipc://")).parent.exists(), where


def settings_that_cannot_work_are_refused(space):
    """At the check, and so at the start, with words."""
    keygen = shoal("keygen", space / "w.key", "--role", "worker")
    assert keygen.returncode == 0, keygen
    tcp, key = "coordinator: tcp://127.0.0.1:7000\n", f"keys: {space / 'w.key'}\n"
    for text, status, words in ((tcp + key + "listen: tcp://0.0.0.0:7080\nadvertise: w\n", 0, "ok"),
                                (tcp + "insecure_plaintext: true\nlisten: tcp://0.0.0.0:7080\n", 0, "ok"),
                                ("listen: tcp://0.0.0.0:7080\n" + key, 78, "leave listen out"),
                                (tcp + key + "listen: tcp://0.0.0.0\n", 78, "no host and port"),
                                (tcp + key + "listen: 7080\n", 78, "give tcp://HOST:PORT or ipc://PATH")):
        (space / "worker.yaml").write_text(text)
        got = subprocess.run([BIN / "shoal-worker", "run", "--check", "--config", space / "worker.yaml"], capture_output=True, text=True, check=False)
        assert got.returncode == status and words in got.stdout + got.stderr, (text, got)
    got = subprocess.run([BIN / "shoal-worker", "eval", "--config", "none.yaml", "--listen", "ipc:///x"], capture_output=True, text=True, check=False)
    assert got.returncode == 64 and "of train and replay" in got.stderr, got


if __name__ == "__main__":
    main([workers_with_keys_listen_for_each_other, a_job_over_keys_ends_well, a_ring_that_changes_has_another_list,
          in_a_network_that_is_trusted_no_keys_are_shown, strangers_that_say_nothing_are_cut, a_worker_whose_port_is_taken_leaves_alone, no_other_job_makes_a_worker_listen,
          over_a_socket_the_user_decides, a_run_on_this_machine_has_a_socket_for_each_worker, settings_that_cannot_work_are_refused])
