#!/usr/bin/env python3
"""test_external: jobs with model.kind: external: programs of `shoal local --worker` that fail, hang, end too early or are broken off; commands that would need the
program's network; a fleet that has workers and jobs of both kinds."""
from fleet import *
from test_python import PROBE, PYTHON, python_there

LASTING = 0.02  # seconds a batch
# the rows of a run, as `shoal export` wrote them, against the values of its input
COUNTS = """
import collections, numpy, shoal, sys
wanted, got = collections.Counter(), {}
for batch in shoal.Reader(sys.argv[1]):
    for key, count in zip(batch.tables[0].keys.tolist(), numpy.bincount(batch.index).tolist()):
        wanted[key] += count
for line in list(open(sys.argv[2]))[1:]:
    key, field, count = line.split("\\t")
    got[int(key, 0)] = float(count)
assert wanted and got == wanted, [(key, got.get(key), wanted[key]) for key in wanted if got.get(key) != wanted[key]][:5]
"""


def external(space, rows=4000, **over):
    """Writes a small job whose rows count examples."""
    return job_file(space / "job.yaml", synth(space / "train.tsv", rows, 6), **{
        "model.kind": "external", "model.hidden": None, "tables[0].dim": 1, "tables[0].init.kind": "zero", "tables[0].optimizer.kind": "sgd",
        "tables[0].optimizer.lr": 1.0, "train.batch": 128, "train.lanes": 2, **over})


def local(space, job, command, *words, run="run"):
    return subprocess.run([SHOAL, "local", job, "--run-dir", space / run, "--worker", command, *words], capture_output=True, text=True,
                          timeout=PATIENCE * 120, check=False)


def begun(space, job, command, workers=1):
    return Run(job, space / "run", 1, workers, ["--worker", command])


def refused(got, status, *parts):
    assert got.returncode == status, got
    for part in parts:
        assert part in got.stderr, (part, got.stderr)


def probe(space, pause=0.0, before=""):
    """A command that counts; before: what it does first."""
    python_there()
    (space / "probe.py").write_text(before + PROBE.replace("sys.argv[1]", "None").replace("float(sys.argv[2])", str(pause)), encoding="utf-8")
    return f"{PYTHON} '{space / 'probe.py'}'"


def told(run, number=0):
    """The number of the process, which a program printed first."""
    log = run.dir / f"log/worker-{number}.log"
    return int(until(run, "the program", lambda: log.exists() and log.read_text(errors="replace").split())[0])


TELLS = "import os\nprint(os.getpid(), flush=True)\n"


def counted(run, job):
    """Each row of an ended run is the number of its value's examples."""
    got = shoal("export", run, "--format", "tsv", "--out", f"{run}-rows")
    assert got.returncode == 0, got
    subprocess.run([PYTHON, "-c", COUNTS, job, f"{run}-rows/emb.tsv"], check=True, capture_output=True, text=True)


def the_program_is_told_where_to_work(space):
    """The environment, in a folder whose name has a blank."""
    (space / "a b").mkdir()
    command = 'echo "$SHOAL_WORKER of $SHOAL_WORKERS, $SHOAL_SPACE, $SHOAL_COORDINATOR, $SHOAL_JOB"; test -r "$SHOAL_JOB" && exit 64'
    refused(local(space, external(space), command, "--workers", "2", run="a b/run"), 69, "cannot run (exit status 64): ")
    for n in range(2):
        line = (space / f"a b/run/log/worker-{n}.log").read_text().splitlines()[0]
        assert re.fullmatch(rf"{n} of 2, e2e, ipc://\S+/coordinator, {re.escape(str(space.path))}/a b/run/job.yaml", line), line


def a_job_without_a_program_is_refused(space):
    job = external(space)
    for words in ((), ("--worker", " ")):
        got = subprocess.run([SHOAL, "local", job, "--run-dir", space / "run", *words], capture_output=True, text=True, timeout=60, check=False)
        refused(got, 64, "its network is a program's, which --worker names")
    got = subprocess.run([SHOAL, "local", job, "--run-dir", space / "run", "--worker", "true", "--set", "model.kind=lr"], capture_output=True, text=True, timeout=60,
                         check=False)
    refused(got, 64, "take --worker away")
    got = subprocess.run([SHOAL, "sweep", job, "--dir", space / "sweep", "--set", "train.batch=64,128"], capture_output=True, text=True, timeout=60, check=False)
    refused(got, 64, "its network is a program's, which --worker names")
    assert not (space / "sweep").exists()


def a_program_that_fails_each_time_ends_the_run(space):
    """Its start takes longer than that of a daemon before it fails."""
    got = local(space, external(space), "sleep 2.2; echo the reason of it; exit 3")
    refused(got, 69, "worker-0 cannot run (exit status 3): the reason of it; see")
    assert got.stdout.count("starting it again") == 4, got.stdout


def a_program_that_is_not_there_ends_the_run(space):
    refused(local(space, external(space), "no-such-program --at-all"), 69, "exit status 127", "no-such-program: not found")


def a_program_that_takes_no_batch_ends_the_run(space):
    got = local(space, external(space), "true")
    refused(got, 69, "every program of --worker has ended and the job is not over")
    assert "waits for a worker: none is there (model.kind: external" in got.stdout, got.stdout


def the_others_go_on_without_one_that_does_nothing(space):
    """One of two ends at once, with any status: the job does not wait for it."""
    command, job = probe(space), external(space)
    for status in (0, 9):
        got = local(space, job, f"test $SHOAL_WORKER = 0 && exit {status}; {command}", "--workers", "2", run=f"run{status}")
        assert got.returncode == 0, got
        counted(space / f"run{status}", job)


def a_killed_program_repeats_nothing(space):
    job = external(space, longer(30000))
    run = begun(space, job, probe(space, LASTING, TELLS), 2)
    told(run, 1)
    started(run)
    os.kill(told(run), signal.SIGKILL)
    assert run.wait() == 0, run.output()
    if "worker-0 ended (signal 9), starting it again" not in run.output():
        too_soon(0, run.output())
    counted(run.dir, job)


def a_run_that_was_broken_off_goes_on(space):
    """Ctrl-C, and the same line again. The program leaves in order, though it is one of several of its command. The line that repeats the run has all of it."""
    leaves = "import atexit, time\natexit.register(lambda: (time.sleep(0.5), print('left in order', flush=True)))\n"
    command = f"cd '{space}' && {probe(space, LASTING, leaves)}; true"
    job = external(space, longer(30000))
    run = begun(space, job, command)
    started(run)
    assert break_off(run, signal.SIGINT) == 69, run.output()
    assert "left in order" in run.logs("worker-0"), run.logs("worker-0")
    got = local(space, job, command)
    assert got.returncode == 0, got
    counted(run.dir, job)
    again = re.search(r"(\S+ local .*) --set train.consistency=bsp", got.stdout).group(1)
    done = subprocess.run(["/bin/sh", "-c", f"{again} --run-dir '{space}/again' --set train.consistency=bsp"], capture_output=True, text=True,
                          timeout=PATIENCE * 120, check=False)
    assert done.returncode == 0, done
    counted(space / "again", job)


def a_program_does_not_outlive_its_run(space):
    """kill -9 of `shoal local`: each program of the command ends."""
    run = begun(space, external(space, 100000), f"cd '{space}' && {probe(space, LASTING, TELLS)}; true")
    pid = told(run)
    started(run)
    run.process.kill()
    run.wait()
    within(20, "the program to end", lambda: not os.path.exists(f"/proc/{pid}"))


def a_program_that_ignores_the_end_is_killed(space):
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    run = begun(space, external(space, 200000), probe(space, LASTING, deaf + TELLS))
    pid = told(run)
    started(run)
    run.process.terminate()
    assert run.wait() == 69, run.output()
    within(5, "the program to end", lambda: not os.path.exists(f"/proc/{pid}"))


def a_program_that_hangs_is_missed(space):
    """One of two never joins: the job does not begin, and says so; Ctrl-C ends both."""
    run = begun(space, external(space), f"test $SHOAL_WORKER = 0 && sleep 1000; {probe(space)}", 2)
    until(run, "what it waits for", lambda: "waits for workers: 1 of the 2 that the job asked for are there" in run.output())
    run.process.send_signal(signal.SIGINT)
    assert run.wait(PATIENCE * 40) == 69, run.output()


def what_needs_the_network_is_refused(space):
    """predict, eval and the network as ONNX; all that reads rows goes on."""
    command = probe(space)
    job = external(space, **{"checkpoint.at_end": True, "checkpoint.dir": str(space / "ck"), "model.tensors[0].name": "w", "model.tensors[0].shape": [3, 2]})
    assert local(space, job, command).returncode == 0
    cut = next((space / "ck").glob("0*"))
    for where in (space / "run", cut):
        for words in (("predict", "--in", space / "train.tsv", "--out", space / "scores"), ("eval", "--in", space / "train.tsv")):
            refused(shoal(*words, "--from", where), 78, "model.kind: external: its network is a program's")
        refused(shoal("export", where, "--onnx", "--out", space / "x"), 78, "writes it as ONNX by itself")
        for form in ("npy", "safetensors", "tsv", "csv"):
            folder = space / f"{where.name}-{form}"
            got = shoal("export", where, "--format", form, "--out", folder)
            assert got.returncode == 0 and "1 tensor of dense" in got.stdout, got
    for words in (("digest", "--run-dir", space / "run"), ("tables", "--run-dir", space / "run"), ("checkpoint", "verify", cut), ("status", "--run-dir", space / "run")):
        assert shoal(*words).returncode == 0, words
    # the advice of eval: the job alone measures
    got = local(space, job, command, "--start-from", cut, "--set", "train.skip=true", "--set", f"data.test={space / 'train.tsv'}", "--set", "checkpoint.at_end=false",
                run="measured")
    assert got.returncode == 0 and "test        AUC 0.5000" in got.stdout, got
    # a sweep
    got = shoal("sweep", job, "--dir", space / "sweep", "--set", "train.batch=64,128", "--set", "checkpoint.at_end=false", "--worker", command)
    assert got.returncode == 0 and "--worker" in got.stdout, got


SCORES = """
import numpy, shoal
with shoal.join() as work:
    for batch in work:
        for tensor in batch.tensors.values():
            if batch.train:
                tensor.gradients[...] = 0.01
        batch.done(numpy.tile(numpy.array([0.4, 0.3], numpy.float32), (batch.examples, 1)))
"""


def losses(rows, label, score, weighted):
    """Log loss of a constant score over the rows that have the label."""
    there = [(int(row[label]), int(row[2]) if weighted else 1) for row in rows if row[label] != ""]
    return sum(w * -math.log(score if y else 1 - score) for y, w in there) / sum(w for _, w in there)


def two_labels(space, **over):
    """Writes a log of two labels, of which the second is mostly missing, with weights, and its job; returns the job and the rows of each part."""
    rng, parts = random.Random(5), {}
    for part, count in (("train", 6000), ("valid", 2000)):
        parts[part] = [(int(rng.random() < 0.3), "" if rng.random() < 0.9 else int(rng.random() < 0.2), rng.choice((1, 2, 3)), f"a{rng.randrange(50)}",
                        f"b{rng.randrange(9)}") for _ in range(count)]
        lines = ["click,buy,w,a,b", *(",".join(map(str, row)) for row in parts[part])]
        (space / f"{part}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return job_file(space / "job.yaml", space / "train.csv", **{
        "data.format": "csv", "data.label": ["click", "buy"], "data.weight": "w", "data.valid": str(space / "valid.csv"), "evaluate.by": ["b"],
        "model.kind": "external", "model.hidden": None, "model.tensors[0].name": "w", "model.tensors[0].shape": [3, 2], "tables[0].dim": 1, "train.epochs": 6,
        "train.early_stop.metric": "auc", "train.early_stop.patience": 1, **over}), parts


def several_labels_with_gaps_and_weights_are_measured(space):
    """Losses, figures by a column, progressive AUC and early stopping come from the program's scores."""
    python_there()
    job, parts = two_labels(space)
    (space / "scores.py").write_text(SCORES, encoding="utf-8")
    report = run_job(job, space / "run", extra=["--worker", f"{PYTHON} '{space / 'scores.py'}'"])
    assert len(report["epochs"]) == 2, report["epochs"]
    for t, score in enumerate((0.4, 0.3)):
        got = report["valid"]["tasks"][t]
        assert abs(got["logloss"] - losses(parts["valid"], t, score, False)) < 1e-5, (got["logloss"], losses(parts["valid"], t, score, False))
        assert got["auc"] == 0.5 and len(got["by"]["b"]) == 9, got
        train = report["epochs"][0]["tasks"][t]["train_logloss"]
        assert abs(train - losses(parts["train"], t, score, True)) < 0.02, (train, losses(parts["train"], t, score, True))


def a_network_that_changed_is_refused(space):
    """The tensors of a checkpoint and those of the job differ; what each sentence advises is tried."""
    python_there()
    job, _ = two_labels(space, **{"train.epochs": 1, "checkpoint.at_end": True, "checkpoint.dir": str(space / "ck")})
    (space / "scores.py").write_text(SCORES, encoding="utf-8")
    command = f"{PYTHON} '{space / 'scores.py'}'"
    run_job(job, space / "run", extra=["--worker", command])
    cut = next((space / "ck").glob("0*"))
    for n, (tensors, text, fresh) in enumerate((("[{name: w, shape: [3, 3]}]", "w is 3x3, it was 3x2", "[w]"), ("[{name: w, shape: [2, 3]}]", "w is 2x3, it was 3x2", "[w]"),
                                                ("[{name: w, shape: [3, 2]}, {name: b, shape: [2]}]", "b is new", "[b]"),
                                                ("[{name: v, shape: [3, 2]}]", "v is new; w is left over", "[v, w]"))):
        words = ("--start-from", cut, "--set", f"model.tensors={tensors}", "--set", "checkpoint.at_end=false")
        refused(local(space, job, command, *words, run=f"no{n}"), 78, "the model is not the one of the tables", text, f"add to fresh: {fresh}")
        got = local(space, job, command, *words, "--set", f"fresh={fresh}", run=f"yes{n}")
        assert got.returncode == 0, got
    got = local(space, job, command, "--start-from", cut, "--set", "model.first_order=true", "--set", "checkpoint.at_end=false", run="first")
    assert got.returncode == 0 and "first-order weights begin at 0" in got.stdout, got


def workers_of_both_kinds_share_a_fleet(space):
    """A shoal-worker that stays is not ended by a job that is for programs, and each job gets workers of its kind."""
    python_there()
    job = external(space, 8000, durability=None)
    other = counting_job(space, "other.yaml", space / "train.tsv", 1, job="other")
    with Fleet(space, "both") as fleet:
        fleet.up("--set", "lease=2s", "--set", "jobs=2").fits()
        stays = fleet.start("w0", "run", "--set", f"coordinator={fleet.endpoint}", program="shoal-worker")
        first = subprocess.Popen([SHOAL, "submit", job, "--coordinator", fleet.endpoint], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        within(20, "what the job waits for", lambda: "start the program that has the network" in fleet.told().stdout)
        assert stays.poll() is None, stays.log.read_text()
        assert "workers: 0 of the job at hand, 1 without a job" in fleet.doctor().stdout, fleet.doctor().stdout
        second = subprocess.Popen([SHOAL, "submit", other, "--coordinator", fleet.endpoint], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        text = second.communicate(timeout=PATIENCE * 60)[0]
        assert second.returncode == 0, text
        assert stays.poll() is None, stays.log.read_text()
        fleet.start("p0", "-c", PROBE, fleet.endpoint, 0, program=PYTHON)
        text = first.communicate(timeout=PATIENCE * 60)[0]
        assert first.returncode == 0, text
        assert stays.poll() is None, stays.log.read_text()


def a_worker_of_a_unit_leaves_in_words(space):
    """shoal-worker without --stay meets an external job alone: its status is one that a unit does not start again."""
    job = external(space, **{"durability": None})
    with Fleet(space, "unit") as fleet:
        fleet.up("--set", "lease=2s").fits()
        submission = subprocess.Popen([SHOAL, "submit", job, "--coordinator", fleet.endpoint], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        worker = fleet.start("w0", "train", "--coordinator", fleet.endpoint, program="shoal-worker")
        assert worker.wait(PATIENCE * 30) == 78, worker.log.read_text()
        assert "shoal-worker has none for it" in worker.log.read_text()
        under_way(submission)
        within(20, "the reason", lambda: "the last one left" in fleet.told().stdout)
        submission.kill()
        submission.communicate()


if __name__ == "__main__":
    main([the_program_is_told_where_to_work, a_job_without_a_program_is_refused, a_program_that_fails_each_time_ends_the_run,
          a_program_that_is_not_there_ends_the_run, a_program_that_takes_no_batch_ends_the_run, the_others_go_on_without_one_that_does_nothing,
          a_killed_program_repeats_nothing, a_run_that_was_broken_off_goes_on, a_program_does_not_outlive_its_run, a_program_that_ignores_the_end_is_killed,
          a_program_that_hangs_is_missed, what_needs_the_network_is_refused,
          several_labels_with_gaps_and_weights_are_measured, a_network_that_changed_is_refused, workers_of_both_kinds_share_a_fleet,
          a_worker_of_a_unit_leaves_in_words])
