#!/usr/bin/env python3
"""test_stop: signals, and what the service manager hears of a start and of a stop that take long. Daemons as units start them, on a disk that may
be slow (slow_disk.c); the socket that NOTIFY_SOCKET names is the test's."""
import threading

from lib import *

SLOW = BIN / "libslow_disk.so"
WIDE = {"tables[0].dim": 128, "model.hidden": [8], "train.batch": 1024}  # some 200 MB of rows: a last flush is many batches


class Daemon:
    """A daemon with a socket for its words to the service manager."""

    def __init__(self, space, program, *words, slow=(), out=None):
        self.log = space / f"{program}-{time.monotonic_ns()}.log"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.log) + ".notify")
        self.heard = []
        threading.Thread(target=self.take, daemon=True).start()  # a pipe without a reader blocks its writer
        environment = {**os.environ, "NOTIFY_SOCKET": str(self.log) + ".notify", **{f"SHOAL_SLOW_{what}": str(ms) for what, ms in slow}}
        if slow:
            environment["LD_PRELOAD"] = str(SLOW)
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([BIN / program, *map(str, words)], stdout=out or log, stderr=out or log, env=environment)

    def take(self):
        while True:
            self.heard += self.socket.recv(4096).decode().split("\n")

    def listen(self, seconds):
        """Returns the output of the next `seconds` seconds, or until the program ends."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            time.sleep(0.05)
        return self

    def hear(self, word, seconds):
        """Waits until it has said a word that begins so."""
        end = time.monotonic() + PATIENCE * seconds
        while not any(line.startswith(word) for line in self.heard):
            if self.process.poll() == 0:
                raise TooShort(word)
            assert time.monotonic() < end and self.process.poll() is None, (word, self.heard, self.said()[-2000:])
            self.listen(0.2)
        return self

    def extensions(self):
        return sum(line.startswith("EXTEND_TIMEOUT_USEC=") for line in self.heard)

    def forget(self):
        self.heard = []

    def signal(self, number):
        self.process.send_signal(number)

    def ended(self, seconds):
        """Its exit status, and how long it took."""
        began = time.monotonic()
        status = self.process.wait(seconds)
        return status, time.monotonic() - began

    def said(self):
        return self.log.read_text(errors="replace")

    def kill(self):
        self.process.kill()
        self.process.wait()


def shoal(*words):
    return subprocess.run([SHOAL, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)


class Fleet:
    """One coordinator and one server; everything goes with it."""

    def __init__(self, space, shards=1):
        self.space, self.shards, self.daemons = space, shards, []
        self.endpoint = f"ipc://{space}/c.sock"
        self.coordinator = self.start("shoal-coordinator", "--set", f"listen={self.endpoint}", "--set", f"data_dir={space / 'coordinator'}",
                                      "--set", f"report={space / 'report.json'}", "--set", f"shards={shards}", "--set", "lease=2s")
        self.server = None

    def start(self, program, *words, **how):
        self.daemons.append(Daemon(self.space, program, *words, **how))
        return self.daemons[-1]

    def serve(self, **how):
        self.server = self.start("shoal-server", "--set", f"listen=ipc://{self.space}/s.sock", "--set", f"data_dir={self.space / 'server'}", "--set",
                                 f"coordinator={self.endpoint}", "--set", f"shards={self.shards}", **how)
        return self.server

    def worker(self, job, **how):
        return self.start("shoal-worker", "train", "--config", job, "--coordinator", self.endpoint, **how)

    def digest(self):
        """Returns the digest of the table; the server has to be up."""
        end = time.monotonic() + 60
        while True:
            got = shoal("digest", "--coordinator", self.endpoint, "emb")
            if got.returncode == 0:
                return got.stdout
            assert time.monotonic() < end, got
            time.sleep(0.2)

    def trained(self, rows, **over):
        """A job to its end, on a server that keeps what it learned in its journal alone."""
        job = job_file(self.space / "job.yaml", synth(self.space / "train.tsv", rows), **over)
        self.serve().hear("READY=1", 30)
        worker = self.worker(job)
        got = shoal("submit", job, "--coordinator", self.endpoint)
        assert got.returncode == 0 and worker.ended(PATIENCE * 30)[0] == 0, got
        digest = self.digest()
        self.server.kill()
        return digest

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for daemon in self.daemons:
            daemon.kill()


def a_stop_in_a_recovery_does_not_wait_for_its_end(space):
    with Fleet(space) as fleet:
        digest = fleet.trained(6000)
        slow = fleet.serve(slow=[("READS", 30000)]).hear("STATUS=recovers", 30)
        slow.signal(signal.SIGTERM)
        status, seconds = slow.ended(PATIENCE * 60)
        assert "READY=1" not in slow.heard, "it was too quick for this case"
        assert status == 0 and seconds < 15, (status, seconds, slow.said())
        fleet.serve().hear("READY=1", 30)
        assert fleet.digest() == digest


def a_recovery_has_more_time_as_long_as_it_moves(space):
    with Fleet(space) as fleet:
        fleet.trained(20000, **WIDE)
        moving = fleet.serve(slow=[("READS", 700)]).hear("EXTEND_TIMEOUT_USEC=", 30)
        moving.listen(2)
        moving.forget()
        moving.hear("EXTEND_TIMEOUT_USEC=", 30)
        assert "READY=1" not in moving.heard and moving.process.poll() is None, moving.heard
        moving.kill()
        hanging = fleet.serve(slow=[("READS", 60000)]).hear("STATUS=recovers", 30).listen(3)
        hanging.forget()
        hanging.listen(9)
        assert hanging.process.poll() is None and hanging.extensions() == 0, hanging.heard


def a_stop_has_more_time_as_long_as_it_writes(space):
    with Fleet(space) as fleet:
        digest = fleet.trained(20000, **WIDE)
        slow = fleet.serve(slow=[("SYNCS", 500)]).hear("READY=1", 60)
        fleet.digest()  # all rows are back
        slow.signal(signal.SIGTERM)
        slow.hear("STOPPING=1", 5)
        slow.forget()
        status, _ = slow.ended(PATIENCE * 60)
        assert status == 0 and slow.extensions() >= 3, (status, slow.heard)
        print(f"      {slow.extensions()} extensions", flush=True)
        after = fleet.serve().hear("READY=1", 30)
        assert fleet.digest() == digest
        after.kill()


def a_second_signal_ends_a_server_at_once(space):
    with Fleet(space) as fleet:
        digest = fleet.trained(20000, **WIDE)
        slow = fleet.serve(slow=[("SYNCS", 3000)]).hear("READY=1", 60)
        fleet.digest()
        slow.signal(signal.SIGTERM)
        slow.hear("STOPPING=1", 5).listen(1)
        assert slow.process.poll() is None, "it was too quick for this case"
        slow.signal(signal.SIGTERM)
        status, seconds = slow.ended(60)
        assert status == 0 and seconds < 10, (status, seconds, slow.said())  # without the second one as many syncs of 3 s as the rows take
        fleet.serve().hear("READY=1", 30)
        assert fleet.digest() == digest


def a_closed_terminal_ends_no_daemon(space):
    with Fleet(space) as fleet:
        job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000), **{"train.epochs": longer(12)})
        fleet.serve().hear("READY=1", 30)
        worker = fleet.worker(job)
        assert shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait").returncode == 0
        worker.hear("STATUS=job ", 30)
        for daemon in fleet.daemons:
            daemon.signal(signal.SIGHUP)
        assert worker.ended(120)[0] == 0, worker.said()
        assert fleet.server.process.poll() is None and fleet.coordinator.process.poll() is None


def a_worker_whose_log_nobody_reads_trains_on(space):
    """shoal-worker ... 2>&1 | head"""
    with Fleet(space) as fleet:
        job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000))
        fleet.serve().hear("READY=1", 30)
        reader, writer = os.pipe()
        os.close(reader)
        worker = fleet.worker(job, out=writer)
        os.close(writer)
        got = shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait")
        assert got.returncode == 0 and worker.ended(60)[0] == 0, (got, worker.process.returncode)


main([a_stop_in_a_recovery_does_not_wait_for_its_end, a_recovery_has_more_time_as_long_as_it_moves, a_stop_has_more_time_as_long_as_it_writes,
      a_second_signal_ends_a_server_at_once, a_closed_terminal_ends_no_daemon, a_worker_whose_log_nobody_reads_trains_on])
