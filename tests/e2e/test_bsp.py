#!/usr/bin/env python3
"""test_bsp: with bsp, four lanes and one seed every table has the same digest on 1, 2 and 4 servers with 1, 2 and 4 workers."""
from lib import *


def bsp_digest_is_the_same_for_every_cluster(space):
    train = synth(space / "train.tsv", 12000, 3)
    job = job_file(space / "job.yaml", train, **{"train.consistency": "bsp", "train.lanes": 4, "train.epochs": 2, "model.dropout": 0.2,
                                                 "model.norm": "batch", "model.l2": 1e-5, "tables[0].optimizer.l2": 1e-4})
    seen = {}
    for servers in (1, 2, 4):
        for workers in (1, 2, 4):
            seen[servers, workers] = digests(run_job(job, space / f"run-{servers}-{workers}", servers, workers))
    assert len(seen[1, 1]) == 3, seen[1, 1]
    different = {k: v for k, v in seen.items() if v != seen[1, 1]}
    assert not different, f"1x1 gave {seen[1, 1]}, but {different}"


def shards_of_a_server_change_no_bit(space):
    """1, 2 and 4 shards in each server, and a server of several that dies in mid-job."""
    train = synth(space / "train.tsv", longer(12000), 3)
    job = job_file(space / "job.yaml", train, **{"train.consistency": "bsp", "train.lanes": 4, "train.epochs": 4, "train.batch": 64,
                                                 "model.dropout": 0.2, "tables[0].tablets": 128})
    seen = {(1, n): digests(run_job(job, space / f"run-{n}", 1, 2, ["--shards", str(n)])) for n in (1, 2, 4)}
    seen[2, 4] = digests(run_job(job, space / "run-2-4", 2, 2, ["--shards", "4"]))
    run = Run(job, space / "killed", 2, 2, ["--shards", "2"])
    strike(run, "server-1")
    assert run.wait(300) == 0, run.output()[-2000:]
    report = run.report()
    seen["killed"] = digests(report)
    assert report["restarts"] >= 1 and report["shards"] == 4, (report["restarts"], report["shards"])
    assert all(v == seen[1, 1] for v in seen.values()), seen


def another_seed_gives_another_digest(space):
    train = synth(space / "train.tsv", 3000, 3)
    job = job_file(space / "job.yaml", train, **{"train.consistency": "bsp", "model.dropout": 0.2})
    a = digests(run_job(job, space / "a"))
    b = digests(run_job(job, space / "b", extra=["--set", "train.seed=8"]))
    assert a["emb"] != b["emb"]


if __name__ == "__main__":
    main([bsp_digest_is_the_same_for_every_cluster, shards_of_a_server_change_no_bit, another_seed_gives_another_digest])
