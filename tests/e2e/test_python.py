#!/usr/bin/env python3
"""test_python: workers in Python on a fleet: a probe whose rows count examples; kill -9 of a worker and of a server in the middle: counts are exact."""
from fleet import *

PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's numpy and torch
PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "worker/python"
PROBE = """
import numpy, shoal, sys, time
with shoal.join(sys.argv[1]) as work:
    for batch in work:
        if batch.train:
            table = batch.tables[0]
            table.gradients[:, 0] = -numpy.bincount(batch.index - table.base, minlength=table.count)
        time.sleep(float(sys.argv[2]))
        batch.done(numpy.full(batch.examples, 0.5))
"""
COUNTS = """
import collections, numpy, shoal, sys
wanted = collections.Counter()
for batch in shoal.Reader(sys.argv[2]):
    for key, count in zip(batch.tables[0].keys.tolist(), numpy.bincount(batch.index).tolist()):
        wanted[key] += count * int(sys.argv[3])
with shoal.Fleet(sys.argv[1]) as fleet:
    keys = numpy.array(list(wanted), numpy.uint64)
    got = fleet["emb"].fetch(keys)[:, 0]
wrong = int((got != numpy.array(list(wanted.values()), numpy.float32)).sum())
print(f"{len(keys)} keys, {wrong} wrong, {got.sum():.0f} counted of {sum(wanted.values())}")
sys.exit(1 if wrong else 0)
"""


def python_there(module="numpy"):
    if not os.path.exists(PYTHON) or subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode != 0:
        raise Skip(f"needs python3-{module}")
    os.environ["LD_LIBRARY_PATH"], os.environ["PYTHONPATH"] = str(BIN), str(PACKAGE)


def probe_job(space, rows, epochs):
    return job_file(space / "job.yaml", synth(space / "train.tsv", rows, 6), **{
        "model.kind": "external", "model.hidden": None, "tables[0].dim": 1, "tables[0].init.kind": "zero", "tables[0].optimizer.kind": "sgd",
        "tables[0].optimizer.lr": 1.0, "train.batch": 128, "train.lanes": 4, "train.epochs": epochs, "train.prefetch": 4, "durability": "journal"})


def python_worker(fleet, who, pause=0.0):
    return fleet.start(who, "-c", PROBE, fleet.endpoint, pause, program=PYTHON)


def counted(space, disturb):
    """Runs the probe on two servers and two workers, disturbed in the middle; each key's row is the number of its values."""
    python_there()
    epochs = longer(2)
    job = probe_job(space, 60000, epochs)
    with Fleet(space, "python") as fleet:
        fleet.up("--set", "lease=2s").fits()
        for who in ("w0", "w1"):
            python_worker(fleet, who, 0.002)
        submission = subprocess.Popen([SHOAL, "submit", job, "--coordinator", fleet.endpoint], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        training(fleet)
        disturb(fleet, submission)
        ended(fleet, submission)
        got = subprocess.run([PYTHON, "-c", COUNTS, fleet.endpoint, job, str(epochs)], capture_output=True, text=True, timeout=120, check=False)
        assert got.returncode == 0, got
        print(f"      {got.stdout.strip()}", flush=True)


def undisturbed_counts_are_exact(space):
    counted(space, lambda fleet, submission: None)


def counts_are_exact_after_a_worker_was_killed(space):
    def disturb(fleet, submission):
        for n in range(3):
            time.sleep(0.5)
            under_way(submission)
            fleet.kill("w0")
            python_worker(fleet, "w0", 0.002)

    counted(space, disturb)


def counts_are_exact_after_a_server_was_killed(space):
    def disturb(fleet, submission):
        for n in range(3):
            time.sleep(0.7)
            under_way(submission)
            fleet.kill("s0")
            fleet.server("s0")

    counted(space, disturb)


def sigterm_hands_the_lanes_to_the_other_worker(space):
    def disturb(fleet, submission):
        under_way(submission)
        process = fleet.running["w0"]
        fleet.stop("w0")
        assert process.returncode == 143, (process.returncode, process.log.read_text())

    counted(space, disturb)


def the_example_differs_by_five_lines(space):
    examples = PACKAGE / "examples"
    local, ours = ((examples / name).read_text().splitlines() for name in ("deepfm.py", "deepfm_shoal.py"))
    assert len(local) == len(ours) <= 60, (len(local), len(ours))
    assert sum(a != b for a, b in zip(local, ours)) == 5


def example_job(space, epochs):
    """Writes a small log of ten columns, and the examples' job over it."""
    rng, names = random.Random(3), [f"c{i}" for i in range(10)]
    for part, rows in (("train", longer(30000)), ("valid", 4000)):
        with open(space / f"{part}.csv", "w", encoding="utf-8") as f:
            f.write("label," + ",".join(names) + "\n")
            for _ in range(rows):
                cells = [rng.randrange(20) for _ in names]
                f.write(f"{int((cells[0] + cells[1] * 7) % 11 < 4)}," + ",".join(f"v{c}" for c in cells) + "\n")
    job = (PACKAGE / "examples/frappe.yaml").read_text().replace("data/frappe/train.csv.gz", str(space / "train.csv"))
    job = job.replace("data/frappe/valid.csv.gz", str(space / "valid.csv")).replace("epochs: 100", f"epochs: {epochs}")
    (space / "job.yaml").write_text(job)
    return space / "job.yaml"


def the_example_reads_and_learns(space):
    """deepfm.py on a small log: its AUC grows."""
    python_there("torch")
    example_job(space, 6)
    got = subprocess.run([PYTHON, PACKAGE / "examples/deepfm.py", space / "job.yaml", "6"], capture_output=True, text=True, timeout=300, check=False)
    assert got.returncode == 0, got
    aucs = [float(line.split()[-1]) for line in got.stdout.splitlines()]
    assert len(aucs) == 6 and aucs[-1] > 0.9, aucs


def the_example_trains_on_a_fleet(space):
    """deepfm_shoal.py, started twice by shoal local --worker: the report has an AUC that is as good."""
    python_there("torch")
    worker = f"{PYTHON} {PACKAGE / 'examples/deepfm_shoal.py'}"
    report = run_job(example_job(space, 6), space / "run", 2, 2, ["--worker", worker])
    assert report["valid"]["auc"] > 0.9, report["valid"]


if __name__ == "__main__":
    main([the_example_differs_by_five_lines, the_example_reads_and_learns, the_example_trains_on_a_fleet, undisturbed_counts_are_exact,
          counts_are_exact_after_a_worker_was_killed, counts_are_exact_after_a_server_was_killed, sigterm_hands_the_lanes_to_the_other_worker])
