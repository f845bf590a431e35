"""whole: from the log to the tables: servers, workers and the card on this host, three epochs; the last one's rate is the figure, because in the
first the tables grow. One setting is changed at a time, and what is faster is kept for the next."""
import os
import subprocess
import sys
import time

import jobs
from session import end_all

GOAL = 1e6  # examples/s, on 16 cores
LINES_MOST = 20_000_000  # lines of the log, on 16 cores; fewer on fewer
EPOCHS = 3


def cores():
    return len(os.sched_getaffinity(0))


def start(s):
    """The setting to begin with, and what is tried one after the other."""
    n = cores()
    base = {"servers": max(1, n // 4), "workers": 1, "lanes": max(2, n * 3 // 8), "parse": None, "io": 1, "batch": 16384,
            "prefetch": 0, "deterministic": "true"}
    if s.dry:
        base.update(servers=1, lanes=2, batch=256)
        return base, [{"workers": 2}, {"servers": 2}, {"lanes": 1}, {"parse": 1}, {"io": 2}, {"batch": 128}, {"prefetch": 1}, {"deterministic": "false"}]
    return base, [{"io": 3}, {"workers": 2}, {"servers": max(1, n // 8)}, {"servers": max(2, n * 3 // 8)}, {"lanes": max(1, n // 4)},
                  {"lanes": max(2, n // 2)}, {"parse": max(1, n // 2)}, {"parse": max(1, n // 4)}, {"batch": 8192}, {"prefetch": 1},
                  {"deterministic": "false"}]


def name_of(setting):
    parse = "parse threads as ever" if setting["parse"] is None else f"{setting['parse']} parse threads"
    return (f"{setting['servers']} servers, {setting['workers']} workers, {setting['lanes']} lanes, {parse}, {setting['io']} for messages, "
            f"batch {setting['batch']}, prefetch {setting['prefetch']}" + ("" if setting["deterministic"] == "true" else ", not deterministic"))


# ---- the input -----------------------------------------------------------------------------------------------------


class Input:
    """A log in as many files as there are cores, each written by a `shoal synth` of its own; memory is touched beside it, for that of a
    machine that has just begun is slow the first time."""

    def __init__(self, s):
        self.files = min(16, cores())
        self.lines = 1500 if s.dry else min(LINES_MOST, LINES_MOST * cores() // 16) // self.files
        self.paths = [s.scratch / f"log-{i}.tsv" for i in range(self.files)]
        self.begin = time.monotonic()
        words = [[s.place.bin / "shoal", "synth", "--rows", self.lines, "--part", i, "--out", path] for i, path in enumerate(self.paths)]
        self.writers = [self.start(w, s.place.env()) for w in words]
        bytes_each = (64 << 20 if s.dry else min(40 << 30, memory_free() // 3)) // self.files
        touch = "import sys; b'\\1' * int(sys.argv[1])"
        self.touching = [self.start([sys.executable, "-c", touch, bytes_each], None) for _ in range(self.files)]

    def start(self, words, env):
        return subprocess.Popen([str(w) for w in words], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True, start_new_session=True)

    def wait(self, s):
        s.want(["whole/input"])
        for p in self.writers + self.touching:
            try:
                _, error = p.communicate(timeout=max(1, s.left()))
            except subprocess.TimeoutExpired:
                error = "it takes too long"
                end_all(p)
            if error or p.returncode != 0:
                s.fail(f"the input is not made: {error.strip()[-300:]}")
                return
        s.figure("whole/input", {"lines": self.lines * self.files, "files": self.files, "seconds": round(time.monotonic() - self.begin, 1)})

    def close(self):
        for p in self.writers + self.touching:
            if p.poll() is None:
                end_all(p)


def memory_free():
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


# ---- a setting -----------------------------------------------------------------------------------------------------


def train(s, what, made, files, setting, seconds, epochs=EPOCHS, backend="cuda", model=()):
    paths = ", ".join(str(p) for p in made.paths[:files])
    sets = [f"data.train=[{paths}]", f"train.epochs={epochs}", "train.precision=tf32", "durability=memory", *model]
    sets += [f"train.{key}={setting[key]}" for key in ("batch", "lanes", "prefetch", "deterministic")]
    sets += ["tables[0].tablets=64"] if s.dry else []
    r = jobs.run_local(s, what, backend, setting["servers"], setting["workers"], sets, seconds, setting["parse"], setting["io"])
    if not r:
        return None
    lines, rates = made.lines * files, [made.lines * files / e["seconds"] for e in r["epochs"]]
    spent = sum(r["cpu_seconds"].values())
    return {"setting": name_of(setting), "lines": lines, "first": round(rates[0]), "last": round(rates[-1]),
            "bottleneck": (r.get("bottleneck") or {}).get("stage"), "cpu_us_an_example": round(1e6 * spent / (lines * epochs), 2),
            **{key: r[key] for key in ("wall_seconds", "time", "busy", "cpu_seconds", "card_busy", "rows")}}


def small(s):
    return ["model.hidden=[16, 8]"] if s.dry else []


def stage_whole(made):
    def stage(s):
        setting, changes = start(s)
        s.want(["whole/start", *[f"whole/try {i + 1}" for i in range(len(changes))], "whole/best", "whole/ceiling"])
        if "whole/input" not in s.figures:
            return
        # One short run says how long a run takes; it also wakes up what is slow the first time.
        probe = train(s, "whole probe", made, 1, setting, 60, 2, model=small(s))
        if not probe:
            return
        each = 0.62 * s.left() / (len(changes) + 2)  # the rest is the last run's
        files = max(1, min(made.files, int((each - 4) * 0.8 * probe["last"] / (EPOCHS * made.lines)))) if not s.dry else 1
        best = train(s, "whole start", made, files, setting, 60, model=small(s))
        s.figure("whole/start", best)
        for i, change in enumerate(changes):
            other = dict(setting, **change)
            found = train(s, f"whole try {i + 1}", made, files, other, 60, model=small(s))
            s.figure(f"whole/try {i + 1}", found)
            if found and (not best or found["last"] > best["last"]):
                best, setting = found, other
            if found:
                s.say(f"{found['setting']}: {found['last']:,} examples/s")
        ceiling = train(s, "whole ceiling", made, files, setting, 60, backend="cpu", model=["model.kind=fm"])
        s.figure("whole/ceiling", ceiling)
        rate = best["last"] if best else probe["last"]
        files = max(files, min(made.files, int((s.left() - 15) * 0.75 * rate / (EPOCHS * made.lines))))
        s.figure("whole/best", train(s, "whole best", made, files, setting, s.left(), model=small(s)))
    return stage
