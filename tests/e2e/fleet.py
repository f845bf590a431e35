"""fleet: what the tests of fleets share: a coordinator and servers that come and go."""
from lib import *


def shoal(*words):
    return subprocess.run([SHOAL, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)


def within(seconds, what, look):
    """Waits for something; seconds: how long it may take where nothing else runs."""
    end = time.monotonic() + PATIENCE * seconds
    while time.monotonic() < end:
        got = look()
        if got:
            return got
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {PATIENCE * seconds} s")


def settled(seconds, check):
    """Waits until no assert of a check fails, and all that it reads is there: figures come a period late, and each daemon's at a time of its own. At the end the
    last failure counts."""
    end = time.monotonic() + PATIENCE * seconds
    while True:
        try:
            return check()
        except (AssertionError, KeyError):
            if time.monotonic() > end:
                raise
        time.sleep(0.1)


def http_cpu(pid):
    """Processor seconds of the daemon's HTTP thread."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == "http":
            return int((task / "schedstat").read_text().split()[0]) / 1e9
    raise AssertionError("there is no thread http")


def bsp_job(space, name, train, epochs, **over):
    """Writes a job whose digests tell of each push that is lost, late, or applied twice."""
    return job_file(space / name, train, **{"train.consistency": "bsp", "train.lanes": 4, "train.epochs": epochs, "model.norm": "batch",
                                            "model.dropout": 0.1, "durability": None, **over})


def counting_job(space, name, train, epochs, **over):
    """Writes a job whose rows count: a push that is lost or applied twice changes the digest, whatever the order."""
    return job_file(space / name, train, **{"model.kind": "probe", "tables[0].dim": 1, "train.consistency": "ssp", "train.staleness": 2, "train.prefetch": 4,
                                            "train.batch": 128, "train.lanes": 4, "tables[0].optimizer.kind": "sgd", "durability": None,
                                            "train.epochs": epochs, **over})


def submit(fleet, job, workers=2):
    """Begins a job; returns its submission, which ends with it."""
    for i in range(workers):
        fleet.worker(f"w{i}", job)
    return subprocess.Popen([SHOAL, "submit", job, "--coordinator", fleet.endpoint], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def training(fleet):
    """Waits until a job trains, with a place in its input that is worth something."""

    def trains():
        state = fleet.state()
        if state.get("state") == "done":
            raise TooShort("the job was over before it was seen to train")
        return state.get("state") == "train" and state["examples"] > 1000

    within(30, "the job to train", trains)


def under_way(submission):
    if submission.poll() is not None:
        too_soon(submission.returncode, submission.communicate()[0])


def ended(fleet, submission, seconds=300):
    """Waits for a job's end; returns its digests."""
    text = submission.communicate(timeout=seconds)[0]
    assert submission.returncode == 0, text[-3000:]
    return digests(json.loads((fleet.space / "report.json").read_text()))


class Fleet:
    """A coordinator and servers with names, folders and sockets that stay; what runs goes with it."""

    def __init__(self, space, name, shards=2):
        self.space, self.name, self.shards = space, name, shards
        self.endpoint = f"ipc://{space.path}/{name}-c.sock"
        self.running, self.logs, self.begun = {}, 0, False

    def folder(self, who):
        return self.space / f"{self.name}-{who}"

    def start(self, who, *words, program=None):
        self.logs += 1
        log = self.space / f"{self.name}-{who}-{self.logs}.log"
        with open(log, "w", encoding="utf-8") as f:
            process = subprocess.Popen([BIN / (program or "shoal-server"), *map(str, words)], stdout=f, stderr=f)
        process.log = log
        self.running[who] = process
        return process

    def coordinator(self, *words, shards=None, folder=None):
        return self.start("coordinator", "--set", f"listen={self.endpoint}", "--set", f"data_dir={folder or self.folder('coordinator')}",
                          "--set", f"report={self.space / 'report.json'}", "--set", f"shards={shards or self.shards}", "--set", "lease=2s",
                          *words, program="shoal-coordinator")

    def server(self, who, *words, folder=None, coordinator=None, name=None):
        return self.start(who, "--set", f"listen={self.at(who)}", "--set", f"data_dir={folder or self.folder(who)}", "--set",
                          f"name={name or who}", "--set", f"coordinator={self.endpoint if coordinator is None else coordinator}", *words)

    def worker(self, who, job):
        return self.start(who, "train", "--config", job, "--coordinator", self.endpoint, program="shoal-worker")

    def at(self, who):
        """Returns the endpoint of a server."""
        return f"ipc://{self.space.path}/{self.name}-{who}.sock"

    def state(self):
        got = shoal("status", "--coordinator", self.endpoint, "--json")
        return json.loads(got.stdout) if got.returncode == 0 else {}

    def up(self, *words):
        """words: of the coordinator, besides those of the fleet."""
        self.coordinator(*words)
        for i in range(self.shards):
            self.server(f"s{i}")
        return self

    def stop(self, *who):
        for one in who or list(self.running):
            process = self.running.pop(one)
            process.terminate()
            process.wait(PATIENCE * 30)

    def kill(self, who):
        process = self.running.pop(who)
        process.kill()
        process.wait()

    def said(self, who):
        return self.running[who].log.read_text(errors="replace")

    def told(self):
        return shoal("status", "--coordinator", self.endpoint)

    def doctor(self):
        return shoal("doctor", "--cluster", "--coordinator", self.endpoint)

    def fits(self):
        within(15, "the cluster to fit", lambda: self.doctor().returncode == 0)

    def taken_over(self):
        """Waits until the cluster fits but for this: a job that the lost coordinator knew is not known; the doctor says so till the next."""
        def told(d):
            return d.returncode == 69 and "took the cluster over" in d.stdout and d.stdout.count("problem:") == 1 and d.stdout.count(" fits") == self.shards
        within(15, "the doctor to tell of the lost coordinator", lambda: told(self.doctor()))

    def job(self, path, *words):
        """One more epoch of the job, to its end; its digests. The first that is asked for begins with no tables, others with those there are."""
        words = words or (["--start-from", "fleet"] if self.begun else [])
        self.begun = True
        worker = self.start("worker", "train", "--config", path, "--coordinator", self.endpoint, program="shoal-worker")
        got = shoal("submit", path, "--coordinator", self.endpoint, *words)
        assert got.returncode == 0, got
        assert worker.wait(PATIENCE * 30) == 0
        del self.running["worker"]
        return digests(json.loads((self.space / "report.json").read_text()))

    def refused(self, text, who="coordinator"):
        """Waits until a daemon's log and the doctor tell why a daemon is refused."""
        within(15, f"{who} to say: {text}", lambda: text in self.said(who))
        told = within(15, f"the doctor to say: {text}", lambda: (d := self.doctor()).returncode == 69 and text in d.stdout and d)
        return told.stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running.values():
            process.kill()
            process.wait()
