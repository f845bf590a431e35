#!/usr/bin/env python3
"""test_shares: a greedy model, whose keys never end, beside a small one on a server whose memory is full: the small one has what its share gives it."""
import urllib.request

from fleet import *

MIB = 1 << 20
MEMORY = 48 * MIB


def log(path, rows, keys, seed):
    """A value of each of two columns; the first one moves the label. keys None: each line has new values."""
    draw = random.Random(seed)
    with open(path, "w", encoding="utf-8") as f:
        f.write("label,a,b\n")
        for i in range(rows):
            a, b = (draw.randrange(keys), draw.randrange(keys)) if keys else (seed * 10**7 + i, seed * 10**7 + i)
            f.write(f"{int(draw.random() < (0.8 if a % 3 == 0 else 0.2))},{a},{b}\n")
    return path


def job(space, name, rows, keys, **over):
    return job_file(space / f"{name}.yaml", log(space / f"{name}.csv", rows, keys, 1), **{
        "job": name, "data.format": "csv", "data.label": "label", "data.test": [str(log(space / f"{name}-test.csv", 3000, keys or 1000, 2))],
        "train.consistency": "bsp", "train.lanes": 1, "train.batch": 200, "tables[0].dim": 32, "durability": None, "model.kind": "fm",
        "model.hidden": None, **over})


def up(space, name, memory, *words):
    fleet = Fleet(space, name, shards=1)
    fleet.port = free_port()
    fleet.coordinator(*words)
    fleet.server("s0", "--set", f"memory={memory}", "--set", f"journal.segment={MIB}", "--set", f"metrics=127.0.0.1:{fleet.port}")
    return fleet


def metrics(fleet):
    with urllib.request.urlopen(f"http://127.0.0.1:{fleet.port}/metrics", timeout=PATIENCE * 10) as f:
        return f.read().decode()


def run(fleet, path, *words):
    """Trains a job to its end; its report."""
    worker = fleet.start("worker", "train", "--config", path, "--coordinator", fleet.endpoint, program="shoal-worker")
    got = shoal("submit", path, "--coordinator", fleet.endpoint, *words)
    assert got.returncode == 0, got
    assert worker.wait(PATIENCE * 30) == 0
    del fleet.running["worker"]
    return json.loads((fleet.space / "report.json").read_text())


def space_of(fleet, name):
    """The space in the status, once its figures have come: servers tell them every two seconds."""
    time.sleep(2.5)

    def told():
        return next((s for s in fleet.state().get("spaces", []) if s["space"] == name and s.get("memory_share")), None)
    return within(20, f"figures of space {name}", told)


def told_of(report):
    return report["tables"][0]["rows"], report["test"]["auc"], report["examples_per_second"]


def borrows(fleet, held):
    """What the small model and the greedy one have once memory is full: the small one has all of its rows there."""
    after, other = space_of(fleet, "small"), space_of(fleet, "greedy")
    assert after["rows_store"] == 0 and after["rows"] == held["rows"], after
    assert other["rows_store"] > 20000 and other["memory_bytes"] > other["memory_share"], other
    return after, other


def a_small_model_has_its_share_beside_a_greedy_one(space):
    """The greedy one fills the server; then the small one is trained, and the greedy one goes on with other keys while that rests."""
    small, greedy = job(space, "small", 30000, 10000), job(space, "greedy", 60000, None)
    with up(space, "alone", MEMORY // 2) as fleet:
        fleet.fits()
        alone = run(fleet, small)
    with up(space, "both", MEMORY) as fleet:
        fleet.fits()
        run(fleet, greedy)
        beside = run(fleet, small)

        def fits():
            held = space_of(fleet, "small")
            assert held["rows_store"] == 0 and 0 < held["memory_bytes"] <= held["memory_share"], held
            return held
        held = settled(20, fits)
        log(space / "greedy.csv", 60000, None, 3)
        run(fleet, greedy, "--start-from", "fleet")
        after, other = settled(20, lambda: borrows(fleet, held))
        print(f"      alone: rows, auc, rate {told_of(alone)}; beside {told_of(beside)}; small {after['memory_bytes'] / MIB:.1f} MiB in memory of a share of "
              f"{after['memory_share'] / MIB:.1f}, {after['rows_store']} rows in the store; greedy {other['memory_bytes'] / MIB:.1f} MiB, "
              f"{other['rows_store']} of {other['rows']} rows in the store", flush=True)
        assert digests(beside) == digests(alone) and beside["test"]["auc"] == alone["test"]["auc"], (beside["test"], alone["test"])
        listed = shoal("tables", "--coordinator", fleet.endpoint).stdout
        assert "its share is" in listed and "in the store" in listed, listed
        assert "weighs 1" in fleet.told().stdout


def weights_are_read_again(space):
    """A file gives weights, SIGHUP reads others, and a wrong one leaves those that count; a space that is not there is told."""
    small, other = job(space, "small", 2000, 500), job(space, "other", 2000, 500)
    file = space / "coordinator.yaml"
    file.write_text("memory: {small: 3}\n")
    with up(space, "f", MEMORY, "--config", str(file)) as fleet:
        fleet.fits()
        run(fleet, small)
        run(fleet, other)
        three, one = space_of(fleet, "small"), space_of(fleet, "other")
        assert three["weight"] == 3 and abs(three["memory_share"] / one["memory_share"] - 3) < 0.01, (three, one)
        told = within(10, "metrics of both spaces", lambda: (m := metrics(fleet)).count("shoal_space_memory_share_bytes{") == 2 and m)
        assert 'shoal_space_memory_bytes{shard="s0/0",space="small"}' in told and 'space="other",result="waits"} 0' in told, told
        file.write_text("memory: {small: 1, none: 2}\n")
        fleet.running["coordinator"].send_signal(signal.SIGHUP)
        within(10, "equal shares", lambda: abs(space_of(fleet, "small")["memory_share"] / space_of(fleet, "other")["memory_share"] - 1) < 0.01)
        assert "a weight for space none, which holds no tables" in fleet.doctor().stdout
        file.write_text("memory: {small: 0}\n")
        fleet.running["coordinator"].send_signal(signal.SIGHUP)
        within(10, "the refusal", lambda: "memory.small: 0 is not between" in fleet.said("coordinator"))
        within(10, "the weight of before", lambda: space_of(fleet, "small")["weight"] == 1)
        fleet.kill("s0")
        fleet.server("s0", "--set", f"memory={MEMORY}", "--set", f"journal.segment={MIB}")
        fleet.fits()
        assert space_of(fleet, "small")["memory_share"] > 0
        assert shoal("drop", "other", "--coordinator", fleet.endpoint).returncode == 0
        within(10, "the only space to have all", lambda: all(not s.get("memory_share") for s in fleet.state().get("spaces", [{"memory_share": 1}])))


if __name__ == "__main__":
    main([a_small_model_has_its_share_beside_a_greedy_one, weights_are_read_again])
