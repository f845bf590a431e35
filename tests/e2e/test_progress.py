#!/usr/bin/env python3
"""test_progress: what is seen of a job while it trains: evaluations within an epoch and what they end, the figures of examples before they are learnt."""
from lib import *


def progress_job(space, rows=20000, **over):
    """One epoch under bsp, evaluated every 20 batches; rates so high that it soon gets worse."""
    train, valid = synth(space / "train.tsv", rows, 1), synth(space / "valid.tsv", 4000, 2)
    keys = {"data.valid": str(valid), "data.test": str(valid), "train.batch": 128, "train.task_batches": 5, "train.consistency": "bsp",
            "evaluate.every_batches": 20}
    keys.update(over)
    return job_file(space / "job.yaml", train, **keys)


SWINGS = {"tables[0].optimizer.lr": 0.5, "dense_optimizer.lr": 0.05, "train.early_stop.patience": 2}


# ---- evaluations within an epoch ----------------------------------------------------------------------------------


def one_epoch_stops_early_with_its_best_tables(space):
    report = run_job(progress_job(space, longer(40000), **SWINGS), space / "run", 2, 2)
    evaluations = report["evaluations"]
    best = max(evaluations, key=lambda e: e["auc"])
    assert report["ended_by"] == "early_stop" and len(report["epochs"]) == 1, (report["ended_by"], len(report["epochs"]))
    assert [e["kept"] for e in evaluations] == [e is best for e in evaluations] and best is not evaluations[-1]
    assert len(evaluations) == evaluations.index(best) + 3
    assert report["examples"] == evaluations[-1]["examples"] < longer(40000), report["examples"]
    # the test split is the validation split: evaluated once more, of the tables that were restored
    assert report["test"]["auc"] == best["auc"] == report["valid"]["auc"] and report["test"]["logloss"] == best["logloss"]


def evaluations_change_no_bit(space):
    """Evaluations only read: whichever process dies, and wherever, they are the same."""
    bare = run_job(progress_job(space, **{"evaluate.every_batches": None}), space / "bare")
    report = run_job(progress_job(space), space / "run", 2, 2)
    assert len(bare["evaluations"]) == 1 and len(report["evaluations"]) == 8, report["evaluations"]
    assert digests(bare) == digests(report)
    assert [e["batch"] for e in report["evaluations"]] == [20, 40, 60, 80, 100, 120, 140, 157]
    assert bare["evaluations"][0]["auc"] == report["evaluations"][-1]["auc"]


def deaths_change_no_evaluation(space):
    rows = longer(50000)
    wanted = run_job(progress_job(space, rows, **{"evaluate.every_batches": 50}), space / "calm")
    run = Run(space / "job.yaml", space / "run", 2, 2)
    for name in ("coordinator", "worker-0", "coordinator", "server-1"):
        time.sleep(0.7)
        strike(run, name)
    assert run.wait() == 0, run.output()[-3000:]
    report = run.report()
    assert digests(report) == digests(wanted)
    for a, b in zip(report["evaluations"], wanted["evaluations"], strict=True):
        assert (a["batch"], a["auc"], a["logloss"]) == (b["batch"], b["auc"], b["logloss"]), (a, b)
        assert a["examples"] <= b["examples"], (a, b)


def resumed_job_goes_on_with_its_evaluations(space):
    over = {"checkpoint.dir": str(space / "kept"), "checkpoint.every_batches": 30, "checkpoint.keep": 0}
    wanted = run_job(progress_job(space, **over), space / "run")
    first = sorted(p for p in (space / "kept").iterdir() if (p / "manifest.json").exists())[0]
    report = run_job(space / "job.yaml", space / "again", 2, 2, ("--resume", str(first)))
    assert digests(report) == digests(wanted)
    for a, b in zip(report["evaluations"], wanted["evaluations"], strict=True):
        assert (a["batch"], a["auc"], a["logloss"]) == (b["batch"], b["auc"], b["logloss"]), (a, b)
        assert b["examples"] - 5 * 2 * 128 <= a["examples"] <= b["examples"], (a, b)  # of a task in parts, only the last report counts


def minutes_end_a_job(space):
    report = run_job(progress_job(space, **{"train.epochs": 10000, "train.max_minutes": 0.2, "evaluate.every_batches": None,
                                            "evaluate.every_minutes": 0.02}), space / "run")
    assert report["ended_by"] == "max_minutes" and 12 <= report["train_seconds"] < 24, (report["ended_by"], report["train_seconds"])
    assert len(report["evaluations"]) >= 4 and report["evaluations"][-1]["kept"]
    assert report["evaluations"][-1]["examples"] == report["examples"], report["evaluations"][-1]
    assert report["test"]["auc"] == report["evaluations"][-1]["auc"]
    assert report["tables"][0]["rows"] > 0


# ---- examples before they are learnt ------------------------------------------------------------------------------


def standing_tables_score_what_evaluation_scores(space):
    """With rates next to nothing the tables stay what they are: what training scores is then what an evaluation of the same rows says.
    A share of the rows has keys that stand at zeros for an evaluation and at initial values here, so those are next to nothing too."""
    still = {"evaluate.by": ["C1", "C5"], "tables[0].optimizer.lr": 1e-12, "tables[0].init.scale": 1e-12, "dense_optimizer.lr": 1e-12, "evaluate.every_batches": None}
    job = progress_job(space, 6000, **still)
    report = run_job(job, space / "run", 1, 2, ("--set", f"data.valid={space / 'train.tsv'}"))
    train, valid = report["train"], report["valid"]
    assert train["examples"] == valid["examples"] == report["epochs"][0]["train"].get("examples", 6000) == 6000
    assert abs(train["logloss"] - valid["logloss"]) < 1e-6, (train["logloss"], valid["logloss"])
    assert abs(train["calibration"] - valid["calibration"]) < 1e-5, (train["calibration"], valid["calibration"])
    assert abs(train["logloss"] - report["epochs"][0]["train_logloss"]) < 1e-5
    for field in ("C1", "C5"):
        told = {v["key"]: v for v in valid["by"][field]}
        for v in train["by"][field]:
            if v["key"] != "other" and "missed" not in v:
                was = told[v["key"]]
                assert v["examples"] == was["examples"] and abs(v["logloss"] - was["logloss"]) < 1e-6, (field, v, was)
        assert sum(v["examples"] for v in train["by"][field]) == 6000
    assert any(v["key"] != "other" and "missed" not in v for v in train["by"]["C1"]), train["by"]["C1"]
    assert train["auc_error"] <= 0.5 and abs(train["auc"] - valid["auc"]) <= train["auc_error"] + valid["auc_error"] + 1e-9


def progressive_figures_are_a_function_of_the_job(space):
    """Under bsp: on other servers and workers, and past the death of a server, the same; past others', nothing is counted twice."""
    rows = longer(50000)
    wanted = run_job(progress_job(space, rows, **{"evaluate.every_batches": None}), space / "calm")["train"]
    assert wanted["examples"] == rows and wanted["windows"][-1]["examples"] == rows
    assert wanted["windows"][-1]["auc"] > wanted["windows"][0]["auc"], "nothing was learnt, this check can see nothing"
    other = run_job(space / "job.yaml", space / "other", 2, 2)["train"]
    assert other == wanted
    run = Run(space / "job.yaml", space / "run", 2, 2)
    time.sleep(0.7)
    strike(run, "server-1")
    assert run.wait() == 0, run.output()[-3000:]
    assert run.report()["train"] == wanted
    for name in ("coordinator", "worker-0"):
        run = Run(space / "job.yaml", space / name, 2, 2)
        time.sleep(1)
        strike(run, name)
        assert run.wait() == 0, run.output()[-3000:]
        train = run.report()["train"]  # the unreported part of a task whose lane was taken away does not count
        assert rows - 2 * 5 * 128 <= train["examples"] <= rows, (name, train["examples"])
        seen = {w["batch"]: w["examples"] for w in wanted["windows"]}
        assert all(w["examples"] <= seen[w["batch"]] for w in train["windows"]), (name, train["windows"], seen)


if __name__ == "__main__":
    main([one_epoch_stops_early_with_its_best_tables, evaluations_change_no_bit, deaths_change_no_evaluation,
          resumed_job_goes_on_with_its_evaluations, minutes_end_a_job, standing_tables_score_what_evaluation_scores,
          progressive_figures_are_a_function_of_the_job])
