#!/usr/bin/env python3
"""test_warm: a run that begins with the tables of an earlier one. The counting job (probe) says it exactly: one epoch, and one more from
where it ended, are two epochs."""
from lib import *


def probe(space, name="job", **more):
    train = space / "train.tsv"
    if not train.exists():
        synth(train, 20000, 1)
    return job_file(space / f"{name}.yaml", train, **{"model.kind": "probe", "tables[0].optimizer.kind": "sgd", "tables[0].optimizer.lr": 1.0,
                                                      **more})


def refused(space, job, words, servers=1, *extra):
    run = Run(job, space / f"refused-{time.monotonic_ns()}", servers, 1, extra)
    status = run.wait(120)
    assert status != 0, run.output()
    for word in words:
        assert word in run.output(), (word, run.output())
    return status


def run_goes_on_from_an_earlier_one(space):
    """With several servers each must find its own tablets again."""
    once, twice = probe(space, "once"), probe(space, "twice", **{"train.epochs": 2})
    for servers in (1, 3):
        whole = run_job(twice, space / f"whole-{servers}", servers, 2)
        first = run_job(once, space / f"first-{servers}", servers, 2)
        assert digests(first) != digests(whole)
        second = run_job(once, space / f"second-{servers}", servers, 2, ["--warm-start", str(space / f"first-{servers}")])
        assert digests(second) == digests(whole)
        assert second["warm_start"] == str(space / f"first-{servers}") and "warm_start" not in first
        third = run_job(probe(space, "key", warm_start=str(space / f"second-{servers}")), space / f"third-{servers}", servers)
        assert third["rows"] == whole["rows"] and digests(third) != digests(whole)
        again = run_job(once, space / f"again-{servers}", servers, 2, ["--warm-start", str(space / f"first-{servers}")])
        assert digests(again) == digests(whole), "the earlier run's folder was changed"


def network_goes_on_too(space):
    train, valid, sample = synth(space / "train.tsv", 40000, 1), synth(space / "valid.tsv", 5000, 2), space / "sample.tsv"
    sample.write_text("".join(train.read_text().splitlines(True)[:20000]))
    keys = {"data.valid": str(valid)}
    small = run_job(job_file(space / "small.yaml", sample, **keys), space / "small")
    cold = run_job(job_file(space / "cold.yaml", train, **keys), space / "cold")
    warm = run_job(job_file(space / "warm.yaml", train, **keys), space / "warm", extra=["--warm-start", str(space / "small")])
    assert warm["epochs"][0]["train_logloss"] < cold["epochs"][0]["train_logloss"], (warm["epochs"], cold["epochs"])
    assert {t["name"] for t in warm["tables"]} == {t["name"] for t in small["tables"]}


def what_does_not_fit_is_refused(space):
    job = probe(space)
    run_job(job, space / "first", 2)
    first = ["--warm-start", str(space / "first")]
    assert refused(space, job, ["had 2 servers", "--servers 2"], 1, *first) == 78
    refused(space, probe(space, "dim", **{"model.kind": "fm"}), ["another schema", "a warm start needs the very tables of"], 2, *first)
    assert refused(space, job, ["no run whose job has ended"], 1, "--warm-start", str(space)) == 66
    run_job(probe(space, "memory", durability="memory"), space / "memory")
    assert refused(space, job, ["durability: memory"], 1, "--warm-start", str(space / "memory")) == 78


def run_that_is_going_on_is_refused(space):
    going = Run(probe(space, "long", **{"train.epochs": 100000}), space / "going")
    while not (space / "going/server-0/shard-0/rows").exists():
        assert going.running(), going.output()
        time.sleep(0.1)
    (space / "going/report.json").write_text("{}")
    refused(space, probe(space), ["is still going on"], 1, "--warm-start", str(space / "going"))
    going.process.terminate()
    going.process.wait(60)


if __name__ == "__main__":
    main([run_goes_on_from_an_earlier_one, network_goes_on_too, what_does_not_fit_is_refused, run_that_is_going_on_is_refused])
