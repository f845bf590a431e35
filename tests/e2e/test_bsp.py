#!/usr/bin/env python3
"""test_bsp: with bsp, four lanes and one seed every table has the same digest on 1, 2 and 4 servers with 1, 2 and 4 workers."""
from lib import *


def synth_tasks(space, rows, seed):
    path = space / f"tasks-{seed}.csv"
    subprocess.run([SHOAL, "synth", "--kind", "tasks", "--rows", str(rows), "--seed", str(seed), "--out", str(path)], check=True, stdout=subprocess.DEVNULL)
    return path


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


def a_window_repeats_its_bits(space):
    """A lane of a window of four batches: the same bits whatever the threads and workers do, and every row once."""
    train = synth(space / "train.tsv", 12000, 3)
    valid = synth(space / "valid.tsv", 3000, 4)
    job = job_file(space / "job.yaml", train, **{"data.valid": str(valid), "train.consistency": "bsp", "train.lanes": 1, "train.window": 4,
                                                 "train.epochs": 2, "train.batch": 64, "model.dropout": 0.2, "model.norm": "batch", "model.l2": 1e-5})
    reports = [run_job(job, space / f"run-{servers}-{workers}", servers, workers) for servers, workers in ((1, 1), (2, 1), (2, 2))]
    assert all(digests(r) == digests(reports[0]) for r in reports), [digests(r) for r in reports]
    for r in reports:
        assert r["batch"] == 64 and r["window"] == 4 and r["batches"]["applied"] == 2 * 47, (r["batch"], r["window"], r["batches"])
        assert r["examples"] == 24000 and r["valid"]["examples"] == 3000, (r["examples"], r["valid"])
        assert r["valid"]["auc"] == reports[0]["valid"]["auc"], (r["valid"], reports[0]["valid"])
    other = run_job(job, space / "narrow", extra=["--set", "train.window=1", "--set", "train.batch=256"])
    assert digests(other) != digests(reports[0])


def chosen_experts_repeat_their_bits(space):
    """PLE whose gates choose 2 of 4 experts: the same bits for every cluster with windows of slices, and a report of each expert's examples."""
    train, valid = synth_tasks(space, 12000, 3), synth_tasks(space, 3000, 4)
    job = job_file(space / "job.yaml", train, **{
        "data.format": "csv", "data.label": ["click", "buy"], "data.valid": str(valid), "train.consistency": "bsp", "train.lanes": 2, "train.window": 2,
        "train.epochs": 2, "train.batch": 256, "model.kind": "ple", "model.experts": 3, "model.own_experts": 1, "model.levels": 2, "model.top_k": 2,
        "model.balance": 0.01, "model.dropout": 0.2, "model.hidden": [16, 8]})
    reports = [run_job(job, space / f"run-{servers}-{workers}", servers, workers) for servers, workers in ((1, 1), (2, 1), (2, 2))]
    assert all(digests(r) == digests(reports[0]) for r in reports), [digests(r) for r in reports]
    for r in reports:
        assert r["experts"] == reports[0]["experts"], (r["experts"], reports[0]["experts"])
        for level in (1, 2):
            of = [e for e in r["experts"] if e["level"] == level]
            assert [e.get("task") for e in of] == [None, None, None, "click", "buy"], of
            chosen = sum(e["examples"] for e in of)
            assert 2 * r["examples"] <= chosen < 5 * r["examples"], (chosen, r["examples"])
            assert all(abs(e["share"] - e["examples"] / r["examples"]) < 1e-5 for e in of), of
    text = pathlib.Path(f"{space / 'run-1-1'}.out").read_text(encoding="utf-8")
    assert "experts        level 1: shared " in text and " click " in text, text
    many = run_job(job, space / "many", extra=["--set", "model.experts=24", "--set", "train.epochs=1"])
    text = pathlib.Path(f"{space / 'many'}.out").read_text(encoding="utf-8")
    lines = re.search(r"  experts  [^$]*? of the examples", text)[0].split("\n")
    assert sum(line.count(" %") for line in lines) == len(many["experts"]) == 52 and max(map(len, lines)) <= 100 and len(lines) >= 4, text
    alone = run_job(job, space / "all", extra=["--set", "model.top_k=0", "--set", "model.balance=0"])
    assert digests(alone) != digests(reports[0]) and "experts" not in alone


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
    main([bsp_digest_is_the_same_for_every_cluster, a_window_repeats_its_bits, chosen_experts_repeat_their_bits, shards_of_a_server_change_no_bit, another_seed_gives_another_digest])
