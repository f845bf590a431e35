"""golden: what `make` and e2e/test_golden.py share: the job, a fleet of one coordinator and two servers in a folder, and what is read of it."""
import ctypes
import hashlib
import json
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import time

from lib import BIN, SHOAL

TABLES = ["user", "goods", "tail", "city", "page", "day", "dense", "dense_stats"]
SERVER = {"journal.segment": "64KiB", "journal.max": "512KiB", "journal.keep": "128KiB"}
JOB = """# Six tables of six optimizers and three kinds of values; four of them with rules. Paths are those of the folder that the daemons run in.
job: golden
data:
  format: csv
  train: [train.csv]
  valid: [valid.csv]
  label: click
  time: time
  shuffle: no
  columns:
    - {name: click, type: label}
    - {name: time, type: skip}
    - {name: user}
    - {name: visit}
    - {name: item}
    - {name: tags, type: multi, pooling: mean, max: 4}
    - {name: tail}
    - {name: city}
    - {name: page}
    - {name: day}
  cache: cache
tables:
  - name: user
    fields: [user, visit]
    dim: 4
    tablets: 32
    values: fp16
    init: {kind: normal, scale: 0.02, seed: 3}
    optimizer: {kind: adam, lr: 0.002}
    stats: true
    admit: {min_count: 3}
    evict: {every_hours: 24, decay: 0.9, min_score: 0.2, ttl_days: 4}
    rules:
      - {field: visit, admit: {min_score: 0.5}, ttl_days: 1.5}
  - name: goods
    fields: [item, tags]
    dim: 3
    tablets: 32
    preset: paddle_ctr
    evict: {capacity: 600, by: score}
    vector_score: 2
  - name: tail
    fields: [tail]
    dim: 5
    tablets: 32
    values: bf16
    preset: monolith
    optimizer: {kind: row_adagrad, lr: 0.05}
    admit: {min_count: 2, sketch: 64}
    evict: {every_hours: 48, ttl_days: 8}
    guard: {norm: 0.05, action: clip}
  - name: city
    fields: [city]
    dim: 3
    tablets: 32
    init: {kind: constant, scale: 0.125}
    optimizer: {kind: ftrl, lr: 0.05, l1: 0.01}
    admit: {probability: 0.5}
  - name: page
    fields: [page]
    dim: 6
    tablets: 32
    optimizer: {kind: adagrad, lr: 0.05, l2: 0.0001}
  - name: day
    fields: [day]
    dim: 2
    tablets: 32
    init: {kind: zero}
    optimizer: {kind: sgd, lr: 0.1}
model: {kind: wide_deep, hidden: [8, 4], norm: batch, dropout: 0.1, activation: relu}
dense_optimizer: {kind: adam, lr: 0.01}
train: {batch: 64, epochs: 3, early_stop: {metric: logloss, patience: 5}, consistency: bsp, prefetch: 2, lanes: 3, seed: 7, task_batches: 4}
checkpoint: {dir: checkpoints}
net: {resend: 200ms}
durability: journal
"""


def shoal(*words, where=None, status=0):
    """Returns the output of a command; where: the folder that it runs in. status None: any."""
    done = subprocess.run([SHOAL, *map(str, words)], capture_output=True, text=True, timeout=120, check=False, cwd=where)
    if status is not None and done.returncode != status:
        raise AssertionError(f"shoal {words}: exit status {done.returncode}, {status} expected:\n{done.stdout}{done.stderr}")
    return done.stdout if status == 0 else done.stdout + done.stderr


class Folder:
    """A coordinator and two servers whose state lies in one folder: coordinator/, server-0/, server-1/; and workers."""

    def __init__(self, where):
        self.where, self.daemons = pathlib.Path(where), []
        self.sockets = tempfile.mkdtemp(prefix="shoal-")  # the path of the working folder may be long
        self.endpoint = f"ipc://{self.sockets}/c"

    def start(self, name, program, *words):
        with open(self.where / f"{name}.log", "a", encoding="utf-8") as log:
            self.daemons.append(subprocess.Popen([BIN / program, *map(str, words)], stdout=log, stderr=log, cwd=self.where))
        return self.daemons[-1]

    def coordinator(self):
        return self.start("coordinator", "shoal-coordinator", "--set", f"listen={self.endpoint}", "--set", "data_dir=coordinator", "--set",
                          "shards=2", "--set", "report=report.json")

    def server(self, i, **over):
        sets = {**SERVER, **over, "listen": f"ipc://{self.sockets}/s{i}", "data_dir": f"server-{i}", "coordinator": self.endpoint}
        return self.start(f"server-{i}", "shoal-server", *[f"--set={key}={value}" for key, value in sets.items()])

    def worker(self):
        return self.start("worker", "shoal-worker", "train", "--config", "job.yaml", "--coordinator", self.endpoint, "--name", "w", "--wait", 60)

    def start_all(self, **over):
        self.coordinator()
        self.server(0, **over)
        self.server(1, **over)
        return self

    def ask(self, *words, status=0):
        return shoal(*words, "--coordinator", self.endpoint, where=self.where, status=status)

    def json(self, *words):
        return json.loads(self.ask(*words, "--json"))

    def status(self):
        """The coordinator's status, {} while it does not answer."""
        done = subprocess.run([SHOAL, "status", "--json", "--coordinator", self.endpoint], capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def until(self, what, true, seconds=60):
        end = time.monotonic() + seconds
        while not true():
            dead = [d.args for d in self.daemons if d.poll() not in (None, 0)]
            if dead or time.monotonic() > end:
                raise AssertionError(f"{what}: not within {seconds} s; ended: {dead}; {self.status()}\n{self.logs()[-3000:]}")
            time.sleep(0.02)

    def ready(self):
        """Until all rows are back."""
        self.until("ready", lambda: len([s for s in self.status().get("servers", []) if s.get("ready")]) == 2)

    def logs(self):
        return "".join(p.read_text(errors="replace") for p in sorted(self.where.glob("*.log")))

    def kill(self):
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
        self.daemons = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def library():
    """The BLAS of this machine, which with the kernel type decides the bits of a matrix product: "OpenBLAS 0.3.21"."""
    try:
        blas = ctypes.CDLL("libopenblas.so.0")
        blas.openblas_get_config.restype = ctypes.c_char_p
        return " ".join(blas.openblas_get_config().decode().split()[:2])
    except (OSError, AttributeError):
        return "unknown BLAS"


def digests_told(text):
    """Reads the output of `shoal digest --json`: {table: [rows, digest]}."""
    told = json.loads(text)
    return {t["name"]: [t["rows"], t["digest"]] for t in (told if isinstance(told, list) else told["tables"])}


def digests_reported(where):
    return {t["name"]: [t["rows"], t["digest"]] for t in json.loads((where / "report.json").read_text(encoding="utf-8"))["tables"]}


ROW = ("key", "field", "weights", "state", "stats", "values")
NOT_SHOWN = "delta_score"  # a statistic that tools of 0.2.0 show and later ones do not; digests have it


def row_told(text):
    """The parts of a row that must come back; its place is not one of them."""
    row = json.loads(text)
    row.get("stats", {}).pop(NOT_SHOWN, None)
    return {k: row[k] for k in ROW if k in row}


def rows_exported(text):
    """The lines of an export in their order, without the column that 0.2.0 does not have."""
    lines = [line.split("\t") for line in text.splitlines()]
    kept = [i for i, name in enumerate(lines[0]) if name != NOT_SHOWN]
    return sorted("\t".join(line[i] for i in kept) for line in lines)


def read_folders(where):
    """Returns the digests that `shoal digest` finds in folders that were not opened yet."""
    return digests_told(shoal("digest", "--run-dir", ".", "--json", where=where))


def read_running(fleet, keys):
    """Returns what a fleet says of its tables: digests, rows, and the batches that changed them."""
    rows, pushes = {}, {}
    for table, some in keys.items():
        for key in some:
            text = fleet.ask("inspect", table, key, "--json", status=None)
            rows[f"{table} {key}"] = row_told(text) if text.startswith("{") else None
            told = fleet.json("blame", table, key, "--limit", "1000")["pushes"]
            pushes[f"{table} {key}"] = [[p["lane"], p["batch"], *((p.get("who") or {}).get(k) for k in ("epoch", "position", "rows"))] for p in told]
    return {"digests": digests_told(fleet.ask("digest", "--json")), "rows": rows, "pushes": pushes}


def read_checkpoint(folder, space):
    """Returns the rows of each table, and a hash of its lines as they are exported, with state: rows in order of line, or the elements of the network's tensors."""
    diff = json.loads(shoal("checkpoint", "diff", folder, folder, "--json"))
    found = {}
    shoal("export", folder, "--format", "tsv", "--out", space / "export", "--state")
    for table in diff["tables"]:
        lines = rows_exported((space / "export" / f"{table['name']}.tsv").read_text(encoding="utf-8"))
        found[table["name"]] = [table["rows_after"], hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]]
    shutil.rmtree(space / "export")
    return found


def unpack(golden, space):
    """fleet/ and checkpoint/ of a folder of golden files, each with the input beside it as the daemons want it."""
    with tarfile.open(golden / "files.tar.xz") as tar:
        tar.extractall(space)
    for part in ("fleet", "checkpoint"):
        for file in (space / "input").iterdir():
            shutil.copy(file, space / part / file.name)
    return space
