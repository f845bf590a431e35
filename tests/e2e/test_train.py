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
    train, valid = synth(space / "train.tsv", 20000, 1), synth(space / "valid.tsv", 5000, 2)
    for kind in ("lr", "fm", "wide_deep", "deepfm"):
        job = job_file(space / f"{kind}.yaml", train, **{"data.valid": str(valid), "model.kind": kind, "train.epochs": 2})
        report = run_job(job, space / kind)
        assert report["valid"]["auc"] > 0.55, (kind, report["valid"])


def early_stop_restores_the_best_epoch(space):
    train, valid = synth(space / "train.tsv", 5000, 1), synth(space / "valid.tsv", 5000, 2)
    job = job_file(space / "job.yaml", train, **{
        "data.valid": str(valid), "data.test": str(valid), "train.epochs": 30, "train.batch": 128, "train.early_stop.patience": 2,
        "train.early_stop.lr_decay": 1.0, "tables[0].optimizer.lr": 0.3})
    report = run_job(job, space / "run", 2, 2)
    assert len(report["epochs"]) < 30, "it never stopped"
    best = max(e["valid"]["auc"] for e in report["epochs"])
    assert report["epochs"][-1]["valid"]["auc"] < best, "the last epoch is the best: nothing was restored"
    assert abs(report["test"]["auc"] - best) < 1e-6, (report["test"], best)


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


def standard_input_and_compressed_files_are_read(space):
    train = synth(space / "train.tsv", 5000, 1)
    subprocess.run(["gzip", "-k", str(train)], check=True)
    plain = run_job(job_file(space / "a.yaml", train, **{"train.consistency": "bsp"}), space / "a")
    packed = run_job(job_file(space / "b.yaml", str(train) + ".gz", **{"train.consistency": "bsp"}), space / "b")
    assert digests(plain) == digests(packed)


if __name__ == "__main__":
    main([train_report_is_whole_and_model_learns, every_model_trains, early_stop_restores_the_best_epoch,
          without_early_stopping_valid_is_the_last_epoch,
          standard_input_and_compressed_files_are_read])
