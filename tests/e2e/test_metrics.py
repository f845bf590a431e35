#!/usr/bin/env python3
"""test_metrics: what the daemons tell Prometheus and probes: every metric of the table is told by some daemon in a job, and the values are those of status, of
/proc and of counts made here; promtool has nothing to say; who may read, and what a crowd at the port can take."""
import threading
import urllib.error
import urllib.parse
import urllib.request

from fleet import *

OPEN = {"Accept": "application/openmetrics-text;version=1.0.0"}
TABLE = pathlib.Path(__file__).resolve().parents[2] / "deploy/manual/metrics.md"
DEVICE = BIN / "libshoal_cudahost.so"  # the device of tests, where it is built
BAD = 7  # malformed lines in the input


def got(port, path, **headers):
    """Returns (status, text)."""
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers), timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def parsed(text):
    """{name: {labels: value}}, labels a tuple of pairs."""
    samples = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
        key = tuple(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))
        assert key not in samples.setdefault(name, {}), f"twice: {line}"
        samples[name][key] = float(value)
    return samples


def scraped(port):
    status, text = got(port, "/metrics")
    assert status == 200, (port, status, text)
    return parsed(text)


def of(samples, name, **labels):
    """The sum of the samples that have these labels."""
    found = [value for key, value in samples.get(name, {}).items() if set(labels.items()) <= set(key)]
    assert found, (name, labels, sorted(samples))
    return sum(found)


def told_rows():
    """{name without the suffix of a histogram: type} of the manual's table."""
    return dict(re.findall(r"^`(\w+)`\|(counter|gauge|histogram|info)\|", TABLE.read_text(encoding="utf-8"), re.M))


def near(a, b, share, least=0):
    return abs(a - b) <= max(share * max(abs(a), abs(b)), least)


SERVERS = ("s0", "s1", "s2")
WORKERS = ("worker", "device")


class Watched(Fleet):
    """Three servers with two places each, two copies of each shard, a worker as a unit runs it and one by hand with a device; all with metrics."""

    def __init__(self, space):
        super().__init__(space, "f", shards=3)
        self.port = {who: free_port() for who in ("coordinator", *SERVERS, *WORKERS)}
        self.prometheus = 0

    def up(self, job):
        self.coordinator("--set", f"metrics=127.0.0.1:{self.port['coordinator']}", "--set", "replicas=2")
        for who in SERVERS:
            self.watched(who)
        self.start("worker", "run", "--set", f"coordinator={self.endpoint}", "--set", f"metrics=127.0.0.1:{self.port['worker']}", program="shoal-worker")
        words = ["--lanes", "2", *(["--backend", "cuda"] if DEVICE.exists() else [])]
        os.environ["SHOAL_CUDA_MODULE"] = DEVICE.name
        self.start("device", "train", "--config", job, "--coordinator", self.endpoint, "--metrics", f"127.0.0.1:{self.port['device']}", *words, program="shoal-worker")
        del os.environ["SHOAL_CUDA_MODULE"]
        return self

    def watched(self, who):
        self.server(who, "--set", f"metrics=127.0.0.1:{self.port[who]}", "--set", "shards=2", "--set", "memory=256MiB")

    def scrape(self):
        return {who: told for who, port in self.port.items() if (told := self.scrape_one(who, port)) is not None}

    def scrape_one(self, who, port):
        """None: it has ended, perhaps while it was asked."""
        if self.running[who].poll() is not None:
            return None
        status, text = got(port, "/metrics")
        if status == 0:
            try:
                self.running[who].wait(20)
                return None
            except subprocess.TimeoutExpired:
                pass
        assert status == 200, (who, port, status, text)
        return parsed(text)

    def prometheus_up(self):
        """A real Prometheus with the rules that ship; False: there is none here."""
        program = shutil.which("prometheus")
        if program is None:
            return False
        self.prometheus = free_port()
        (self.space / "prometheus.yml").write_text(
            f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{TABLE.parents[1] / 'monitoring/shoal.rules.yml'}]\nscrape_configs:\n"
            f"  - job_name: shoal\n    static_configs:\n      - targets: {json.dumps([f'127.0.0.1:{p}' for p in self.port.values()])}\n", encoding="utf-8")
        self.start("prometheus", f"--config.file={self.space / 'prometheus.yml'}", f"--storage.tsdb.path={self.space / 'tsdb'}", "--log.level=error",
                   f"--web.listen-address=127.0.0.1:{self.prometheus}", program=program)
        return True

    def asked(self, path):
        status, text = got(self.prometheus, path)
        return json.loads(text)["data"] if status == 200 else {}

    def is_up(self):
        return {r["metric"]["instance"]: r["value"][1] for r in self.asked("/api/v1/query?query=up").get("result", [])}

    def firing(self):
        return {(a["labels"]["alertname"], a["labels"].get("server")) for a in self.asked("/api/v1/alerts").get("alerts", []) if a["state"] == "firing"}

    def as_prometheus_has_it(self):
        """As scrape, but what Prometheus has taken."""
        who_of, all_ = {f"127.0.0.1:{port}": who for who, port in self.port.items()}, {}
        for r in self.asked("/api/v1/query?query=" + urllib.parse.quote('{job="shoal"}')).get("result", []):
            labels = {("job" if k == "exported_job" else k): v for k, v in r["metric"].items() if k not in ("job", "instance")}
            name, who = labels.pop("__name__"), who_of[r["metric"]["instance"]]
            all_.setdefault(who, {}).setdefault(name, {})[tuple(labels.items())] = float(r["value"][1])
        return all_


@contextlib.contextmanager
def submitted(fleet, job):
    """A job that goes on for longer than the case, which does not wait for its end."""
    with subprocess.Popen([SHOAL, "submit", job, "--coordinator", fleet.endpoint], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as submission:
        try:
            yield
        finally:
            submission.kill()


def input_of(space, rows):
    """A log with BAD malformed lines in it."""
    train = synth(space / "train.tsv", rows)
    lines = train.read_text().splitlines(keepends=True)
    for i in range(BAD):
        lines.insert((i + 1) * len(lines) // (BAD + 1), "no line of a log\n")
    train.write_text("".join(lines))
    return train


def cpu_seconds(process):
    ticks = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


def process_values(fleet, all_, least):
    """least: processor seconds of each before the figures were made."""
    for who, samples in all_.items():
        proc = pathlib.Path(f"/proc/{fleet.running[who].pid}")
        page = os.sysconf("SC_PAGESIZE")
        ticks = (proc / "stat").read_text().rsplit(")", 1)[1].split()
        limit = int(re.search(r"Max open files +(\d+)", (proc / "limits").read_text())[1])
        assert near(of(samples, "process_resident_memory_bytes"), int((proc / "statm").read_text().split()[1]) * page, 0.2), who
        assert near(of(samples, "process_open_fds"), len(list((proc / "fd").iterdir())), 0, 8), who
        assert least[who] - 0.02 <= of(samples, "process_cpu_seconds_total") <= cpu_seconds(fleet.running[who]) + 0.02, who
        assert of(samples, "process_max_fds") == limit, who
        begun = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + int(ticks[19]) / os.sysconf("SC_CLK_TCK")
        assert near(of(samples, "process_start_time_seconds"), begun, 0, 1), who
        assert of(samples, "shoal_series_left_out") == 0
        series = sum(map(len, samples.values()))
        assert series < 2000, (who, series)


def fleet_values(fleet, all_, state):
    c = all_["coordinator"]
    assert of(c, "shoal_coordinator_leads") == 1 and of(c, "shoal_shards_wanted") == 3 == of(c, "shoal_shard_ready")
    assert of(c, "shoal_copies", state="wanted") == 6 == of(c, "shoal_copies", state="in_sync")
    assert of(c, "shoal_job_workers") == len(state["workers"]) == 2 and of(c, "shoal_lease_seconds") == 2
    assert of(c, "shoal_job_lanes") == len(state["lanes"]) == 4
    assert of(c, "shoal_job_worker_silent_seconds") < 10 and of(c, "shoal_refused_shards") == 0 == of(c, "shoal_refused_keys")
    for server in state["servers"]:
        name = f"{server['name']}/{server['index']}"
        mine = all_[server["name"]]
        assert of(mine, "shoal_memory_budget_bytes", shard=name) == server["memory_max"]
        assert near(of(mine, "shoal_memory_bytes", shard=name), server["memory_bytes"], 0.2), server
        assert of(mine, "shoal_replicas_in_sync", shard=name) == 2
        assert of(mine, "shoal_tablets", shard=name, state="led") == server["tablets"]


def job_values(space, fleet, all_, state, report):
    """After the end: exact."""
    c, servers = all_["coordinator"], [all_[s] for s in SERVERS]
    led = {f"{s['name']}/{s['index']}" for s in state["servers"]}

    def sums(name, **labels):
        return sum(of(s, name, shard=shard, **labels) for s in servers for shard in {dict(k).get("shard") for k in s[name]} & led)

    emb = report["tables"][0]
    assert sums("shoal_rows", table="emb") == emb["rows"], (sums("shoal_rows", table="emb"), emb)
    assert sums("shoal_rows") == sum(s["rows"] for s in state["servers"])
    epochs = longer(8)
    rows = sum(1 for _ in open(space / "train.tsv", encoding="utf-8"))
    assert of(c, "shoal_job_examples") == state["examples"] and report["examples"] == epochs * (rows - BAD), (state["examples"], report["examples"], rows)
    assert state["examples"] in (epochs * rows, epochs * (rows - BAD)), (state["examples"], rows)
    assert of(c, "shoal_job_epoch") == state["epoch"]
    assert of(c, "shoal_job_bad_lines_total") == epochs * BAD
    assert near(of(c, "shoal_job_auc_ratio", of="train"), state["train_auc"], 1e-9) and near(of(c, "shoal_job_auc_ratio", of="valid"), state["valid_auc"], 1e-9)
    assert near(of(c, "shoal_job_calibration_ratio", of="train"), state["train_calibration"], 1e-9)
    assert of(c, "shoal_checkpoints_total", result="made") == state["checkpoints"] >= 1 and of(c, "shoal_checkpoints_total", result="failed") == state["checkpoints_failed"]
    assert of(c, "shoal_checkpoint_bytes") == state["checkpoint"]["bytes"]
    assert near(of(c, "shoal_checkpoint_age_seconds"), state["checkpoint"]["age_seconds"], 0, 3)
    assert of(c, "shoal_job_running") == 0 and of(c, "shoal_job_phase", phase=state["state"]) == 1
    for op in ("pull", "push"):
        assert sums("shoal_requests_total", op=op) == sums("shoal_request_seconds_count", op=op) > 0, op
    assert sums("shoal_staleness_clocks_count") > 0
    journal = sum(s["journal_bytes"] for s in state["servers"])
    assert near(sums("shoal_journal_bytes"), journal, 0.05, 65536), journal
    folder = subprocess.run(["du", "-sB1", fleet.folder("s0")], capture_output=True, text=True, check=True).stdout.split()[0]
    assert near(of(all_["s0"], "shoal_disk_bytes"), int(folder), 0.5, 1 << 24), folder


def promtool_is_silent(port):
    promtool = shutil.which("promtool")
    if promtool is None:
        print("      promtool is not asked: it is not here", flush=True)
        return
    said = subprocess.run([promtool, "check", "metrics"], input=got(port, "/metrics")[1], capture_output=True, text=True, check=False)
    assert said.returncode == 0 and not said.stderr and not said.stdout, said


def disk_values(fleet, all_):
    """The file system is one that other tests write to, too."""
    fs = os.statvfs(fleet.folder("s0"))
    for who in SERVERS:
        for free in all_[who]["shoal_disk_free_bytes"].values():
            assert near(free, fs.f_bavail * fs.f_frsize, 0.05, 1 << 28), (free, fs)
        for least in all_[who]["shoal_disk_free_least_bytes"].values():
            assert least == min(fs.f_blocks * fs.f_frsize // 20, 8 << 30), (least, fs)


def keys_pushed(fleet, whose, name):
    all_ = fleet.scrape()
    if fleet.state().get("state") != "train":
        raise TooShort("over while the keys were counted")
    return sum(of(all_[who], name, op="push") for who in whose)


def worker_values(fleet):
    """While it trains: what workers count themselves fits what others count. Figures are up to a second old, so those of the servers are taken between two looks at
    the workers, who count a push when it is answered: the servers may have as many more as are under way."""
    first = keys_pushed(fleet, WORKERS, "shoal_worker_keys_total")
    time.sleep(1.5)
    taken = keys_pushed(fleet, SERVERS, "shoal_keys_total")
    time.sleep(1.5)
    last = keys_pushed(fleet, WORKERS, "shoal_worker_keys_total")
    all_ = fleet.scrape()
    most = of(all_["worker"], "shoal_worker_keys_total", op="push") / of(all_["worker"], "shoal_worker_batches_total")
    assert 0 < first <= taken <= last + 4 * 8 * 2 * most, (first, taken, last, most)
    for w in WORKERS:
        batches, steps = of(all_[w], "shoal_worker_batches_total"), of(all_[w], "shoal_worker_step_seconds_count")
        assert near(steps, batches, 0.3, 40) and near(of(all_[w], "shoal_worker_step_seconds_sum"), of(all_[w], "shoal_worker_busy_seconds_total", stage="compute"), 1e-6), w
        assert near(of(all_[w], "shoal_worker_gradient_age_seconds_count"), batches, 0.05, 2), (w, batches)
        assert len(all_[w]["shoal_worker_unanswered_seconds"]) == 3 == len(all_[w]["shoal_worker_round_trip_seconds"]), w
        assert all(late < 5 for late in all_[w]["shoal_worker_unanswered_seconds"].values()), all_[w]["shoal_worker_unanswered_seconds"]
        lanes = all_[w].get("shoal_lane_gradient_age_seconds", {})
        assert len(lanes) <= of(all_[w], "shoal_worker_lanes") and all(0 < age < 5 for age in lanes.values()), lanes
    if DEVICE.exists():
        assert 0 < of(all_["device"], "shoal_device_memory_bytes") < of(all_["device"], "shoal_device_memory_limit_bytes")
    assert "shoal_device_memory_bytes" not in all_["worker"]


def every_metric_is_told_and_true(space):
    train, valid = input_of(space, 100000), synth(space / "valid.tsv", 2000, 2)
    (space / "keep").mkdir()
    job = job_file(space / "job.yaml", train, **{"data.valid": str(valid), "data.max_bad": 0.01, "train.epochs": longer(8), "train.lanes": 4, "checkpoint.dir": str(space / "keep"),
                                                 "checkpoint.at_end": True, "checkpoint.every_minutes": 60, "durability": None})
    with Watched(space).up(job) as fleet:
        play(space, fleet, job, fleet.prometheus_up())


def play(space, fleet, job, prometheus):
    within(20, "the servers to be ready", lambda: all(got(fleet.port[s], "/readyz")[0] == 200 for s in (*SERVERS, "coordinator")))
    submission = subprocess.Popen([SHOAL, "submit", job, "--coordinator", fleet.endpoint], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    seen = set()

    def look():
        all_ = fleet.scrape()
        seen.update(name for samples in all_.values() for name in samples)
        return all_

    during = None
    while submission.poll() is None:
        all_, state = look(), fleet.state()
        if state.get("state") == "train" and state["examples"] > 0 and during is None and all(
                2 in all_.get(w, {}).get("shoal_worker_lanes", {}).values() for w in WORKERS):
            least = {who: cpu_seconds(fleet.running[who]) for who in fleet.port}
            time.sleep(1.5)
            all_, state = look(), fleet.state()
            if state.get("state") == "train" and of(all_["coordinator"], "shoal_problems") == len(state["problems"]) == 0:
                during = state
                process_values(fleet, all_, least)
                fleet_values(fleet, all_, state)
                disk_values(fleet, all_)
                for port in fleet.port.values():
                    promtool_is_silent(port)
                worker_values(fleet)
        time.sleep(0.3)
    text = submission.communicate()[0]
    assert submission.returncode == 0, text[-3000:]
    if during is None:
        raise TooShort("never seen while it trained")
    report = json.loads((space / "report.json").read_text())
    settled(20, lambda: job_values(space, fleet, look(), fleet.state(), report))
    if prometheus:
        settled(20, lambda: job_values(space, fleet, fleet.as_prometheus_has_it(), fleet.state(), report))
    fleet.running["s1"].send_signal(signal.SIGSTOP)
    within(15, "a problem of s1", lambda: seen.update(problems := scraped(fleet.port["coordinator"])) or
           any(dict(key)["of"] in ("s1", "0", "1") for key in problems.get("shoal_problem_seconds", {})))
    fleet.running["s1"].send_signal(signal.SIGCONT)
    within(30, "it to be over", lambda: "shoal_problem_seconds" not in scraped(fleet.port["coordinator"]))
    rows = told_rows()
    assert len(rows) > 60, rows
    # a job whose network the servers keep has no ring: see a_ring_tells_its_figures; one model has all the memory: see test_shares;
    # no label is a number, no topic is read: see coord/test_gauges, test_kafka
    missing = [name for name, kind in rows.items() if name + "_count" * (kind == "histogram") not in seen and (DEVICE.exists() or "_device_" not in name) and
               not name.startswith(("shoal_ring_", "shoal_space_", "shoal_job_rmse", "shoal_job_mae", "shoal_job_stream_"))]
    assert not [name for name in seen if name.startswith("shoal_ring_")], seen
    assert not missing, f"no daemon told: {missing}"
    del fleet.port["device"]  # `train` ends with its job
    for who, port in fleet.port.items():
        promtool_is_silent(port)
        status, text = got(port, "/metrics", **OPEN)
        assert status == 200 and text.endswith("# EOF\n") and "# UNIT process_cpu_seconds seconds\n" in text, who
        assert got(port, "/healthz") == (200, "ok\n")
    assert got(fleet.port["worker"], "/readyz")[0] == 200


def a_large_job_has_few_series(space):
    """100 lanes and 32 tables: each daemon tells all of it, in fewer series than the bound; a server of eight shards, too."""
    tables = {}
    for i in range(32):
        tables |= {f"tables[{i}].name": f"t{i}", f"tables[{i}].dim": 1, f"tables[{i}].tablets": 128, f"tables[{i}].optimizer.kind": "sgd"}
        tables |= {f"tables[{i}].fields": [f"C{i + 1}" if i < 26 else f"I{i - 25}"]} if i > 0 else {}
    job = counting_job(space, "job.yaml", synth(space / "train.tsv", 40000), 1000, **{**tables, "features.number": "bucket", "train.lanes": 100, "train.batch": 64, "train.prefetch": 0})
    with Fleet(space, "f", shards=8) as fleet:
        port = {who: free_port() for who in ("coordinator", "s0", "worker")}
        fleet.coordinator("--set", f"metrics=127.0.0.1:{port['coordinator']}")
        fleet.server("s0", "--set", f"metrics=127.0.0.1:{port['s0']}", "--set", "shards=8", "--set", "memory=512MiB")
        fleet.start("worker", "train", "--config", job, "--coordinator", fleet.endpoint, "--metrics", f"127.0.0.1:{port['worker']}", program="shoal-worker")
        with submitted(fleet, job):
            within(20, "the worker's port", lambda: got(port["worker"], "/metrics")[0] == 200)
            within(120, "all lanes to train", lambda: len(scraped(port["worker"]).get("shoal_lane_gradient_age_seconds", {})) == 100)
            all_ = {who: scraped(p) for who, p in port.items()}
        assert len({dict(k)["table"] for k in all_["s0"]["shoal_rows"]}) >= 32 and len(all_["coordinator"]["shoal_lane_batches"]) == 100
        for who, samples in all_.items():
            series = sum(map(len, samples.values()))
            print(f"      {who}: {series} series", flush=True)
            assert series < 5000 and of(samples, "shoal_series_left_out") == 0, (who, series)


def a_ring_tells_its_figures(space):
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 20000), **{"train.dense": "allreduce", "train.dense_publish": "1s", "train.epochs": 100000, "durability": None})
    names = {name for name in told_rows() if name.startswith("shoal_ring_")}
    with Fleet(space, "f", shards=1) as fleet:
        port = free_port()
        fleet.coordinator("--set", f"metrics=127.0.0.1:{port}")
        fleet.server("s0")
        fleet.start("worker", "train", "--config", job, "--coordinator", fleet.endpoint, program="shoal-worker")
        with submitted(fleet, job):
            within(20, "the coordinator's port", lambda: got(port, "/metrics")[0] == 200)
            within(60, "all figures of the ring", lambda: names <= set(scraped(port)) and of(scraped(port), "shoal_ring_members") == 1)
            within(60, "a step of the ring to be told", lambda: of(scraped(port), "shoal_ring_steps_total") > 0)
            told = scraped(port)
    assert len(names) == 5 and of(told, "shoal_ring_number") >= 1, told


def a_server_says_why_it_is_not_ready(space):
    with Fleet(space, "f", shards=1) as fleet:
        port = free_port()
        fleet.server("s0", "--set", f"metrics=127.0.0.1:{port}")
        status, text = within(10, "the page", lambda: (lambda a: a[0] and a)(got(port, "/readyz")))
        assert status == 503 and "shard is not ready: " in text, text
        within(10, "the reason", lambda: "the coordinator has not answered yet" in got(port, "/readyz")[1])
        assert got(port, "/healthz")[0] == 200
        fleet.coordinator()
        within(15, "the server to be ready", lambda: got(port, "/readyz") == (200, "ready\n"))


def a_server_that_waits_for_a_name_makes_progress(space):
    """A start that waits for the coordinator's name hangs in nothing: a probe must not kill it."""
    with Fleet(space, "f", shards=1) as fleet:
        port = free_port()
        fleet.start("s", "--set", f"data_dir={space / 'd'}", "--set", f"listen=tcp://0.0.0.0:{free_port()}", "--set", "insecure_plaintext=true",
                    "--set", "coordinator=tcp://nothere.invalid:7000", "--set", f"metrics=127.0.0.1:{port}")
        within(30, "the wait", lambda: "asked again each second" in fleet.said("s"))
        time.sleep(12)  # more tries
        silent = of(scraped(port), "shoal_loop_silent_seconds")
        assert silent < 8, silent
        assert got(port, "/healthz")[0] == 200 and got(port, "/readyz")[0] == 503


def a_daemon_that_stops_is_not_ready(space):
    """From the signal on, so that a balancer or a rolling restart goes on elsewhere; a probe of its health does not kill it meanwhile."""
    job = counting_job(space, "job.yaml", synth(space / "train.tsv", 20000), 100000)
    with Fleet(space, "f", shards=1) as fleet:
        port = {who: free_port() for who in ("s0", "worker")}
        coordinator = fleet.coordinator()
        os.environ.update(LD_PRELOAD=str(BIN / "libslow_disk.so"), SHOAL_SLOW_SYNCS="1000")  # its stop lasts long enough to be seen
        server = fleet.server("s0", "--set", f"metrics=127.0.0.1:{port['s0']}")
        del os.environ["LD_PRELOAD"], os.environ["SHOAL_SLOW_SYNCS"]
        worker = fleet.start("worker", "run", "--set", f"coordinator={fleet.endpoint}", "--set", f"metrics=127.0.0.1:{port['worker']}", program="shoal-worker")
        with submitted(fleet, job):
            within(30, "the job to train", lambda: fleet.state().get("examples", 0) > 0)
            within(10, "both to be ready", lambda: got(port["worker"], "/readyz") == (200, "ready\n") == got(port["s0"], "/readyz"))
            coordinator.send_signal(signal.SIGSTOP)  # so that the worker's lanes are not taken back yet
            worker.terminate()
            within(4, "the worker not to be ready", lambda: got(port["worker"], "/readyz") == (503, "worker is not ready: it stops\n"))
            assert got(port["worker"], "/healthz") == (200, "ok\n")
            coordinator.send_signal(signal.SIGCONT)
            assert worker.wait(PATIENCE * 30) == 0
        seen = []
        server.terminate()
        while server.poll() is None:
            seen.append((got(port["s0"], "/readyz"), got(port["s0"], "/healthz")))
        assert server.returncode == 0
        assert ((503, "shard is not ready: it stops\n"), (200, "ok\n")) in seen, seen


def others_need_a_token(space):
    """Nothing is served to other machines by accident, and a wrong setting is found by --check."""
    base = ["--set", f"data_dir={space / 'd'}", "--set", f"listen=ipc://{space}/s.sock", "--set", "coordinator="]
    port = free_port()
    for words in ([], ["--check"]):
        refused = subprocess.run([BIN / "shoal-server", *base, "--set", f"metrics=0.0.0.0:{port}", *words], capture_output=True, text=True, timeout=60, check=False)
        assert refused.returncode == 78 and "without a token everybody there could read" in refused.stderr, refused
    for words, status, why in ((["train", "--metrics", f"0.0.0.0:{port}"], 78, "without a token everybody there could read"),
                               (["eval", "--config", "job.yaml", "--metrics", f"127.0.0.1:{port}"], 64, "--metrics is of train and replay"),
                               (["run", "--metrics", f"127.0.0.1:{port}"], 64, "not --metrics, stand in the worker's file")):
        refused = subprocess.run([BIN / "shoal-worker", *words], capture_output=True, text=True, timeout=60, check=False)
        assert refused.returncode == status and why in refused.stderr, refused
    token = space / "token"
    token.write_text("0123456789abcdef0123\n")
    token.chmod(0o644)
    refused = subprocess.run([BIN / "shoal-server", *base, "--set", f"metrics=0.0.0.0:{port}", "--set", f"metrics_token={token}"], capture_output=True, text=True,
                             timeout=60, check=False)
    assert refused.returncode == 77 and "lets others than its owner read it" in refused.stderr, refused
    token.chmod(0o400)
    with Fleet(space, "f") as fleet:
        fleet.start("s", *base, "--set", f"metrics=0.0.0.0:{port}", "--set", f"metrics_token={token}")
        within(10, "the server", lambda: got(port, "/healthz")[0] == 200)
        assert got(port, "/metrics")[0] == 401 and got(port, "/metrics", Authorization="Bearer 0123456789abcdef0124")[0] == 401
        assert got(port, "/metrics", Authorization="Bearer 0123456789abcdef0123")[0] == 200


def no_site_reads_through_a_browser(space):
    """A name that a site lets point here (DNS rebinding) gets neither page nor figures."""
    with Fleet(space, "f", shards=1) as fleet:
        port = free_port()
        fleet.coordinator("--set", f"metrics=localhost:{port}")
        within(15, "the coordinator", lambda: got(port, "/healthz")[0] == 200)
        for path in ("/", "/metrics", "/healthz", "/nowhere"):
            status, text = got(port, path, Host="evil.example")
            assert status == 421 and "open http://127.0.0.1:PORT/, or let the proxy set Host to localhost" in text and "e2e" not in text, (path, text)
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", "LOCALHOST", "[::1]"):
            assert got(port, "/", Host=host)[0] == 200, host


GARBAGE = [b"\0" * 3000, b"GET /\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 50, b"GET /metrics HTTP/1.1\r\n\r\n" * 200, b"GET /healthz HTTP/1.1\r\n\r\n",
           b"GET /metr\0ics HTTP/1.1\r\n\r\n", b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n" + b"x" * 60000,
           b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", b"GET /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
           b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 60000, b"GET /metrics HTTP/1.1\r\n" + b"X: 1\r\n" * 9000, b"GET " + b"/x" * 9000 + b" HTTP/1.1\r\n\r\n",
           b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer 0123456789abcdef0123\r\n\r\n", b"GET /metr"]


def a_crowd_at_the_port_is_bounded(space):
    """Garbage of each kind, connections that stay, and peers that send or read a byte at a time, at each daemon of a fleet at work: memory, sockets and logs
    stay, a scrape is answered or refused soon, and answered at once when the crowd is gone. The large form is tests/load requests."""
    with Fleet(space, "f", shards=1) as fleet:
        port = {who: free_port() for who in ("coordinator", "s0", "worker")}
        job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000), **{"model.kind": "lr", "train.epochs": 100000, "train.lanes": 1})
        fleet.coordinator("--set", f"metrics=127.0.0.1:{port['coordinator']}")
        fleet.server("s0", "--set", f"metrics=127.0.0.1:{port['s0']}", "--set", "memory=128MiB")
        fleet.start("worker", "run", "--set", f"coordinator={fleet.endpoint}", "--set", f"metrics=127.0.0.1:{port['worker']}", program="shoal-worker")
        assert shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait").returncode == 0
        within(30, "the job to train", lambda: fleet.state().get("examples", 0) > 0)
        before = {who: scraped(p) for who, p in port.items()}
        logs = {who: fleet.running[who].log.stat().st_size for who in port}

        def sockets(who):
            fds = pathlib.Path(f"/proc/{fleet.running[who].pid}/fd")
            names = []
            for fd in fds.iterdir():
                with contextlib.suppress(OSError):
                    names.append(os.readlink(fd))
            return sum(name.startswith("socket:") for name in names)

        most, slow, stays, over = {who: sockets(who) for who in port}, [], [], threading.Event()
        least = dict(most)

        def peer(who, what, blocks=True):
            with contextlib.suppress(OSError):
                s = socket.socket()
                s.settimeout(1)
                s.setblocking(blocks)
                stays.append(s)
                s.connect_ex(("127.0.0.1", port[who]))
                s.send(what)

        def crowd(who):
            draw = random.Random(who)
            for i in range(150):
                peer(who, b"", blocks=False)
            for i in range(300):
                peer(who, draw.randbytes(draw.randrange(1, 3000)) if i % 4 == 0 else GARBAGE[i % len(GARBAGE)])
                most[who] = max(most[who], sockets(who))

        def dawdle(who):
            while not over.is_set():
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port[who]), timeout=1) as writes, socket.socket() as reads:
                    reads.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
                    reads.connect(("127.0.0.1", port[who]))
                    reads.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    while not over.wait(0.2):
                        writes.send(b"G")
                        reads.recv(1)

        def scrape(who):
            while not over.wait(0.2):
                began = time.monotonic()
                got(port[who], "/metrics")
                slow.append(time.monotonic() - began)

        crowds = [threading.Thread(target=crowd, args=(who,)) for who in port]
        others = [threading.Thread(target=f, args=(who,)) for f in (dawdle, scrape) for who in port]
        for thread in crowds + others:
            thread.start()
        for thread in crowds:
            thread.join()
        over.set()
        for thread in others:
            thread.join()
        after = {who: within(3, f"room for a scrape at {who}", lambda p=p: (lambda a: a[0] == 200 and parsed(a[1]))(got(p, "/metrics"))) for who, p in port.items()}
        assert max(slow) < 15, max(slow)  # one that is not answered takes 20
        for who in port:
            grown = of(after[who], "process_resident_memory_bytes") - of(before[who], "process_resident_memory_bytes")
            assert grown < 24 << 20, (who, grown)
            assert least[who] + 16 <= most[who] <= least[who] + 36, (who, least, most)  # fewer were no crowd
            assert fleet.running[who].log.stat().st_size < logs[who] + 20000, who
            assert got(port[who], "/healthz")[0] == 200
        for s in stays:
            s.close()
        within(20, "nothing to be wrong", lambda: (s := fleet.state()).get("problems") == [] and s["servers"][0]["ready"])
        examples = fleet.state().get("examples", 0)
        within(20, "the job to go on", lambda: fleet.state().get("examples", 0) > examples)


def a_killed_server_raises_its_alert(space):
    """A real Prometheus with the rules that ship: the alert comes when a server is killed under a job, and goes when it is back."""
    job = counting_job(space, "job.yaml", synth(space / "train.tsv", 20000), 100000)
    with Watched(space).up(job) as fleet:
        if not fleet.prometheus_up():
            raise Skip("needs prometheus")
        within(60, "the servers to be ready", lambda: all(got(fleet.port[s], "/readyz")[0] == 200 for s in SERVERS))
        with submitted(fleet, job):
            within(60, "all daemons to be scraped", lambda: len(fleet.is_up()) == 6 and set(fleet.is_up().values()) == {"1"})
            within(60, "the job to train", lambda: fleet.state().get("examples", 0) > 0)
            time.sleep(3)
            assert not fleet.firing(), fleet.firing()
            fleet.kill("s1")
            within(60, "the alert", lambda: ("ShoalServerAway", "s1") in fleet.firing())
            assert of(scraped(fleet.port["coordinator"]), "shoal_problems") >= 1 <= len(fleet.state()["problems"])
            fleet.watched("s1")
            within(60, "the alert to clear", lambda: not fleet.firing())
            assert fleet.state()["state"] == "train"


if __name__ == "__main__":
    main([every_metric_is_told_and_true, a_ring_tells_its_figures, a_killed_server_raises_its_alert, a_large_job_has_few_series, a_server_says_why_it_is_not_ready, a_server_that_waits_for_a_name_makes_progress, a_daemon_that_stops_is_not_ready,
          others_need_a_token, no_site_reads_through_a_browser, a_crowd_at_the_port_is_bounded])
