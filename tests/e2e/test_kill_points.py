#!/usr/bin/env python3
"""test_kill_points: servers die as by kill -9 at chosen steps of a flush, a checkpoint, an ageing, an eviction, a restore, a recovery, and of rows
that move to the store and back. Under bsp every job ends with the undisturbed run's digest, and every checkpoint that is to be seen is whole.

The server is one that counts these steps (killed_server.c): each death is known to have fallen into what it is called after. SHOAL_POINT_KILLS
says how many there are in each case (1; the long run takes 34, 238 in all)."""
import mmap
import struct

import lib
from lib import *

KILLS = int(os.environ.get("SHOAL_POINT_KILLS", "1"))
ACTIVITIES = ["none", "checkpoint", "flush", "age", "evict", "restore", "recovery", "cold"]
QUICK = 2.2  # a server that lived for so long does not count as one that cannot start
BEGIN, DAY = 1700000000, 86400


def programs(space):
    """A folder with all programs, the server that dies among them: `shoal local` starts what lies beside it."""
    folder = space / "bin"
    folder.mkdir()
    for file in [p for p in BIN.iterdir() if p.name.startswith(("shoal", "libshoal")) and p.is_file() and p.name != "shoal-server"]:
        link_or_copy(file, folder / file.name)
    link_or_copy(BIN / "killed" / "shoal-server", folder / "shoal-server")
    lib.SHOAL = folder / "shoal"


def link_or_copy(file, to):
    try:
        os.link(file, to)
    except OSError:
        shutil.copy2(file, to)


class Plan:
    """The file that the servers map: which server dies next, and how many steps there have been."""
    FORM = struct.Struct(f"iiq{len(ACTIVITIES)}q")

    def __init__(self, space):
        self.path = space / "plan"
        self.path.write_bytes(bytes(self.FORM.size))
        self.log = pathlib.Path(str(self.path) + ".log")
        self.log.write_text("")
        with open(self.path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), self.FORM.size)
        os.environ["SHOAL_KILL_PLAN"] = str(self.path)

    def arm(self, activity, steps, tear):
        struct.pack_into("i", self.map, 4, int(tear))
        struct.pack_into("q", self.map, 8, steps)
        struct.pack_into("i", self.map, 0, ACTIVITIES.index(activity))

    def disarm(self):
        struct.pack_into("i", self.map, 0, 0)

    def seen(self, activity):
        return struct.unpack_from("q", self.map, 16 + 8 * ACTIVITIES.index(activity))[0]

    def deaths(self):
        return self.log.read_text().splitlines()


class Kills:
    """Deaths in one activity, over as many runs as it takes."""

    def __init__(self, space, activity, steps):
        self.space, self.activity, self.steps = space, activity, steps
        self.plan, self.rng, self.runs = Plan(space), random.Random(activity), 0

    def done(self):
        return len(self.plan.deaths())

    def during(self, run, most=None, prompt=None):
        """Kills while the run lasts, at most `most`; prompt: what brings the activity about, called again and again."""
        wanted = min(KILLS, self.done() + (most or KILLS))
        self.runs += 1
        while run.running() and self.done() < wanted:
            before, armed = self.done(), time.monotonic()
            self.plan.arm(self.activity, self.rng.randint(1, self.steps), self.rng.random() < 0.5)
            while run.running() and self.done() == before and time.monotonic() - armed < 20:
                if prompt is not None:
                    prompt(run)
                time.sleep(0.005)
            if before % 3 == 2:  # let it live, or it counts as one that cannot start
                time.sleep(QUICK)
            else:
                time.sleep(self.rng.uniform(0, 0.3))
        self.plan.disarm()

    def end(self, run, expected):
        status = run.wait(600)
        assert status == 0, f"exit status {status}:\n{run.output()[-3000:]}"
        got = digests(run.report())
        assert got == expected, f"run {self.runs} after {self.plan.deaths()}: {got}, undisturbed {expected}"
        if self.runs > KILLS + 5:
            raise TooShort(f"only {self.done()} kills in {self.runs} runs")

    def told(self):
        calls = {}
        for line in self.plan.deaths():
            words = line.split()
            assert words[0] == self.activity, line
            calls[" ".join(words[1:-2])] = calls.get(" ".join(words[1:-2]), 0) + 1
        what = ", ".join(f"{n} {call}" for call, n in sorted(calls.items()))
        print(f"      {self.done()} kills in {self.runs} runs, {self.plan.seen(self.activity)} steps: {what}", flush=True)
        assert self.done() >= KILLS


def bsp(space, name, train, **over):
    keys = {"train.consistency": "bsp", "train.lanes": 3, "train.epochs": longer(12), "train.batch": 64, "model.norm": "batch", "tables[0].dim": 8,
            "journal.max": 1048576}
    keys.update(over)
    return job_file(space / name, train, **keys)


def verified(folder):
    """Every checkpoint that can be seen is whole; how many there are."""
    names = sorted(p.name for p in pathlib.Path(folder).iterdir() if not p.name.startswith(".") and not p.name.endswith(".tmp")) if pathlib.Path(folder).is_dir() else []
    for name in names:
        done = subprocess.run([lib.SHOAL, "checkpoint", "verify", pathlib.Path(folder) / name], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    return len(names)


def killed(space, activity, steps, job, prompt=None, memory=None):
    """Runs jobs until there are enough kills, each compared with an undisturbed run. memory: bytes that each server may take; the undisturbed run has all."""
    kills = Kills(space, activity, steps)
    expected = digests(run_job(job, space / "calm", 2, 2))
    if memory is not None:
        os.environ["SHOAL_KILL_MEMORY"] = str(memory)
        assert digests(run_job(job, space / "small", 2, 2)) == expected
    kills.steps = max(1, min(kills.steps, kills.plan.seen(activity) // 4)) if prompt is None else kills.steps  # several to a run
    assert kills.plan.seen(activity) > 0 or prompt is not None, f"no {activity} in the undisturbed run"
    seen = 0
    while kills.done() < KILLS:
        run = Run(job, space / f"run-{kills.runs}", 2, 2)
        kills.during(run, None, prompt)
        if prompt is not None and run.running():
            prompt(run)
        kills.end(run, expected)
        seen += verified(run.dir / "checkpoints")
    kills.told()
    return seen


def flush(space):
    killed(space, "flush", 60, bsp(space, "job.yaml", synth(space / "train.tsv", 6000, 31)))


def create(run):
    """One checkpoint, if the run lets itself be asked; it may come to nothing."""
    subprocess.run([lib.SHOAL, "checkpoint", "create", "--run-dir", run.dir], capture_output=True, timeout=60, check=False)


def checkpoint(space):
    job = bsp(space, "job.yaml", synth(space / "train.tsv", 6000, 32), **{"train.epochs": longer(20), "checkpoint.keep": 3})
    assert killed(space, "checkpoint", 80, job, create) > 0, "no checkpoint came to its end"
    left = next(p for p in sorted(space.path.glob("run-*/checkpoints/*")) if not p.name.endswith(".tmp"))
    next(left.glob("part-*/manifest")).unlink()  # the control: a half one is seen
    try:
        verified(left.parent)
    except AssertionError:
        return
    raise AssertionError(f"{left} lacks a file and passed")


def recovery(space):
    """Dies while it comes back from a death: the first one is in a flush."""
    job = bsp(space, "job.yaml", synth(space / "train.tsv", 6000, 33))
    kills = Kills(space, "recovery", 12)
    expected = digests(run_job(job, space / "calm", 2, 2))
    while kills.done() < KILLS:
        run = Run(job, space / f"run-{kills.runs}", 2, 2)
        kills.runs += 1
        wait_for(run, lambda: kills.plan.seen("flush") > 0)
        while run.running() and kills.done() < KILLS:
            before = kills.done()
            kills.plan.arm("recovery", kills.rng.randint(1, kills.steps), kills.rng.random() < 0.5)
            run.signal(kills.rng.choice(["server-0", "server-1"]))
            wait_for(run, lambda: kills.done() > before, 3)
            kills.plan.disarm()
            time.sleep(QUICK)
        kills.end(run, expected)
    kills.told()


def wait_for(run, what, seconds=20):
    end = time.monotonic() + seconds
    while run.running() and not what() and time.monotonic() < end:
        time.sleep(0.01)


def log_file(path, rows, days, seed):
    dice = random.Random(seed)
    with open(path, "w", encoding="utf-8") as f:
        f.write("click,at,user,item\n")
        for i in range(rows):
            f.write(f"{int(dice.random() < 0.3)},{BEGIN + int(i * days * DAY / rows)},u{int(dice.paretovariate(0.7)) % 20000},i{dice.randrange(400)}\n")
    return path


RULED = {"data.format": "csv", "data.label": "click", "data.time": "at", "data.shuffle": False, "train.epochs": 1, "train.task_batches": 4}


def age(space):
    """Rows that decay, and go with too low a score or after a time."""
    over = {"tables[0].evict": {"every_hours": 6, "decay": 0.9, "min_score": 0.15, "ttl_days": 2}, "tables[0].stats": True}
    killed(space, "age", 2000, bsp(space, "job.yaml", log_file(space / "train.csv", 40000, 20, 34), **RULED, **over))


def evict(space):
    """A table with room for a part of its rows."""
    over = {"tables[0].evict": {"capacity": 1500, "by": "lru", "every_hours": 0}}
    killed(space, "evict", 2000, bsp(space, "job.yaml", log_file(space / "train.csv", 40000, 20, 35), **RULED, **over))


def restore(space):
    """A job goes on from a checkpoint, and servers die while they take it in."""
    kills = Kills(space, "restore", 30)
    job = bsp(space, "job.yaml", synth(space / "train.tsv", 6000, 36), **{"checkpoint.every_batches": 60, "checkpoint.keep": 0})
    expected = digests(run_job(job, space / "calm", 2, 2))
    made = sorted(p for p in (space / "calm" / "checkpoints").iterdir())
    job = bsp(space, "job.yaml", space / "train.tsv")
    while kills.done() < KILLS:
        run = Run(job, space / f"run-{kills.runs}", kills.rng.choice([1, 2, 3]), 2, ["--resume", str(kills.rng.choice(made))])
        kills.during(run, 3)
        kills.end(run, expected)
    kills.told()


def cold(space):
    """Servers with memory for a part of their rows."""
    job = bsp(space, "job.yaml", synth(space / "train.tsv", 6000, 37), **{"train.epochs": longer(4)})
    killed(space, "cold", 2000, job, memory=3 << 20)


def with_programs(case):
    def run(space):
        os.environ.pop("SHOAL_KILL_MEMORY", None)
        programs(space)
        case(space)

    run.__name__ = case.__name__
    return run


if __name__ == "__main__":
    main([with_programs(case) for case in (flush, checkpoint, recovery, age, evict, restore, cold)])
