#!/usr/bin/env python3
"""test_packed: rows and gradients travel in fewer bits: kills leave the digest of an undisturbed job, with one copy and with two; rows of 16-bit tables lose
nothing on the way."""
from fleet import ended, submit, within
from lib import *
from test_kill import bsp_job, repeated
from test_replicas import Fleet

SHORT = {"net.gradients": "int8", "net.values": "bf16", "tables[0].dim": 16}


def killed_servers_leave_the_undisturbed_digest(space):
    train, seen = synth(space / "train.tsv", 6000, 5), []
    for gradients in ("fp32", "bf16", "int8"):
        over = {**SHORT, "net.gradients": gradients, "train.epochs": longer(12)}
        folder = space / gradients
        folder.mkdir()
        seen.append(digests(run_job(bsp_job(folder, "calm.yaml", train, **over), folder / "calm", 2, 2)))
        if gradients != "fp32":
            repeated(folder, train, over, 2, 2, ["server-0", "server-1"], 2, (0.3, 1.5), seen[-1], 11)
    assert seen[0] != seen[1] != seen[2] != seen[0], "the three jobs should have learnt from other gradients"


def copies_have_the_same_rows(space):
    """The follower of a killed leader goes on from the records that it was sent."""
    train = synth(space / "train.tsv", 6000, 5)
    over = {**SHORT, "durability": None, "train.epochs": 20}
    expected = digests(run_job(bsp_job(space, "calm.yaml", train, **over), space / "calm", 1, 2))
    with Fleet(space, "f").up() as fleet:
        fleet.wait_in_sync()
        submission = submit(fleet, bsp_job(space, "job.yaml", train, **over), 2)
        within(20, "the job to train", lambda: fleet.state().get("examples", 0) > 0)
        who = fleet.leaders()[0]
        fleet.kill(who)
        time.sleep(0.5)
        fleet.server(who)
        got = ended(fleet, submission)
    assert got == expected, f"{got}, undisturbed {expected}"


def rows_of_16_bit_tables_lose_nothing(space):
    """Whatever the job asks for, they travel as they are stored; rows of fp32 tables are rounded."""
    train = synth(space / "train.tsv", 4000, 5)
    for table, others in (("bf16", {True}), ("fp32", {False})):
        seen = [digests(run_job(bsp_job(space, f"{table}-{values}.yaml", train, **{"tables[0].values": table, "net.values": values, "train.epochs": 2}),
                                space / f"{table}-{values}", 2, 2)) for values in ("fp32", "fp16", "bf16")]
        assert {seen[0] == s for s in seen[1:]} == others, (table, seen)


if __name__ == "__main__":
    main([killed_servers_leave_the_undisturbed_digest, copies_have_the_same_rows, rows_of_16_bit_tables_lose_nothing])
