"""lib: what the end-to-end tests share: real daemons through `shoal local`, small synthetic logs, kills, digests."""
import base64
import contextlib
import hashlib
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

BIN = pathlib.Path(os.environ.get("SHOAL_BIN", "build/release/bin")).resolve()
SHOAL = BIN / "shoal"


class Space:
    """A temporary folder, removed at the end unless a test failed."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="shoal-e2e-"))

    def __truediv__(self, name):
        return self.path / name

    def __str__(self):
        return str(self.path)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)

    def renew(self):
        self.remove()
        self.path.mkdir()


def synth(path, rows, seed=1):
    subprocess.run([SHOAL, "synth", "--rows", str(rows), "--seed", str(seed), "--out", str(path)], check=True, stdout=subprocess.DEVNULL)
    return path


def job_file(path, train, **over):
    """Writes a small job: model, consistency and so on by dotted keys in `over` ("train.lanes": 4)."""
    keys = {
        "job": "e2e", "data.format": "criteo", "data.train": str(train), "tables[0].name": "emb", "tables[0].dim": 4,
        "tables[0].tablets": 64, "tables[0].optimizer.kind": "adagrad", "tables[0].optimizer.lr": 0.05, "model.kind": "deepfm",
        "model.hidden": [16, 8], "train.batch": 256, "train.epochs": 1, "train.consistency": "ssp", "train.staleness": 2,
        "train.prefetch": 2, "train.lanes": 2, "train.seed": 7, "durability": "journal", "coordinator.lease": "2s", "net.resend": "200ms",
    }
    keys.update(over)
    lines = []
    for key, value in keys.items():
        if value is not None:
            lines.append(f"{key}: {json.dumps(value)}")
    pathlib.Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


class Run:
    """One `shoal local` in the background."""

    def __init__(self, job, run_dir, servers=1, workers=1, extra=(), stdin=None):
        self.dir = pathlib.Path(run_dir)
        self.log = open(str(run_dir) + ".out", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [SHOAL, "local", str(job), "--run-dir", str(run_dir), "--servers", str(servers), "--workers", str(workers), *extra],
            stdin=stdin, stdout=self.log, stderr=subprocess.STDOUT)

    def children(self, name):
        """Process numbers of this run's daemons whose configuration or name says `name` (server-0, worker-1, coordinator)."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                stat = (entry / "stat").read_text()
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if int(stat.rsplit(")", 1)[1].split()[1]) != self.process.pid:
                continue
            text = [w.decode() for w in words]
            if f"{self.dir.resolve()}/{name}.yaml" in text or name in text:
                found.append(int(entry.name))
        return found

    def signal(self, name, number=signal.SIGKILL):
        """Sends a signal to a daemon; False when it is not running at the moment."""
        pids = self.children(name)
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                return False
        return bool(pids)

    def sockets(self):
        """Paths at which its daemons listen, as far as they are there."""
        found = {word[len("ipc://"):] for file in self.dir.glob("*.yaml") for word in file.read_text().split('"') if word.startswith("ipc://")}
        return sorted(path for path in found if os.path.exists(path))

    def running(self):
        return self.process.poll() is None

    def wait(self, timeout=300):
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait(60)
            raise AssertionError(f"the run did not end within {timeout} s:\n{self.output()[-2000:]}") from None

    def output(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text(encoding="utf-8", errors="replace")

    def logs(self, name="*"):
        """Returns the log of the daemons of that name so far."""
        return "".join(p.read_text(errors="replace") for p in (self.dir / "log").glob(f"{name}.log"))

    def report(self):
        return json.loads((self.dir / "report.json").read_text(encoding="utf-8"))


def run_job(job, run_dir, servers=1, workers=1, extra=(), timeout=300, stdin=None):
    """Runs to the end; returns the report."""
    run = Run(job, run_dir, servers, workers, extra, stdin)
    status = run.wait(timeout)
    assert status == 0, f"exit status {status}:\n{run.output()[-3000:]}"
    return run.report()


def sealed(text):
    """A page, report.html or sweep.html, has two scripts, its values and what draws them, and its policy lets nothing else run or load. Returns the values."""
    parts = re.fullmatch(r'(.*)<style>([^<]*)</style>(.*)<script type="application/json" id="values">([^<]*)</script>\n<script>(.*)</script>\n</body>\n</html>\n',
                         text, re.S)
    assert parts, text[:2000]
    head, style, body, values, script = parts.groups()
    style_hash, script_hash = (base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (style, script))
    policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{style_hash}'; script-src 'sha256-{script_hash}'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in head, (policy, head)
    assert not re.search(r"</?script|<!--", script) and not re.search(r"<script|<img|<link|<a |src=|href=|@import|http:|https:", head + style + body), head + body
    assert re.findall(r"https?:[^\"]*", script) == ["http://www.w3.org/2000/svg"], "the script asks the network for something"
    assert not re.search(r"HTML|insertAdjacent|document\.write|\beval\b|\bFunction\b|fetch|XMLHttp|WebSocket|import", script), "the script may make markup or code of values"
    return json.loads(values)


def drawn(path):
    """A page with what its script draws in the place of the script (page.js). None, and a line that says why, without node."""
    sealed(pathlib.Path(path).read_text(encoding="utf-8"))
    node = shutil.which("node")
    if node is None:
        print(f"      {pathlib.Path(path).name} is not looked at: needs node", flush=True)
        return None
    done = subprocess.run([node, pathlib.Path(__file__).resolve().parent / "page.js", path], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def digests(report):
    return {t["name"]: (t["rows"], t["digest"]) for t in report["tables"]}


def free_port():
    """Draws a port below those that the kernel gives to connections: one of a test beside this one would otherwise take it before a daemon listens there."""
    first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    least, end = (10000, first) if first > 12000 else (1024, 65536)
    while True:
        port = random.SystemRandom().randrange(least, end)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


def data_folder(name):
    """Folder of a public data set under SHOAL_DATA, or None: those tests are then skipped with a reason."""
    root = os.environ.get("SHOAL_DATA", "")
    path = pathlib.Path(root) / name
    return path if root and path.is_dir() else None


def part(values, share):
    """Returns the value below which that share of them lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else None


def ratio_interval(ratios):
    """The median ratio and the ends of its 95 % interval, by Hodges and Lehmann."""
    logs = [math.log(r) for r in ratios]
    n = len(logs)
    means = sorted((logs[i] + logs[j]) / 2 for i in range(n) for j in range(i, n))
    cut = int(n * (n + 1) / 4 - 1.96 * math.sqrt(n * (n + 1) * (2 * n + 1) / 24))
    cut = max(0, cut)
    return tuple(math.exp(x) for x in (means[len(means) // 2], means[cut], means[-1 - cut]))


# A wait ends when what it waits for has come. How many times as long as on a machine with nothing else to do it may take: several tests run at once, on few cores.
PATIENCE = 4


class Skip(Exception):
    pass


class TooShort(Exception):
    """The job was over before the case had done with it what it wanted: `main` plays the case again with a job twice as long."""


LENGTH = [1]  # how many times as long as written jobs are at the moment


def longer(count):
    """Rows, epochs or kills of a job that must still run when a case disturbs it."""
    return count * LENGTH[0]


def too_soon(status, said):
    """A case still needs a job that has ended: well, so that it was too short, or by a failure."""
    if status == 0:
        raise TooShort(said[-1000:])
    raise AssertionError(f"exit status {status}:\n{said[-3000:]}")


def still_going(run):
    if not run.running():
        too_soon(run.process.returncode, run.output())


def until(run, what, look, seconds=60, pause=0.02):
    """Waits for something in a job under way; returns what `look` says of it."""
    end = time.monotonic() + PATIENCE * seconds
    while not (got := look()):
        still_going(run)
        assert time.monotonic() < end, f"{what}: not within {PATIENCE * seconds} s:\n{run.output()[-2000:]}"
        time.sleep(pause)
    return got


def stopped_early(run):
    """Waits for a run that was told to stop before the end of its job; returns its status."""
    status = run.wait()
    if status == 0:
        raise TooShort(run.output()[-1000:])
    return status


def break_off(run, number=signal.SIGKILL):
    """Ends a run before the end of its job; returns its status."""
    run.process.send_signal(number)
    status = stopped_early(run)
    if (run.dir / "report.json").exists():
        raise TooShort(run.output()[-1000:])
    return status


def started(run, seconds=60):
    """Waits until the job trains."""

    def trains():
        done = subprocess.run([SHOAL, "status", "--run-dir", run.dir, "--json"], capture_output=True, text=True, check=False)
        return done.returncode == 0 and (status := json.loads(done.stdout)).get("state") == "train" and status.get("examples", 0) > 0

    until(run, "the job to train", trains, seconds, 0.05)


def numbered(folder):
    """The numbered checkpoints that have their name, the newest last."""
    folder = pathlib.Path(folder)
    return sorted(p for p in folder.iterdir() if p.name.isdigit()) if folder.is_dir() else []


def strike(run, name, number=signal.SIGKILL):
    """A signal to a daemon of a job under way."""
    end = time.monotonic() + PATIENCE * 10
    while not run.signal(name, number):  # a process that has just ended is started again, or the job is over, and soon the run
        still_going(run)
        assert time.monotonic() < end, f"{name} was not running:\n{run.output()[-2000:]}"
        time.sleep(0.1)


@contextlib.contextmanager
def small_disk(space, size):
    """A file system of its own of `size` (as tmpfs says it), so that it can be full; gives its folder. Skips without root."""
    if os.geteuid() != 0:
        raise Skip("needs root to mount a small file system")
    mount = space / "small"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(mount)], check=False, capture_output=True).returncode != 0:
        raise Skip("cannot mount a tmpfs here")
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=False)


def fill(path, left):
    """Writes a file until only `left` bytes are free under it."""
    with open(path, "ab", buffering=0) as f:
        while True:
            fs = os.statvfs(path.parent)
            free = fs.f_bavail * fs.f_frsize - left
            if free <= 0:
                return
            try:
                f.write(bytes(min(free, 1 << 20)))
            except OSError:
                return


@contextlib.contextmanager
def frozen_disk(space):
    """An ext4 of its own in a loop device; gives its folder. Skips where there is no root, no loop device or no fsfreeze."""
    image, at = space / "disk.img", space / "disk"
    if os.geteuid() != 0 or shutil.which("fsfreeze") is None or shutil.which("mkfs.ext4") is None:
        raise Skip("needs root, fsfreeze and mkfs.ext4 for a disk that hangs")
    with open(image, "wb") as f:
        f.truncate(512 << 20)
    at.mkdir()
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, at], check=False, capture_output=True).returncode != 0:
        raise Skip("no loop device can be mounted here")
    try:
        yield at
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", at], check=False, capture_output=True)
        subprocess.run(["umount", "-l", at], check=False)


def long_enough(case, space):
    """Plays a case, on a machine where its job is over too soon again with a longer one."""
    try:
        LENGTH[0] = 1
        while True:
            try:
                case(space)
                return
            except TooShort:
                if LENGTH[0] == 8:
                    raise
                LENGTH[0] *= 2
                print(f"      the job was over too soon: again, {LENGTH[0]} times as long", flush=True)
                space.renew()
    finally:
        LENGTH[0] = 1


def said_of(error):
    """Returns the output of a program that was run with check=True and failed."""
    said = getattr(error, "stderr", None) or ""
    return f"it said: {said if isinstance(said, str) else said.decode(errors='replace')}"[-4000:] if said else ""


def main(cases):
    """Runs the cases named on the command line, or all; each gets a Space."""
    wanted = sys.argv[1:]
    passed = failed = skipped = 0
    for case in cases:
        if wanted and case.__name__ not in wanted:
            continue
        space = Space()
        begin = time.monotonic()
        try:
            long_enough(case, space)
            passed += 1
            print(f"ok    {case.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
            space.remove()
        except Skip as reason:
            skipped += 1
            print(f"skip  {case.__name__}: {reason}", flush=True)
            space.remove()
        except Exception as error:  # noqa: BLE001 - a failed case must not end the others
            failed += 1
            print(f"FAIL  {case.__name__} (files kept in {space.path})\n{traceback.format_exc()}{said_of(error)}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or passed + skipped == 0 else 0)


__all__ = [n for n in dir() if not n.startswith("_")]
