#!/usr/bin/env python3
"""test_device: a worker whose device is slow to open keeps its lease; one whose device fails ends with status 69 or 70, or goes on
by the CPU, and its lanes go to the others."""
from lib import *

os.environ["SHOAL_CUDA_MODULE"] = "libshoal_broken.so"  # tests/e2e/broken_module.c: device 1 fails after 20 steps


def jobs(space, **more):
    train = synth(space / "train.tsv", 60000, 1)
    return job_file(space / "job.yaml", train, **{"train.backend": "cuda", "model.kind": "probe", **more})


def a_worker_with_a_failed_device_leaves_the_job_to_the_others(space):
    whole = run_job(jobs(space), space / "whole")
    assert whole["backend"] == "broken", whole["backend"]
    run = Run(jobs(space), space / "run", 1, 2, ["--no-restart"])
    status = run.wait()
    assert status == 0, run.output()
    assert digests(run.report()) == digests(whole), "examples were lost or counted twice"
    log = (space / "run/log/worker-1.log").read_text()
    assert "device 1 has fallen off the bus" in log, log
    assert run.report()["worker_deaths"] == 0, "it did not leave in good order"


def its_exit_status_is_69_and_it_is_started_again_a_few_times(space):
    whole = run_job(jobs(space, **{"train.epochs": 6}), space / "whole")
    run = Run(jobs(space, **{"train.epochs": 6}), space / "run", 1, 2)
    status = run.wait()
    assert status == 0, run.output()
    assert "worker-1 ended (exit status 69), starting it again" in run.output(), run.output()
    assert digests(run.report()) == digests(whole)


def a_worker_that_fails_every_time_is_left_where_it_lies(space):
    run = Run(jobs(space, **{"train.epochs": 1000}), space / "run", 1, 2)
    deadline = time.time() + 120
    while "going on without it" not in run.output() and time.time() < deadline:
        assert run.running(), run.output()
        time.sleep(0.1)
    output = run.output()
    run.process.terminate()
    run.process.wait(60)
    assert "worker-1 ended 5 times soon after its start (exit status 69: " in output, output
    assert "device 1 has fallen off the bus" in output, output


@contextlib.contextmanager
def broken(**settings):
    """Settings of tests/e2e/broken_module.c."""
    names = {f"SHOAL_BROKEN_{k.upper()}": str(v) for k, v in settings.items()}
    os.environ.update(names)
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]


def a_device_that_is_slow_to_open_costs_no_lease(space):
    """Three lanes' streams take 6 s, the lease is 2."""
    with broken(open=2000):
        run = Run(jobs(space, **{"train.lanes": 3}), space / "run")
        status = run.wait()
    assert status == 0, run.output()
    assert run.report()["worker_deaths"] == 0, run.logs("coordinator")
    log = run.logs("worker-0")
    assert "joins again" not in log, log


if __name__ == "__main__":
    main([a_device_that_is_slow_to_open_costs_no_lease, a_worker_with_a_failed_device_leaves_the_job_to_the_others, its_exit_status_is_69_and_it_is_started_again_a_few_times,
          a_worker_that_fails_every_time_is_left_where_it_lies])
