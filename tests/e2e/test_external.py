#!/usr/bin/env python3
"""test_external: model.kind: external: jobs whose network is a program's, in C over the installed libshoal: `shoal local --worker`, deaths, verbs that cannot."""
from library import *


def job_of(space, epochs=2, **over):
    return counting_job(space, "job.yaml", synth(space / "train.tsv", 8000, 5), epochs,
                        **{"model.kind": "external", "model.hidden": None, "tables[0].init.kind": "zero", "tables[0].optimizer.lr": 1.0, **over})


def counted(space, epochs=2):
    """The digest of the table that the built-in probe makes of the same job."""
    job = job_of(space, epochs, **{"model.kind": "probe"})
    report = run_job(job, space / "probe")
    return digests(report)["emb"]


def a_program_counts_what_the_probe_counts(space):
    program, wanted = compiled(space, "counting_worker"), counted(space)
    job = job_of(space, **{"data.valid": [str(synth(space / "valid.tsv", 1000, 6))]})
    report = run_job(job, space / "run", servers=2, workers=2, extra=("--worker", program))
    assert digests(report)["emb"] == wanted
    assert report["valid"]["examples"] == 1000, report["valid"]
    assert {b["backend"] for b in report["backends"]} == {"external"}, report["backends"]
    said = pathlib.Path(f"{space / 'run'}.out").read_text()
    again = re.search(r"\S+ local \S+ .*--worker \S+.* --servers 2 --workers 2", said)
    assert again and "()" not in said, said


def deaths_change_no_count(space):
    epochs = longer(6)
    program, wanted = compiled(space, "counting_worker"), counted(space, epochs)
    run = Run(job_of(space, epochs), space / "run", servers=2, workers=2, extra=("--worker", f"exec env SHOAL_TEST_FAIL=3 {program} worker-$SHOAL_WORKER"))
    started(run)
    for name in ("worker-0", "server-0", "worker-1", "server-1"):
        strike(run, name)
    assert run.wait() == 0, run.output()[-3000:]
    assert digests(run.report())["emb"] == wanted


def verbs_that_need_the_network_are_refused(space):
    program = compiled(space, "counting_worker")
    job = job_of(space, 1)
    run_job(job, space / "run", extra=("--worker", program))
    for words in (["predict", "--from", space / "run", "--in", space / "train.tsv"], ["eval", "--from", space / "run", "--in", space / "train.tsv"]):
        got = shoal(*words)
        assert got.returncode == 78 and "its network is a program's, which this command does not have" in got.stderr, got
    got = subprocess.run([BIN / "shoal-worker", "predict", "--config", job, "--in", space / "train.tsv", "--out", space / "out"], capture_output=True, text=True,
                         check=False)
    assert got.returncode == 78 and "shoal-worker has none to score with" in got.stderr, got
    for verb in ("digest", "tables"):
        got = shoal(verb, "--run-dir", space / "run")
        assert got.returncode == 0 and "emb" in got.stdout, got


def a_worker_that_cannot_is_told_so(space):
    job, builtin = job_of(space, 1), counting_job(space, "builtin.yaml", space / "train.tsv", 1)
    for name, path, extra, status, text in (
            ("without", job, (), 64, "its network is a program's, which --worker names"),
            ("builtin", builtin, ("--worker", "true"), 64, "external"),
            ("own", job, ("--worker", f"{BIN / 'shoal-worker'} train --config {job}"), 78, "shoal-worker has none for it"),
            ("nothing", job, ("--worker", "exit 0"), 69, "no worker is left"),
            ("broken", job, ("--worker", "echo boom >&2; exit 3"), 69, "(exit status 3): boom"),
            ("absent", job, ("--worker", "/no/such/program"), 69, "/no/such/program")):
        run = Run(path, space / name, extra=extra)
        got = run.wait(120)
        assert got == status and text in run.output(), (name, got, run.output()[-1500:])


def a_program_that_ignores_the_end_is_ended(space):
    run = Run(job_of(space, longer(1000)), space / "run", extra=("--worker", "exec sh -c 'trap \"\" TERM INT; while :; do sleep 0.1; done' worker-$SHOAL_WORKER"))
    until(run, "the job to wait for a worker", lambda: "waits for a worker" in run.output() and run.children("worker-0"))
    worker = pathlib.Path(f"/proc/{run.children('worker-0')[0]}")
    run.process.send_signal(signal.SIGINT)
    assert run.wait(60) != 0
    assert not worker.exists()


if __name__ == "__main__":
    main([a_program_counts_what_the_probe_counts, deaths_change_no_count, verbs_that_need_the_network_are_refused, a_worker_that_cannot_is_told_so,
          a_program_that_ignores_the_end_is_ended])
