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
    os.environ["OMP_NUM_THREADS"] = "1"  # threads of PyTorch that spin take the machine from tests beside this one


def probe_job(space, rows, epochs):
    return job_file(space / "job.yaml", synth(space / "train.tsv", rows, 6), **{
        "model.kind": "external", "model.hidden": None, "tables[0].dim": 1, "tables[0].init.kind": "zero", "tables[0].optimizer.kind": "sgd",
        "tables[0].optimizer.lr": 1.0, "train.batch": 128, "train.lanes": 4, "train.epochs": epochs, "train.prefetch": 4, "durability": "journal"})


def python_worker(fleet, who, pause=0.0):
    return fleet.start(who, "-c", PROBE, fleet.endpoint, pause, program=PYTHON)


def counted(space, disturb, worker=lambda fleet, who: python_worker(fleet, who, 0.002)):
    """Runs the probe on two servers and two workers, disturbed in the middle; each key's row is the number of its values."""
    python_there()
    epochs = longer(2)
    job = probe_job(space, 60000, epochs)
    with Fleet(space, "python") as fleet:
        fleet.up("--set", "lease=2s").fits()
        for who in ("w0", "w1"):
            worker(fleet, who)
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


def an_exception_gives_its_batch_to_the_other(space):
    """A script whose network fails at its 20th batch: it ends with 1, and the batch is another worker's."""
    failing = PROBE.replace("        time.sleep", "        if work.progress.batches == 20:\n            raise ValueError('mine')\n        time.sleep")
    assert failing != PROBE

    def disturb(fleet, submission):
        for n in range(3):
            under_way(submission)
            process = fleet.start("bad", "-c", failing, fleet.endpoint, 0.002, program=PYTHON)
            status = process.wait(PATIENCE * 30)
            if status == 0:
                raise TooShort("the job was over before the script failed")
            assert status == 1 and "ValueError: mine" in process.log.read_text(), (status, process.log.read_text())
            del fleet.running["bad"]

    counted(space, disturb)


def workers_leave_at_once(space):
    """One after the other takes a batch and leaves, while its other lanes have theirs at any stage: none waits for a taker."""
    guest = """
import shoal, sys, time
for _ in range(20):
    with shoal.join(sys.argv[1], lanes=4, name="guest") as work:
        if work.next() is None:
            sys.exit(3)
        begin = time.monotonic()
    assert time.monotonic() - begin < 10
"""

    def disturb(fleet, submission):
        process = fleet.start("guest", "-c", guest, fleet.endpoint, program=PYTHON)
        status = process.wait(PATIENCE * 60)
        if status == 3:
            raise TooShort("the job was over before the last guest")
        assert status == 0, process.log.read_text()
        del fleet.running["guest"]

    counted(space, disturb)


def a_notebook_goes_on_after_ctrl_c(space):
    """The only worker has no `with`; Ctrl-C comes in the middle of every 50th batch, and its cell is run again."""
    notebook = """
import numpy, shoal, signal, sys
work, struck = shoal.join(sys.argv[1]), set()
def cell():
    for batch in work:
        if batch.train:
            table = batch.tables[0]
            table.gradients[:, 0] = -numpy.bincount(batch.index - table.base, minlength=table.count)
        if batch.number % 50 == 0 and (batch.lane, batch.number) not in struck:
            struck.add((batch.lane, batch.number))
            signal.raise_signal(signal.SIGINT)
        batch.done(numpy.full(batch.examples, 0.5))
    return True
over = None
while not over:
    try:
        over = cell()
    except KeyboardInterrupt:
        pass
print(len(struck), "times")
"""
    counted(space, lambda fleet, submission: None, lambda fleet, who: who == "w0" and fleet.start(who, "-c", notebook, fleet.endpoint, program=PYTHON))


def a_fleet_outlives_its_servers_and_a_dataset_its_process(space):
    """One connection reads rows before and after all daemons were killed and started; so do processes of a DataLoader, forked and spawned."""
    python_there("torch")
    reader = space / "reader.py"
    reader.write_text("""
import numpy, shoal, sys, torch
class Rows(torch.utils.data.Dataset):
    def __init__(self, table, keys):
        self.table, self.keys = table, keys
    def __len__(self):
        return len(self.keys)
    def __getitem__(self, i):
        return self.table.fetch(self.keys[i:i + 1])[0]
if __name__ == "__main__":
    keys = numpy.array([k for b in shoal.Reader(sys.argv[2]) for k in b.tables[0].keys[:4]], numpy.uint64)
    with shoal.Fleet(sys.argv[1], wait=60) as fleet:
        rows = fleet["emb"].fetch(keys)
        for context in ("fork", "spawn"):
            loader = torch.utils.data.DataLoader(Rows(fleet["emb"], keys), batch_size=16, num_workers=2, multiprocessing_context=context)
            assert (torch.cat(list(loader)).numpy() == rows).all(), context
            print(context, flush=True)
        assert input() == "again"
        assert (fleet["emb"].fetch(keys) == rows).all() and rows.any()
        print("again", flush=True)
""")
    job = probe_job(space, 5000, 1)
    with Fleet(space, "python") as fleet:
        fleet.up().fits()
        python_worker(fleet, "w0")
        got = shoal("submit", job, "--coordinator", fleet.endpoint)
        assert got.returncode == 0, got
        process = subprocess.Popen([PYTHON, reader, fleet.endpoint, job], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = [process.stdout.readline() for _ in range(2)]
        assert said == ["fork\n", "spawn\n"], (said, process.stderr.read())
        for who in ("coordinator", "s0", "s1"):
            fleet.kill(who)
        fleet.up().fits()
        told = process.communicate("again\n", timeout=PATIENCE * 60)
        assert process.returncode == 0, told


def spaces_are_apart(space):
    """Two jobs, one after the other: a fleet of two spaces is asked which one, and a script for the first job does not work for the second."""
    python_there()
    job = probe_job(space, 3000, 1)
    other = space / "other.yaml"
    other.write_text(job.read_text().replace('job: "e2e"', 'job: "other"').replace('tables[0].dim: 1', 'tables[0].dim: 2'))
    with Fleet(space, "python") as fleet:
        fleet.up().fits()
        for one in (job, other):
            process = python_worker(fleet, "w0")
            got = shoal("submit", one, "--coordinator", fleet.endpoint)
            assert got.returncode == 0 and process.wait(PATIENCE * 30) == 0, (got, process.log.read_text())
        ask = "import shoal, sys\nwith shoal.Fleet(sys.argv[1], space=sys.argv[2] or None) as fleet:\n    print(fleet['emb'].dim)"
        for name, said in (("e2e", "1\n"), ("other", "2\n"), ("third", "NotFound"), ("", "UsageError")):
            got = subprocess.run([PYTHON, "-c", ask, fleet.endpoint, name], capture_output=True, text=True, timeout=120, check=False)
            assert said in got.stdout + got.stderr, (name, got)
        process = fleet.start("wrong", "-c", "import shoal, sys; shoal.join(sys.argv[1], job='other')", fleet.endpoint, program=PYTHON)
        submission = subprocess.Popen([SHOAL, "submit", job, "--coordinator", fleet.endpoint, "--start-from", "fleet"], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True)
        assert process.wait(PATIENCE * 30) == 1 and "gave this worker job e2e, and it is for job other" in process.log.read_text(), process.log.read_text()
        del fleet.running["wrong"]
        python_worker(fleet, "w0")
        ended(fleet, submission)


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
    got = subprocess.run([PYTHON, PACKAGE / "examples/deepfm.py", space / "job.yaml", "6"], capture_output=True, text=True, timeout=PATIENCE * 120, check=False)
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
          counts_are_exact_after_a_worker_was_killed, counts_are_exact_after_a_server_was_killed, sigterm_hands_the_lanes_to_the_other_worker,
          an_exception_gives_its_batch_to_the_other, workers_leave_at_once,
          a_notebook_goes_on_after_ctrl_c, a_fleet_outlives_its_servers_and_a_dataset_its_process,
          spaces_are_apart])
