#!/usr/bin/env python3
"""test_device: a worker whose device is slow to open keeps its lease; one whose device fails ends with status 69 or 70, or goes on
by the CPU, and its lanes go to the others."""
import re

from lib import *

os.environ["SHOAL_CUDA_MODULE"] = "libshoal_broken.so"  # tests/e2e/broken_module.c: device 1 fails after 20 steps


LEASE_MS = 8000


def jobs(space, **more):
    train = synth(space / "train.tsv", 60000, 1)
    return job_file(space / "job.yaml", train, **{"train.backend": "cuda", "model.kind": "probe", "coordinator.lease": f"{LEASE_MS}ms", **more})


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
    run = Run(jobs(space, **{"train.epochs": longer(1000)}), space / "run", 1, 2)
    until(run, "the worker to be left", lambda: "going on without it" in run.output(), 120, 0.1)
    output = run.output()
    break_off(run, signal.SIGTERM)
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
    """Three lanes' streams take 12 s, the lease is 8."""
    with broken(open=4000):
        run = Run(jobs(space, **{"train.lanes": 3}), space / "run")
        status = run.wait()
    assert status == 0, run.output()
    assert run.report()["worker_deaths"] == 0, run.logs("coordinator")
    log = run.logs("worker-0")
    assert "joins again" not in log, log


def moment(line):
    """Milliseconds of the day of a line of a log."""
    hours, minutes, seconds = line.split()[1].partition("T")[2].rstrip("Z").split(":")
    return int(((int(hours) * 60 + int(minutes)) * 60 + float(seconds)) * 1000)


def line_with(log, text):
    found = [line for line in log.splitlines() if text in line]
    assert found, f"no line says {text!r}:\n{log[-3000:]}"
    return found[0]


def handed_over_ms(run, lanes_needed):
    """From the moment that worker-1 told of its device until its lanes were dealt to others; None when it held none."""
    told = moment(line_with(run.logs("worker-1"), "leaves, its lanes go to others"))
    log = run.logs("coordinator").splitlines()
    left = next(i for i, line in enumerate(log) if "(worker-1) leaves: " in line)
    number = log[left].split("worker ")[1].split()[0]
    held = {line.split("lane ")[1].split()[0] for line in log[:left] if f" to worker {number}, generation" in line}
    if not held or not lanes_needed:
        return None
    dealt = {}
    for line in log[left:]:
        if ": lane " in line and ", generation" in line:
            dealt.setdefault(line.split("lane ")[1].split()[0], moment(line))
    return max((dealt[lane] - told for lane in held if lane in dealt), default=None)


def a_lost_device_is_survived_whenever_it_is_lost(space):
    """The stand-in device of worker-1 is lost in the N-th call of each of its streams: bsp, so that the tables must be the same bits."""
    over = {"model.kind": "deepfm", "train.consistency": "bsp", "train.backend": "auto", "train.prefetch": 0, "train.epochs": 2,
            "train.batch": 64, "coordinator.lease": f"{LEASE_MS}ms"}
    train = synth(space / "train.tsv", 6000, 1)
    job = job_file(space / "job.yaml", train, **over)
    with broken(module="libshoal_cudahost.so", steps=0):
        whole = run_job(job, space / "whole", 1, 2)
        times = []
        for n in (1, 2, 3, 5, 8, 11, 14, 20, 40, 100, 300, 800, 2000):
            with broken(fail=f"{n}:lost"):
                run = Run(job, space / f"run-{n}", 1, 2, ["--no-restart"])
                assert run.wait() == 0, run.output()
            assert digests(run.report()) == digests(whole), f"call {n}: other tables"
            assert "worker-1 ended (exit status 69)" in run.output(), f"call {n}: {run.output()}"
            assert run.report()["worker_deaths"] == 0, f"call {n}: it did not leave in good order"
            line = line_with(run.logs("worker-1"), "leaves, its lanes go to others")
            call = re.search(r"planted failure of call (\d+)", line)  # n, or the one after a recording that was spoiled by it
            assert line.startswith("error") and call and int(call[1]) >= n and "(a device that fails)" in line, line
            times.append(handed_over_ms(run, n > 14))
    known = [t for t in times if t is not None]
    print(f"      lanes dealt to others after {known} ms of a lease of {LEASE_MS}")
    assert len(known) >= 3 and max(known) < LEASE_MS, times


def a_lost_device_gives_way_to_the_cpu_with_auto(space):
    over = {"train.backend": "auto", "tables[0].optimizer.kind": "sgd", "tables[0].optimizer.lr": 1, "train.epochs": 2}
    with broken(module="libshoal_cudahost.so", steps=0):
        whole = run_job(jobs(space, **over), space / "whole", 1, 2)
        for n in (2, 14, 300):
            with broken(fail=f"{n}:lost"):
                run = Run(jobs(space, **over), space / f"run-{n}", 1, 2, ["--no-restart"])
                assert run.wait() == 0, run.output()
            report = run.report()
            assert digests(report) == digests(whole), f"call {n}: examples were lost or counted twice"
            assert "worker-1 ended" not in run.output(), run.output()
            assert report["worker_deaths"] == 0
            line = line_with(run.logs("worker-1"), "goes on by another backend")
            assert line.startswith("error") and f"planted failure of call {n}" in line, line
            by = [b for b in report["backends"] if b["name"] == "worker-1"]
            assert [b["backend"] for b in by] == ["broken", "cpu"], by
            assert by[1]["why"].startswith("auto: the device was lost: ") and by[1]["device"].startswith("OpenBLAS"), by
            joined = [line for line in run.logs("coordinator").splitlines() if ": worker-1, process " in line]
            assert len(joined) == 2 and len({line.split("process ")[1].split(",")[0] for line in joined}) == 1, joined
            page = drawn(space / f"run-{n}/report.html")
            assert page is None or "auto: the device was lost" in page


def a_device_that_hangs_costs_no_more_than_the_lease(space):
    """One lane's step never comes back, the other's says that the device is lost."""
    over = {"train.epochs": 6, "train.lanes": 4}
    whole = run_job(jobs(space, **over), space / "whole")
    with broken(hang=1, steps=40):
        run = Run(jobs(space, **over), space / "run", 1, 2, ["--no-restart"])
        assert run.wait() == 0, run.output()
    assert "worker-1 ended (exit status 69)" in run.output(), run.output()
    assert digests(run.report()) == digests(whole)
    assert run.report()["worker_deaths"] == 0, run.logs("coordinator")
    took = handed_over_ms(run, True)
    print(f"      lanes dealt to others after {took} ms of a lease of {LEASE_MS}")
    assert took < LEASE_MS
    line_with(run.logs("worker-1"), "the device keeps a thread at work")


def a_worker_that_comes_back_without_its_device_ends_no_job(space):
    """Under bsp with auto: its device is lost, it is started again, takes the CPU, and is refused, for that gives other bits."""
    over = {"model.kind": "deepfm", "train.backend": "auto", "train.consistency": "bsp", "train.prefetch": 0, "train.epochs": 4}
    train = synth(space / "train.tsv", 6000, 1)
    job = job_file(space / "job.yaml", train, **over)
    with broken(module="libshoal_cudahost.so", steps=20, gone=space / "gone"):
        whole = run_job(job, space / "whole")
        run = Run(job, space / "run", 1, 2)
        assert run.wait() == 0, run.output()
    assert digests(run.report()) == digests(whole)
    assert "worker-1 ended (exit status 69), starting it again" in run.output(), run.output()
    assert "worker-1 cannot work for this job" in run.output() and "one kind of device" in run.output(), run.output()


def a_device_without_memory_says_what_to_make_smaller(space):
    over = {"model.kind": "deepfm", "train.backend": "auto", "train.consistency": "bsp", "train.prefetch": 0}
    train = synth(space / "train.tsv", 3000, 1)
    job = job_file(space / "job.yaml", train, **over)
    with broken(module="libshoal_cudahost.so", steps=0):
        whole = run_job(job, space / "whole", 1, 2)
        for n in (1, 4, 8, 16, 30):
            with broken(fail=f"{n}:full"):
                run = Run(job, space / f"run-{n}", 1, 2, ["--no-restart"])
                assert run.wait() == 0, run.output()
            assert digests(run.report()) == digests(whole), f"call {n}: other tables"
            assert "worker-1 ended (exit status 70)" in run.output(), run.output()
            line = line_with(run.logs("worker-1"), "leaves, its lanes go to others")
            assert "make train.batch" in line and "smaller" in line, line


def worker_of(report, name):
    return next(b for b in report["backends"] if b["name"] == name)


def chosen(worker):
    """Why it is this backend; an OPENBLAS_CORETYPE of this machine's environment may add its sentence."""
    return worker["why"].split("; OpenBLAS computes")[0]


def kernels_below_the_processor_are_told(space):
    words = {**os.environ, "OPENBLAS_CORETYPE": "Nehalem"}
    got = subprocess.run([SHOAL, "local", str(jobs(space, **{"train.backend": "cpu"})), "--run-dir", str(space / "slow")], env=words, capture_output=True,
                         text=True, check=False)
    assert got.returncode == 0 and "OPENBLAS_CORETYPE=Nehalem in the environment" in got.stdout, got


def every_worker_says_on_what_it_computes_and_why(space):
    report = run_job(jobs(space), space / "named")
    assert chosen(worker_of(report, "worker-0")) == "chosen by train.backend: cuda", report["backends"]
    assert worker_of(report, "worker-0")["device"] == "a device that fails", report["backends"]
    report = run_job(jobs(space, **{"train.backend": "auto"}), space / "auto")
    assert chosen(worker_of(report, "worker-0")) == "auto: there is a device", report["backends"]
    report = run_job(jobs(space, **{"train.backend": "cpu"}), space / "cpu")
    assert chosen(worker_of(report, "worker-0")) == "chosen by train.backend: cpu", report["backends"]
    assert worker_of(report, "worker-0")["device"].startswith("OpenBLAS "), report["backends"]
    run = Run(jobs(space, **{"train.backend": "auto", "train.epochs": 2000}), space / "going")
    status = ""
    deadline = time.time() + PATIENCE * 60
    while "there is a device" not in status and time.time() < deadline:
        time.sleep(0.2)
        status = subprocess.run([SHOAL, "status", "--run-dir", str(space / "going"), "--json"], capture_output=True, text=True, check=False).stdout
    text = subprocess.run([SHOAL, "status", "--run-dir", str(space / "going")], capture_output=True, text=True, check=False).stdout
    run.process.terminate()
    run.process.wait(60)
    worker = json.loads(status)["workers"][0]
    assert (worker["backend"], worker["device"], chosen(worker)) == ("broken", "a device that fails", "auto: there is a device"), worker
    assert "a device that fails; auto: there is a device" in text, text


def auto_without_the_module_is_an_error_in_the_log(space):
    module = os.environ["SHOAL_CUDA_MODULE"]
    try:
        os.environ["SHOAL_CUDA_MODULE"] = "libshoal_nowhere.so"
        run = Run(jobs(space, **{"train.backend": "auto"}), space / "run")
        assert run.wait() == 0, run.output()
        line = line_with(run.logs("worker-0"), "the CPU is taken")
        assert line.startswith("error") and "libshoal_nowhere.so" in line, line
        by = worker_of(run.report(), "worker-0")
        assert by["backend"] == "cpu" and by["why"].startswith("train.backend is auto, and the CPU is taken: ") and "libshoal_nowhere.so" in by["why"], by
        del os.environ["SHOAL_CUDA_MODULE"]
        run = Run(jobs(space, **{"train.backend": "auto"}), space / "bare")
        assert run.wait() == 0, run.output()
        if worker_of(run.report(), "worker-0")["backend"] == "cpu" and "no driver" in worker_of(run.report(), "worker-0")["why"]:
            assert "error" not in run.logs("worker-0"), run.logs("worker-0")
    finally:
        os.environ["SHOAL_CUDA_MODULE"] = module


def the_unit_starts_a_worker_again_whose_device_failed(space):
    unit = (pathlib.Path(__file__).parents[2] / "deploy/systemd/shoal-worker@.service").read_text()
    assert "\nRestart=on-failure\n" in unit
    never = re.search(r"^RestartPreventExitStatus=(.*)$", unit, re.M).group(1).split()
    assert "SuccessExitStatus" not in unit and not {"69", "70", "74"} & set(never) and "78" in never, never


if __name__ == "__main__":
    main([kernels_below_the_processor_are_told, every_worker_says_on_what_it_computes_and_why, auto_without_the_module_is_an_error_in_the_log,
          the_unit_starts_a_worker_again_whose_device_failed, a_device_that_is_slow_to_open_costs_no_lease,
          a_lost_device_is_survived_whenever_it_is_lost, a_lost_device_gives_way_to_the_cpu_with_auto,
          a_device_that_hangs_costs_no_more_than_the_lease, a_device_without_memory_says_what_to_make_smaller,
          a_worker_that_comes_back_without_its_device_ends_no_job,
          a_worker_with_a_failed_device_leaves_the_job_to_the_others, its_exit_status_is_69_and_it_is_started_again_a_few_times,
          a_worker_that_fails_every_time_is_left_where_it_lies])
