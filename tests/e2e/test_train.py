#!/usr/bin/env python3
"""test_train: a job through real servers and workers ends with a good model and a whole report."""
from lib import *

KEYS = ["job", "examples", "seconds", "examples_per_second", "epochs", "valid", "staleness", "time", "lanes", "batches", "bad_lines",
        "teacher_auc", "tables", "keys_pulled", "keys_pushed", "rows", "peak_server_rss_bytes", "backend", "seed", "version"]


def train_report_is_whole_and_model_learns(space):
    train, valid = synth(space / "train.tsv", 60000, 1), synth(space / "valid.tsv", 10000, 2)
    job = job_file(space / "job.yaml", train, **{"data.valid": str(valid), "train.epochs": 2})
    report = run_job(job, space / "run", 2, 2)
    for key in KEYS:
        assert key in report, f"{key} is not in the report"
    assert report["examples"] == 120000, report["examples"]
    assert report["valid"]["auc"] > 0.60, report["valid"]
    assert report["teacher_auc"] is not None and report["teacher_auc"] > report["valid"]["auc"]
    assert report["bad_lines"] == 0
    assert len(report["epochs"]) == 2 and report["epochs"][1]["train_logloss"] < report["epochs"][0]["train_logloss"]
    assert {t["name"] for t in report["tables"]} == {"emb", "dense"}


def every_model_trains(space):
    """All of them learn the log that they see; those with first-order weights find what holds in general, too, in so few rows."""
    train, valid = synth(space / "train.tsv", 20000, 1), synth(space / "valid.tsv", 5000, 2)
    few = synth(space / "few.tsv", 5000, 1)
    for kind in ("lr", "fm", "wide_deep", "deepfm", "fwfm", "ipnn", "dcnv2", "dlrm", "xdeepfm", "autoint", "finalmlp"):
        first_order = kind in ("lr", "fm", "wide_deep", "deepfm")
        job = job_file(space / f"{kind}.yaml", train if first_order else few,
                       **{"data.valid": str(valid), "model.kind": kind, "train.epochs": 2 if first_order else 4})
        report = run_job(job, space / kind)
        losses = [e["train_logloss"] for e in report["epochs"]]
        assert losses[-1] < losses[0] - 0.1, (kind, losses)
        if first_order:
            assert report["valid"]["auc"] > 0.55, (kind, report["valid"])


def synth_kind(space, kind, rows, seed):
    path = space / f"{kind}-{seed}.csv"
    subprocess.run([SHOAL, "synth", "--kind", kind, "--rows", str(rows), "--seed", str(seed), "--out", str(path)], check=True,
                   stdout=subprocess.DEVNULL)
    return path


def din_reads_sequences(space):
    columns = [{"name": "label", "type": "label"}, {"name": "user"}, {"name": "item"},
               {"name": "history", "type": "multi", "share": "item", "pooling": "attention", "attend": "item",
                "max": 8}]
    over = {"data.format": "csv", "data.label": "label", "data.columns": columns, "data.valid": str(synth_kind(space, "sequence", 5000, 2)),
            "model.kind": "din", "tables[0].init": {"kind": "uniform", "scale": 0.1, "seed": 1}, "tables[0].optimizer.kind": "adam",
            "tables[0].optimizer.lr": 0.005, "dense_optimizer.lr": 0.01, "train.epochs": 4}
    report = run_job(job_file(space / "job.yaml", synth_kind(space, "sequence", 5000, 1), **over), space / "run", 1, 2)
    assert report["examples"] == 20000, report["examples"]
    losses = [e["train_logloss"] for e in report["epochs"]]
    assert losses[-1] < losses[0] - 0.05, losses


def two_labels_are_learnt_at_once(space):
    for kind in ("mmoe", "ple"):
        over = {"data.format": "csv", "data.label": ["click", "buy"], "data.valid": str(synth_kind(space, "tasks", 5000, 2)),
                "model.kind": kind, "model.task_weights": [1, 3], "train.epochs": 2}
        report = run_job(job_file(space / f"{kind}.yaml", synth_kind(space, "tasks", 20000, 1), **over), space / kind, 2, 2)
        valid = report["valid"]
        assert [t["label"] for t in valid["tasks"]] == ["click", "buy"], valid
        assert all(t["auc"] > 0.52 for t in valid["tasks"]), (kind, valid["tasks"])
        assert valid["tasks"][0]["positives"] > valid["tasks"][1]["positives"] > 0 and "positives" not in valid, valid
        assert abs(valid["auc"] - (valid["tasks"][0]["auc"] + valid["tasks"][1]["auc"]) / 2) < 1e-5, valid
        for epoch in report["epochs"]:
            assert [t["label"] for t in epoch["tasks"]] == ["click", "buy"], epoch
            for whole, tasks, key in ((epoch, epoch["tasks"], "train_logloss"), (epoch["valid"], epoch["valid"]["tasks"], "logloss")):
                assert abs(whole[key] - (tasks[0][key] + 3 * tasks[1][key]) / 4) < 1e-5, (key, epoch)


def early_stop_restores_the_best_epoch(space):
    """A rate that swings, so that the best epoch is not the last; with bsp it swings the same at every run."""
    train, valid = synth(space / "train.tsv", 5000, 1), synth(space / "valid.tsv", 5000, 2)
    job = job_file(space / "job.yaml", train, **{
        "data.valid": str(valid), "data.test": str(valid), "train.epochs": 30, "train.batch": 128, "train.early_stop.patience": 2,
        "train.early_stop.lr_decay": 1.0, "train.consistency": "bsp", "tables[0].optimizer.lr": 0.5, "dense_optimizer.lr": 0.05})
    report = run_job(job, space / "run", 2, 2)
    assert len(report["epochs"]) < 30, "it never stopped"
    best = max(e["valid"]["auc"] for e in report["epochs"])
    assert report["epochs"][-1]["valid"]["auc"] < best, "the last epoch is the best: nothing was restored"
    assert abs(report["test"]["auc"] - best) < 1e-6, (report["test"], best)


def early_stopping_waits_where_there_is_no_metric(space):
    """Labels of one class have no AUC: no evaluation is a miss, and the report says so."""
    train, valid = synth(space / "train.tsv", 2000, 1), space / "valid.tsv"
    valid.write_text("".join("0" + line[1:] + "\n" for line in synth(space / "log.tsv", 500, 2).read_text(encoding="utf-8").splitlines()), encoding="utf-8")
    job = job_file(space / "job.yaml", train, **{"data.valid": str(valid), "train.epochs": 4, "train.early_stop.patience": 1})
    report = run_job(job, space / "run")
    assert len(report["epochs"]) == 4 and report["ended_by"] == "epochs", report["ended_by"]
    [note] = [n for n in report["notes"] if "early stopping" in n]
    assert "data.valid" in note and "one class" in note, note
    text = pathlib.Path(f"{space / 'run'}.out").read_text(encoding="utf-8")
    [line] = [at for at in text.splitlines() if at.strip().startswith("valid ")]
    assert "logloss 0." in line and "AUC" not in line and "nan" not in text, text


def without_early_stopping_valid_is_the_last_epoch(space):
    """A rate that swings: with bsp the same swings at every run, and the last of 12 epochs is not the best."""
    train, valid = synth(space / "train.tsv", 5000, 1), synth(space / "valid.tsv", 5000, 2)
    job = job_file(space / "job.yaml", train, **{
        "data.valid": str(valid), "train.epochs": 12, "train.batch": 128, "train.consistency": "bsp", "tables[0].optimizer.lr": 0.5,
        "dense_optimizer.lr": 0.05})
    report = run_job(job, space / "run")
    last, best = report["epochs"][-1]["valid"]["auc"], max(e["valid"]["auc"] for e in report["epochs"])
    assert last < best - 0.001, [e["valid"]["auc"] for e in report["epochs"]]
    assert report["valid"]["auc"] == last, (report["valid"], last, best)


def standard_input_commands_and_compressed_files_are_read(space):
    """Whatever the rows come through, the tables are the same bit for bit."""
    train = synth(space / "train.tsv", 5000, 1)
    subprocess.run(["gzip", "-k", str(train)], check=True)

    def run(name, source, stdin=None):
        job = job_file(space / f"{name}.yaml", source, **{"train.consistency": "bsp"})
        return digests(run_job(job, space / name, stdin=stdin))

    plain = run("plain", train)
    assert run("packed", str(train) + ".gz") == plain
    with open(train, encoding="utf-8") as rows:
        assert run("stdin", "-", rows) == plain
    job = job_file(space / "cmd.yaml", None, **{"data.train": [{"cmd": f"cat {train}"}], "train.consistency": "bsp"})
    assert digests(run_job(job, space / "cmd", 1, 2)) == plain
    other = synth(space / "other.tsv", 5000, 2)
    assert run("other", other) != plain, "this check can see nothing"


if __name__ == "__main__":
    main([train_report_is_whole_and_model_learns, every_model_trains, din_reads_sequences, two_labels_are_learnt_at_once, early_stop_restores_the_best_epoch,
          early_stopping_waits_where_there_is_no_metric, without_early_stopping_valid_is_the_last_epoch,
          standard_input_commands_and_compressed_files_are_read])
