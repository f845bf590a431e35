#!/usr/bin/env python3
"""test_trace: `shoal trace` beside jobs that train: the stages of 100 batches add up to their wall time, shards' shares fit into the worker's times,
batches of a lane are computed one after the other, a stopped server is seen where it holds a batch up; what is not there is said so."""
from fleet import *
from test_sight import LONG


def begun(space, **over):
    fleet = Fleet(space, "a").up()
    fleet.fits()
    assert trace(fleet, "--every", 1).returncode == 0
    train(fleet, **over)
    return fleet


def train(fleet, *words, **over):
    keys = {**LONG, "train.batch": 64, "train.lanes": 2, "train.task_batches": 20, **over}
    job = job_file(fleet.space / "job.yaml", fleet.space / "train.tsv", **keys)
    fleet.worker("w", job)
    within(30, "the job to be taken", lambda: shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait", *words).returncode == 0)


def trace(fleet, *words):
    return shoal("trace", *words, "--coordinator", fleet.endpoint)


def traces(fleet, *words):
    got = trace(fleet, *words, "--json")
    assert got.returncode == 0, got
    return json.loads(got.stdout)


def hundred(fleet):
    """Waits for 100 traces of the job; returns all that there are."""
    return within(60, "100 traces", lambda: (t := traces(fleet)) and len(t["traces"]) >= 100 and not t["silent"] and t)


def stage(t, name):
    return next(s for s in t["stages"] if s["stage"] == name)


def ends(t, name):
    """When a stage began and ended, by the worker's clock."""
    at = t["begun_ms"]
    for s in t["stages"]:
        if s["stage"] == name:
            return at, at + s["ms"]
        at += s["ms"]
    raise KeyError(name)


def check(told, shards, prefetch):
    """Checks what must be true of all traces of a job."""
    parts = shared = stages = whole = 0
    for t in told["traces"]:
        assert abs(sum(s["ms"] for s in t["stages"]) - t["wall_ms"]) <= 0.05 * t["wall_ms"], t
        assert all(-0.001 <= s["beside_ms"] <= s["ms"] + 0.001 for s in t["stages"]), t
        assert stage(t, "read")["file_ms"] + stage(t, "read")["parse_ms"] <= stage(t, "read")["ms"] + 0.001
        assert 0 < stage(t, "compute")["thread_ms"] <= stage(t, "compute")["ms"] + 0.001
        assert t["examples"] > 0 and t["keys"] > 0
        for name in ("pull", "push"):
            s = stage(t, name)
            ahead = name == "pull" and prefetch > 0  # some rows, the last ones mostly, come with the pushes before
            assert ahead or (s["parts"] >= shards and {p["shard"] for p in s["slowest"]} == set(range(shards))), s
            if ahead and s["parts"] == 0:
                continue
            # the stage ends with its last answer, unless another process gets the processor between the two looks at the clock
            assert s["slowest"][0]["ms"] <= s["ms"] + 0.001, s
            stages += not ahead
            whole += not ahead and abs(s["slowest"][0]["ms"] - s["ms"]) <= 0.05 * s["ms"]
            for p in s["slowest"]:
                parts += 1
                if p["shard_ms"] is not None:
                    shared += 1
                    at_shard = sum(p["shard_ms"].values())
                    assert 0 < at_shard <= p["ms"] + 0.001 and abs(at_shard + p["way_ms"] - p["ms"]) < 0.001, p
    assert whole >= 0.9 * stages, (whole, stages)
    assert shared >= 0.9 * min(parts, shards * 4096), (shared, parts)
    for lane in {t["lane"] for t in told["traces"]}:
        own = sorted((t for t in told["traces"] if t["lane"] == lane), key=lambda t: t["batch"])
        for a, b in zip(own, own[1:]):
            assert ends(a, "compute")[1] <= ends(b, "compute")[0] + 0.001, (a, b)
            if prefetch == 0 and b["batch"] == a["batch"] + 1:  # no pull beside the compute of the batch before
                assert ends(b, "pull")[0] >= ends(a, "compute")[1] - 0.001, (a, b)
    beside = sum(stage(t, "pull")["beside_ms"] for t in told["traces"])
    assert beside < 0.001 if prefetch == 0 else beside > 0, beside


def stages_add_up(space):
    """Async and ssp with staleness, with and without prefetch; bsp."""
    synth(space / "train.tsv", 6000, 1)
    with begun(space, **{"train.consistency": "async", "train.staleness": None, "train.prefetch": 0}) as fleet:
        run = 0
        for over in (None, {"train.consistency": "ssp", "train.staleness": 1, "train.prefetch": 0},
                     {"train.consistency": "async", "train.staleness": None, "train.prefetch": 2},
                     {"train.consistency": "ssp", "train.staleness": 2, "train.prefetch": 2},
                     {"train.consistency": "bsp", "train.staleness": None, "train.prefetch": 0}):
            if over:
                train(fleet, "--start-from", "fleet", **over)
            told = within(60, "traces of the job", lambda: (t := hundred(fleet))["run"] > run and t)
            run = told["run"]
            check(told, 2, (over or {}).get("train.prefetch", 0))
            assert shoal("stop", "--coordinator", fleet.endpoint).returncode == 0
            fleet.running.pop("w").wait(PATIENCE * 30)


def a_stopped_server_is_seen(space):
    """Large batches: a worker traces at most 128 between two beats, and here each must be. The server is stopped again until a request met a stop
    early enough."""
    synth(space / "train.tsv", 20000, 1)
    with begun(space, **{"train.batch": 2000, "train.task_batches": 4}) as fleet:
        within(30, "a trace", lambda: traces(fleet)["traces"])
        shard = next(s["shard"] for s in fleet.state()["servers"] if s["name"] == "s1")

        def late():
            return [(t, p) for t in traces(fleet)["traces"] for s in ("pull", "push") for p in stage(t, s)["slowest"] if p["ms"] > 250]

        def stopped():
            fleet.running["s1"].send_signal(signal.SIGSTOP)
            time.sleep(0.8)
            fleet.running["s1"].send_signal(signal.SIGCONT)
            time.sleep(2.5)  # the worker's beat brings the trace
            return any(p["shard"] == shard for _, p in late())
        within(60, "a batch that was held up", stopped)
        assert trace(fleet, "--every", 0).returncode == 0  # or the newest take the place of what is looked at
        held = within(20, "the batch that was held up", late)
        # its request lay in the stopped server's socket, or waited there
        assert any(p["shard"] == shard for _, p in held), held
        t, p = next((t, p) for t, p in held if p["shard"] == shard)
        assert t["wall_ms"] > 250
        told = traces(fleet)
        text = trace(fleet, told["run"], t["lane"], t["batch"])
        assert text.returncode == 0 and re.search(rf"shard {shard}, \w+, \d+ keys", text.stdout), text
        # without that server the rest is told all the same
        fleet.kill("s1")
        got = trace(fleet, told["run"], t["lane"], t["batch"])
        assert got.returncode == 0 and f"shard {shard} does not answer" in got.stdout and "sum" in got.stdout, got


def what_is_not_there_is_said(space):
    synth(space / "train.tsv", 6000, 1)
    with Fleet(space, "a").up() as fleet:
        fleet.fits()
        got = trace(fleet)
        assert got.returncode == 66 and "shoal trace --every 100" in got.stderr, got
        train(fleet)
        got = trace(fleet, "--every", 10)
        assert got.returncode == 0 and "one batch in 10" in got.stdout, got
        told = within(30, "a trace", lambda: (t := traces(fleet)) and t["traces"] and t)
        assert all(t["batch"] % 10 == 0 for t in told["traces"])
        t = told["traces"][-1]
        got = trace(fleet, told["run"], t["lane"], t["batch"])
        lines = dict(line.split(None, 1) for line in got.stdout.splitlines() if re.match(r"(sum|read|compute) ", line))
        assert got.returncode == 0 and float(lines["sum"].split()[0]) == round(t["wall_ms"], 3), (got, t)
        assert float(lines["compute"].split()[0]) == round(stage(t, "compute")["ms"], 3), (got, t)
        got = trace(fleet, told["run"], t["lane"], t["batch"] + 1)
        assert got.returncode == 66 and "one in 10 is" in got.stderr, got
        got = trace(fleet, told["run"], t["lane"], 10 * 1000 * 1000)
        assert got.returncode == 66 and f"shoal trace {told['run']}" in got.stderr, got
        got = trace(fleet, told["run"])
        assert got.returncode == 0 and f"run {told['run']}," in got.stdout and "the slowest: shoal trace" in got.stdout, got
        for words in ((1, 2), ("x",), (1, 2, 0), (1, "--every", 5)):
            assert trace(fleet, *words).returncode == 64, words
        assert trace(fleet, "--every", 0).returncode == 0

        def over():
            """The worker's beats bring no more of them, though it trains on."""
            before, at = [t["batch"] for t in traces(fleet)["traces"]], fleet.state().get("examples", 0)
            time.sleep(2.5)
            return [t["batch"] for t in traces(fleet)["traces"]] == before and fleet.state().get("examples", 0) > at
        within(20, "the last trace", over)
        assert "no batch is traced now" in trace(fleet).stdout


if __name__ == "__main__":
    main([stages_add_up, a_stopped_server_is_seen, what_is_not_there_is_said])
