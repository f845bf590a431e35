#!/usr/bin/env python3
"""test_fleet: coordinator, server and worker started one by one, as units start them; jobs by `shoal submit` and `shoal stop`."""
import re

from fleet import Fleet as AnyFleet
from fleet import within
from lib import *


def shoal(*words):
    return subprocess.run([SHOAL, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)


class Fleet:
    """One coordinator and one server; workers by hand. Everything goes with it."""

    def __init__(self, space, *server):
        self.endpoint, self.space, self.daemons = f"ipc://{space}/c.sock", space, []
        self.start("shoal-coordinator", "--set", f"listen={self.endpoint}", "--set", f"data_dir={space / 'coordinator'}",
                   "--set", f"report={space / 'report.json'}")
        self.start("shoal-server", "--set", f"listen=ipc://{space}/s.sock", "--set", f"data_dir={space / 'server'}",
                   "--set", f"coordinator={self.endpoint}", *server)

    def start(self, program, *words):
        with open(self.space / f"{program}-{len(self.daemons)}.log", "w", encoding="utf-8") as log:
            self.daemons.append(subprocess.Popen([BIN / program, *map(str, words)], stdout=log, stderr=log))
        return self.daemons[-1]

    def worker(self, job):
        return self.start("shoal-worker", "train", "--config", job, "--coordinator", self.endpoint)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()


def submitted_job_is_shown_until_its_end(space):
    train, valid = synth(space / "train.tsv", 6000, 1), synth(space / "valid.tsv", 1000, 2)
    job = job_file(space / "job.yaml", train, **{"data.valid": str(valid)})
    with Fleet(space) as fleet:
        before = shoal("status", "--coordinator", fleet.endpoint)
        assert before.returncode == 0 and "no job" in before.stdout, before
        worker = fleet.worker(job)
        got = shoal("submit", job, "--coordinator", fleet.endpoint)
        assert got.returncode == 0 and "AUC" in got.stdout and "digest" in got.stdout, got
        assert worker.wait(30) == 0, "a worker leaves with 0 when the job is over"
        report = json.loads((space / "report.json").read_text())
        seen = shoal("digest", "--coordinator", fleet.endpoint, "emb")
        assert report["tables"][0]["digest"] in seen.stdout, (report["tables"], seen)


def durability_is_the_servers_word(space):
    """A job that names another durability is refused; one that names none is trained, and the report says what the servers did."""
    train = synth(space / "train.tsv", 6000, 1)
    job = job_file(space / "job.yaml", train)
    with Fleet(space) as fleet:  # its server says nothing: journal
        refused = shoal("submit", job, "--coordinator", fleet.endpoint, "--set", "durability=fsync")
        assert refused.returncode == 78 and "the job says fsync, and server" in refused.stderr and "by journal" in refused.stderr, refused
    job.write_text(re.sub(r"^durability:.*\n", "", job.read_text(), flags=re.M))
    again = space / "fsync"
    again.mkdir()
    with Fleet(again, "--set", "durability=fsync") as fleet:
        fleet.worker(job)
        assert shoal("submit", job, "--coordinator", fleet.endpoint).returncode == 0
        said = json.loads((again / "report.json").read_text())["durability"]
        assert said == "fsync", said


def a_worker_of_a_file_waits_for_each_job(space):
    """shoal-worker run: one process for a job, for one that fails, for the next; its own file is checked; it stops while it waits."""
    train = synth(space / "train.tsv", 6000, 1)
    job = job_file(space / "job.yaml", train)
    own = space / "worker.yaml"
    with Fleet(space) as fleet:
        own.write_text(f"coordinator: {fleet.endpoint}\nlanes: 1\ncores: 1\nbackend: cpu\nname: here\ncache: {space / 'cache'}\nset: [data.train={train}]\n")
        worker = fleet.start("shoal-worker", "run", "--config", own)
        assert shoal("submit", job, "--coordinator", fleet.endpoint, "--set", "data.train=/nowhere").returncode == 0, "the file's input is taken"
        report = json.loads((space / "report.json").read_text())

        failed = shoal("submit", job, "--coordinator", fleet.endpoint, "--set", "data.test=/nowhere", "--start-from", "fleet")
        assert failed.returncode == 66 and "/nowhere" in failed.stderr, failed
        assert shoal("submit", job, "--coordinator", fleet.endpoint, "--start-from", "fleet").returncode == 0
        assert worker.poll() is None and any((space / "cache").iterdir())
        worker.terminate()
        assert worker.wait(60) == 0
    for line, words in (("lanes: 0", "lanes"), ("lane: 1", "the nearest known key is lanes"), ("set: [data]", "expected KEY=VALUE"), ("device: x", "device")):
        own.write_text(line + "\n")
        got = subprocess.run([BIN / "shoal-worker", "run", "--config", own], capture_output=True, text=True, timeout=60, check=False)
        assert got.returncode == 78 and words in got.stderr and f"{own}" in got.stderr, got
    got = subprocess.run([BIN / "shoal-worker", "run", "--config", own, "--lanes", "2"], capture_output=True, text=True, timeout=60, check=False)
    assert got.returncode == 64 and "not --lanes" in got.stderr, got


def stopped_job_leaves_the_fleet_to_the_next(space):
    train = synth(space / "train.tsv", 6000, 1)
    job = job_file(space / "job.yaml", train, **{"train.epochs": 1000})
    with Fleet(space) as fleet:
        fleet.worker(job)
        assert shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait").returncode == 0
        second = shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait", "--set", "job=other", "--set", "space=e2e")
        assert second.returncode == 0 and "it waits for its turn: job e2e, number" in second.stdout and "runs in space e2e" in second.stdout, second
        waits = json.loads(shoal("jobs", "--coordinator", fleet.endpoint, "--json").stdout)[-1]
        assert (waits["state"], waits["job"]) == ("submitted", "other"), waits
        taken = shoal("stop", waits["number"], "--coordinator", fleet.endpoint)
        assert taken.returncode == 0 and "the job waits no more" in taken.stdout, taken
        within(30, "the job to train", lambda: re.search(r"epoch \d+, [1-9]", shoal("status", "--coordinator", fleet.endpoint).stdout))
        assert shoal("stop", "--coordinator", fleet.endpoint).returncode == 0
        seen = shoal("status", "--coordinator", fleet.endpoint)  # an alert on "failed" is true
        assert "job e2e: stopped" in seen.stdout and "it ended: stopped by request" in seen.stdout and "failed" not in seen.stdout, seen
        assert json.loads(shoal("status", "--coordinator", fleet.endpoint, "--json").stdout)["state"] == "stopped"
        log = (space / "shoal-coordinator-0.log").read_text()
        assert "job e2e ended in train: stopped by request" in log and "failed" not in log, log[-2000:]
        fleet.worker(job)
        third = shoal("submit", job, "--coordinator", fleet.endpoint, "--set", "train.epochs=1", "--start-from", "fleet")
        assert third.returncode == 0, third
        assert json.loads((space / "report.json").read_text())["start_from"] == "fleet"


def stopped_job_makes_its_last_checkpoint(space):
    """With a folder of checkpoints it can be gone on with at the very batch, by the words that the status says."""
    train = synth(space / "train.tsv", 6000, 1)
    job = job_file(space / "job.yaml", train, **{"train.epochs": 1000, "checkpoint.dir": str(space / "kept")})
    with Fleet(space) as fleet:
        state = lambda: json.loads(shoal("status", "--coordinator", fleet.endpoint, "--json").stdout)
        fleet.worker(job)
        assert shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait").returncode == 0
        within(30, "the job to train", lambda: re.search(r"epoch [2-9], [1-9]", shoal("status", "--coordinator", fleet.endpoint).stdout))
        told = shoal("stop", "--coordinator", fleet.endpoint)
        assert told.returncode == 0 and "behind its last checkpoint" in told.stdout, told
        within(20, "the job to end", lambda: state()["state"] == "stopped")
        way = re.search(r"stopped by request; --resume (\S+) goes on", state()["error"]).group(1)
        stood = json.loads((pathlib.Path(way) / "manifest.json").read_text())
        assert stood["epoch"] > 1 and stood["phase"] != "tables", stood
        fleet.worker(job)
        on = shoal("submit", job, "--coordinator", fleet.endpoint, "--resume", way, "--set", f"train.epochs={stood['epoch'] + 1}", "--set", "fresh=all")
        report = json.loads((space / "report.json").read_text())
        assert on.returncode == 0 and report["from"] == way and report["examples"] == (stood["epoch"] + 1) * 6000, (on, report["examples"])


def a_job_without_checkpoints_is_told_what_it_may_lose(space):
    """One sentence at submit: what a lost disk takes, and the keys that mend it; those keys are tried. One that makes them, or trains nothing, is told
    nothing, nor is a replay, which makes one a day."""
    train = synth(space / "train.tsv", 3000, 1)
    job = job_file(space / "job.yaml", train)
    log = space / "log.csv"
    log.write_text("label,at,user\n" + "".join(f"{n % 2},{1700006400 + 60 * n},u{n % 50}\n" for n in range(100)))
    replay = job_file(space / "replay.yaml", log, **{"data.format": "csv", "data.label": "label", "data.time": "at", "replay": {"window": "1h"}})
    kept = ["--set", f"checkpoint.dir={space / 'kept'}"]
    with Fleet(space) as fleet:
        fleet.worker(job)
        assert shoal("submit", job, "--coordinator", fleet.endpoint, *kept, "--set", "checkpoint.at_end=true").stderr == ""
        for path, words, warned in ((job, [], True), (job, kept, True), (job, [*kept, "--set", "checkpoint.every_minutes=60"], False),
                                    (job, [*kept, "--set", "checkpoint.every_batches=9"], False), (job, ["--set", "train.skip=true", "--set", f"data.test={train}"], False),
                                    (replay, kept, False), (replay, ["--set", "replay.checkpoint=false"], True)):
            got = shoal("submit", path, "--coordinator", fleet.endpoint, "--no-wait", "--start-from", "fleet", *words)
            assert got.returncode == 0, (words, got)
            assert ("disk" in got.stderr and "checkpoint.every_minutes" in got.stderr and "checkpoint.dir" in got.stderr) == warned, (words, got.stderr)
            assert warned or got.stderr == "", (words, got)
            assert shoal("stop", "--coordinator", fleet.endpoint).returncode == 0
            within(20, "it to end", lambda: shoal("stop", "--coordinator", fleet.endpoint).stdout.startswith("no job"))


def submit_tells_of_its_own_job_alone(space):
    """It looks twice a second: a job that ends between two looks, another behind it, is not known to have ended well because that one has."""
    train = synth(space / "train.tsv", 3000, 1)
    job = job_file(space / "job.yaml", train)
    with Fleet(space) as fleet, open(space / "first.out", "w+", encoding="utf-8") as out:
        first = subprocess.Popen([SHOAL, "submit", job, "--coordinator", fleet.endpoint], stdout=out, stderr=out)
        fleet.daemons.append(first)
        number = within(20, "the job to be there", lambda: re.search(r"is run (\d+)", (space / "first.out").read_text())).group(1)
        first.send_signal(signal.SIGSTOP)
        assert shoal("stop", "--coordinator", fleet.endpoint).returncode == 0
        fleet.worker(job)
        assert shoal("submit", job, "--coordinator", fleet.endpoint, "--set", "job=other").returncode == 0
        first.send_signal(signal.SIGCONT)
        ended, said = first.wait(30), (space / "first.out").read_text()
        assert ended != 0 and f"is run {number}" in said and "stopped by request" in said and "digest" not in said, (ended, said)


def a_job_begins_with_what_the_last_one_left(space):
    train = synth(space / "train.tsv", 6000, 1)
    keys = {"model.kind": "probe", "tables[0].optimizer.kind": "sgd", "tables[0].optimizer.lr": 1.0}
    job, twice = job_file(space / "job.yaml", train, **keys), job_file(space / "twice.yaml", train, **keys, **{"train.epochs": 2})
    whole = run_job(twice, space / "whole")
    with Fleet(space) as fleet:
        while (none := shoal("submit", job, "--coordinator", fleet.endpoint, "--start-from", "fleet")).returncode == 69:
            assert "not all servers have said yet" in none.stderr, none
            time.sleep(0.2)
        assert none.returncode == 66 and "no job has made tables here yet" in none.stderr, none
        for begin in ([], ["--start-from", "fleet"]):
            worker = fleet.worker(job)
            assert shoal("submit", job, "--coordinator", fleet.endpoint, *begin).returncode == 0
            assert worker.wait(30) == 0
            report = json.loads((space / "report.json").read_text())
        assert digests(report) == digests(whole)
        silent = shoal("submit", job, "--coordinator", fleet.endpoint)
        assert silent.returncode == 73 and "the servers hold the tables of job e2e: --start-from fleet begins with them" in silent.stderr, silent
        got = shoal("submit", job, "--coordinator", fleet.endpoint, "--set", f"warm_start={space.path}")
        assert got.returncode == 78 and "warm_start; it is called start_from now" in got.stderr, got
        got = shoal("submit", job, "--coordinator", fleet.endpoint, "--start-from", space / "whole" / "log")
        assert got.returncode == 66 and "manifest.json" in got.stderr, got


def a_job_drops_what_the_last_one_left(space):
    """`fresh: [all]`: the same job again is the first one again; another optimizer and other tablets have room; the servers restart between."""
    train = synth(space / "train.tsv", 6000, 1)
    keys = {"model.kind": "probe", "tables[0].optimizer.kind": "sgd", "tables[0].optimizer.lr": 1.0}
    job = job_file(space / "job.yaml", train, **keys)
    other = job_file(space / "other.yaml", train, **{**keys, "tables[0].tablets": 128, "tables[0].optimizer.kind": "adagrad"})
    with AnyFleet(space, "a").up() as fleet:
        first = fleet.job(job, "--set", "fresh=all")  # nothing is there: it simply begins
        silent = shoal("submit", job, "--coordinator", fleet.endpoint)
        assert silent.returncode == 73 and "--set fresh=all drops them" in silent.stderr, silent
        both = shoal("submit", job, "--coordinator", fleet.endpoint, "--set", "fresh=all", "--start-from", "fleet")
        assert both.returncode == 78 and "start_from: fleet goes on with them" in both.stderr, both
        wide = fleet.job(other, "--set", "fresh=all")
        assert wide != first
        for who in ("s1", "coordinator"):
            fleet.stop(who)
            fleet.server(who) if who == "s1" else fleet.coordinator()
        fleet.fits()
        assert fleet.job(job, "--set", "fresh=[all]") == first
        assert fleet.job(job, "--start-from", "fleet") != first  # it goes on
        assert fleet.job(job, "--set", "fresh=all") == first


def a_restore_drops_nothing_unasked(space):
    """The job file in a checkpoint has the `fresh: all` that its job was once submitted with; a job that continues from it has not asked for that again."""
    keys = {"model.kind": "probe", "tables[0].optimizer.kind": "sgd", "tables[0].optimizer.lr": 1.0}
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000, 1), **keys, **{"checkpoint.dir": str(space / "points"), "checkpoint.at_end": True})
    with AnyFleet(space, "a").up() as fleet:
        first = fleet.job(job, "--set", "fresh=all")
        path = max((space / "points").iterdir())
        assert "fresh" in (path / "job.yaml").read_text()
        longer = fleet.job(job, "--start-from", "fleet")
        fleet.start("worker", "run", "--set", f"coordinator={fleet.endpoint}", program="shoal-worker")
        silent = shoal("checkpoint", "restore", path, "--coordinator", fleet.endpoint)
        assert silent.returncode == 73 and "has been trained here already" in silent.stdout + silent.stderr, silent
        rows = shoal("digest", "--coordinator", fleet.endpoint, "emb").stdout
        assert longer["emb"][1] in rows, (longer, rows)
        asked = shoal("checkpoint", "restore", path, "--coordinator", fleet.endpoint, "--set", "fresh=all")
        assert asked.returncode == 0 and digests(json.loads((space / "report.json").read_text())) == first, asked


def a_field_called_all_is_not_meant(space):
    """The word drops everything; a job with a field of that name is refused before anything goes."""
    path = space / "log.csv"
    path.write_text("label,all,item\n" + "".join(f"{i % 2},{i % 7},{i % 11}\n" for i in range(400)), encoding="utf-8")
    csv = {"data.format": "csv", "data.label": "label", "model.kind": "lr"}
    with AnyFleet(space, "a", 1).up() as fleet:
        job = job_file(space / "job.yaml", path, **csv)
        was = fleet.job(job)
        worker = fleet.start("worker", "train", "--config", job, "--coordinator", fleet.endpoint, program="shoal-worker")
        got = shoal("submit", job, "--coordinator", fleet.endpoint, "--set", "fresh=all")
        assert got.returncode == 78 and "this job has a field called all" in got.stdout + got.stderr, got
        worker.terminate()
        worker.wait(30)
        assert fleet.job(job_file(space / "look.yaml", path, **csv, **{"train.skip": True, "data.test": str(path)}), "--start-from", "fleet") == was


def failed_job_ends_submit_with_its_status(space):
    job = job_file(space / "job.yaml", space / "nowhere.tsv")
    with Fleet(space) as fleet:
        fleet.worker(job)
        got = shoal("submit", job, "--coordinator", fleet.endpoint)
        assert got.returncode == 66 and "nowhere.tsv" in got.stderr, got


def ended_run_shows_its_report(space):
    train = synth(space / "train.tsv", 3000, 1)
    report = run_job(job_file(space / "job.yaml", train), space / "run")
    text, whole = shoal("status", "--run-dir", space / "run"), shoal("status", "--run-dir", space / "run", "--json")
    assert text.returncode == 0 and report["tables"][0]["digest"] in text.stdout, text
    assert json.loads(whole.stdout)["tables"] == report["tables"]
    value = train.read_text().split("\n")[0].split("\t")[14]  # C1 of the first row
    row = shoal("inspect", "--run-dir", space / "run", "emb", f"0:{value}", "--json")
    assert row.returncode == 0 and len(json.loads(row.stdout)["weights"]) == 5, row
    none = shoal("inspect", "--run-dir", space / "run", "emb", "0:never")
    assert none.returncode == 66 and "field 0" in none.stderr, none


def slow_work_of_some_shards_leaves_threads_to_the_others(space):
    """Four a shard. Those of the pool are called as the shard whose work came first, or as libuv calls them."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 2000), **{"tables[0].tablets": 128})
    with AnyFleet(space, "a", shards=8) as fleet:
        fleet.coordinator()
        server = fleet.server("s0", "--set", "shards=8")
        fleet.job(job)
        names = [task.read_text(encoding="utf-8") for task in pathlib.Path(f"/proc/{server.pid}/task").glob("*/comm")]
        assert sum(name.startswith(("shard-", "libuv-worker")) for name in names) >= 8 + 4 * 8, names


if __name__ == "__main__":
    main([durability_is_the_servers_word, a_worker_of_a_file_waits_for_each_job, submitted_job_is_shown_until_its_end, submit_tells_of_its_own_job_alone,
          stopped_job_leaves_the_fleet_to_the_next, stopped_job_makes_its_last_checkpoint, a_job_without_checkpoints_is_told_what_it_may_lose,
          a_job_begins_with_what_the_last_one_left, a_job_drops_what_the_last_one_left, a_restore_drops_nothing_unasked,
          a_field_called_all_is_not_meant, failed_job_ends_submit_with_its_status,
          ended_run_shows_its_report, slow_work_of_some_shards_leaves_threads_to_the_others])
