#!/usr/bin/env python3
"""test_moves: tablets move between servers while jobs train: a server is emptied and filled again, servers die in the middle of it."""
from fleet import Fleet as AnyFleet
from fleet import bsp_job, ended, shoal, submit, within
from lib import *

SERVERS = ["s0", "s1", "s2"]


class Fleet(AnyFleet):
    def __init__(self, space, name, shards=3):
        super().__init__(space, name, shards)

    def moves(self):
        return self.state().get("cluster", {}).get("moves")

    def order(self, *words, ok=True):
        got = shoal(*words, "--coordinator", self.endpoint)
        assert (got.returncode == 0) == ok, got
        return got.stdout + got.stderr

    def tablets(self):
        """Tablets by server."""
        plan = json.loads(self.order("rebalance", "--dry-run", "--json"))
        return {s["server"]: s["tablets"] for s in plan["shards"]}

    def wait_moved(self, seconds=120):
        time.sleep(0.5)  # the text of the status may be older than the order
        within(seconds, "the plan's end", lambda: "moves" not in self.state().get("cluster", {"moves": None}))


def trained(fleet):
    within(60, "the job to train", lambda: fleet.state().get("state") == "train" and fleet.state().get("examples", 0) > 0)
    time.sleep(1)


def a_server_is_emptied_and_filled_again(space):
    train = synth(space / "train.tsv", 6000, 5)
    expected = digests(run_job(bsp_job(space, "calm.yaml", train, longer(60)), space / "calm", 1, 2))
    with Fleet(space, "f").up() as fleet:
        submission = submit(fleet, bsp_job(space, "job.yaml", train, longer(60)))
        trained(fleet)
        before = fleet.tablets()
        assert set(before) == set(SERVERS) and min(before.values()) > 0, before
        assert "no shard is on a server nobody" in fleet.order("drain", "nobody", ok=False)
        dry = fleet.order("drain", "s1", "--dry-run")
        assert int(re.match(r"(\d+) tablets would move", dry).group(1)) >= before["s1"], dry
        fleet.order("drain", "s1")
        assert "are being moved already" in fleet.order("rebalance", ok=False) or fleet.moves() is None
        fleet.wait_moved()
        emptied = fleet.tablets()
        assert emptied["s1"] == 0 and sum(emptied.values()) == sum(before.values()), (before, emptied)
        fleet.order("rebalance")
        fleet.wait_moved()
        filled = fleet.tablets()
        assert filled["s1"] > 0, filled
        during = submission.poll() is None
        got = ended(fleet, submission)
        said = fleet.order("digest", "--from", "fleet")
        assert all(digest in said for _, digest in got.values()), (got, said)
    if not during:
        raise TooShort
    assert got == expected, f"{got}, undisturbed {expected}"


def servers_die_while_tablets_move(space):
    train = synth(space / "train.tsv", 6000, 5)
    expected = digests(run_job(bsp_job(space, "calm.yaml", train, longer(60)), space / "calm", 1, 2))
    rng, died = random.Random(3), 0
    with Fleet(space, "f").up() as fleet:
        submission = submit(fleet, bsp_job(space, "job.yaml", train, longer(60)))
        trained(fleet)
        for who in ["s1", "s0", "s2"]:
            fleet.order("drain", who)
            time.sleep(rng.uniform(0.05, 0.6))
            victim = rng.choice(SERVERS + ["coordinator"])
            moving = fleet.moves() is not None
            fleet.kill(victim)
            died += moving
            time.sleep(rng.uniform(0.1, 0.5))
            if victim == "coordinator":
                fleet.coordinator()
            else:
                fleet.server(victim)
            fleet.wait_moved()
        fleet.order("rebalance")
        fleet.wait_moved()
        got = ended(fleet, submission)
    if died == 0:
        raise TooShort
    assert got == expected, f"{got}, undisturbed {expected}"


if __name__ == "__main__":
    main([a_server_is_emptied_and_filled_again, servers_die_while_tablets_move])
