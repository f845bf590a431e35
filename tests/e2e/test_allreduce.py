#!/usr/bin/env python3
"""test_allreduce: the workers keep the network in step (train.dense: allreduce): kills, joins, checkpoints of both kinds of job, scores beside training.

SHOAL_KILLS sets how many kills the cases do (default 3; the long run takes 20 and 200)."""
from lib import *

KILLS = int(os.environ.get("SHOAL_KILLS", "3"))
LEASE = 2  # seconds, of lib's jobs


def ring(**over):
    """A job under bsp: all tables have the same bits at every run."""
    return {"train.dense": "allreduce", "train.dense_publish": "1s", "train.consistency": "bsp", "train.lanes": 4, "train.batch": 64,
            "model.hidden": [32, 16], "model.norm": "batch", "model.dropout": 0.1, **over}


def still(**over):
    """A job whose sparse rows do not move, since their rate is below the last bit of a weight: what lanes give to the network depends on their
    batches alone, also under async, and the rows' shows count each example of each push."""
    return {"train.dense": "allreduce", "train.dense_publish": "1s", "train.consistency": "async", "train.lanes": 4, "train.batch": 64,
            "model.kind": "dcnv2", "model.hidden": [32, 16], "model.norm": "batch", "tables[0].init.scale": 1, "tables[0].optimizer.kind": "sgd",
            "tables[0].optimizer.lr": 1e-12, "tables[0].stats": True, "tables[0].score.show": 1, "tables[0].score.click": 1, **over}


def status(run):
    done = subprocess.run([SHOAL, "status", "--run-dir", run.dir, "--json"], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def whole_again(run, workers):
    """Waits until all workers have the network, or the run is over."""
    while run.running() and status(run).get("ring", {}).get("members") != workers:
        time.sleep(0.1)


def killed(space, train, over, names, kills, expected, seed, pause=(0.3, 2.5), workers=2):
    """Jobs of two workers, or more, and two servers, whose daemons are killed until `kills` have died; each run ends with the expected tables. Where the pause
    is longer than a lease, no worker dies before the others have the network."""
    rng, died, number = random.Random(seed), 0, 0
    while died < kills:
        number += 1
        if number > kills + 5:
            raise TooShort(f"only {died} kills in {number} runs")
        run = Run(job_file(space / f"killed-{number}.yaml", train, **over), space / f"killed-{number}", 2, workers)
        started(run)
        while run.running() and died < kills:
            died += run.signal(rng.choice(names))
            time.sleep(rng.uniform(*pause))
            if pause[0] > LEASE:
                whole_again(run, workers)
        assert run.wait(600) == 0, run.output()[-3000:]
        report = run.report()
        assert digests(report) == expected, f"run {number}: {digests(report)}, undisturbed {expected}"
    print(f"      {died} kills in {number} runs", flush=True)


def calm(space, train, over):
    report = run_job(job_file(space / "calm.yaml", train, **over), space / "calm", 2, 2)
    for servers, workers in ((1, 1), (1, 3)):  # the bits do not depend on how many there are
        again = run_job(job_file(space / f"again-{workers}.yaml", train, **over), space / f"again-{workers}", servers, workers)
        assert digests(report) == digests(again), f"a run of {workers} workers differs"
    assert report["ring"]["steps"] > 0 and report["ring"]["rings"] >= 1, report["ring"]
    return digests(report)


def bsp_is_bit_for_bit_whoever_dies(space):
    train, over = synth(space / "train.tsv", 6000, 5), ring(**{"train.epochs": longer(60)})
    expected = calm(space, train, over)
    # not both within a lease: then no worker would have the network
    killed(space, train, over, ["worker-0", "worker-1"], max(2, KILLS), expected, 21, (LEASE + 1.5, LEASE + 3))
    space2 = space / "servers"
    space2.mkdir()
    killed(space2, train, over, ["server-0", "server-1"], max(2, KILLS), expected, 22)


def async_counts_each_example_once(space):
    train, over = synth(space / "train.tsv", 6000, 6), still(**{"train.epochs": longer(60)})
    expected = calm(space, train, over)
    killed(space, train, over, ["worker-0", "worker-1", "server-0", "server-1"], max(3, KILLS), expected, 23, (LEASE + 1.5, LEASE + 3))
    # all may die within a lease, also while they publish: then the job goes back to a checkpoint
    space2 = space / "all"
    space2.mkdir()
    killed(space2, train, {**over, "checkpoint.every_batches": 60}, ["worker-0", "worker-1", "server-0", "server-1"], max(3, KILLS), expected, 24)


def all_workers_die_at_once(space):
    """Under bsp the rows are ahead of the network that the tables have, so the job goes back to a checkpoint."""
    train, over = synth(space / "train.tsv", 6000, 7), ring(**{"train.epochs": longer(30), "checkpoint.every_batches": 60})
    expected = calm(space, train, over)
    run = Run(job_file(space / "job.yaml", train, **over), space / "run", 2, 2)
    started(run)
    time.sleep(2.5)
    for name in ("worker-0", "worker-1"):
        strike(run, name)
    assert run.wait(600) == 0, run.output()[-3000:]
    assert digests(run.report()) == expected


def steps_go_on_within_a_lease_and_two_seconds(space):
    train = synth(space / "train.tsv", 6000, 8)
    run = Run(job_file(space / "job.yaml", train, **ring(**{"train.epochs": 100000})), space / "run", 2, 2, ["--no-restart"])
    try:
        started(run)
        time.sleep(1)
        at = time.monotonic()
        strike(run, "worker-1")
        before, last, longest, look = 0, at, 0.0, 0.0
        while time.monotonic() < at + LEASE + 6:
            asked = time.monotonic()
            left = [w for w in status(run).get("workers", []) if w["name"].endswith("worker-0")]
            now = time.monotonic()
            look = max(look, now - asked)
            if left and left[0]["examples"] > before:
                before, longest, last = left[0]["examples"], max(longest, now - last), now
            time.sleep(0.02)
        longest = max(longest, time.monotonic() - last)
        print(f"      the worker that is left stands for {longest:.2f} s; a look takes {look:.2f} s", flush=True)
        # its figures come with its beats, up to a second later; a look takes some time on a busy machine, and so do steps there
        assert longest < LEASE + 2 + 10 * look, (longest, look)
        until(run, "the ring of one", lambda: status(run).get("ring", {}).get("members") == 1)
    finally:
        run.process.terminate()
        run.wait(60)


def without_a_worker_checkpoint_and_stop_end_at_once(space):
    """No rest can come: both say what to do. When the worker is back, a checkpoint is made."""
    train = synth(space / "train.tsv", 6000, 14)
    run = Run(job_file(space / "job.yaml", train, **ring(**{"train.epochs": 100000})), space / "run", 1, 1)

    def asked(*words):
        at = time.monotonic()
        done = subprocess.run([SHOAL, *words, "--run-dir", run.dir], capture_output=True, text=True, timeout=100, check=False)
        return done, time.monotonic() - at

    try:
        started(run)
        for last in (False, True):
            strike(run, "worker-0", signal.SIGSTOP)
            time.sleep(2 * LEASE + 2)
            done, took = asked("checkpoint", "create", f"with-{last}")
            assert done.returncode == 69 and "has no worker" in done.stderr and "Start a worker" in done.stderr, done
            assert took < 10, took
            if last:
                break
            run.signal("worker-0", signal.SIGCONT)
            started(run)
            end = time.monotonic() + PATIENCE * 30
            while (done := asked("checkpoint", "create", "there")[0]).returncode != 0 and time.monotonic() < end:
                time.sleep(0.3)  # it joins again
            assert done.returncode == 0, done
        at = next(word for word in (run.dir / "coordinator.yaml").read_text().split('"') if word.startswith("ipc://"))
        done = subprocess.run([SHOAL, "stop", "--coordinator", at], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done
        run.signal("worker-0", signal.SIGCONT)
        assert run.wait(PATIENCE * 60) != 0
        assert "no last checkpoint: job e2e has no worker" in run.output() and "goes on from an earlier one" in run.output(), run.output()[-2000:]
    finally:
        run.signal("worker-0", signal.SIGCONT)
        run.process.terminate()
        run.wait(60)


def figures(report, *keys):
    return {key: report["test"][key] for key in keys or ("auc", "logloss", "examples")}


def tables_of_one_kind_of_job_begin_the_other(space):
    """The scores of a checkpoint do not depend on the place where the network was trained."""
    train, test = synth(space / "train.tsv", 6000, 9), synth(space / "test.tsv", 2000, 10)
    kinds = {"allreduce": ring(), "servers": {**ring(), "train.dense": None, "train.dense_publish": None}}
    for name, other in (("allreduce", "servers"), ("servers", "allreduce")):
        over = {**kinds[name], "data.test": str(test), "train.epochs": 3, "checkpoint.at_end": True}
        made = run_job(job_file(space / f"{name}.yaml", train, **over), space / name, 2, 2)
        then = {**kinds[other], "data.test": str(test), "train.epochs": 2}
        begin = ["--start-from", str(space / name)]
        measured = run_job(job_file(space / f"{name}-skip.yaml", train, **{**then, "train.skip": True}), space / f"{name}-skip", 1, 1, begin)
        assert figures(measured) == figures(made), (name, figures(measured), figures(made))
        on = run_job(job_file(space / f"{name}-on.yaml", train, **then), space / f"{name}-on", 1, 2, begin)
        assert on["epochs"][0]["train_logloss"] < made["epochs"][0]["train_logloss"], (name, on["epochs"], made["epochs"])
        refused = Run(job_file(space / f"{name}-resume.yaml", train, **{**then, "train.epochs": 4}), space / f"{name}-resume", 1, 1,
                      ["--resume", str(next((space / name / "checkpoints").iterdir()))])
        assert refused.wait(100) == 78 and f"train.dense is {other}, in the checkpoint it was {name}" in refused.output(), refused.output()[-2000:]


def checkpoint_goes_on_with_other_workers(space):
    train = synth(space / "train.tsv", 6000, 11)
    over = ring(**{"train.epochs": longer(12)})
    expected = digests(run_job(job_file(space / "calm.yaml", train, **over), space / "calm", 2, 2))
    run = Run(job_file(space / "job.yaml", train, **{**over, "checkpoint.every_batches": 400, "checkpoint.keep": 0}), space / "run", 2, 2)
    assert run.wait(300) == 0, run.output()[-3000:]
    assert digests(run.report()) == expected
    made = sorted(p for p in (space / "run/checkpoints").iterdir() if (p / "manifest.json").exists())
    assert made
    for workers, at in ((1, made[0]), (3, made[len(made) // 2])):
        report = run_job(job_file(space / f"on-{workers}.yaml", train, **over), space / f"on-{workers}", 1, workers, ["--resume", str(at)])
        assert digests(report) == expected, (workers, at)


def sharded_state_gives_the_same_bits(space):
    """Three workers, with two thirds of the optimizer's state each; a dead one's is at its neighbours. A job goes on with the other kind of state."""
    train, over = synth(space / "train.tsv", 6000, 14), ring(**{"train.epochs": longer(60)})
    sharded = {**over, "train.dense_state": "sharded"}
    whole = run_job(job_file(space / "whole.yaml", train, **over), space / "whole", 2, 3)
    expected = digests(whole)
    report = run_job(job_file(space / "sharded.yaml", train, **sharded), space / "sharded", 2, 3)
    assert digests(report) == expected, (digests(report), expected)
    share = report["ring"]["state_bytes"] / whole["ring"]["state_bytes"]
    print(f"      a worker has {share:.2f} of the optimizer's state", flush=True)
    assert 0.5 < share < 0.9, share  # two thirds, of few blocks
    space2 = space / "dies"
    space2.mkdir()
    killed(space2, train, sharded, ["worker-0", "worker-1", "worker-2"], max(2, KILLS), expected, 25, (LEASE + 1.5, LEASE + 3), 3)
    for name, first, then in (("to-whole", sharded, over), ("to-sharded", over, sharded)):
        run = Run(job_file(space / f"{name}.yaml", train, **{**first, "checkpoint.every_batches": 400, "checkpoint.keep": 0}), space / name, 2, 3)
        assert run.wait(300) == 0, run.output()[-3000:]
        made = sorted(p for p in (space / name / "checkpoints").iterdir() if (p / "manifest.json").exists())
        on = run_job(job_file(space / f"{name}-on.yaml", train, **then), space / f"{name}-on", 1, 2, ["--resume", str(made[len(made) // 2])])
        assert digests(on) == expected, (name, digests(on), expected)


def scores_beside_training_are_at_most_so_old(space):
    train, test = synth(space / "train.tsv", 20000, 12), synth(space / "test.tsv", 1000, 13)
    run = Run(job_file(space / "job.yaml", train, **ring(**{"train.epochs": 100000, "data.test": str(test)})), space / "run", 2, 2)
    try:
        started(run)
        time.sleep(2.5)
        ages, steps, scores = [], set(), set()
        for _ in range(4):
            told = until(run, "the ring", lambda: status(run).get("ring"))
            ages.append(told["published_seconds"])
            steps.add(told["published"])
            got = subprocess.run([str(SHOAL), "predict", "--from", str(run.dir)], capture_output=True, text=True, timeout=100, check=True)
            assert len(got.stdout.splitlines()) == 1001
            scores.add(got.stdout)
            time.sleep(1.2)
        # dense_publish is a second; a step, a push and a beat more until it is told
        assert max(ages) < PATIENCE * 2.5 and len(steps) > 1 and len(scores) > 1, (ages, steps, len(scores))
        print(f"      the tables' network is {max(ages):.2f} s old at most", flush=True)
    finally:
        run.process.terminate()
        run.wait(60)


if __name__ == "__main__":
    main([bsp_is_bit_for_bit_whoever_dies, async_counts_each_example_once, all_workers_die_at_once, steps_go_on_within_a_lease_and_two_seconds,
          without_a_worker_checkpoint_and_stop_end_at_once, tables_of_one_kind_of_job_begin_the_other, checkpoint_goes_on_with_other_workers, sharded_state_gives_the_same_bits, scores_beside_training_are_at_most_so_old])
