#!/usr/bin/env python3
"""test_overlap: the link and the device of tests/overlap take the time that they are told to take."""
from delayed import Link, trained
from lib import *


def a_link_takes_its_round_trip(space):
    with Link(0.1) as link:
        slow = link.trip()
    with Link(0) as link:
        fast = link.trip()
    assert 0.1 <= slow < 0.3 and fast < 0.09, (slow, fast)


def a_device_takes_its_step_and_serves_lanes_in_turn(space):
    """20 ms a step: as many steps take as long on two lanes as on one, and a round trip of 30 ms holds up one lane that pulls nothing ahead."""
    train, step, took = synth(space / "train.tsv", 5120), 0.02, {}
    for lanes, trip in ((1, 0.0), (2, 0.0), (1, 0.03)):
        job = job_file(space / "job.yaml", train, **{"train.backend": "cuda", "train.lanes": lanes, "train.batch": 64, "train.prefetch": 0, "durability": None})
        report = trained(space, job, trip, step, lanes)
        took[lanes, trip] = report["train_seconds"]
    print(f"      80 steps: {took}", flush=True)
    assert took[1, 0.0] >= 80 * step and took[2, 0.0] >= 80 * step, took
    assert took[1, 0.03] >= 79 * (step + 0.03), took


if __name__ == "__main__":
    main([a_link_takes_its_round_trip, a_device_takes_its_step_and_serves_lanes_in_turn])
