"""seeded: what tests/accuracy, pairs, forms and older share: one run of a job with one seed, its figures, a file that keeps them, the interval of a mean."""
import math
import statistics
import threading

from lib import *

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOBS = ROOT / "deploy" / "jobs"
PROGRAMS = ("shoal", "shoal-coordinator", "shoal-server", "shoal-worker", "libshoal_cpu.so")
SYNTH_ROWS, SYNTH_VALID_ROWS, SYNTH_SEED = 400000, 100000, 11
# Student's t: 97.5 % of its distribution lie below, by degrees of freedom from 1 on.
T = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009,
     2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452)
SEEDS_MAX = len(T) + 1


# ---- data ------------------------------------------------------------------------------------------------------------

def made(folder, make):
    """A folder of input that `make(folder)` writes once; one that was left unfinished is not taken for whole."""
    if not folder.is_dir():
        part = folder.with_name(folder.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        make(part)
        part.rename(folder)
    return folder


def frappe(_):
    folder = data_folder("frappe_x1")
    if folder is None:
        raise Skip("set SHOAL_DATA to the folder of the data sets: frappe_x1 is not there")
    return folder / "train.csv.gz", folder / "valid.csv.gz"


def ml1m(keep):
    folder = data_folder("ml-1m")
    if folder is None:
        raise Skip("set SHOAL_DATA to the folder of the data sets: ml-1m is not there")
    joined = made(keep / "ml1m", lambda to: subprocess.run([JOBS / "ml1m-join", folder, to], check=True, stdout=subprocess.DEVNULL))
    return joined / "train.csv", joined / "valid.csv"


def synthetic(keep):
    def make(to):
        subprocess.run([SHOAL, "synth", "--rows", str(SYNTH_ROWS), "--seed", str(SYNTH_SEED), "--out", to / "train.tsv", "--valid-out", to / "valid.tsv",
                        "--valid-rows", str(SYNTH_VALID_ROWS)], check=True, stdout=subprocess.DEVNULL)
    log = made(keep / f"synth-{SYNTH_ROWS}-{SYNTH_SEED}", make)
    return log / "train.tsv", log / "valid.tsv"


DATA = {"frappe": frappe, "ml1m": ml1m, "criteo": synthetic}


def data_sets(job, keep):
    """Settings of a shipped job for its input: the training and validation parts of a public set, or a synthetic log. A job that lies elsewhere has its own."""
    source = DATA.get(job.stem.split("-")[0])
    if job.resolve().parent != JOBS or source is None:
        return []
    train, valid = source(keep)
    return [f"data.train={train.resolve()}", f"data.valid={valid.resolve()}"]


# ---- a run -----------------------------------------------------------------------------------------------------------

class Straggler(threading.Thread):
    """Stops one worker of a run for a share of each second. `stopped` is the share of the time in which it was."""

    def __init__(self, run, name, share):
        super().__init__(daemon=True)
        self.watched, self.worker, self.share = run, name, share
        self.over, self.stopped = threading.Event(), 0.0

    def run(self):
        began, still = time.monotonic(), 0.0
        while not self.over.is_set():
            since = time.monotonic()
            struck = self.watched.signal(self.worker, signal.SIGSTOP)
            self.over.wait(self.share)
            self.watched.signal(self.worker, signal.SIGCONT)
            now = time.monotonic()
            still += (now - since) * struck
            self.stopped = still / (now - began)
            self.over.wait(1 - self.share)

    def end(self):
        self.over.set()
        self.join()
        return self.stopped


def figures(report):
    """What is kept of a report."""
    points = [p["staleness"] for p in report["training"] if p["staleness"] is not None]
    rows = next(t["rows"] for t in report["tables"] if t["name"] not in ("dense", "dense_stats"))
    return {"auc": report["valid"]["auc"], "logloss": report["valid"]["logloss"], "rate": report["examples_per_second"], "seconds": report["seconds"],
            "epochs": len(report["epochs"]), "best_epoch": report.get("best_epoch"), "auc_by_epoch": [e["valid"] and e["valid"]["auc"] for e in report["epochs"]],
            "examples": report["examples"], "rows": rows,
            "staleness": {**report["staleness"], "mean": statistics.mean(points) if points else None},
            "ring": report.get("ring"),
            "ages": {t["name"]: t["age"]["mean"] for t in report["tables"] if "age" in t},
            "keys_pulled": report["keys_pulled"], "keys_pushed": report["keys_pushed"], "time": report["time"], "busy": report["busy"],
            "deaths": report["worker_deaths"], "digests": {name: digest for name, (_, digest) in digests(report).items()}}


def train(job, seed, sets, servers, workers, straggler=0.0, extra=()):
    """Trains the job through real daemons, the last worker stopped for the share `straggler` of each second; returns the figures. extra: further words of
    `shoal local`."""
    words = [*extra, *(word for setting in (f"train.seed={seed}", f"tables[0].init.seed={seed}", *sets) for word in ("--set", setting))]
    space, began, stopped = Space(), time.monotonic(), 0.0
    run = Run(job, space / "run", servers, workers, words)
    slow = Straggler(run, f"worker-{workers - 1}", straggler)
    try:
        if straggler > 0:
            slow.start()
        status = run.process.wait()
    except BaseException:  # interrupted: nothing stays behind
        run.process.terminate()
        run.process.wait(60)
        space.remove()
        raise
    finally:
        if straggler > 0:
            stopped = slow.end()
    if status != 0:
        raise AssertionError(f"{job.stem} with seed {seed} ended with status {status}; its files are in {space}\n{run.output()[-3000:]}")
    found = {**figures(run.report()), "wall": time.monotonic() - began, "stopped": stopped}
    space.remove()
    return found


# ---- what is kept ----------------------------------------------------------------------------------------------------

def built(folder, *names):
    """Ends this program, with words, where a folder lacks one of these."""
    lacks = [name for name in names if not (folder / name).is_file()]
    if lacks:
        print(f"{folder} has no {', '.join(lacks)}: it must be the folder of built programs (SHOAL_BIN, --old)", file=sys.stderr)
        sys.exit(66)


def programs(folder=BIN):
    """A name for the programs: figures of others are not taken for theirs."""
    built(folder, *PROGRAMS)
    h = hashlib.sha256()
    for name in PROGRAMS:
        h.update((folder / name).read_bytes())
    return h.hexdigest()[:12]


class Kept:
    """Figures of runs by what they are of, in a file of JSON lines; without a file in memory alone. A line that a killed process left unfinished is cut off."""

    def __init__(self, path=None):
        self.path, self.of = path, {}
        if path is None or not path.exists():
            return
        text = path.read_bytes()
        whole = text[:text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            os.truncate(path, len(whole))
        for line in whole.splitlines():
            row = json.loads(line)
            self.of[self.key(row["of"])] = row["figures"]

    @staticmethod
    def key(of):
        return json.dumps(of, sort_keys=True)

    def get(self, of):
        return self.of.get(self.key(of))

    def put(self, of, found):
        self.of[self.key(of)] = found
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a", encoding="utf-8") as f:
                f.write(json.dumps({"of": of, "figures": found}, sort_keys=True) + "\n")

    def longest(self):
        return max((f["wall"] for f in self.of.values()), default=0.0)


class Runs:
    """Trains a job with seeds and settings, each combination once."""

    def __init__(self, job, options, kept, keep, trainer=train):
        self.job, self.options, self.kept, self.trainer = job, options, kept, trainer
        self.base = {"job": job.stem, "text": hashlib.sha256(job.read_bytes()).hexdigest()[:12], "programs": programs(), "servers": options.servers,
                     "workers": options.workers, "straggler": getattr(options, "straggler", 0.0)}
        self.data = data_sets(job, keep)

    def of(self, seed, sets):
        return {**self.base, "seed": seed, "set": sorted(sets)}

    def get(self, seed, sets):
        return self.kept.get(self.of(seed, sets))

    def make(self, seed, sets):
        """The figures, which are kept; it trains when there are none."""
        found = self.get(seed, sets)
        if found is None:
            found = self.trainer(self.job, seed, self.data + sets, self.options.servers, self.options.workers, self.base["straggler"])
            self.kept.put(self.of(seed, sets), found)
            print(f"  {self.job.stem} seed {seed} {' '.join(sets)}: AUC {found['auc']:.5f}, {found['wall']:.0f} s", file=sys.stderr, flush=True)
        return found


# ---- statistics ------------------------------------------------------------------------------------------------------

def interval(values):
    """The mean and the ends of its 95 % interval by Student's t; of differences of pairs this is the paired t interval. Infinite for one value."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return mean, -math.inf, math.inf
    half = T[len(values) - 2] * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half
