#!/usr/bin/env python3
"""test_objects: a log of objects behind commands that count their calls: each is opened by one worker, once; whichever process dies, the rows are the same; a
command that fails, hangs or ends early is named, tried again, and never half trained."""
import gzip

from fleet import *


class Log:
    """Objects of Criteo lines, some packed; `list` and `open` record their callers."""

    def __init__(self, space, objects, rows=300):
        self.folder, self.calls, self.objects = space / "log", space / "calls", objects
        self.folder.mkdir()
        lines = synth(space / "all.tsv", objects * rows).read_bytes().splitlines(keepends=True)
        for i in range(objects):
            text = b"".join(lines[i * rows:(i + 1) * rows])
            (self.folder / f"part-{i:02}").write_bytes(gzip.compress(text, 1) if i % 2 else text)
        self.rows = len(lines)

    def train(self, list_words="", open_words="", sizes=False):
        """As data.train; words run before the object is printed."""
        form = r"-printf '%f\t%s\n'" if sizes else r"-printf '%f\n'"
        return {"object": {"list": f"echo list - >> {self.calls}; {list_words} find {self.folder} -type f {form}",
                           "open": f'echo open "$1" $PWD >> {self.calls}; {open_words} cat "{self.folder}/$1"'}}

    def convert(self, space):
        """The objects as event files of the same names."""
        text, self.folder = self.folder, space / "events"
        self.folder.mkdir()
        for part in sorted(text.iterdir()):
            job = job_file(space / "convert.yaml", part, **{"model.kind": "lr"})
            subprocess.run([SHOAL, "convert", job, "--out", self.folder / part.name], check=True, stdout=subprocess.DEVNULL)

    def called(self, what="open"):
        """[(object, folder of the caller)]"""
        words = [line.split() for line in self.calls.read_text().splitlines()] if self.calls.exists() else []
        return [tuple(w[1:]) for w in words if w[0] == what]


def job_of(space, log, name="job.yaml", **over):
    keys = {"model.kind": "lr", "train.batch": 64, "train.epochs": 2, "train.lanes": 4, "data.objects.quiet": "5s", "data.train": log.train(), **over}
    job_file(space / name, None, **{k: v for k, v in keys.items() if k != "data.train"}, **{"data.train": None})
    with open(space / name, "a", encoding="utf-8") as f:
        f.write(f"data.train: {json.dumps([keys['data.train']])}\n")
    return space / name


class Workers(Fleet):
    """A coordinator, a server, and workers each in a folder, and with a cache, of its own."""

    def work(self, job, count):
        for w in range(count):
            self.folder(f"w{w}").mkdir(exist_ok=True)
            log = open(self.folder(f"w{w}.log"), "w", encoding="utf-8")
            self.running[f"w{w}"] = subprocess.Popen(
                [BIN / "shoal-worker", "train", "--coordinator", self.endpoint, "--allow-commands", "--set", "data.cache=own", "--lanes", "4",
                 "--name", f"w{w}"], cwd=self.folder(f"w{w}"), stdout=log, stderr=log)
        submit = subprocess.Popen([SHOAL, "submit", job, "--coordinator", self.endpoint, "--workers", str(count)], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        self.running["submit"] = submit
        return submit

    def texts(self, who):
        return {p.name for p in (self.folder(who) / "own").glob("*.object")}


def trained(space, name, job, workers, disturb=None):
    """The report of a job, and its fleet, which has ended."""
    fleet = Workers(space, name, shards=1).up()
    try:
        submit = fleet.work(job, workers)
        if disturb is not None:
            disturb(fleet)
        out, _ = submit.communicate(timeout=PATIENCE * 120)
        assert submit.returncode == 0, out
        fleet.running.pop("submit")
        return json.loads((space / "report.json").read_text()), fleet
    finally:
        fleet.stop()


def once_whoever_trains_it(space):
    log = Log(space, 64)
    alone, _ = trained(space, "alone", job_of(space, log, **{"train.consistency": "bsp"}), 1)
    assert sorted(o for o, _ in log.called()) == sorted(p.name for p in log.folder.iterdir()), log.called()
    for mode in ("bsp", "ssp"):
        log.calls.unlink()
        report, fleet = trained(space, mode, job_of(space, log, **{"train.consistency": mode}), 4)
        assert report["examples"] == 2 * log.rows and report["objects"] == {"read": 64, "left_out": 0}, report["objects"]
        assert len(log.called("list")) == 1 and len(log.called()) == 64, (mode, len(log.called()))
        held = [fleet.texts(f"w{w}") for w in range(4)]
        assert len(set.union(*held)) == sum(map(len, held)) == 64, [len(h) for h in held]
        assert mode == "ssp" or digests(report) == digests(alone)
        assert min(map(len, held)) > 0, "a worker had nothing to do"


def killed_workers_objects_are_opened_by_others(space):
    log = Log(space, 16, rows=600)
    whole, _ = trained(space, "whole", job_of(space, log, **{"train.consistency": "bsp", "train.epochs": longer(3)}), 2)
    log.calls.unlink()

    def kill(fleet):
        within(60, "training", lambda: fleet.state().get("examples", 0) > log.rows // 2)
        fleet.running["w1"].kill()
        fleet.running.pop("w1").wait()

    report, _ = trained(space, "killed", job_of(space, log, **{"train.consistency": "bsp", "train.epochs": longer(3)}), 2, kill)
    if report["worker_deaths"] == 0:
        raise TooShort("the job ended before the kill")
    assert digests(report) == digests(whole) and report["examples"] >= longer(3) * log.rows
    calls = log.called()
    assert len(set(calls)) == len(calls), "a worker opened an object twice"
    lost = sum(who.endswith("w1") for _, who in calls)
    assert 16 <= len(calls) <= 16 + lost, (len(calls), lost)


def refused(space, log, words, **over):
    """The job ends with these words."""
    run = Run(job_of(space, log, **over), space / "refused")
    assert run.wait(PATIENCE * 60) != 0, run.output()
    for word in words:
        assert word in run.output(), (word, run.output()[-1500:])
    shutil.rmtree(space / "refused")


def what_fails_is_named_and_tried_again(space):
    log = Log(space, 4)
    flaky = f'if [ "$1" = part-02 ] && [ ! -e {space}/again ]; then touch {space}/again; head -c 999 "{log.folder}/$1"; echo no route >&2; exit 3; fi;'
    report = run_job(job_of(space, log, **{"data.train": log.train(open_words=flaky)}), space / "flaky")
    assert report["examples"] == 2 * log.rows, report["examples"]
    log_text = "".join(p.read_text() for p in (space / "flaky" / "log").glob("worker*.log"))
    assert "object part-02: the command ended with status 3: no route" in log_text and "again in 1 s" in log_text, log_text[-1500:]
    dead = 'if [ "$1" = part-02 ]; then echo no such key >&2; exit 4; fi;'
    once = {"data.objects.tries": 1}
    refused(space, log, ["part-02", "status 4", "no such key"], **once, **{"data.train": log.train(open_words=dead)})
    hangs = 'if [ "$1" = part-01 ]; then sleep 1000; fi;'
    refused(space, log, ["part-01", "not a byte came for 1 s"], **once, **{"data.train": log.train(open_words=hangs), "data.objects.quiet": "1s"})
    short = f'if [ "$1" = part-02 ]; then head -c 5000 "{log.folder}/$1"; exit 0; fi;'
    refused(space, log, ["part-02", "5000 bytes came, the list says"], **once, **{"data.train": log.train(open_words=short, sizes=True)})
    cut = f'if [ "$1" = part-01 ]; then head -c 5000 "{log.folder}/$1"; exit 0; fi;'
    refused(space, log, ["part-01", "gzip data ends too early"], **once, **{"data.train": log.train(open_words=cut)})
    refused(space, log, ["object list", "status 5"], **once, **{"data.train": log.train(list_words="exit 5;")})
    out = run_job(job_of(space, log, **once, **{"data.train": log.train(open_words=dead), "data.objects.failed": "leave_out"}), space / "out")
    assert out["objects"] == {"read": 3, "left_out": 1} and out["examples"] == 2 * log.rows * 3 // 4, out["objects"]
    assert "no such key" in out["warning"], out["warning"]


def files_are_objects_too(space):
    log = Log(space, 6)
    keys = {"train.consistency": "bsp", "train.lanes": 3}
    behind = run_job(job_of(space, log, **keys), space / "behind")
    job_file(space / "files.yaml", log.folder / "part-*", **{"model.kind": "lr", "train.batch": 64, "train.epochs": 2, "data.objects": True, **keys})
    files = run_job(space / "files.yaml", space / "files", workers=3)
    assert files["objects"] == behind["objects"] == {"read": 6, "left_out": 0} and files["examples"] == behind["examples"]
    told = subprocess.run([SHOAL, "local", space / "files.yaml", "--set", "data.train=-", "--run-dir", space / "no"], capture_output=True, text=True)
    assert told.returncode == 78 and "is no file, so it cannot be an object" in told.stderr, told


def event_files_are_objects_too(space):
    log = Log(space, 16)
    bsp = {"train.consistency": "bsp", "data.format": "events"}
    text = run_job(job_of(space, log, **{**bsp, "data.format": "criteo"}), space / "text")
    log.convert(space)
    for mode in ("bsp", "ssp"):
        log.calls.unlink()
        report, _ = trained(space, mode, job_of(space, log, **{**bsp, "train.consistency": mode}), 4)
        assert report["examples"] == 2 * log.rows and report["objects"] == {"read": 16, "left_out": 0}, report["objects"]
        assert len(log.called("list")) == 1 and len(log.called()) == 16, (mode, log.called())
        assert mode == "ssp" or digests(report) == digests(text)
    job_file(space / "files.yaml", log.folder / "part-*", **{"model.kind": "lr", "train.batch": 64, "train.epochs": 2, "train.lanes": 4,
                                                              "data.objects": True, **bsp})
    assert digests(run_job(space / "files.yaml", space / "files", workers=3)) != digests(text), "rows are drawn by an object's name, here a path"
    cut = f'if [ "$1" = part-02 ]; then head -c 3000 "{log.folder}/$1"; exit 0; fi;'
    keys = {**bsp, "data.objects.tries": 2, "data.train": log.train(open_words=cut)}
    refused(space, log, ["part-02: its end is damaged", "tried 2 times"], **keys)
    out = run_job(job_of(space, log, **keys, **{"data.objects.failed": "leave_out"}), space / "out", workers=2)
    assert out["objects"] == {"read": 15, "left_out": 1} and out["examples"] == 2 * log.rows * 15 // 16, out["objects"]


def what_is_scored_is_of_objects_too(space):
    """Figures are those of plain files, and a group's, on whatever workers; each object is opened by one."""
    log = Log(space, 12, rows=900)
    keys = {"train.consistency": "bsp", "train.epochs": 2, "evaluate.group": "C1", "data.objects.quiet": None,
            "data.train": str(space / "all.tsv")}
    plain = run_job(job_of(space, log, **keys, **{"data.valid": [str(space / "log" / f"part-{i:02}") for i in range(12)]}), space / "plain")
    for workers in (1, 4):
        log.calls.unlink(missing_ok=True)
        report, fleet = trained(space, f"w{workers}", job_of(space, log, **keys, **{"data.valid": [log.train()], "data.test": [log.train()]}), workers)
        assert report["objects"] == {"valid": {"read": 12, "left_out": 0}, "test": {"read": 12, "left_out": 0}}, report["objects"]
        assert digests(report) == digests(plain)
        for split in ("valid", "test"):
            want, got = plain["valid"], report[split]
            assert all(abs(got[k] - want[k]) < 1e-12 for k in ("auc", "logloss", "gauc")), (want, got)
            assert got["examples"] == want["examples"] == log.rows, got
        held = [fleet.texts(f"w{w}") for w in range(workers)]
        first = dict(reversed(log.called()))  # the worker that opened each object first
        # A worker that came late takes objects over until it holds its fair share of 3; idle workers take over four more.
        late = sum(max(0, 3 - list(first.values()).count(str(space / f"w{workers}-w{w}"))) for w in range(workers))
        most = 24 if workers == 1 else 28 + late
        assert len(log.called()) <= most and len(set(log.called())) == len(log.called()), log.called()
        assert workers == 1 or min(map(len, held)) > 0, held
    files = run_job(job_of(space, log, **{**keys, "data.train": str(space / "log" / "part-*"), "data.objects": True,
                                                  "data.valid": str(space / "all.tsv")}), space / "files", workers=3)
    assert files["objects"]["valid"] == {"read": 1, "left_out": 0} and files["valid"]["examples"] == log.rows, files["objects"]


def a_file_is_scored_in_the_place_of_objects(space):
    log = Log(space, 4)
    job = job_of(space, log, **{"data.objects.quiet": None, "data.train": str(space / "all.tsv"), "data.test": [log.train()]})
    run_job(job, space / "run")
    few = space / "few.tsv"
    few.write_bytes(b"".join((space / "all.tsv").read_bytes().splitlines(keepends=True)[:100]))
    log.calls.unlink()
    told = subprocess.run([SHOAL, "eval", "--from", space / "run", "--in", few], capture_output=True, text=True, timeout=PATIENCE * 60)
    assert told.returncode == 0 and json.loads(told.stdout)["examples"] == 100, (told.stdout, told.stderr)
    out = subprocess.run([SHOAL, "predict", "--from", space / "run", "--in", few], capture_output=True, text=True, timeout=PATIENCE * 60)
    assert out.returncode == 0 and out.stdout.count("\n") == 101, (out.stdout.count("\n"), out.stderr)
    assert log.called("list") == [], "commands of data.test ran"


def a_replay_takes_objects_window_by_window(space):
    """16 objects an hour, opened by the worker that trains them: tables and figures are a function of job and log, whichever worker computes and dies; rows of
    days and hours are those of the same files taken as one. ssp keeps each hour's rows together, too. Behind a command each is opened once."""
    folder, hours, begin, calls, dice = space / "log", longer(10), 1772582400 + 19 * 3600, space / "calls", random.Random(5)
    for h in range(hours):
        path = folder / time.strftime("%Y-%m-%d/%H", time.gmtime(begin + h * 3600))
        path.mkdir(parents=True)
        for part in range(16):
            lines = [f"{int(u % 3 == 0)},{begin + h * 3600 + dice.randrange(3600)},u{u}\n" for u in (dice.randrange(99) for _ in range(dice.randrange(9)))]
            (path / f"part-{part:02}.csv").write_text("click,at,user\n" + "".join(lines), encoding="utf-8")
    keys = {"data.format": "csv", "data.label": "click", "data.time": "at", "data.partition": "{date}/{hour}/*", "model.kind": "lr", "train.batch": 16, "train.lanes": 4,
            "data.objects": True, "replay.every": "1d", "checkpoint.keep": 0}
    bsp = job_file(space / "bsp.yaml", folder / "*/*/*.csv", **keys, **{"train.consistency": "bsp"})
    files = run_job(job_file(space / "files.yaml", folder / "*/*/*.csv", **{**keys, "data.objects": False, "train.consistency": "bsp"}), space / "files", 1, 2)
    told = [(d["from"], d["rows"], [(h["from"], h["rows"], h["examples"]) for h in d["hours"]]) for d in files["replay"]["days"]]
    assert sum(len(hours) for _, _, hours in told) == hours and files["outside_partition"] == 0, (told, files)
    one, four = run_job(bsp, space / "one", 1, 1), run_job(bsp, space / "four", 4, 4)
    assert digests(one) == digests(four) and one["replay"] == four["replay"], (digests(one), digests(four))
    ssp = run_job(job_file(space / "ssp.yaml", folder / "*/*/*.csv", **keys), space / "ssp", 1, 4)
    for report in (one, ssp):
        assert [(d["from"], d["rows"], [(h["from"], h["rows"], h["examples"]) for h in d["hours"]]) for d in report["replay"]["days"]] == told
    behind = {"object": {"list": f"cd {folder}; find . -type f -printf '%P\\n'", "open": f'echo "$1" >> {calls}; cat "{folder}/$1"'}}
    job_file(space / "behind.yaml", None, **{**keys, "data.train": None, "data.objects": None, "train.consistency": "bsp", "replay.checkpoint": False})
    with open(space / "behind.yaml", "a", encoding="utf-8") as f:
        f.write(f"data.train: {json.dumps([behind])}\n")
    report, _ = trained(space, "behind", space / "behind.yaml", 3)
    assert digests(report) == digests(one) and sorted(calls.read_text().split()) == sorted(str(p.relative_to(folder)) for p in folder.glob("*/*/*")), "each once"
    killed = Run(bsp, space / "killed", 2, 2)
    until(killed, "a day's end", lambda: list((space / "killed").glob("checkpoints/0*")))
    deaths = sum(killed.signal(who) for who in ("worker-1", "coordinator", "server-0"))
    assert killed.wait() == 0 and digests(killed.report()) == digests(one), killed.output()[-3000:]
    if deaths == 0:
        raise TooShort("the run ended before anything died")
    resumed = run_job(bsp, space / "resumed", 2, 3, extra=["--resume", sorted((space / "one/checkpoints").iterdir())[0]])
    assert digests(resumed) == digests(one) and resumed["replay"]["days"] == one["replay"]["days"], resumed["replay"]


def a_replay_takes_event_files_window_by_window(space):
    """An hour's objects, as text and as event files of the same names behind the same command."""
    text, events, begin, dice = space / "text", space / "events", 1772582400, random.Random(7)
    for n in range(12):
        for folder in (text, events):
            (folder / str(n // 4)).mkdir(parents=True, exist_ok=True)
        lines = [f"{int(u % 3 == 0)},{begin + n // 4 * 3600 + dice.randrange(5400)},u{u}\n" for u in (dice.randrange(99) for _ in range(1 + dice.randrange(30)))]
        (text / str(n // 4) / f"part-{n:02}").write_text("click,at,user\n" + "".join(lines), encoding="utf-8")
        job = job_file(space / "convert.yaml", text / str(n // 4) / f"part-{n:02}",
                       **{"data.format": "csv", "data.label": "click", "data.time": "at", "model.kind": "lr"})
        subprocess.run([SHOAL, "convert", job, "--out", events / str(n // 4) / f"part-{n:02}"], check=True, stdout=subprocess.DEVNULL)
    keys = {"model.kind": "lr", "train.batch": 16, "train.lanes": 3, "train.consistency": "bsp", "replay.window": "1h", "replay.checkpoint": False}
    reports = []
    for name, folder, workers, over in (("text", text, 2, {"data.format": "csv", "data.label": "click", "data.time": "at"}),
                                        ("one", events, 1, {"data.format": "events", "data.time": "at"}),
                                        ("three", events, 3, {"data.format": "events", "data.time": "at"})):
        behind = {"object": {"list": f"cd {folder}; find . -type f -printf '%P\n'", "open": f'echo "$1" >> {space}/calls-{name}; cat "{folder}/$1"'}}
        job_file(space / f"{name}.yaml", None, **{**keys, **over, "data.train": None})
        with open(space / f"{name}.yaml", "a", encoding="utf-8") as f:
            f.write(f"data.train: {json.dumps([behind])}\n")
        report, _ = trained(space, f"run-{name}", space / f"{name}.yaml", workers)
        calls = (space / f"calls-{name}").read_text().split()
        assert len(calls) == len(set(calls)) == 12, calls
        reports.append(report)
    for report in reports[1:]:
        assert digests(report) == digests(reports[0]) and report["replay"] == reports[0]["replay"], (report["replay"], reports[0]["replay"])
    assert len(reports[0]["replay"]["days"][0]["hours"]) == 4, reports[0]["replay"]


main([once_whoever_trains_it, killed_workers_objects_are_opened_by_others, what_fails_is_named_and_tried_again, files_are_objects_too, event_files_are_objects_too,
      what_is_scored_is_of_objects_too, a_file_is_scored_in_the_place_of_objects, a_replay_takes_objects_window_by_window,
      a_replay_takes_event_files_window_by_window])
