#!/usr/bin/env python3
"""test_pairs: what tests/pairs and tests/accuracy tell: the interval, runs that are kept, pairs, a straggler."""
import argparse
import math

from lib import *
from seeded import Kept, Runs, Straggler, interval

PAIRS = pathlib.Path(__file__).resolve().parents[1] / "pairs"
# Student (1908), additional hours of sleep by two drugs; the ends are those of R's t.test(paired = TRUE).
SLEEP = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]


def the_interval_is_students(space):
    mean, low, high = interval(SLEEP)
    assert abs(mean - 1.58) < 1e-9 and abs(low - 0.7001142) < 1e-4 and abs(high - 2.4598858) < 1e-4, (mean, low, high)
    mean, low, high = interval([1.0, 2.0])  # of one degree of freedom: tan(0.475 pi) / 2 on both sides
    assert abs(high - mean - math.tan(0.475 * math.pi) / 2) < 1e-3 and abs(low + high - 2 * mean) < 1e-9, (mean, low, high)
    assert interval([1.0])[1:] == (-math.inf, math.inf)


def a_run_that_is_kept_is_not_made_again(space):
    trained_for = []

    def trainer(job, seed, sets, servers, workers, straggler):
        trained_for.append((seed, sets))
        return {"auc": 0.5 + seed / 1000, "wall": 1.0 + seed}

    job, options = job_file(space / "job.yaml", space / "train.tsv"), argparse.Namespace(servers=1, workers=1, straggler=0.0)
    Runs(job, options, Kept(space / "kept"), space, trainer).make(1, ["a=1"])
    with open(space / "kept", "a", encoding="utf-8") as f:
        f.write('{"of": {"seed": 2}, "fig')  # its process was killed
    kept = Kept(space / "kept")
    runs = Runs(job, options, kept, space, trainer)
    assert runs.make(1, ["a=1"])["auc"] == 0.501 and trained_for == [(1, ["a=1"])], trained_for
    assert kept.longest() == 2.0
    runs.make(2, ["a=1"])
    runs.make(1, ["a=2"])
    Runs(job, argparse.Namespace(servers=1, workers=2, straggler=0.0), kept, space, trainer).make(1, ["a=1"])
    with open(job, "a", encoding="utf-8") as f:
        f.write("# another job\n")
    Runs(job, options, kept, space, trainer).make(1, ["a=1"])
    assert trained_for[1:] == [(2, ["a=1"]), (1, ["a=2"]), (1, ["a=1"]), (1, ["a=1"])], trained_for
    assert len((space / "kept").read_text(encoding="utf-8").splitlines()) == 5 == len(Kept(space / "kept").of)


def small_job(space, **over):
    train = space / "train.tsv"
    if not train.exists():
        subprocess.run([SHOAL, "synth", "--rows", "6000", "--seed", "3", "--out", train, "--valid-out", space / "valid.tsv", "--valid-rows", "2000"],
                       check=True, stdout=subprocess.DEVNULL)
    return job_file(space / "job.yaml", train, **{"data.valid": str(space / "valid.tsv"), "train.consistency": "bsp", "tables[0].init.kind": "uniform",
                                                  "tables[0].init.scale": 0.01, **over})


def pairs(job, *words):
    return subprocess.run([PAIRS, "--job", job, "--servers", "1", "--workers", "1", *map(str, words)], capture_output=True, text=True, timeout=300, check=False)


def equal_settings_differ_by_nothing_and_others_by_something(space):
    job = small_job(space)
    words = ["--seeds", 2, "--a", "train.prefetch=0", "--b", "train.prefetch=2", "--b", "dense_optimizer.lr=0.3", "--resume", space / "kept", "--within", 0.0003]
    first = pairs(job, *words, "--seconds", 0)
    assert first.returncode == 75 and "runs are left" in first.stdout, first  # one run has been made: how long the next takes is known
    assert len((space / "kept").read_text(encoding="utf-8").splitlines()) == 1
    done = pairs(job, *words)
    assert len((space / "kept").read_text(encoding="utf-8").splitlines()) == 6, done
    of_b, of_c = done.stdout.split("B - A, 2 pairs")[1].split("C - A, 2 pairs")
    assert "auc     +0.00000  (+0.00000 .. +0.00000)" in of_b and "digests: 2 of 2 pairs" in of_b and "AUC lies above" in of_b, done.stdout
    assert "digests: 0 of 2 pairs" in of_c and "AUC does not lie above" in of_c and done.returncode == 1, done.stdout
    same, other = (pairs(job, *words[:4], "--b", b, *words[8:10], "--equal") for b in ("train.prefetch=2", "dense_optimizer.lr=0.3"))
    assert (same.returncode, other.returncode) == (0, 1), (same, other)
    alone = pairs(job, "--seeds", 2, "--a", "train.prefetch=0", "--resume", space / "kept")
    assert alone.returncode == 0 and "standard deviation" in alone.stdout and "A, 2 pairs" not in alone.stdout, alone
    assert "age of gradients, mean in steps: dense 0.5, emb 0.5" in alone.stdout, alone  # two lanes: the second's is of one step


def a_straggler_is_stopped_for_its_share(space):
    run = Run(small_job(space, **{"train.epochs": 100000}), space / "run", 1, 2)
    started(run)
    slow = Straggler(run, "worker-1", 0.8)
    slow.start()
    time.sleep(4)
    stopped = slow.end()
    states = [pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] for pid in run.children("worker-1")]
    run.process.terminate()
    run.process.wait(60)
    assert 0.4 < stopped < 0.98, stopped
    assert states and "T" not in states, f"it is left stopped: {states}"


if __name__ == "__main__":
    main([the_interval_is_students, a_run_that_is_kept_is_not_made_again, equal_settings_differ_by_nothing_and_others_by_something,
          a_straggler_is_stopped_for_its_share])
