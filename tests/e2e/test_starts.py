#!/usr/bin/env python3
"""test_starts: each start that fails as the guide's table has it: status, sentence, and that what it advises helps."""
import re

from fleet import *

GUIDE = pathlib.Path(__file__).parents[2] / "deploy/manual/guide.md"
NOT_AGAIN = {"64", "65", "77", "78"}  # RestartPreventExitStatus= of the units: tests/units.py


def table():
    """Sentence -> (status, whether it is tried again), of the guide."""
    part = GUIDE.read_text(encoding="utf-8").split("## When a daemon does not start")[1]
    rows = re.findall(r"(?m)^(\d\d)\|(yes|no)\|([^|]+)\|", part)
    return {said: (status, again) for status, again, words in rows for said in re.findall(r"`([^`]+)`", words)}


class Try:
    """A daemon by hand, and what is needed for it to serve."""

    def __init__(self, space):
        self.space = space
        self.keys("coordinator")

    def keys(self, *names):
        for name in names:
            pin = ["--role", "admin"] if name == "coordinator" else ["--coordinator", self.space / "coordinator.key.pub", "--role", name]
            got = shoal("keygen", self.space / f"{name}.key", *pin)
            assert got.returncode == 0, got
            with open(self.space / "allow", "a", encoding="utf-8") as f:
                f.write(got.stdout)

    def run(self, program, *settings, words=(), verb=()):
        sets = [word for setting in settings for word in ("--set", setting)]
        return [BIN / f"shoal-{program}", *verb, *words, *sets]

    def server(self, *settings, words=(), folder="s"):
        return self.run("server", f"listen=ipc://{self.space}/s.sock", f"data_dir={self.space / folder}", "coordinator=", *settings, words=words)

    def coordinator(self, *settings, words=(), listen=None, folder="c"):
        return self.run("coordinator", f"listen={listen or f'ipc://{self.space}/c.sock'}", f"data_dir={self.space / folder}", *settings, words=words)

    def keyed(self, *settings, **more):
        more.setdefault("listen", f"tcp://127.0.0.1:{free_port()}")
        return self.coordinator(f"keys={self.space / 'coordinator.key'}", *settings, **more)

    def worker(self, *settings):
        return self.run("worker", *settings, verb=("run",))


def fails(words):
    """Status and last words of one that ends."""
    got = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=60, check=False)
    return str(got.returncode), got.stdout + got.stderr


@contextlib.contextmanager
def serves(words, said):
    """One that starts, and says so."""
    with tempfile.TemporaryFile("w+") as log:
        daemon = subprocess.Popen([str(w) for w in words], stdout=log, stderr=log)

        def looked():
            log.seek(0)
            text = log.read()
            assert daemon.poll() is None, text
            return re.search(said, text)
        try:
            within(20, f"{words[0]} to serve", looked)
            yield daemon
        finally:
            daemon.kill()
            daemon.wait()


LISTENS, READY, WAITS = r"listens at ", r"1 shards ready", r""


def unknown_option(t):
    return t.server(words=("--confg", "x")), t.server(), READY


def cannot_open_it(t):
    path = t.space / "server.yaml"
    return t.server(words=("--config", path)), lambda: path.write_text("shards: 1\n"), READY


def cannot_read_the_list(t):
    path = t.space / "list"
    return t.keyed(f"allow={path}"), lambda: shutil.copy(t.space / "allow", path), LISTENS


def no_answer(t):
    words = [BIN / "shoal-worker", "train", "--coordinator", f"ipc://{t.space}/c.sock", "--wait", "2", "--set", f"data.cache={t.space}"]
    return words, t.coordinator(), LISTENS


def port_in_use(t):
    port = free_port()
    other = socket.socket()
    other.bind(("127.0.0.1", port))
    other.listen()
    words = t.coordinator("insecure_plaintext=true", listen=f"tcp://127.0.0.1:{port}")
    return words, other.close, LISTENS


def no_driver(t):
    return t.worker("backend=cuda", f"coordinator=ipc://{t.space}/c.sock"), t.worker("backend=cpu", f"coordinator=ipc://{t.space}/c.sock"), WAITS


def folder_not_made(t):
    (t.space / "file").write_text("")
    return t.server(folder="file/s"), t.server(), READY


def folder_in_use(t):
    other = subprocess.Popen([*map(str, t.run("server", f"listen=ipc://{t.space}/o.sock", f"data_dir={t.space / 's'}", "coordinator="))],
                             stderr=subprocess.DEVNULL)
    within(20, "the other server", lambda: (t.space / "s/shard-0/journal").exists())

    def end():
        other.terminate()
        other.wait(30)
    return t.server(), end, READY


def state_in_use(t):
    other = subprocess.Popen([*map(str, t.run("coordinator", f"listen=ipc://{t.space}/o.sock", f"data_dir={t.space / 'c'}"))], stderr=subprocess.DEVNULL)
    within(20, "the other coordinator", lambda: (t.space / "c/store/CURRENT").exists())

    def end():
        other.terminate()
        other.wait(30)
    return t.coordinator(), end, LISTENS


def damaged(t):
    with serves(t.server(), READY) as daemon:
        daemon.terminate()
        daemon.wait(30)
    for path in (t.space / "s/shard-0/rows").glob("MANIFEST-*"):
        path.write_bytes(b"\xff" * 20 + path.read_bytes()[20:])
    return t.server(), lambda: shutil.rmtree(t.space / "s"), READY


def loose_key(t):
    (t.space / "coordinator.key").chmod(0o644)
    return t.keyed(f"allow={t.space / 'allow'}"), lambda: (t.space / "coordinator.key").chmod(0o400), LISTENS


def not_listed(t):
    """A coordinator serves, and the key's role does not allow the request."""
    t.keys("metrics")
    port = free_port()
    t.beside = t.keyed(f"allow={t.space / 'allow'}", listen=f"tcp://127.0.0.1:{port}")
    words = [BIN / "shoal-worker", "train", "--coordinator", f"tcp://127.0.0.1:{port}", "--keys"]
    return [*words, t.space / "metrics.key"], None, None


def unknown_key(t):
    (t.space / "a.yaml").write_text("shard: 1\n")
    return t.server(words=("--config", t.space / "a.yaml")), lambda: (t.space / "a.yaml").write_text("shards: 1\n"), READY


def wrong_value(t):
    (t.space / "a.yaml").write_text("shards: many\n")
    return t.server(words=("--config", t.space / "a.yaml")), lambda: (t.space / "a.yaml").write_text("shards: 1\n"), READY


def no_keys(t):
    listen = f"tcp://127.0.0.1:{free_port()}"
    return t.coordinator(listen=listen), t.keyed(f"allow={t.space / 'allow'}", listen=listen), LISTENS


def no_keys_to_show(t):
    t.keys("worker")
    return t.worker("coordinator=tcp://127.0.0.1:7"), t.worker("coordinator=tcp://127.0.0.1:7", f"keys={t.space / 'worker.key'}"), WAITS


def no_list(t):
    return t.keyed(), t.keyed(f"allow={t.space / 'allow'}"), LISTENS


def both_ways(t):
    return t.keyed("insecure_plaintext=true", f"allow={t.space / 'allow'}"), t.keyed(f"allow={t.space / 'allow'}"), LISTENS


def two_kinds(t):
    t.keys("coord")
    words = t.run("server", f"listen=tcp://127.0.0.1:{free_port()}", f"data_dir={t.space / 's'}", f"keys={t.space / 'coord.key'}",
                  f"coordinator=ipc://{t.space}/c.sock")
    mended = t.run("server", f"listen=ipc://{t.space}/s.sock", f"data_dir={t.space / 's'}", f"coordinator=ipc://{t.space}/c.sock")
    return words, mended, READY


def another_name(t):
    with serves(t.server("name=one"), READY):
        pass
    return t.server("name=two"), t.server("name=one"), READY


def full_disk(t):
    """Another program takes a server's disk, to the last byte; then it leaves as little as the sentence asks for."""
    mount = t.disks.enter_context(small_disk(t.space, "16m"))
    words = t.server("journal.segment=1MiB", folder="small/s")
    with serves(words, READY):
        pass
    fill(mount / "filler", 0)

    def mend():
        os.truncate(mount / "filler", (mount / "filler").stat().st_size - (4 << 20))
    return words, mend, READY


STARTS = {"unknown option": unknown_option, "cannot open it": cannot_open_it, "cannot read the allow-list": cannot_read_the_list,
          "no answer from the coordinator": no_answer, "is in use by another process": port_in_use, "libcuda.so.1": no_driver,
          "bytes are free, and a start with": full_disk, "cannot make": folder_not_made, "is in use by another shoal-server": folder_in_use,
          "is in use by another shoal-coordinator": state_in_use, "damaged": damaged, "at the key": loose_key,
          "may not send": not_listed, "unknown key": unknown_key, "expected": wrong_value, "refusing to listen": no_keys,
          "would be believed": no_keys_to_show, "nobody could come": no_list, "take one of them away": both_ways,
          "or both on ipc": two_kinds, "holds the data of server": another_name}


# Faults that --check can see: files, keys and lists. The rest shows at a start: ports, folders, the coordinator, a key that a unit did not pass.
CHECKED = {"unknown option", "cannot open it", "cannot read the allow-list", "at the key", "unknown key", "expected", "nobody could come",
           "take one of them away", "or both on ipc"}


def check_says(words, said, status):
    got, text = fails([*words, "--check"])
    if said in CHECKED:
        assert got == status and said in text, (said, got, text)
    else:
        assert got == "0" and text.startswith("ok"), (said, got, text)


def every_start_that_fails_is_as_the_guide_says(space):
    wanted = table()
    assert set(wanted) == set(STARTS), set(wanted) ^ set(STARTS)
    for said, (status, again) in wanted.items():
        assert (again == "no") == (status in NOT_AGAIN), said
        folder = space / said.replace(" ", "-")
        folder.mkdir()
        t = Try(folder)
        t.beside = None
        with contextlib.ExitStack() as t.disks:
            try:
                words, mend, serving = STARTS[said](t)
            except Skip as why:
                print(f"      {said}: {why}", flush=True)
                continue
            if t.beside:
                t.disks.enter_context(serves(t.beside, LISTENS))
            check_says(words, said, status)
            got, text = fails(words)
            assert got == status and said in text, (said, got, text)
            if mend is None:
                continue
            if callable(mend):
                mend()
            check_says(words if callable(mend) else mend, "", None)
            with serves(words if callable(mend) else mend, serving) as daemon:
                if serving == WAITS:  # it has not said that it serves: it stays
                    time.sleep(3)
                    assert daemon.poll() is None, said


def check_names_the_line_and_starts_nothing(space):
    """A job file, an allow-list, and the units' reload: the line of the fault, and no folder made."""
    t = Try(space)
    shutil.copy(t.space / "allow", t.space / "list")
    (t.space / "job.yaml").write_text("job: a\nmodel:\n  kynd: lr\n")
    with open(t.space / "list", "a", encoding="utf-8") as f:
        f.write("nonsense\n")
    for words, says in ((t.keyed(f"allow={t.space / 'list'}"), "list:2: "),
                        ([BIN / "shoal-worker", "train", "--config", t.space / "job.yaml"], "job.yaml:3: ")):
        got, text = fails([*words, "--check"])
        assert got == "78" and says in text, (got, text)
    for unit, file in (("shoal-coordinator", "coordinator.yaml"), ("shoal-server@", "server.yaml"), ("shoal-worker@", "worker.yaml")):
        line = re.search(r"(?m)^ExecReload=(.*--check)$", (GUIDE.parents[1] / f"systemd/{unit}.service").read_text(encoding="utf-8")).group(1)
        line = line.replace("/usr/bin/shoal", f"{BIN.absolute()}/shoal")
        for text, status in (("log: info\n", 0), ("log: info\nlogg: info\n", 78)):
            (t.space / file).write_text(text)
            line = re.sub(r"--config \S+|--instance %i", f"--config {t.space / file}", line)
            got = subprocess.run(line.split(), capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "CREDENTIALS_DIRECTORY": "/nowhere"})
            assert got.returncode == status and (got.stdout.startswith("ok") if status == 0 else f"{file}:2: " in got.stderr), got
    assert not (space / "c").exists() and not (space / "s").exists()


if __name__ == "__main__":
    main([every_start_that_fails_is_as_the_guide_says, check_names_the_line_and_starts_nothing])
