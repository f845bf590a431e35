#!/usr/bin/env python3
"""test_data: what the keys of the input do, seen from outside: counts of rows and examples are exact."""
import csv
import gzip

from lib import *

SEQUENCE = [{"name": "label", "type": "label"}, {"name": "user"}, {"name": "item"}, {"name": "history", "type": "multi"}]


def synth_kind(kind, path, rows, seed=1):
    subprocess.run([SHOAL, "synth", "--kind", kind, "--rows", str(rows), "--seed", str(seed), "--out", str(path)], check=True,
                   stdout=subprocess.DEVNULL)
    return path


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def columns_file(path, train, columns, **over):
    lists = {f"data.columns[{i}].{key}": value for i, column in enumerate(columns) for key, value in column.items()}
    job = job_file(path, train, **{"data.format": "csv", **over})
    return job, [word for key, value in lists.items() for word in ("--set", f"{key}={value}")]


def embedding_rows(report):
    return next(t["rows"] for t in report["tables"] if t["name"] == "emb")


def synth_kinds_are_repeatable_and_their_teachers_fit(space):
    for kind, labels in (("sequence", ["label"]), ("tasks", ["click", "buy"])):
        path = synth_kind(kind, space / f"{kind}.csv", 20000)
        again = synth_kind(kind, space / "again.csv", 20000)
        assert path.read_bytes() == again.read_bytes(), kind
        assert synth_kind(kind, again, 20000, 2).read_bytes() != path.read_bytes(), kind
        rows, teacher = rows_of(path), json.loads(pathlib.Path(f"{path}.teacher.json").read_text())
        assert len(rows) == 20000 and teacher["rows"] == 20000
        for label in labels:
            prefix = "" if label == labels[0] else label + "_"
            rate = sum(int(r[label]) for r in rows) / len(rows)
            assert abs(rate - teacher[prefix + "label_rate"]) < 1e-6, (kind, label, rate)
            assert 0.7 < teacher[prefix + "auc"] < 0.95, (kind, label, teacher)
            assert teacher.get(label + "_auc", teacher["auc"]) == teacher[prefix + "auc"]
    assert all(r["click"] == "1" for r in rows if r["buy"] == "1"), "bought without a click"


def best_possible_auc_is_of_the_same_figure(space):
    """The figure is for the job's labels, on the split that the teacher belongs to; otherwise there is none."""
    train, other = synth_kind("tasks", space / "train.csv", 2000), synth_kind("tasks", space / "other.csv", 1000, 1)
    teacher = json.loads(pathlib.Path(f"{other}.teacher.json").read_text())
    plain, both = {"data.format": "csv"}, {"data.label": ["click", "buy"], "model.kind": "mmoe"}
    mean = (teacher["click_auc"] + teacher["buy_auc"]) / 2
    for name, keys, best, split in (("buy", {"data.label": "buy", "data.valid": str(other)}, teacher["buy_auc"], "valid"),
                                    ("both", {**both, "data.valid": str(train), "data.test": str(other)}, mean, "test"),
                                    ("lacking", {**both, "data.label": ["click", list(rows_of(train)[0])[2]], "data.valid": str(other)}, None, None)):
        report = run_job(job_file(space / f"{name}.yaml", train, **plain, **keys), space / name)
        assert report["teacher_auc"] == best if best is None else abs(report["teacher_auc"] - best) < 1e-9, (name, report["teacher_auc"], best)
        assert report.get("teacher_split") == split, (name, report.get("teacher_split"))
        page = drawn(space / name / "report.html")
        assert page is None or (f"best possible: {best:.4f}" in page if best else "best possible" not in page), name


def shared_columns_have_one_row_a_value(space):
    train = synth_kind("sequence", space / "train.csv", 3000)
    rows = rows_of(train)
    users, items = {r["user"] for r in rows}, {r["item"] for r in rows}
    history = {i for r in rows for i in r["history"].split("|")}
    last = {i for r in rows for i in r["history"].split("|")[-2:]}
    for name, more, expected in (("alone", {}, len(items) + len(history)), ("shared", {"share": "item"}, len(items | history)),
                                 ("last", {"share": "item", "max": 2}, len(items | last))):
        job, words = columns_file(space / f"{name}.yaml", train, SEQUENCE[:3] + [{**SEQUENCE[3], **more}])
        report = run_job(job, space / name, extra=words)
        assert embedding_rows(report) == len(users) + expected, (name, embedding_rows(report), len(users), expected)


def negatives_are_left_out_of_training_only(space):
    train = synth_kind("tasks", space / "train.csv", 6000)
    positive = sum(int(r["click"]) for r in rows_of(train))
    mean, spread = 2 * 0.25 * (6000 - positive), 4 * (2 * 0.25 * 0.75 * (6000 - positive)) ** 0.5
    job = job_file(space / "job.yaml", train, **{
        "data.format": "csv", "data.label": "click", "data.valid": str(train), "data.negatives": 0.25, "train.epochs": 2})
    first = run_job(job, space / "first")
    assert abs(first["examples"] - 2 * positive - mean) < spread, (first["examples"], positive)
    assert first["valid"]["examples"] == 6000 and first["bad_lines"] == 0
    second = run_job(job, space / "second", 1, 2)
    assert second["examples"] == first["examples"], "which examples are left out depends on the workers"


def a_sample_is_the_same_for_any_workers_and_inputs(space):
    """The same tenth in every epoch, from text, compressed text, kept rows, event files and objects; or of the users, whole."""
    users, rows = 300, 9000
    log, packed = space / "log.csv", space / "log.csv.gz"
    log.write_text("click,user,item\n" + "".join(f"{i * 7 % 5 // 4},u{i % users},i{i * 13 % 500}\n" for i in range(rows)))
    packed.write_bytes(gzip.compress(log.read_bytes()))
    half = [space / f"half-{i}.csv" for i in (0, 1)]
    lines = log.read_text().splitlines(keepends=True)
    for i, path in enumerate(half):
        path.write_text(lines[0] + "".join(lines[1 + i * rows // 2:1 + (i + 1) * rows // 2]))
    for by in ("", "user"):
        keys = {"data.format": "csv", "data.label": "click", "data.valid": str(log), "data.sample": 0.1, "train.epochs": 2, "train.batch": 50,
                "model.kind": "probe", "tables[0].optimizer.kind": "sgd", "tables[0].optimizer.lr": 1, "tables[0].init.kind": "zero"}
        if by:
            keys["data.sample_by"] = by
        first = run_job(job_file(space / "job.yaml", log, **keys), space / f"{by}first")
        drawn_once = first["drawn"] // 2
        spread = 4 * (users * 0.09) ** 0.5 * rows / users if by else 4 * (rows * 0.09) ** 0.5
        assert abs(drawn_once - rows / 10) < spread and first["drawn"] == 2 * drawn_once, (by, first["drawn"])
        assert first["examples"] == first["drawn"] and first["valid"]["examples"] == rows, first["valid"]
        taken = next(t for t in first["tables"] if t["name"] == "emb")
        if by:  # all rows of a user or none, so the probe's keys are whole users and their items
            assert drawn_once % (rows // users) == 0, drawn_once
        job, made = job_file(space / "converted.yaml", log, **keys), space / f"{by}log.events"
        subprocess.run([SHOAL, "convert", job, "--split", "train", "--out", made], check=True, stdout=subprocess.DEVNULL, timeout=60)
        events = {k: v for k, v in keys.items() if k not in ("data.label", "data.valid")} | {"data.format": "events"}
        for name, train, more in (("workers", log, {"train.lanes": 4}), ("packed", packed, {}), ("unkept", log, {"data.cache_max": 0}),
                                  ("events", made, events)):
            over = {**(keys if more is not events else {}), **more}
            report = run_job(job_file(space / f"{name}.yaml", train, **over), space / f"{by}{name}", 1, 3 if name == "workers" else 1)
            same = next(t for t in report["tables"] if t["name"] == "emb")
            assert report["drawn"] == first["drawn"], (by, name, report["drawn"], first["drawn"])
            assert same["digest"] == taken["digest"] and same["rows"] == taken["rows"], (by, name)
        if by:  # users are the same in every object
            job = job_file(space / "objects.yaml", None, **{**keys, "data.train": None, "data.objects": True})
            with open(job, "a", encoding="utf-8") as f:
                f.write("data.train: " + json.dumps([str(p) for p in half]) + "\n")
            report = run_job(job, space / "objects", 1, 2)
            same = next(t for t in report["tables"] if t["name"] == "emb")
            assert report["drawn"] == first["drawn"] and same["digest"] == taken["digest"], report["drawn"]


def a_share_of_the_negatives_leaves_predictions_calibrated(space):
    """As many negatives as positives are seen, or less, and the scores are of the log as it is."""
    share, train, other = 0.1, space / "train.tsv", space / "other.tsv"
    lines = synth(space / "log.tsv", 50000).read_text().splitlines(keepends=True)
    train.write_text("".join(lines[:30000]))
    other.write_text("".join(lines[30000:]))
    job = job_file(space / "job.yaml", train, **{"data.valid": str(other), "data.negatives": share, "model.kind": "deepfm"})
    report = run_job(job, space / "run")
    assert abs(report["valid"]["calibration"] - 1) < 0.05, report["valid"]
    seen = report["train"]  # figures of examples that are kept, before they are learnt
    assert abs(seen["calibration"] - 1) < 0.1, seen
    done = subprocess.run([SHOAL, "predict", "--from", str(space / "run"), "--in", str(other), "--column", "label"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    rows = [line.split(",") for line in done.stdout.splitlines()]
    name = rows[0].index("label")
    score = [float(r[1 - name]) for r in rows[1:]]
    rate = sum(float(r[name]) for r in rows[1:]) / len(score)
    assert abs(sum(score) / len(score) / rate - 1) < 0.05, (sum(score), rate)
    raw = [p / (p + share * (1 - p)) for p in score]  # as the network itself has them
    print(f"  calibration {report['valid']['calibration']:.3f}; uncorrected {sum(raw) / len(raw) / rate:.3f}")
    assert sum(raw) / len(raw) / rate > 1.5, (sum(raw), rate)


def weights_are_no_feature_and_have_to_be_numbers(space):
    lines = ["label,weight,user"] + [f"{i % 2},{i % 5},u{i % 50}" for i in range(2000)]
    (space / "train.csv").write_text("\n".join(lines) + "\n")
    over = {"data.format": "csv", "data.label": "label", "data.weight": "weight"}
    report = run_job(job_file(space / "job.yaml", space / "train.csv", **over), space / "good")
    assert embedding_rows(report) == 50 and report["examples"] == 2000, report["tables"]
    lines[7] = "1,-3,u1"
    (space / "train.csv").write_text("\n".join(lines) + "\n")
    job = job_file(space / "job.yaml", space / "train.csv", **over, **{"data.max_bad": 0.0001})
    run = Run(job, space / "bad")
    assert run.wait() == 65, run.output()[-2000:]
    assert "train.csv:8: a negative weight" in run.output(), run.output()[-2000:]


def names_that_are_no_columns_are_refused_with_the_nearest(space):
    train = synth_kind("sequence", space / "train.csv", 300)
    for number, (key, value) in enumerate((("data.weight", "wait"), ("evaluate.group", "usr"), ("evaluate.by", "histroy"))):
        job = job_file(space / "job.yaml", train, **{"data.format": "csv", "data.label": "label", key: value})
        run = Run(job, space / f"run{number}")
        status = run.wait()
        assert status == 78, (status, run.output()[-2000:])
        assert f'{key} names column "{value}"' in run.output() and "did you mean" in run.output(), run.output()[-2000:]


def labels_that_teach_nothing_are_told(space):
    job = job_file(space / "job.yaml", space / "train.csv", **{"data.format": "csv", "data.label": "stars"})
    for name, least, says in (("all", 1, "all 2000 lines looked at count as 1"), ("parted", 0, "more than two values")):
        (space / "train.csv").write_text("stars,user\n" + "".join(f"{least + i % 5},u{i % 50}\n" for i in range(2000)))
        run = Run(job, space / name)
        assert run.wait() == 0, run.output()[-2000:]
        assert says in run.report()["warning"] and "data.label_above" in run.report()["warning"], run.report().get("warning")
        text = run.output()
        assert text.count(says) == 2 and text.index("warning: ") < text.index("train "), text  # as it begins, and in the report
    run = Run(job, space / "given", extra=["--set", "data.label_above=3"])
    assert run.wait() == 0 and "warning" not in run.report(), run.output()[-2000:]  # the classes part where the job says so
    (space / "train.csv").write_text("stars,user\n" + "".join(f"{i % 2},u{i % 50}\n" for i in range(2000)))
    run = Run(job, space / "two")
    assert run.wait() == 0 and "warning" not in run.report() and "warning" not in run.output(), run.output()[-2000:]


def what_trained_is_not_asked_again_for_scores(space):
    """Neither a command nor a list of objects runs once more, nor is what is scored from standard input taken for what trained from it."""
    log, asked = space / "log.csv", space / "asked"
    log.write_text("label,user,item\n" + "".join(f"{n % 2},u{n % 7},i{n % 5}\n" for n in range(2000)))
    new = "item,user\n" + "".join(f"i{n},u{n}\n" for n in range(5))
    for name, train in (("cmd", {"cmd": f"echo x >> {asked}; cat {log}"}),
                        ("object", {"object": {"list": f"echo x >> {asked}; echo {log}", "open": 'cat "$1"'}}), ("stdin", "-")):
        job = job_file(space / f"{name}.yaml", None, **{"data.format": "csv", "data.label": "label", "data.train": None, "model.kind": "lr",
                                                        "checkpoint.dir": str(space / f"{name}-made"), "checkpoint.at_end": True})
        with open(job, "a", encoding="utf-8") as f:
            f.write("data.train: " + json.dumps([train]) + "\n")
        words = [SHOAL, "local", job, "--run-dir", space / name, "--servers", "1", "--workers", "1"]
        subprocess.run(words, check=True, input=log.read_text(), text=True, stdout=subprocess.DEVNULL, timeout=60)
        asked.write_text("")
        words = [SHOAL, "predict", "--from", space / f"{name}-made" / "000001", "--in", "-"]
        got = subprocess.run(words, input=new, capture_output=True, text=True, timeout=60, check=False)
        assert got.returncode == 0 and len(got.stdout.splitlines()) == 6 and asked.read_text() == "", (name, asked.read_text(), got)


main([labels_that_teach_nothing_are_told, synth_kinds_are_repeatable_and_their_teachers_fit, best_possible_auc_is_of_the_same_figure, shared_columns_have_one_row_a_value, negatives_are_left_out_of_training_only, a_sample_is_the_same_for_any_workers_and_inputs, a_share_of_the_negatives_leaves_predictions_calibrated,
      weights_are_no_feature_and_have_to_be_numbers, names_that_are_no_columns_are_refused_with_the_nearest, what_trained_is_not_asked_again_for_scores])
