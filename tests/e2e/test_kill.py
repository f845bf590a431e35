#!/usr/bin/env python3
"""test_kill: kill -9 of servers and workers, lost replies, frozen workers: the job ends and every row is as if nothing had happened.

SHOAL_KILLS sets how many kills the server cases do (default 3; the long run takes 20 and 200); SHOAL_SEED draws other moments for pushes of every kind."""
from lib import *

KILLS = int(os.environ.get("SHOAL_KILLS", "3"))


def kill_at_random(run, names, kills, rng, pause=(0.1, 0.8)):
    """Kills daemons at random moments until `kills` have died or the run is over. Returns how many died."""
    died = 0
    while run.running() and died < kills:
        time.sleep(rng.uniform(*pause))
        if run.signal(rng.choice(names)):
            died += 1
    return died


def bsp_job(space, name, train, **over):
    keys = {"train.consistency": "bsp", "train.lanes": 4, "train.epochs": 200, "model.norm": "batch", "model.dropout": 0.1,
            "tables[0].optimizer.l2": 1e-4}
    keys.update(over)
    return job_file(space / name, train, **keys)


def repeated(space, train, over, servers, workers, names, kills, pause, expected, seed):
    """Runs killed jobs until `kills` daemons have died in all; every run must end with the expected digests."""
    rng, died, number = random.Random(seed), 0, 0
    while died < kills:
        number += 1
        if number > kills + 5:
            raise TooShort(f"only {died} kills in {number} runs")
        job = bsp_job(space, f"killed-{number}.yaml", train, **over)
        run = Run(job, space / f"killed-{number}", servers, workers)
        died += kill_at_random(run, names, kills - died, rng, pause)
        status = run.wait(600)
        assert status == 0, f"exit status {status}:\n{run.output()[-3000:]}"
        got = digests(run.report())
        assert got == expected, f"run {number}: {got}, undisturbed {expected}"
    print(f"      {died} kills in {number} runs", flush=True)


def server_killed_in_bsp_leaves_the_undisturbed_digest(space):
    train, over = synth(space / "train.tsv", 6000, 5), {"train.epochs": longer(20)}
    expected = digests(run_job(bsp_job(space, "calm.yaml", train, **over), space / "calm", 2, 2))
    repeated(space, train, over, 2, 2, ["server-0", "server-1"], KILLS, (0.3, 1.5), expected, 11)


def server_killed_while_replies_are_lost(space):
    train, over = synth(space / "train.tsv", 4000, 5), {"train.epochs": longer(10)}
    expected = digests(run_job(bsp_job(space, "calm.yaml", train, **over), space / "calm", 2, 2))
    over["net.drop"] = 0.05
    repeated(space, train, over, 2, 2, ["server-0", "server-1"], max(2, KILLS // 2), (0.5, 2.0), expected, 12)


# Small batches and few epochs: something is in flight at nearly every moment, so that a kill loses pushes and later ones overtake them.
PROBE = {"model.kind": "probe", "tables[0].dim": 1, "train.consistency": "async", "train.prefetch": 4, "train.batch": 128, "train.epochs": 3,
         "durability": "journal", "tables[0].optimizer.kind": "sgd", "net.resend": "1s"}


def probe_counts_are_exact_after_server_kills(space):
    train = synth(space / "train.tsv", longer(300000), 6)
    expected = digests(run_job(job_file(space / "calm.yaml", train, **PROBE), space / "calm", 2, 2))
    repeated(space, train, {**PROBE, "train.lanes": 2, "model.norm": None, "model.dropout": None}, 2, 2, ["server-0", "server-1"], KILLS,
             (0.1, 0.8), expected, 13)


def looking_ahead_gives_the_bits_of_prefetch_0(space):
    """One lane, async and ssp; batches come ahead or in turn, without a fault and while servers die."""
    train = synth(space / "train.tsv", 6000, 5)
    for mode, staleness in (("async", None), ("ssp", 2)):
        over = {"train.consistency": mode, "train.staleness": staleness, "train.lanes": 1, "train.prefetch": 0, "train.epochs": longer(12),
                "tables[0].values": "bf16", "tables[0].admit.min_count": 2, "net.gradients": "int8", "net.resend": "1s"}
        expected = digests(run_job(bsp_job(space, f"{mode}-turn.yaml", train, **over), space / f"{mode}-turn", 2, 1))
        for ahead in (1, 2, 5):
            over["train.prefetch"] = ahead
            report = run_job(bsp_job(space, f"{mode}-{ahead}.yaml", train, **over), space / f"{mode}-{ahead}", 2, 1)
            assert digests(report) == expected and report["keys_echoed"] > 0, f"{mode}, prefetch {ahead}"
        place = space / f"{mode}-kills"
        place.mkdir()
        repeated(place, train, over, 2, 1, ["server-0", "server-1"], KILLS, (0.3, 1.5), expected, 16)


def worker_killed_in_bsp_leaves_the_undisturbed_digest(space):
    train, over = synth(space / "train.tsv", 6000, 5), {"train.epochs": longer(20)}
    expected = digests(run_job(bsp_job(space, "calm.yaml", train, **over), space / "calm", 2, 2))
    repeated(space, train, over, 2, 2, ["worker-0", "worker-1"], max(2, KILLS // 2), (0.5, 3.0), expected, 14)


def probe_counts_are_exact_after_worker_kills(space):
    """Those that are killed compute each batch as a window of four."""
    train = synth(space / "train.tsv", longer(200000), 6)
    expected = digests(run_job(job_file(space / "calm.yaml", train, **PROBE), space / "calm", 2, 2))
    windows = {"train.batch": PROBE["train.batch"] // 4, "train.window": 4}
    repeated(space, train, {**PROBE, **windows, "train.lanes": 2, "model.norm": None, "model.dropout": None}, 2, 2, ["worker-0", "worker-1"],
             max(2, KILLS // 2), (0.3, 2.0), expected, 15)


# Pushes that bring rows back (train.prefetch), of batches computed as windows, and packed; pulls of fewer bits. A count has one value, and int8 with its
# scale is no smaller than bf16 there: the rows of networks are of int8.
COUNTS = [
    {"train.consistency": "async", "train.prefetch": 2, "net.gradients": "bf16"},
    {"train.consistency": "ssp", "train.prefetch": 2, "train.window": 2, "net.gradients": "bf16", "net.values": "bf16"},
    {"train.consistency": "bsp", "train.window": 2, "net.gradients": "bf16"},
    {"train.consistency": "async", "train.prefetch": 2, "train.window": 2, "net.values": "fp16"},
]
NETWORKS = [
    {"train.window": 2, "net.gradients": "int8", "net.values": "bf16"},
    {"train.window": 2, "net.gradients": "bf16", "tables[0].values": "bf16"},
]


def pushes_of_every_kind_survive_kills(space):
    """Jobs with these pushes take turns, and lose servers and workers: counts are those of a job with none of them, and what networks learn under bsp is
    what they learn undisturbed."""
    rng, died, jobs = random.Random(int(os.environ.get("SHOAL_SEED", "17"))), 0, []
    train = synth(space / "counted.tsv", longer(100000), 6)
    expected = digests(run_job(job_file(space / "plain.yaml", train, **{**PROBE, "train.consistency": "bsp"}), space / "plain", 2, 2))
    for over in COUNTS:
        jobs.append((expected, job_file(space / f"job-{len(jobs)}.yaml", train, **{**PROBE, **over}), over["train.consistency"] != "bsp"))
    train = synth(space / "learnt.tsv", 6000, 5)
    for over in NETWORKS:
        job = bsp_job(space, f"job-{len(jobs)}.yaml", train, **{"train.epochs": longer(20), "tables[0].dim": 16, **over})
        jobs.append((digests(run_job(job, space / f"calm-{len(jobs)}", 2, 2)), job, False))
    for number in range(max(len(jobs), KILLS)):
        expected, job, echoes = jobs[number % len(jobs)]
        run = Run(job, space / f"run-{number}", 2, 2)
        here = kill_at_random(run, ["server-0", "server-1", "worker-0", "worker-1"], min(10, max(1, KILLS - died)), rng, (0.1, 1.0))
        died += here
        assert run.wait(600) == 0, run.output()[-3000:]
        report = run.report()
        assert digests(report) == expected, f"run {number}, {here} kills, {job.read_text()}: {digests(report)}, undisturbed {expected}"
        assert (report["keys_echoed"] > 0) == echoes, (number, report["keys_echoed"])
        print(f"      run {number}: {here} kills, {report['worker_deaths']} deaths of workers; {died} in all", flush=True)
        shutil.rmtree(space / f"run-{number}")
        if died >= KILLS and number + 1 >= len(jobs):
            return
    raise TooShort(f"only {died} kills")


def frozen_worker_writes_nothing_when_it_wakes(space):
    train = synth(space / "train.tsv", 6000, 6)
    over = {**PROBE, "train.epochs": longer(60)}
    expected = digests(run_job(job_file(space / "calm.yaml", train, **over), space / "calm", 2, 2))
    run = Run(job_file(space / "job.yaml", train, **over), space / "run", 2, 2)
    time.sleep(1.0)
    strike(run, "worker-0", signal.SIGSTOP)
    time.sleep(4.0)  # beyond its lease of 2 s: its lane is with the other
    still_going(run)
    run.signal("worker-0", signal.SIGCONT)
    assert run.wait(300) == 0, run.output()[-3000:]
    assert digests(run.report()) == expected


def what_will_not_come_back_ends_the_run(space):
    """A run without its only worker or its server, left so by --no-restart, ends by itself and says why; one that is told to end does."""
    train = synth(space / "train.tsv", 6000, 6)
    job = job_file(space / "job.yaml", train, **{**PROBE, "train.epochs": 100000})
    for name, number, said in (("worker-0", signal.SIGKILL, "no worker is left and the job is not over"),
                               ("server-0", signal.SIGKILL, "server-0 has ended and --no-restart leaves it so"),
                               (None, signal.SIGTERM, "stopped by signal 15")):
        run = Run(job, space / f"run-{name}", 1, 1, ["--no-restart"])
        deadline = time.time() + 60
        while not run.children("worker-0") and time.time() < deadline:
            time.sleep(0.1)
        time.sleep(1.0)
        if name is not None:
            strike(run, name, number)
        else:
            run.process.send_signal(number)
        assert run.wait(100) != 0 and said in run.output(), run.output()[-3000:]


if __name__ == "__main__":
    main([server_killed_in_bsp_leaves_the_undisturbed_digest, server_killed_while_replies_are_lost, looking_ahead_gives_the_bits_of_prefetch_0,
          probe_counts_are_exact_after_server_kills, worker_killed_in_bsp_leaves_the_undisturbed_digest,
          probe_counts_are_exact_after_worker_kills, pushes_of_every_kind_survive_kills, frozen_worker_writes_nothing_when_it_wakes,
          what_will_not_come_back_ends_the_run])
