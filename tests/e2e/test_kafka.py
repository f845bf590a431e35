#!/usr/bin/env python3
"""test_kafka: a topic as training data: each message is learnt once, whatever dies, whatever broker is away, and however often a job is begun.

The cluster is librdkafka's mock cluster in a process of its own (mock_kafka.c). The probe model adds 1 an example, and each message has a value of its own, so
the digest of the rows is that of a job over a file with the same lines. SHOAL_KAFKA="MESSAGES KILLS SECONDS" is the size of the long case: messages, kills of
each process, seconds that a broker is away; 40000 1 5 by default, and 200000 10 30 in the long run."""
from fleet import *

MESSAGES, KILLS, AWAY = map(int, os.environ.get("SHOAL_KAFKA", "40000 1 5").split())
MOCK = BIN / "mock_kafka"
PROBE = {"model.kind": "probe", "tables[0].dim": 1, "tables[0].optimizer.kind": "sgd", "tables[0].optimizer.lr": 1.0, "train.batch": 64,
         "train.consistency": "async", "train.lanes": 4, "train.task_batches": 4, "coordinator.lease": "1s", "net.resend": "1s"}


def line(i):
    """A message of less than 100 bytes whose first category is its own."""
    return f"{i % 2}" + "\t" * 14 + f"{i:08x}" + "\t" * 25


class Kafka:
    """A mock cluster of two brokers."""

    def __init__(self, space, name="topic"):
        self.space, self.name = space, name
        self.process = subprocess.Popen([MOCK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.brokers = self.process.stdout.readline().strip()
        self.lines, self.partitions = [], 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def __call__(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline().strip()
        assert said == "ok", (words, said)

    def make(self, partitions):
        self.partitions = partitions
        self("topic", self.name, partitions)
        return self

    def give(self, count):
        """So many more messages, each with a value of its own."""
        more = [line(i) for i in range(len(self.lines), len(self.lines) + count)]
        self.lines += more
        path = self.space / "messages"
        path.write_text("".join(m + "\n" for m in more), encoding="utf-8")
        self("file", self.name, path)
        return self

    def job(self, name="job.yaml", train=None, **over):
        keys = {**PROBE, "data.train": train or [{"kafka": self.name}], "data.kafka.brokers": self.brokers, "data.kafka.range": 500,
                "data.objects.grow": "1s", **over}
        path = job_file(self.space / name, "", **keys)
        return path

    def counts(self, lines=None, name="plain"):
        """The digests of a plain job over a file with these lines."""
        path = self.space / f"{name}.tsv"
        path.write_text("".join(m + "\n" for m in (self.lines if lines is None else lines)), encoding="utf-8")
        return digests(run_job(job_file(self.space / f"{name}.yaml", path, **PROBE), self.space / name, 1, 1))


def state(run):
    got = shoal("status", "--run-dir", run.dir, "--json")
    return json.loads(got.stdout) if got.returncode == 0 else {}


def caught_up(run, kafka, seconds=120):
    """Waits until all messages are learnt."""
    def look():
        s = state(run)
        assert run.running(), run.output()[-3000:] + run.logs()[-3000:]
        o = s.get("objects", {})
        ends = sum(p["end"] for p in o.get("streams", []))
        return s.get("state") == "objects" and o.get("behind") == 0 and ends >= len(kafka.lines) and s
    return within(seconds, "all messages to be learnt", look)


def stopped(run):
    run.process.terminate()
    assert run.wait(60) == 0, run.output()[-3000:]
    return run.report()


def each_message_is_learnt_once_whatever_dies(space):
    """Each process is killed KILLS times, while messages come, and one of two brokers is away in the midst of it."""
    rng, names = random.Random(5), ["coordinator", "server-0", "server-1", "worker-0", "worker-1", "worker-2", "worker-3"]
    victims = names * KILLS
    rng.shuffle(victims)
    with Kafka(space).make(8).give(MESSAGES // 4) as kafka:
        run, away = Run(kafka.job(), space / "run", servers=2, workers=4), None
        until(run, "the job to train", lambda: state(run).get("examples", 0) > 0)
        for n, who in enumerate(victims):
            if n == len(victims) // 2:
                kafka("down", 1)
                away = time.monotonic()
            elif n in (len(victims) // 4, len(victims) * 3 // 4) and not away:
                kafka.give(MESSAGES // 4)
            if away and time.monotonic() - away > AWAY:
                kafka("up", 1)
                away = None
            time.sleep(rng.uniform(0.2, 1.0))
            strike(run, who)
        if away:
            time.sleep(max(0, away + AWAY - time.monotonic()))
            kafka("up", 1)
        kafka.give(MESSAGES - len(kafka.lines))
        caught_up(run, kafka, 300)
        report = stopped(run)
        assert report["examples"] == len(kafka.lines) == MESSAGES, (report["examples"], len(kafka.lines))
        assert digests(report) == kafka.counts()
        print(f"      {len(victims)} kills, {MESSAGES} messages, a broker away for {AWAY} s", flush=True)


def a_broker_that_is_away_is_waited_for_and_named(space):
    with Kafka(space).make(2).give(200) as kafka:
        run = Run(kafka.job(), space / "run")
        caught_up(run, kafka)
        kafka("down", 1)
        kafka("down", 2)
        waits = within(40, "the job to say what it waits for", lambda: "do not answer" in state(run).get("waiting", "") and state(run))
        assert "the log cannot be listed" in waits["waiting"], waits["waiting"]
        kafka("up", 1)
        kafka("up", 2)
        kafka.give(200)
        caught_up(run, kafka)
        assert digests(stopped(run)) == kafka.counts()


def a_job_waits_for_brokers_that_come_later(space):
    with Kafka(space).make(2).give(100) as kafka:
        kafka("down", 1)
        kafka("down", 2)
        run = Run(kafka.job(), space / "run")
        within(40, "the job to wait", lambda: "do not answer" in state(run).get("waiting", ""))
        kafka("up", 1)
        kafka("up", 2)
        caught_up(run, kafka)
        assert digests(stopped(run)) == kafka.counts()


def jobs_go_on_where_the_tables_are(space):
    """Resumed at the very batch, started from a checkpoint, and submitted again in a fleet."""
    keys = {"checkpoint.dir": str(space / "checkpoints"), "checkpoint.at_end": True}
    with Kafka(space).make(3).give(600) as kafka:
        run = Run(kafka.job(**keys), space / "r0")
        caught_up(run, kafka)
        kafka.give(3000)
        until(run, "a round to begin", lambda: state(run).get("epoch", 0) > 1)
        stopped(run)  # perhaps within the round
        kafka.give(300)
        newest = str(max((p for p in (space / "checkpoints").iterdir() if not p.name.startswith(".")), key=lambda p: p.stat().st_mtime))
        run = Run(kafka.job(**keys), space / "r1", extra=["--resume", newest])
        caught_up(run, kafka)
        stopped(run)
        kafka.give(300)
        run = Run(kafka.job(**keys), space / "r2", extra=["--start-from", str(space / "r1")])
        caught_up(run, kafka)
        report = stopped(run)
        assert report["examples"] == 300, report["examples"]
        assert digests(report) == kafka.counts()


def an_archive_then_the_stream_is_one_job(space):
    archive = [line(i) for i in range(1 << 20, (1 << 20) + 500)]
    (space / "archive").mkdir()
    for i in range(2):
        (space / "archive" / f"day-{i}").write_text("".join(m + "\n" for m in archive[250 * i:250 * (i + 1)]), encoding="utf-8")
    with Kafka(space).make(2).give(400) as kafka:
        run = Run(kafka.job(train=[f"{space}/archive/*", {"kafka": kafka.name}]), space / "run", workers=2)
        s = caught_up(run, kafka)
        assert s["epoch"] == 2 and s["objects"]["read"] == 4, s["objects"]  # a round of files, then one of ranges
        assert digests(stopped(run)) == kafka.counts(kafka.lines + archive)


def offsets_that_are_gone_are_named(space):
    """The mock cluster keeps 5 MiB of a partition. Followed as it is advised: left out, and the rest is learnt."""
    keys = {"checkpoint.dir": str(space / "checkpoints"), "checkpoint.at_end": True}
    with Kafka(space).make(1).give(300) as kafka:
        run = Run(kafka.job(**keys), space / "r0")
        caught_up(run, kafka)
        stopped(run)
        first = len(kafka.lines)
        kafka.give(longer(120000))
        again = ["--start-from", str(space / "r0")]
        run = Run(kafka.job(**keys, **{"data.kafka.range": 20000}), space / "r1", extra=again)
        assert run.wait(60) != 0
        said = run.output()
        assert f"offsets {first} to " in said and "of topic/0 are gone" in said and "data.objects.failed: leave_out" in said, said[-3000:]
        run = Run(kafka.job(**keys, **{"data.kafka.range": 20000, "data.objects.failed": "leave_out"}), space / "r2", extra=again)
        s = caught_up(run, kafka)
        assert s["objects"]["left_out"] == 1, s["objects"]
        report = stopped(run)
        assert digests(report) == kafka.counts(kafka.lines[:first] + kafka.lines[len(kafka.lines) - report["examples"]:])


def messages_of_all_kinds(space):
    """Without a value, with several lines, malformed, and longer than a line may be."""
    with Kafka(space).make(2) as kafka:
        kafka("send", kafka.name, 0, line(1))
        kafka("send", kafka.name, 0)
        kafka("send", kafka.name, 1, "1,2,3")
        kafka("long", kafka.name, 1, 1_100_000)
        kafka("send", kafka.name, 1, line(2))
        kafka.lines = [line(1), line(2)]
        run = Run(kafka.job(**{"data.max_bad": 0.9}), space / "run")
        caught_up(run, kafka)
        report = stopped(run)
        assert report["examples"] == 2 and report["bad_lines"] == 2, report
        assert digests(report) == kafka.counts()
        said = run.logs("worker-0") + run.logs("coordinator") + run.output()
        assert "kafka:topic/1@000000000000-000000000003:1:" in said, said[-3000:]


def what_cannot_be_is_refused(space):
    with Kafka(space).make(1).give(10) as kafka:
        for over, text in (({"data.kafka.brokers": None}, "data.kafka.brokers is missing"),
                           ({"data.kafka.from": "yesterday"}, "earliest, latest"),
                           ({"data.format": "csv", "data.label": "a"}, "data.header: false"),
                           ({"data.valid": [{"kafka": "topic"}]}, "only data.train is read from Kafka"),
                           ({"data.train": [{"kafka": "a"}, {"kafka": "b"}]}, "a job reads one"),
                           ({"data.train": "x.tsv"}, "data.train names no topic"),
                           ({"train.epochs": 2}, "each object is trained once"),
                           ({"replay.window": "1h", "data.time": "t"}, "replay")):
            got = shoal("local", kafka.job("bad.yaml", **over), "--run-dir", space / "bad")
            assert got.returncode == 78 and text in got.stderr, (over, got)
        run = Run(kafka.job("bad.yaml", train=[{"kafka": "topic"}], **{"data.kafka.config": str(space / "none")}), space / "config")
        assert run.wait(60) != 0 and "none cannot be read on this machine" in run.output(), run.output()
        (space / "secrets").write_text("sasl.password = hunter2\nplugin.library.paths = hunter2\n", encoding="utf-8")
        run = Run(kafka.job("bad.yaml", **{"data.kafka.config": str(space / "secrets")}), space / "secret")
        assert run.wait(60) != 0 and "secrets line 2: plugin.library.paths cannot be set here" in run.output(), run.output()
        assert "hunter2" not in run.output() + run.logs()


def without_the_module_the_package_is_named(space):
    """Programs in a folder of their own, where the module is not."""
    bare = space / "bin"
    bare.mkdir()
    for file in BIN.iterdir():
        if file.name.startswith(("shoal", "libshoal_cpu")):
            shutil.copy(file, bare)
    with Kafka(space).make(1).give(10) as kafka:
        got = subprocess.run([bare / "shoal", "local", kafka.job(), "--run-dir", space / "run"], capture_output=True, text=True, timeout=120, check=False,
                             env={k: v for k, v in os.environ.items() if k != "SHOAL_MODULE_DIR"})
    assert got.returncode == 78 and "install the package shoal-kafka on each worker's machine" in got.stderr, got


def the_page_is_run_as_printed(space):
    """The job of the manual's page, and its commands, in their order; only brokers are others, and what installs is left out."""
    page = (pathlib.Path(__file__).parents[2] / "deploy/manual/kafka.md").read_text(encoding="utf-8")
    job = re.findall(r"^```yaml\n(.*?)^```$", page, re.M | re.S)[0]
    commands = re.findall(r"^    (shoal .*)$", page, re.M)
    assert [c.split()[1] for c in commands] == ["local", "status", "local"], commands
    with Kafka(space, "clicks").make(2) as kafka:
        rows = [f"{i % 2},u{i % 50},s{i % 7},{i}.5" for i in range(600)]
        path = space / "rows"

        def give(part):
            kafka.lines += part
            path.write_text("".join(r + "\n" for r in part), encoding="utf-8")
            kafka("file", "clicks", path)

        give(rows[:400])
        (space / "clicks.yaml").write_text(job.replace("h1:9092,h2:9092", kafka.brokers), encoding="utf-8")
        here, runs = os.getcwd(), []
        os.chdir(space.path)
        try:
            (space / "runs").mkdir()
            for command in commands:
                words = command.split()
                if words[1] == "status":
                    told = subprocess.run([SHOAL, *words[1:]], capture_output=True, text=True, timeout=60, check=True).stdout
                    assert "streams: 0 messages behind" in told, told
                    stopped(runs[0])
                    give(rows[400:])
                    continue
                run = Run(words[2], pathlib.Path(words[4]), extra=words[5:])
                runs.append(run)
                caught_up(run, kafka)
            assert stopped(runs[1])["examples"] == 200
        finally:
            os.chdir(here)


def the_lag_is_shown(space):
    with Kafka(space).make(2).give(100) as kafka:
        run = Run(kafka.job(), space / "run")
        caught_up(run, kafka)
        told = shoal("status", "--run-dir", run.dir).stdout
        assert "streams: 0 messages behind" in told, told
        o = state(run)["objects"]
        assert [p["stream"] for p in o["streams"]] == ["kafka:topic/0", "kafka:topic/1"] and o["streams"][0]["learnt"] == 50, o
        stopped(run)


def a_job_with_an_end_ends_by_itself(space):
    """The mock cluster finds no message by its time, so all of them count as older than a time that has passed."""
    with Kafka(space).make(3).give(500) as kafka:
        keys = {"data.kafka.until": "2026-01-01", "checkpoint.at_end": True}
        run = Run(kafka.job(**keys), space / "r0")
        assert run.wait(60) == 0, run.output()[-3000:]
        report = run.report()
        assert report["ended_by"] == "until" and digests(report) == kafka.counts(), report["ended_by"]
        run = Run(kafka.job(**keys), space / "r1", extra=["--start-from", str(space / "r0")])
        assert run.wait(60) == 66 and "has nothing up to data.kafka.until" in run.output(), run.output()[-3000:]


def latest_is_the_end_when_the_job_begins(space):
    with Kafka(space).make(2).give(100) as kafka:
        run = Run(kafka.job(**{"data.kafka.from": "latest"}), space / "run")
        within(30, "the begin to be known", lambda: sum(p["end"] for p in state(run).get("objects", {}).get("streams", [])) == 100)
        before = len(kafka.lines)
        kafka.give(60)
        caught_up(run, kafka)
        assert digests(stopped(run)) == kafka.counts(kafka.lines[before:])


if __name__ == "__main__":
    if not MOCK.exists():
        print("skipped: built without librdkafka-dev")
        sys.exit(0)
    main([each_message_is_learnt_once_whatever_dies, a_broker_that_is_away_is_waited_for_and_named, a_job_waits_for_brokers_that_come_later,
          jobs_go_on_where_the_tables_are, an_archive_then_the_stream_is_one_job, offsets_that_are_gone_are_named, messages_of_all_kinds,
          what_cannot_be_is_refused, without_the_module_the_package_is_named, the_page_is_run_as_printed, the_lag_is_shown, a_job_with_an_end_ends_by_itself,
          latest_is_the_end_when_the_job_begins])
