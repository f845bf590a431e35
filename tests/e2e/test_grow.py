#!/usr/bin/env python3
"""test_grow: a growing log of objects: new objects are trained once, in rounds, and after a kill, a stop and a resume the rows are those of an undisturbed run
with the same rounds."""
import threading

from fleet import *

KEYS = {"model.kind": "lr", "train.batch": 64, "train.lanes": 3, "train.consistency": "bsp", "data.objects.grow": "1s",
        "coordinator.lease": "500ms", "train.task_batches": 2}


class Log:
    """A folder of whole files. It is a link: the files of a round come at once, with the folder that the link names next."""

    def __init__(self, space, name="log", rows=200, events=False):
        self.folder, self.rows, self.next, self.total, self.events = space / name, rows, 0, 0, events
        self.version = 0
        self.versioned().mkdir()
        self.folder.symlink_to(self.versioned().name)
        self.lines = synth(space / f"{name}.tsv", 40 * rows).read_bytes().splitlines(keepends=True)

    def text(self):
        at = self.next * self.rows % len(self.lines)
        self.next += 1
        self.total += self.rows
        return b"".join(self.lines[at:at + self.rows])

    def versioned(self):
        return self.folder.with_name(f".{self.folder.name}-{self.version}")

    def put(self, *names):
        """These files come: one round."""
        before = self.versioned()
        self.version += 1
        now = self.versioned()
        now.mkdir()
        for path in before.iterdir():
            os.link(path, now / path.name)
        for name in names:
            path = now / f"part-{name}"
            path.write_bytes(self.text())
            if self.events:
                job = job_file(self.folder.parent / "convert.yaml", path, **{"model.kind": "lr"})
                subprocess.run([SHOAL, "convert", job, "--out", now / ".events"], check=True, stdout=subprocess.DEVNULL)
                (now / ".events").replace(path)
        link = self.folder.with_name(f".{self.folder.name}-link")
        link.symlink_to(now.name)
        link.replace(self.folder)
        return self


def state(run):
    """Its status, once the coordinator answers: it may have been killed a moment ago."""

    def look():
        got = shoal("status", "--run-dir", run.dir, "--json")
        return json.loads(got.stdout) if got.returncode == 0 else None if run.running() else {"state": "over"}
    return within(30, "the status", look)


def learnt(run, objects, seconds=60):
    """Waits until so many are trained, and the job waits for more."""
    def look():
        s = state(run)
        if not run.running():
            raise AssertionError(run.output()[-3000:])
        return s.get("state") == "objects" and s["objects"]["read"] == objects and s
    return within(seconds, f"{objects} objects to be learnt", look)


def stopped(run):
    """Its report, once it is asked to end."""
    run.process.terminate()
    assert run.wait(60) == 0, run.output()[-3000:]
    return run.report()


def newest(space):
    return str(max((p for p in (space / "checkpoints").iterdir() if not p.name.startswith(".")), key=lambda p: p.stat().st_mtime))


ROUNDS = [["10", "11", "12", "13"], ["14", "15", "16"], ["05", "17", "18"]]


def played(space, name, disturb=lambda run, round: None, rounds=ROUNDS, rows=200, **over):
    """The report of these rounds, and its log."""
    log = Log(space, f"{name}-log", rows, over.get("data.format") == "events")
    link = space / "log"
    if link.is_symlink():
        link.unlink()
    link.symlink_to(log.folder)  # objects' rows are drawn by their names
    job = job_file(space / f"{name}.yaml", f"{link}/part-*", **{**KEYS, **over})
    run, count = None, 0
    for n, names in enumerate(rounds):
        log.put(*names)
        count += len(names)
        if run is None:
            run = Run(job, space / name, servers=2, workers=2)
        disturb(run, n)
        assert learnt(run, count)["epoch"] == n + 1, "a list came between the files of a round"
    return stopped(run), log


def rounds_are_trained_as_they_come(space):
    valid = synth(space / "valid.tsv", 300, seed=2)
    report, log = played(space, "a", **{"data.valid": str(valid), "checkpoint.dir": str(space / "c"), "checkpoint.every_minutes": 0.001})
    assert [v["epoch"] for v in report["evaluations"]] == [1, 2, 3], report["evaluations"]
    assert report["checkpoints_made"] >= 3, report["checkpoints_made"]  # behind each round, and none while nothing is learnt
    assert report["checkpoints_made"] <= 9, report["checkpoints_made"]
    assert report["examples"] == log.total, (report["examples"], log.total)
    assert report["objects"]["read"] == 10 and report["ended_by"] == "stop", report["objects"]
    assert [e["epoch"] for e in report["epochs"]] == [1, 2, 3], report["epochs"]
    again, _ = played(space, "b")
    assert digests(again) == digests(report)


def event_files_and_scored_objects_are_beside_it(space):
    """The rows are those of text; what is scored is listed once."""
    text, log = played(space, "text")
    scored = synth(space / "valid.tsv", 300, seed=2)
    (space / "valid").mkdir()
    for n, half in enumerate((scored.read_bytes().splitlines(keepends=True)[:150], scored.read_bytes().splitlines(keepends=True)[150:])):
        (space / f"half-{n}").write_bytes(b"".join(half))
        job = job_file(space / "convert.yaml", space / f"half-{n}", **{"model.kind": "lr"})
        subprocess.run([SHOAL, "convert", job, "--out", space / "valid" / f"{n}"], check=True, stdout=subprocess.DEVNULL)
    got, log = played(space, "events", **{"data.format": "events", "data.valid": f"{space}/valid/*"})
    assert digests(got) == digests(text) and got["examples"] == log.total
    assert got["objects"]["read"] == 10 and got["objects"]["valid"] == {"read": 2, "left_out": 0}, got["objects"]
    assert [v["epoch"] for v in got["evaluations"]] == [1, 2, 3] and got["valid"]["examples"] == 300, got


def killed_at_any_moment(space):
    whole, log = played(space, "whole")

    def disturb(run, n):
        for who in ("coordinator", "worker-0", "server-1"):
            time.sleep(random.random() * 1.2)
            strike(run, who)
            time.sleep(1.0)

    got, _ = played(space, "killed", disturb)
    assert digests(got) == digests(whole), "another log was learnt"
    assert got["examples"] == log.total


def stopped_and_gone_on_with(space):
    """Files arrive while no process runs; the job is stopped within a round, and between two."""
    rows, slow = longer(3000), {"train.batch": 16, "model.kind": "deepfm", "model.hidden": [32]}
    whole, log = played(space, "whole", rounds=[["10", "11", "12"], ["13", "14"], ["15"]], rows=rows, **slow)
    log = Log(space, "again-log", rows)
    link = space / "log"
    link.unlink()
    link.symlink_to(log.folder)
    keys = {**KEYS, **slow, "checkpoint.dir": str(space / "checkpoints"), "checkpoint.at_end": True}

    job = job_file(space / "again.yaml", f"{link}/part-*", **keys)
    log.put("10", "11", "12")
    run = Run(job, space / "r0")
    started(run)
    first = stopped(run)
    if first["examples"] == 3 * rows:
        raise TooShort("the first round was over")
    log.put("13", "14")
    run = Run(job, space / "r1", extra=["--resume", newest(space)])
    learnt(run, 5)
    second = stopped(run)
    log.put("15")
    run = Run(job, space / "r2", extra=["--resume", newest(space)])
    learnt(run, 6)
    third = stopped(run)
    print(f"      stopped behind {first['examples']}, {second['examples']}, {third['examples']} examples", flush=True)
    assert third["examples"] == whole["examples"] == log.total
    assert digests(third) == digests(whole)


def gone_on_with_behind_its_end(space):
    """It has no checkpoint when it is stopped: one is made afterwards, by processes that did not run it."""
    whole, log = played(space, "whole", rounds=[["10", "11"], ["12"]])
    log = Log(space, "again-log")
    link = space / "log"
    link.unlink()
    link.symlink_to(log.folder)
    job = job_file(space / "again.yaml", f"{link}/part-*", **KEYS, **{"checkpoint.dir": str(space / "checkpoints")})
    log.put("10", "11")
    run = Run(job, space / "r0")
    learnt(run, 2)
    stopped(run)
    for _ in range(2):
        got = shoal("checkpoint", "create", "--run-dir", run.dir)
        assert got.returncode == 0, got
    log.put("12")
    run = Run(job, space / "r1", extra=["--resume", newest(space)])
    assert learnt(run, 3)["went_back"] == 0
    report = stopped(run)
    assert report["examples"] == whole["examples"] == log.total
    assert digests(report) == digests(whole)


def another_job_begins_behind_what_is_learnt(space):
    """start_from: other batches, the same log; the run's folder names the checkpoint of its end."""
    log = Log(space).put("10", "11")
    keys = {**KEYS, "checkpoint.dir": str(space / "checkpoints"), "checkpoint.at_end": True}
    run = Run(job_file(space / "a.yaml", f"{log.folder}/part-*", **keys), space / "a")
    learnt(run, 2)
    stopped(run)
    got = shoal("predict", "--from", newest(space), "--in", log.folder / "part-10", "--out", space / "scores")
    assert got.returncode == 0 and len((space / "scores").read_text().splitlines()) >= log.rows, got
    log.put("09", "12")
    run = Run(job_file(space / "b.yaml", f"{log.folder}/part-*", **{**keys, "train.batch": 50}), space / "b", extra=["--start-from", str(space / "a")])
    learnt(run, 2)
    report = stopped(run)
    assert report["examples"] == 2 * log.rows and report["objects"]["read"] == 2, report["objects"]


def tables_of_a_later_round_are_measured(space):
    """By predict, and by a job that trains nothing: one that begins with them, as no round is gone on with."""
    log = Log(space).put("10")
    keys = {**KEYS, "checkpoint.dir": str(space / "checkpoints"), "checkpoint.at_end": True}
    run = Run(job_file(space / "a.yaml", f"{log.folder}/part-*", **keys), space / "a")
    learnt(run, 1)
    log.put("11")
    learnt(run, 2)
    stopped(run)
    made = newest(space)
    got = shoal("predict", "--from", made, "--in", log.folder / "part-10", "--out", space / "scores")
    assert got.returncode == 0 and len((space / "scores").read_text().splitlines()) >= log.rows, got
    measure = job_file(space / "m.yaml", f"{log.folder}/part-*", **{**KEYS, "train.skip": True, "data.test": str(log.folder / "part-11")})
    for word, status, says in (("--resume", 78, "--start-from measures its tables"), ("--start-from", 0, "")):
        got = shoal("local", measure, "--run-dir", space / word, word, made)
        assert got.returncode == status and says in got.stderr, got


def a_malformed_line_ends_no_standing_job(space):
    """Its round is short: the share of all rounds counts, and is told."""
    log = Log(space)
    log.lines[3] = b"broken\n"
    log.put("10")
    run = Run(job_file(space / "a.yaml", f"{log.folder}/part-*", **KEYS), space / "a")
    learnt(run, 1)
    log.put("11")
    learnt(run, 2)
    report = stopped(run)
    assert report["bad_lines"] == 1 and report["examples"] == 2 * log.rows - 1, report


def rows_in_memory_go_back(space):
    keys = {"durability": "memory", "checkpoint.every_batches": 7}
    whole, log = played(space, "whole", **keys, **{"checkpoint.dir": str(space / "c1")})

    def disturb(run, n):
        if n > 0:
            time.sleep(random.random() * 2.5)
            before = state(run)["went_back"]
            strike(run, "server-0")
            within(60, "the job to go back", lambda: state(run).get("went_back", 0) > before)

    got, _ = played(space, "back", disturb, **keys, **{"checkpoint.dir": str(space / "c2")})
    assert got["went_back"] > 0, got["went_back"]
    assert digests(got) == digests(whole) and got["examples"] == log.total, (got["examples"], log.total)


def one_that_is_written_is_not_taken(space):
    log = Log(space)
    job = job_file(space / "job.yaml", f"{log.folder}/part-*", **{**KEYS, "data.objects.grow": "3s"})
    run = Run(job, space / "run")
    within(30, "an empty log to be told", lambda: "lists none yet" in state(run).get("waiting", ""))
    log.put("10")
    learnt(run, 1)
    text = log.text()

    def write():
        with open(log.folder / "part-11", "wb") as f:
            for at in range(0, len(text), len(text) // 24 + 1):
                f.write(text[at:at + len(text) // 24 + 1])
                f.flush()
                time.sleep(0.3)
    writer, read = threading.Thread(target=write), []
    writer.start()
    while writer.is_alive():
        read.append(state(run)["objects"]["read"])  # asked first: what is read while the last piece is written counts
        if writer.is_alive():
            assert read[-1] == 1, "half a file was taken"
        time.sleep(0.3)
    writer.join()
    learnt(run, 2)
    report = stopped(run)
    assert report["examples"] == log.total, (report["examples"], log.total)


def behind_a_list(space, log):
    """A job whose list fails while there is a file `down`."""
    job = job_file(space / "job.yaml", None, **{**KEYS, "data.train": None, "data.objects.tries": 1})
    listing = f"if [ -e {space}/down ]; then echo no route to it for $PPID >&2; exit 7; fi; cd {log.folder}; ls part-*"
    with open(job, "a", encoding="utf-8") as f:
        f.write("data.train: " + json.dumps([{"object": {"list": listing, "open": f'cat "{log.folder}/$1"'}}]) + "\n")
    return job


def a_list_that_fails_is_made_again(space):
    log = Log(space).put("10")
    run = Run(behind_a_list(space, log), space / "run")
    learnt(run, 1)
    (space / "down").touch()
    log.put("11")
    told = within(30, "the list to fail", lambda: "no route to it" in state(run).get("waiting", "") and state(run))
    assert told["objects"]["read"] == 1 and told["state"] == "objects"
    time.sleep(3)
    assert run.running()
    (space / "down").unlink()
    learnt(run, 2)
    assert stopped(run)["examples"] == log.total


def also_by_one_who_has_not_listed_before(space):
    log = Log(space).put("10", "11")
    job = behind_a_list(space, log)
    with Fleet(space, "fleet").up() as fleet:
        work = lambda w: fleet.start(w, "train", "--coordinator", fleet.endpoint, "--allow-commands", "--name", w, program="shoal-worker")
        at = lambda n: (s := fleet.state()).get("state") == "objects" and s["objects"]["read"] == n
        work("w0")
        submit = fleet.start("submit", "submit", job, "--coordinator", fleet.endpoint, "--workers", "1", program="shoal")
        within(60, "the first round", lambda: at(2))
        (space / "down").touch()
        fleet.running["w0"].kill()
        fleet.running.pop("w0").wait()
        late = work("w1")
        log.put("12")
        within(60, "w1's list to fail", lambda: f"for {late.pid}" in fleet.state().get("waiting", "") or late.poll() is not None)
        assert late.poll() is None, late.log.read_text()
        (space / "down").unlink()
        within(60, "the second round", lambda: at(3))
        shoal("stop", "--coordinator", fleet.endpoint)
        assert submit.wait(60) == 0, submit.log.read_text()
        assert json.loads((space / "report.json").read_text())["examples"] == log.total


def a_fleet_goes_on_until_it_is_stopped(space):
    log = Log(space).put("10", "11")
    job = job_file(space / "job.yaml", f"{log.folder}/part-*", **KEYS)
    with Fleet(space, "fleet").up() as fleet:
        for w in ("w0", "w1"):
            fleet.start(w, "train", "--coordinator", fleet.endpoint, "--name", w, program="shoal-worker")
        submit = fleet.start("submit", "submit", job, "--coordinator", fleet.endpoint, "--workers", "2", program="shoal")
        at = lambda n: (s := fleet.state()).get("state") == "objects" and s["objects"]["read"] == n
        within(60, "the first round", lambda: at(2))
        fleet.running["w0"].kill()  # only w1 lists from now on
        fleet.running.pop("w0").wait()
        log.put("09", "12")
        within(60, "the second round", lambda: at(4))
        told = shoal("status", "--coordinator", fleet.endpoint).stdout
        assert "objects: 4 read, the greatest " in told and "part-12" in told, told
        got = shoal("stop", "--coordinator", fleet.endpoint)
        assert got.returncode == 0 and "the job ends" in got.stdout, got
        assert submit.wait(60) == 0, submit.log.read_text()
        report = json.loads((space / "report.json").read_text())
        assert report["examples"] == log.total and report["ended_by"] == "stop" and report["worker_deaths"] >= 1  # the lease is short
        began = log.total
        fleet.start("w2", "train", "--coordinator", fleet.endpoint, "--name", "w2", program="shoal-worker")
        job = job_file(space / "next.yaml", f"{log.folder}/part-*", **{**KEYS, "train.batch": 50})
        log.put("08", "13")
        submit = fleet.start("submit", "submit", job, "--coordinator", fleet.endpoint, "--start-from", "fleet", program="shoal")
        within(60, "another job's first round", lambda: at(2) or at(6))
        shoal("stop", "--coordinator", fleet.endpoint)
        assert submit.wait(60) == 0, submit.log.read_text()
        report = json.loads((space / "report.json").read_text())
        assert report["examples"] == log.total - began and report["objects"]["read"] == 2, (report["examples"], report["objects"])


def what_has_no_end_says_so(space):
    log = Log(space).put("10")
    for over, words in (({"train.epochs": 2}, "trained once"), ({"train.early_stop.patience": 2, "data.valid": str(log.folder / "part-10")}, "no evaluation"),
                        ({"train.schedule.kind": "cosine", "train.schedule.batches": 9}, "falls towards an end")):
        job = job_file(space / "bad.yaml", f"{log.folder}/part-*", **{**KEYS, **over})
        got = shoal("local", job, "--run-dir", space / "no")
        assert got.returncode == 78 and words in got.stderr, got


if __name__ == "__main__":
    main([rounds_are_trained_as_they_come, event_files_and_scored_objects_are_beside_it, killed_at_any_moment, stopped_and_gone_on_with, gone_on_with_behind_its_end,
          another_job_begins_behind_what_is_learnt, tables_of_a_later_round_are_measured,
          a_malformed_line_ends_no_standing_job, rows_in_memory_go_back, one_that_is_written_is_not_taken,
          a_list_that_fails_is_made_again, also_by_one_who_has_not_listed_before,
          a_fleet_goes_on_until_it_is_stopped, what_has_no_end_says_so])
