#!/usr/bin/env python3
"""test_moves: tablets move between servers while jobs train: servers join and leave, servers die in the middle of it."""
import shutil
from collections import Counter

from fleet import Fleet as AnyFleet
from fleet import bsp_job, ended, settled, shoal, submit, under_way, within
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

    def members(self):
        return {s["name"] for s in self.state().get("servers", [])}

    def drained(self, who):
        """Has a server emptied, waits until no job awaits it, and switches it off."""
        self.order("drain", who)
        self.wait_moved()
        within(20, f"{who} to leave", lambda: self.members() and who not in self.members())
        self.stop(who)

    def added(self, who):
        """Starts a server, whose folder is empty, and adds it once it waits."""
        self.server(who)
        within(20, f"{who} to wait", lambda: shoal("add", who, "--coordinator", self.endpoint).returncode == 0)
        within(20, f"{who} to join", lambda: who in self.members())


def trained(fleet, submission):
    """Waits until the job trains. A job that is over before it was seen to train is too short."""

    def seen():
        state = fleet.state()
        return submission.poll() is not None or (state.get("state") == "train" and state.get("examples", 0) > 0)

    within(120, "the job to train", seen)
    under_way(submission)
    time.sleep(1)


def servers_join_and_leave(space):
    """Three servers become four, then three others; the one that left is switched off."""
    train = synth(space / "train.tsv", 6000, 5)
    expected = digests(run_job(bsp_job(space, "calm.yaml", train, longer(60)), space / "calm", 1, 2))
    with Fleet(space, "f").up() as fleet:
        submission = submit(fleet, bsp_job(space, "job.yaml", train, longer(60)))
        trained(fleet, submission)
        before = fleet.tablets()
        assert set(before) == set(SERVERS) and min(before.values()) > 0, before
        assert "no shard is on a server nobody" in fleet.order("drain", "nobody", ok=False)
        assert "no server s3 waits for a place" in fleet.order("add", "s3", ok=False)
        fleet.added("s3")
        assert fleet.tablets()["s3"] == 0
        fleet.order("rebalance")
        fleet.wait_moved()
        assert fleet.tablets()["s3"] > 0
        dry = fleet.order("drain", "s1", "--dry-run")
        assert int(re.match(r"(\d+) tablets would move", dry).group(1)) > 0, dry
        fleet.drained("s1")
        after = fleet.tablets()
        assert set(after) == {"s0", "s2", "s3"} and sum(after.values()) == sum(before.values()), (before, after)
        # verbs that ask all shards do not ask for the number that is retired
        for verb in [["digest", "--from", "fleet"], ["tables"], ["tables", "--heat"]]:
            fleet.order(*verb)
        # its folder is of before; an empty one is a new server's
        fleet.server("s1")
        within(15, "s1 to be refused", lambda: "was drained (shoal drain)" in fleet.said("s1"))
        note = "note: server s1 is drained (shards: 1), and no job needs it: switch it off"  # an operator wanted it
        within(15, "status to say so", lambda: note in fleet.told().stdout)

        def no_problem():
            doctor = fleet.doctor()
            assert doctor.returncode == 0 and re.search(r"note: +notes +server s1 is drained", doctor.stdout) and fleet.state()["problems"] == [], doctor
        settled(15, no_problem)
        fleet.stop("s1")
        shutil.rmtree(fleet.folder("s1") / "shard-0")  # as it says
        fleet.added("s1")
        fleet.order("rebalance")
        fleet.wait_moved()
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
    rng, died, turns = random.Random(3), 0, 0
    with Fleet(space, "f").up() as fleet:
        submission = submit(fleet, bsp_job(space, "job.yaml", train, longer(60)))
        trained(fleet, submission)
        while turns < 3 or died == 0 and turns < 12:  # tablets may have moved before the kill
            who = ["s1", "s0", "s2"][turns % 3]
            turns += 1
            fleet.order("drain", who)
            soon = time.monotonic() + rng.uniform(0.05, 0.6)
            while time.monotonic() < soon and fleet.moves() is None:
                time.sleep(0.02)
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
            within(20, f"{who} to leave", lambda gone=who: fleet.members() and gone not in fleet.members())
            fleet.stop(who)
            shutil.rmtree(fleet.folder(who))
            fleet.added(who)
            fleet.order("rebalance")
            fleet.wait_moved()
        got = ended(fleet, submission)
    assert died > 0, f"no tablet moved at any of {turns} kills"
    assert got == expected, f"{got}, undisturbed {expected}"


def a_job_goes_back_over_moves(space):
    """A rate that swings, so that the best epoch is not the last: its cut has the tablets where they were before the moves."""
    train, valid = synth(space / "train.tsv", longer(24000), 1), synth(space / "valid.tsv", 5000, 2)

    def swings(name):
        return job_file(space / name, train, **{
            "data.valid": str(valid), "data.test": str(valid), "train.epochs": 30, "train.batch": 128, "train.early_stop.patience": 4,
            "train.early_stop.lr_decay": 1.0, "train.consistency": "bsp", "train.lanes": 4, "tables[0].optimizer.lr": 0.5,
            "dense_optimizer.lr": 0.05, "durability": None})

    expected = digests(run_job(swings("calm.yaml"), space / "calm", 1, 2))
    with Fleet(space, "f").up() as fleet:
        submission = submit(fleet, swings("job.yaml"))
        trained(fleet, submission)
        within(120, "the first epoch to be kept", lambda: (fleet.state().get("epoch") or 0) > 1)
        fleet.order("drain", "s1")
        got = ended(fleet, submission)
        report, said = json.loads((space / "report.json").read_text()), fleet.said("coordinator")
        fleet.wait_moved()
        within(20, "s1 to leave", lambda: fleet.members() and "s1" not in fleet.members())
    best = max(e["valid"]["auc"] for e in report["epochs"])
    assert report["epochs"][-1]["valid"]["auc"] < best, "the last epoch is the best: nothing was restored"
    assert abs(report["test"]["auc"] - best) < 1e-6, (report["test"], best)
    assert got == expected, f"{got}, undisturbed {expected}"
    if "its tablets go first to the shards" not in said:
        raise TooShort


def erased_keys_leave_their_former_owners(space):
    """The server that had a tablet before it moved has the pushes of its keys in journal and archive: they are blamed, and erasing takes them
    from there too. The gradients are packed."""
    train = synth(space / "train.tsv", 4000, 3)
    column = (line.split("\t")[14] for line in train.read_text().splitlines())
    values = [value for value, _ in Counter(v for v in column if v).most_common(20)]
    with Fleet(space, "f") as fleet:
        fleet.coordinator()
        for who in SERVERS:
            fleet.server(who, "--set", "journal.keep=64MiB", "--set", "journal.segment=64KiB")
        ended(fleet, submit(fleet, job_file(space / "job.yaml", train, durability=None, **{"net.gradients": "int8", "tables[0].dim": 8}), 1))
        keys = [json.loads(fleet.order("inspect", "emb", f"0:{value}", "--json"))["key"] for value in values]

        def held():
            """Servers with more of each key than its name in the list of those that are blocked."""
            files = {who: [f.read_bytes() for part in ("archive", "journal") for f in fleet.folder(who).glob(f"shard-*/{part}/seg-*")]
                     for who in [*SERVERS, "s3"]}
            return {key: [who for who, all_of in files.items() if sum(f.count(int(key, 16).to_bytes(8, "little")) for f in all_of) > 1] for key in keys}

        def blamed():
            """Runs, lanes and batches of each value's pushes; they must be all that there were."""
            found = {value: json.loads(fleet.order("blame", "emb", f"0:{value}", "--json", "--limit", "1000")) for value in values}
            assert all(f["complete"] and f["pushes"] and not f["not_asked"] for f in found.values()), found
            return {value: sorted((p["run"], p["lane"], p["batch"]) for p in f["pushes"]) for value, f in found.items()}

        before = blamed()
        fleet.added("s3")
        fleet.order("rebalance")
        fleet.wait_moved()
        assert fleet.tablets()["s3"] > 10 and all(held().values()), held()
        assert blamed() == before
        (space / "keys").write_text("\n".join(keys) + "\n")
        receipt = json.loads(fleet.order("erase", "emb", "--keys", space / "keys"))["shards"]
        assert len(receipt) == 4 and all(s["sequence"] > 0 for s in receipt) and sum(s["newly_erased"] for s in receipt) == 20, receipt
        assert not any(held().values()), held()
        for value in values:
            assert json.loads(fleet.order("blame", "emb", f"0:{value}", "--json"))["pushes"] == []


def tablets_that_are_too_large_end_the_plan(space):
    """A journal segment of the server that joins has no room for a tablet: the plan ends, the status tells why, and what it advises helps."""
    train = synth(space / "train.tsv", 4000, 3)
    small = ("--set", "journal.segment=64KiB")
    with Fleet(space, "f") as fleet:
        fleet.coordinator()
        for who in SERVERS:
            fleet.server(who)
        ended(fleet, submit(fleet, job_file(space / "job.yaml", train, durability=None, **{"tables[0].dim": 16, "tables[0].tablets": 64}), 1))
        fleet.server("s3", *small)
        within(20, "s3 to wait", lambda: shoal("add", "s3", "--coordinator", fleet.endpoint).returncode == 0)
        within(20, "s3 to join", lambda: "s3" in fleet.members())
        before = fleet.tablets()
        fleet.order("rebalance")
        fleet.wait_moved(30)
        told = within(10, "the problem to be told", lambda: "ended early" in (t := fleet.told().stdout) and t)
        assert "raise journal.segment" in told and fleet.tablets()["s3"] < 20, (told, before, fleet.tablets())
        fleet.kill("s3")
        fleet.server("s3")
        within(20, "the servers to be there", lambda: fleet.doctor().returncode == 0 or "ended early" in fleet.doctor().stdout)
        fleet.order("rebalance")
        fleet.wait_moved()
        assert fleet.tablets()["s3"] >= 16 and "ended early" not in fleet.told().stdout, fleet.tablets()


if __name__ == "__main__":
    main([servers_join_and_leave, servers_die_while_tablets_move, a_job_goes_back_over_moves, erased_keys_leave_their_former_owners,
          tablets_that_are_too_large_end_the_plan])
