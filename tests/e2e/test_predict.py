#!/usr/bin/env python3
"""test_predict: scores of an input by the tables of a run, of a checkpoint, of a fleet. Figures are recomputed here, by no code of ours."""
import atexit
import csv
import functools
import struct

from lib import *


def shoal(*words, status=0, stdin=None):
    got = subprocess.run([str(SHOAL), *map(str, words)], capture_output=True, text=True, timeout=300, input=stdin)
    assert got.returncode == status, (words, got.returncode, got.stdout[-1000:], got.stderr[-2000:])
    return got


def lines_of(path):
    return pathlib.Path(path).read_text(encoding="utf-8").splitlines()


def scores_of(path):
    """The last column behind the line of names."""
    return [line.rsplit(",", 1)[-1] for line in lines_of(path)[1:]]


def auc(label, score):
    """Computes the AUC from ranks; equal scores share a rank."""
    order = sorted(range(len(score)), key=lambda i: score[i])
    at = ranks = 0
    while at < len(order):
        end = at
        while end < len(order) and score[order[end]] == score[order[at]]:
            end += 1
        ranks += sum(label[order[i]] for i in range(at, end)) * (at + end + 1) / 2
        at = end
    positive = sum(label)
    return (ranks - positive * (positive + 1) / 2) / (positive * (len(label) - positive))


def trained(space, servers=1, **over):
    train, test = synth(space / "train.tsv", 8000, 1), synth(space / "test.tsv", 3000, 2)
    job = job_file(space / "job.yaml", train, **{"data.test": str(test), "train.consistency": "bsp", "evaluate.by": ["C1"],
                                                 "checkpoint.dir": str(space / "kept"), "checkpoint.every_batches": 10, **over})
    return job, test, run_job(job, space / "run", servers)


@functools.cache
def trained_once():
    """Returns the folder of the run of `trained` for all cases that only read it, its job, test input and report."""
    space = Space()
    atexit.register(space.remove)
    return space, *trained(space, servers=2)


def checkpoints(space):
    return sorted(p for p in (space / "kept").iterdir() if (p / "manifest.json").exists())


def of_the_end(checkpoint, report):
    """A slow machine makes the last one when all is trained, and its coordinator may not have heard of all: rows tell."""
    return json.loads((checkpoint / "manifest.json").read_text())["rows"] == report["rows"]


# ---- what the scores are ----------------------------------------------------------------------------------------


def scores_give_the_reported_figures(space):
    made, job, test, report = trained_once()
    out = space / "scores.csv"
    shoal("predict", "--from", made / "run", "--out", out, "--column", "label", "--column", "C2")
    rows = [line.split("\t") for line in lines_of(test)]
    got = [line.split(",") for line in lines_of(out)]
    assert got[0] == ["label", "C2", "score"] and len(got) == len(rows) + 1
    assert [g[:2] for g in got[1:]] == [[r[0], r[15]] for r in rows]
    mine = auc([int(g[0]) for g in got[1:]], [float(g[2]) for g in got[1:]])
    assert abs(mine - report["test"]["auc"]) < 1e-12, (mine, report["test"]["auc"])
    measured = json.loads(shoal("eval", job, "--from", made / "run").stdout)
    for name in ("auc", "logloss", "calibration", "examples"):
        assert measured[name] == report["test"][name], (name, measured[name], report["test"][name])
    assert measured["by"] == report["test"]["by"] and measured["by"]["C1"][0]["value"]
    inner = json.loads(shoal("eval", "--from", checkpoints(made)[-1], "--in", test).stdout)
    assert [v["value"] for v in inner["by"]["C1"] if v["key"] != "other"] == [v["value"] for v in measured["by"]["C1"] if v["key"] != "other"]
    assert digests(json.loads((made / "run/report.json").read_text())) == digests(report)


def file_is_the_same_however_many_write_it(space):
    made, _, test, report = trained_once()
    last = checkpoints(made)[-1]
    wanted = {}
    for servers, workers in ((1, 1), (3, 4)):
        for suffix in ("csv", "npy"):
            out = space / f"{servers}-{workers}.{suffix}"
            shoal("predict", "--from", last, "--out", out, "--in", test, "--servers", servers, "--workers", workers)
            assert wanted.setdefault(suffix, out.read_bytes()) == out.read_bytes(), out
    head, body = wanted["npy"][:128], wanted["npy"][128:]
    assert b"'shape': (3000,)" in head
    floats = struct.unpack("<3000f", body)
    assert [struct.pack("<f", float(text)) for text in scores_of(space / "1-1.csv")] == [struct.pack("<f", f) for f in floats]
    a, b = space / "run-1.csv", space / "run-3.csv"
    shoal("predict", "--from", made / "run", "--out", a)
    shoal("predict", "--from", made / "run", "--out", b, "--workers", 3)
    assert a.read_bytes() == b.read_bytes()
    assert of_the_end(last, report) or a.read_bytes() != (space / "1-1.csv").read_bytes()


def labels_may_be_missing(space):
    """In each format the scores are those of the labelled input."""
    made, _, test, _ = trained_once()
    shoal("predict", "--from", made / "run", "--out", space / "all.csv")
    bare = space / "bare.tsv"
    bare.write_text("".join(line.split("\t", 1)[1] + "\n" for line in lines_of(test)))
    shoal("predict", "--from", made / "run", "--in", bare, "--out", space / "bare.csv")
    assert lines_of(space / "bare.csv") == lines_of(space / "all.csv")
    header = ["label", "time", "user", "item"]
    rows = [[r[0], str(1700000000 + i), r[14], r[15]] for i, r in enumerate(line.split("\t") for line in lines_of(test))]
    for kind, head in (("csv-header", True), ("csv", False), ("libsvm", False)):
        def text(rows, names):
            if kind == "libsvm":
                return "".join(" ".join([*r[:len(r) - 2], *(f"{int(w, 16)}:1" for w in r[-2:])]) + "\n" for r in rows)
            return (",".join(names) + "\n" if head else "") + "".join(",".join(r) + "\n" for r in rows)
        keys = {"libsvm": {"data.format": "libsvm"}}.get(kind, {"data.format": "csv", "data.header": head, "data.label": "label", "data.time": "time"})
        if kind == "csv":
            keys["data.columns"] = [{"name": "label", "type": "label"}, {"name": "time", "type": "skip"}, {"name": "user"}, {"name": "item"}]
        data, unlabelled = space / f"{kind}.txt", space / f"{kind}-bare.txt"
        data.write_text(text([r[:1] + r[2:] for r in rows] if kind == "libsvm" else rows, header))
        unlabelled.write_text(text([r[2:] if kind == "libsvm" else r[1:] for r in rows], header[1:]))
        run_job(job_file(space / f"{kind}.yaml", data, **{"data.test": str(data), **keys}), space / f"run-{kind}")
        shoal("predict", "--from", space / f"run-{kind}", "--out", space / f"{kind}-all.csv")
        shoal("predict", "--from", space / f"run-{kind}", "--in", unlabelled, "--out", space / f"{kind}-bare.csv")
        assert scores_of(space / f"{kind}-all.csv") == scores_of(space / f"{kind}-bare.csv"), kind
        assert len(set(scores_of(space / f"{kind}-bare.csv"))) > 100, kind


def malformed_rows_keep_their_place(space):
    made, _, test, _ = trained_once()
    rows, broken = lines_of(test)[:20], space / "broken.tsv"
    broken.write_text("".join(row + "\n" for row in rows[:5] + ["torn"] + rows[5:]))
    shoal("predict", "--from", made / "run", "--in", test, "--out", space / "good.csv")
    said = shoal("predict", "--from", made / "run", "--in", broken, "--out", space / "broken.csv", "--set", "data.max_bad=0.1")
    good, got = scores_of(space / "good.csv")[:20], scores_of(space / "broken.csv")
    assert got[5] == '""'
    with open(space / "broken.csv", newline="", encoding="utf-8") as file:
        assert [row["score"] for row in csv.DictReader(file)] == got[:5] + [""] + got[6:]  # readers skip a line of nothing
    assert all(abs(float(g) - float(w)) < 1e-6 for g, w in zip(got[:5] + got[6:], good, strict=True))  # another batch, other last bits
    assert "1 of 21 rows are malformed and have no score; the first: " in said.stderr and "broken.tsv:6:" in said.stderr
    refused = shoal("predict", "--from", made / "run", "--in", broken, "--out", space / "none.csv", "--workers", 2, status=65)
    assert "data.max_bad" in refused.stderr and not list(space.path.glob("none.csv*"))


def input_and_output_may_be_streams(space):
    made, _, test, _ = trained_once()
    out = space / "file.csv"
    shoal("predict", "--from", made / "run", "--in", test, "--out", out)
    got = shoal("predict", "--from", made / "run", "--in", "-", stdin=test.read_text())
    assert got.stdout == out.read_text() and got.stderr.startswith("values without a row: ") and got.stderr.count("\n") <= 2, got.stderr
    two = shoal("predict", "--from", made / "run", "--in", test, "--workers", 2, "--format", "tsv")
    assert two.stdout == out.read_text()
    shoal("predict", "--from", made / "run", "--in", "-", "--workers", 2, stdin="", status=64)


def weight_and_time_may_be_missing(space):
    """They do not enter."""
    rows = [line.split("\t") for line in lines_of(synth(space / "log.tsv", 3000, 1))]
    whole, bare = space / "whole.csv", space / "bare.csv"
    whole.write_text("label,w,at,user,item\n" + "".join(f"{r[0]},{1 + i % 3},{1700000000 + i},{r[14]},{r[15]}\n" for i, r in enumerate(rows)))
    bare.write_text("item,label,user\n" + "".join(f"{r[15]},{r[0]},{r[14]}\n" for r in rows))
    job = job_file(space / "job.yaml", whole, **{"data.format": "csv", "data.header": True, "data.label": "label", "data.weight": "w", "data.time": "at",
                                                 "data.test": str(whole)})
    run_job(job, space / "run")
    for verb in ("predict", "eval"):
        with_them, without = (shoal(verb, "--from", space / "run", "--in", data).stdout for data in (whole, bare))
        assert with_them == without, verb
    whole.rename(space / "gone.csv")
    assert shoal("eval", "--from", space / "run", "--in", bare).stdout == without
    refused = shoal("local", job, "--run-dir", space / "other", "--set", f"data.train={bare}", "--set", f"data.test={bare}", status=78)
    assert "data.weight" in refused.stderr


def names_make_up_for_training_data_that_has_gone(space):
    """The next day's file has other columns in another order, and no labels."""
    train, day = space / "train.csv", space / "day.csv"
    rows = [line.split("\t") for line in lines_of(synth(space / "log.tsv", 4000, 1))]
    train.write_text("label,user,item\n" + "".join(f"{r[0]},{r[14]},{r[15]}\n" for r in rows))
    day.write_text("id,item,user\n" + "".join(f"{i},{r[15]},{r[14]}\n" for i, r in enumerate(rows)))
    keys = {"data.format": "csv", "data.header": True, "data.label": "label", "data.test": str(train), "checkpoint.at_end": True}
    for name, fields in (("listed", ["user", "item"]), ("auto", "auto")):
        job = job_file(space / f"{name}.yaml", train, **{**keys, "features.fields": fields})
        run_job(job, space / name)
        shoal("predict", "--from", space / name, "--out", space / f"{name}.csv")
        row = shoal("inspect", "emb", "user:" + rows[0][14], "--run-dir", space / name).stdout
        aside = train.rename(space / "aside.csv")
        [made] = (space / name / "checkpoints").iterdir()
        for way in (["--from", space / name], ["--from", made], [job, "--from", made]):
            out = space / "after.csv"
            shoal("predict", *way, "--in", day, "--out", out, "--column", "id")
            assert scores_of(out) == scores_of(space / f"{name}.csv"), way
            assert [line.split(",")[0] for line in lines_of(out)] == ["id", *map(str, range(4000))]
            out.unlink()
        assert shoal("inspect", "emb", "user:" + rows[0][14], "--run-dir", space / name).stdout == row
        assert json.loads(shoal("eval", "--from", made, "--set", f"data.test={aside}").stdout)["examples"] == 4000
        aside.rename(train)


def places_make_up_for_training_data_that_has_gone(space):
    """Neither file has names, the new one no labels either."""
    rows = [line.split("\t") for line in lines_of(synth(space / "log.tsv", 2000, 1))]
    for form, value, gap in (("libsvm", "{}:1", " "), ("csv", "{}", ",")):
        train, day = space / f"train.{form}", space / f"day.{form}"
        cells = [gap.join(value.format(int(x or "0", 16)) for x in r[14:17]) for r in rows]
        train.write_text("".join(f"{r[0]}{gap}{c}\n" for r, c in zip(rows, cells)))
        day.write_text("\n".join(cells) + "\n")
        run_job(job_file(space / f"{form}.yaml", train, **{"data.format": form, "data.header": False, "data.label": "0", "checkpoint.at_end": True}), space / form)
        before = shoal("predict", "--from", space / form, "--in", train).stdout
        train.unlink()
        [made] = (space / form / "checkpoints").iterdir()
        for at in (space / form, made):
            assert shoal("predict", "--from", at, "--in", day).stdout == before, at


def label_cells_may_be_empty(space):
    made, _, test, _ = trained_once()
    empty = space / "empty.tsv"
    empty.write_text("".join("\t" + line.split("\t", 1)[1] + "\n" for line in lines_of(test)))
    shoal("predict", "--from", made / "run", "--out", space / "all.csv")
    shoal("predict", "--from", made / "run", "--in", empty, "--out", space / "empty.csv")
    assert lines_of(space / "empty.csv") == lines_of(space / "all.csv")


def numbered_fields_are_not_taken_from_another_file(space):
    train, day = space / "train.csv", space / "day.csv"
    rows = [line.split("\t") for line in lines_of(synth(space / "log.tsv", 2000, 1))]
    train.write_text("label,user,item\n" + "".join(f"{r[0]},{r[14]},{r[15]}\n" for r in rows))
    day.write_text("user,item,label\n" + "".join(f"{r[14]},{r[15]},{r[0]}\n" for r in rows))
    job = job_file(space / "job.yaml", train, **{"data.format": "csv", "data.header": True, "data.label": "label", "features.fields": ["1", "2"]})
    run_job(job, space / "run")
    train.unlink()
    assert "train.csv" in shoal("predict", "--from", space / "run", "--in", day, status=66).stderr


def moved_run_is_scored_as_it_is(space):
    """Though another one lies where it was."""
    _, test, _ = trained(space)
    shoal("predict", "--from", space / "run", "--out", space / "before.csv")
    (space / "run").rename(space / "moved")
    shoal("predict", "--from", space / "moved", "--out", space / "alone.csv")
    assert (space / "alone.csv").read_bytes() == (space / "before.csv").read_bytes() and not (space / "run").exists()
    assert json.loads(shoal("eval", "--from", space / "moved").stdout)["examples"] == 3000 and not (space / "run").exists()
    run_job(space / "job.yaml", space / "run", extra=["--set", "train.epochs=3", "--set", f"checkpoint.dir={space / 'others'}"])
    shoal("predict", "--from", space / "moved", "--out", space / "after.csv")
    assert (space / "after.csv").read_bytes() == (space / "before.csv").read_bytes()


def checkpoint_serves_many_workers_and_touches_nothing_of_its_job(space):
    job, test, _ = trained(space, **{"checkpoint.at_end": True, "checkpoint.keep": 0})
    last, out = checkpoints(space)[-1], space / "scores.csv"
    shoal("predict", "--from", space / "run", "--out", space / "run.csv")
    shutil.move(space / "kept", space / "elsewhere")
    begun = time.monotonic()
    shoal("predict", "--from", space / "elsewhere" / last.name, "--out", out, "--workers", 45, "--set", "train.epochs=1")
    assert time.monotonic() - begun < PATIENCE * 15 and not (space / "kept").exists()
    assert out.read_bytes() == (space / "run.csv").read_bytes()
    assert not list(space.path.glob("scores.csv.*"))


def the_most_processes_of_each_kind_have_room(space):
    """Sixteen servers that load, the worker that declares the tables, and sixty-four that score."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 2000, 1), **{"tables[0].tablets": 256, "checkpoint.dir": str(space / "kept"), "checkpoint.at_end": True})
    run_job(job, space / "run")
    from_it = ("predict", "--from", checkpoints(space)[-1], "--in", space / "train.tsv", "--out")
    shoal(*from_it, space / "one.csv")
    shoal(*from_it, space / "most.csv", "--servers", 16, "--workers", 64)
    assert (space / "most.csv").read_bytes() == (space / "one.csv").read_bytes()
    assert not list(space.path.glob("most.csv.*"))


# ---- beside others ----------------------------------------------------------------------------------------------


def scoring_leaves_a_running_job_alone(space):
    train, test = synth(space / "train.tsv", 20000, 1), synth(space / "test.tsv", 3000, 2)
    job = job_file(space / "job.yaml", train, **{"data.test": str(test), "train.consistency": "bsp", "train.epochs": longer(6)})
    calm = run_job(job, space / "calm")
    run, made = Run(job, space / "run"), 0
    started(run)
    while run.running() and made < 3:
        got = subprocess.run([str(SHOAL), "predict", "--from", str(space / "run")], capture_output=True, text=True, timeout=100)
        if got.returncode != 0:
            still_going(run)
        assert got.returncode == 0, got.stderr
        made += got.returncode == 0 and len(got.stdout.splitlines()) == 3001
    if made == 0:
        raise TooShort("no scores were made while the job ran")
    assert run.wait(200) == 0, run.output()
    assert digests(run.report()) == digests(calm)


def two_at_once_leave_one_whole_file(space):
    """The slow one has begun when the quick one writes the same --out, and ends after it."""
    _, test, _ = trained(space, **{"checkpoint.at_end": True})
    made, out = checkpoints(space)[-1], space / "scores.csv"
    slow = subprocess.Popen([str(SHOAL), "predict", "--from", str(made), "--in", "-", "--out", str(out)], stdin=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    begun = time.monotonic()
    while not [p for p in space.path.rglob("*part-0*") if p.is_file()]:
        assert slow.poll() is None and time.monotonic() - begun < 60, slow.poll()
        time.sleep(0.05)
    shoal("predict", "--from", made, "--in", test, "--out", out, "--workers", 2)
    whole = out.read_bytes()
    assert len(whole.splitlines()) == 3001
    _, said = slow.communicate("".join(line + "\n" for line in lines_of(test)[:100]), timeout=100)
    assert slow.returncode == 73 and "is there already" in said, (slow.returncode, said)
    assert out.read_bytes() == whole and not list(space.path.glob("scores.csv?*"))


def jobs_that_evaluate_within_epochs_are_loaded(space):
    _, test, _ = trained(space, **{"data.valid": str(space / "test.tsv")})
    last = checkpoints(space)[-1]
    for key in ("evaluate.every_batches=20", "evaluate.every_minutes=5"):
        out = space / f"{key}.csv"
        shoal("predict", "--from", last, "--in", test, "--out", out, "--set", key)
        assert len(lines_of(out)) == 3001
        assert json.loads(shoal("eval", "--from", last, "--set", key).stdout)["examples"] == 3000


def asking(space, *words):
    """A question whose input comes from here."""
    return subprocess.Popen([str(SHOAL), *map(str, words), "--in", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "TMPDIR": str(space.path)})


def going(space, name, epochs, **over):
    train = synth(space / "train.tsv", 6000, 1)
    run = Run(job_file(space / f"{name}.yaml", train, **{"data.test": str(train), "train.epochs": epochs, **over}), space / name)
    started(run)
    still_going(run)
    return run, f"ipc://{next(path for path in run.sockets() if path.endswith('/coordinator'))}"


def attached(*asked):
    """Waits until each question has a worker, which asks the run that goes on."""
    for one in asked:
        worker_of(one, one.args[1])
    time.sleep(1.5)


def ended(asked, words, rows="", seconds=60, status=69):
    try:
        text = asked.communicate(rows, timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        asked.kill()
        asked.communicate()
        raise AssertionError(f"nothing ended {asked.args}") from None
    assert asked.returncode == status and words in text, (asked.args, asked.returncode, text)


def run_that_ends_meanwhile_is_not_waited_for(space):
    run, _ = going(space, "run", longer(12))
    asked = [asking(space, verb, "--from", run.dir) for verb in ("predict", "eval")]
    rows = (space / "train.tsv").read_text()
    attached(*asked)
    still_going(run)
    assert run.wait() == 0, run.output()
    for one in asked:
        ended(one, "has ended meanwhile: the same line now reads what it left", rows)
    shoal("predict", "--from", run.dir, "--in", "-", stdin=rows)
    run, coordinator = going(space, "killed", 20000)
    asked = [asking(space, "predict", "--from", run.dir),
             asking(space, "predict", space / "killed.yaml", "--from", "fleet", "--coordinator", coordinator)]
    attached(*asked)
    run.process.kill()
    for one, words in zip(asked, ("the coordinator of the run in", f"the coordinator at {coordinator} does not answer")):
        ended(one, words, rows)
    assert not list(space.path.glob("shoal-look-*")), "its folder is left behind, and no word names it"


def run_that_keeps_nothing_is_not_said_to_be_readable(space):
    """Once the run has ended only its checkpoint can be read: a waiting command is told of the checkpoint, which serves it."""
    run, _ = going(space, "run", longer(12), **{"durability": "memory", "checkpoint.at_end": True})
    asked = asking(space, "predict", "--from", run.dir)
    rows = (space / "train.tsv").read_text()
    attached(asked)
    still_going(run)
    assert run.wait() == 0, run.output()
    made = str(run.dir.resolve() / "checkpoints" / "000001")
    ended(asked, f"kept nothing (durability: memory): take its newest checkpoint, {made}", rows, status=78)
    assert made in shoal("predict", "--from", run.dir, "--in", "-", stdin=rows, status=78).stderr
    shoal("predict", "--from", made, "--in", "-", stdin=rows)


def folders_of_who_was_killed_go_with_the_next(space):
    """The next command removes the folder of a killed one. Others stay: that of a command that still runs, one of another user, one behind a link, one without our mark."""
    train = synth(space / "train.tsv", 2000, 1)
    for name in ("run", "other"):
        run_job(job_file(space / "job.yaml", train), space / name)
    tmp = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))  # a folder for sockets has a short name, or is made elsewhere
    there = {**os.environ, "TMPDIR": str(tmp), "XDG_RUNTIME_DIR": str(tmp)}
    folders = lambda: {p.name for p in tmp.iterdir() if p.name.startswith("shoal-")}

    def begun(run):
        before = folders()
        one = subprocess.Popen([str(SHOAL), "predict", "--from", str(space / run), "--in", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=there)
        end = time.monotonic() + 60
        while not any((tmp / name / "server-0").exists() for name in folders() - before):
            assert one.poll() is None and time.monotonic() < end, (folders(), one.poll())
            time.sleep(0.05)
        return one, folders() - before

    lives, of_it = begun("other")
    for name in ("shoal-look-nomark", "shoal-nomark", "shoal-look-others", "shoal-others", "elsewhere"):
        (tmp / name).mkdir()
        if "nomark" not in name:
            (tmp / name / ".shoal-lock").touch()
    (tmp / "shoal-look-linked").symlink_to(tmp / "elsewhere")
    (tmp / "shoal-look-writes").mkdir(mode=0o700)
    (tmp / "shoal-look-writes/.shoal-lock").symlink_to(tmp / "elsewhere/.shoal-lock")
    if os.geteuid() == 0:
        os.chown(tmp / "shoal-look-others", 12345, -1)
        os.chown(tmp / "shoal-others/.shoal-lock", 12345, -1)
    else:
        (tmp / "shoal-look-others").chmod(0o777)
        (tmp / "shoal-others/.shoal-lock").chmod(0o666)
    others = folders()
    killed, left = begun("run")
    killed.kill()
    killed.communicate()
    assert len(left) == 2 and left <= folders(), (left, folders())
    rows = train.read_text()
    got = subprocess.run([str(SHOAL), "predict", "--from", str(space / "run"), "--in", "-"], input=rows, capture_output=True, text=True, env=there,
                         timeout=100, check=True).stdout
    assert folders() == others, (folders(), others)
    assert len(lives.communicate(rows, timeout=100)[0].splitlines()) == len(got.splitlines()) == 2001 and folders() == others - of_it
    shutil.rmtree(tmp)


def signal_ends_an_evaluation(space):
    run, _ = going(space, "run", 20000)
    for number in (signal.SIGTERM, signal.SIGINT):
        asked = asking(space, "eval", "--from", run.dir)
        attached(asked)
        asked.send_signal(number)
        try:
            asked.wait(PATIENCE * 15)
        finally:
            asked.kill()
            said = asked.communicate()[1]
        assert asked.returncode > 0 and f"stopped by signal {int(number)}" in said, (asked.returncode, said)
    run.process.send_signal(signal.SIGINT)
    run.wait(60)


# ---- the same places for the verbs that look ---------------------------------------------------------------------


def rows_are_read_from_a_run_and_from_a_checkpoint(space):
    """A checkpoint was read by none of these verbs, and an ended run not by diff; --from and --run-dir name either."""
    _, _, report = trained(space, servers=2, **{"checkpoint.at_end": True})
    run, last = space / "run", checkpoints(space)[-1]
    assert of_the_end(last, report)
    digest = shoal("digest", "--run-dir", run).stdout
    for place in (("--from", run), ("--from", last), ("--run-dir", last)):
        assert shoal("digest", *place).stdout == digest, place
    tables = [json.loads(shoal("tables", "--from", place, "--json").stdout) for place in (run, last)]
    assert [[t[k] for t in tables[0] for k in ("table", "rows", "fields", "norms")]] == [[t[k] for t in tables[1] for k in ("table", "rows", "fields", "norms")]]
    key = "C1:" + next(line.split("\t")[14] for line in lines_of(space / "train.tsv") if line.split("\t")[14])
    rows = [json.loads(shoal("inspect", "emb", key, "--from", place, "--json").stdout) for place in (run, last)]
    assert rows[0]["weights"] and [rows[0][k] for k in ("key", "weights", "state", "tablet")] == [rows[1][k] for k in ("key", "weights", "state", "tablet")]
    assert "has no row with key" in shoal("inspect", "emb", "0x77", "--from", last, status=66).stderr
    for a, b in ((run, last), (last, run), (run, run.parent / "kept" / last.name)):
        for table in json.loads(shoal("checkpoint", "diff", a, b, "--json").stdout)["tables"]:
            assert table["rows_after"] == table["rows_before"] > 0 == table["changed"] == table["came"] == table["gone"]
    first = json.loads(shoal("checkpoint", "diff", checkpoints(space)[0], run, "--json").stdout)["tables"]
    assert all(t["changed"] > 0 for t in first), first
    assert "has rows and no pushes" in shoal("blame", "emb", key, "--from", last, status=69).stderr
    assert "no coordinator runs for a checkpoint" in shoal("status", "--from", last, status=66).stderr
    assert not (last / "lock").exists()
    for verb in (["digest"], ["predict"], ["status"]):
        if verb != ["status"]:  # of an ended run it is the report
            assert "say the same" in shoal(*verb, "--from", run, "--run-dir", run, status=64).stderr
        assert "neither a checkpoint's folder" in shoal(*verb, "--run-dir", space.path, status=66).stderr


# ---- what is refused --------------------------------------------------------------------------------------------


def what_does_not_fit_is_refused(space):
    job, test, _ = trained(space)
    last = checkpoints(space)[-1]
    other = job_file(space / "other.yaml", space / "train.tsv", **{"data.test": str(test), "model.hidden": [32, 8]})
    for place in (space / "run", last):
        assert "hidden.0.weight is 32x" in shoal("predict", other, "--from", place, status=78).stderr
    assert "neither a checkpoint's folder" in shoal("predict", "--from", space.path, status=66).stderr
    assert "--from is missing" in shoal("predict", job, status=64).stderr
    assert "--coordinator" in shoal("predict", job, "--from", "fleet", status=64).stderr
    assert "name the job file" in shoal("predict", "--from", "fleet", "--coordinator", "tcp://127.0.0.1:1", status=64).stderr
    assert "one or the other" in shoal("eval", "--from", space / "run", "--in", test, "--split", "valid", status=64).stderr
    (space / "there.csv").write_text("mine")
    assert "is there already" in shoal("predict", "--from", space / "run", "--out", space / "there.csv", status=73).stderr
    assert (space / "there.csv").read_text() == "mine"
    for place in ("/dev/stdout", "/dev/full", space / "run"):
        said = shoal("predict", "--from", space / "run", "--out", place, status=64).stderr
        assert "no regular file" in said and "--out -" in said and "remove it" not in said, said
    assert "did you mean" in shoal("predict", "--from", space / "run", "--column", "C77", status=78).stderr
    assert "take them out" in shoal("predict", "--from", space / "run", "--column", "C7", "--format", "npy", status=64).stderr
    run_job(job_file(space / "memory.yaml", space / "train.tsv", durability="memory"), space / "memory")
    assert "kept nothing" in shoal("predict", "--from", space / "memory", "--in", test, status=78).stderr
    assert "name a checkpoint" in shoal("local", job, "--run-dir", space / "skip", "--set", "train.skip=true", status=78).stderr


def endings_of_other_formats_are_refused(space):
    trained(space)
    for name in ("x.csv.gz", "x.parquet", "x.JSON", "x.tsv.zst"):
        said = shoal("predict", "--from", space / "run", "--out", space / name, status=64).stderr
        assert "csv, tsv or npy" in said and name in said, said
        assert not list(space.path.glob("x.*")), name
    shoal("predict", "--from", space / "run", "--out", space / "x.json", "--format", "csv")
    shoal("predict", "--from", space / "run", "--out", space / "x.v2")
    assert lines_of(space / "x.json") == lines_of(space / "x.v2")


def full_disk_behind_standard_output_is_told(space):
    trained(space)
    run = ["--run-dir", str(space / "run")]
    for words in (["eval", "--from", str(space / "run")], ["predict", "--from", str(space / "run")], ["status", *run], ["tables", "--json", *run], ["digest", *run]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            got = subprocess.run([str(SHOAL), *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=100)
        assert got.returncode == 74 and "standard output" in got.stderr, (words, got.returncode, got.stderr)


def skip_measures_a_checkpoint(space):
    job, _, report = trained(space)
    first, last = checkpoints(space)[0], checkpoints(space)[-1]
    got = [run_job(job, space / f"skip-{i}", 2, 1, ["--resume", str(at), "--set", "train.skip=true"]) for i, at in enumerate((first, last))]
    assert got[0]["test"]["examples"] == 3000 and (first == last or got[0]["test"]["auc"] != got[1]["test"]["auc"])  # a slow machine makes one
    measured = json.loads(shoal("eval", "--from", last).stdout)
    assert measured["auc"] == got[1]["test"]["auc"] and (of_the_end(last, report) or digests(got[1]) != digests(report))


def worker_of(process, verb):
    """The child that runs this verb of shoal-worker, once it is there."""
    while process.poll() is None:
        for child in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            with contextlib.suppress(OSError):
                program, *words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                if program.endswith(b"shoal-worker") and verb.encode() in words:  # a child of before its program begins has our own words
                    return int(child)
        time.sleep(0.005)
    raise AssertionError(process.communicate())


def what_a_killed_call_leaves_goes_with_the_next(space):
    train = synth(space / "train.tsv", 300000, 1)
    job = job_file(space / "job.yaml", train, **{"train.batch": 8192})
    run_job(job, space / "run")
    words = [SHOAL, "predict", "--from", str(space / "run"), "--in", str(train), "--out", "scores.csv"]

    def begin(*line):
        return subprocess.Popen(line, cwd=str(space), stderr=subprocess.PIPE, text=True)
    said = begin(*words)
    os.kill(worker_of(said, "predict"), signal.SIGKILL)
    assert "worker-0 was killed by signal 9 (Killed)" in said.communicate()[1] and said.returncode == 69
    assert not list(space.path.glob("scores.csv*"))
    said = begin(*words)
    worker_of(said, "predict")
    said.kill()
    said.wait()
    assert len(list(space.path.glob("scores.csv.parts-*"))) == 1
    (space / "few.tsv").write_text("".join(train.read_text().splitlines(True)[:100]))
    words[words.index(str(train))] = str(space / "few.tsv")
    said = begin(*words)
    assert said.wait() == 0 and [p.name for p in space.path.glob("scores.csv*")] == ["scores.csv"]
    said = begin(SHOAL, "convert", str(job), "--out", "log.events")
    os.kill(worker_of(said, "convert"), signal.SIGKILL)
    assert "shoal-worker was killed by signal 9 (Killed)" in said.communicate()[1] and said.returncode == 69


if __name__ == "__main__":
    main([rows_are_read_from_a_run_and_from_a_checkpoint, what_a_killed_call_leaves_goes_with_the_next, scores_give_the_reported_figures, file_is_the_same_however_many_write_it, labels_may_be_missing, malformed_rows_keep_their_place,
          input_and_output_may_be_streams, label_cells_may_be_empty, numbered_fields_are_not_taken_from_another_file,
          moved_run_is_scored_as_it_is, checkpoint_serves_many_workers_and_touches_nothing_of_its_job,
          the_most_processes_of_each_kind_have_room, names_make_up_for_training_data_that_has_gone, places_make_up_for_training_data_that_has_gone,
          scoring_leaves_a_running_job_alone, weight_and_time_may_be_missing, two_at_once_leave_one_whole_file,
          jobs_that_evaluate_within_epochs_are_loaded, endings_of_other_formats_are_refused, full_disk_behind_standard_output_is_told,
          run_that_ends_meanwhile_is_not_waited_for, run_that_keeps_nothing_is_not_said_to_be_readable, folders_of_who_was_killed_go_with_the_next, signal_ends_an_evaluation,
          what_does_not_fit_is_refused, skip_measures_a_checkpoint])
