#!/usr/bin/env python3
"""test_newcomer: what somebody meets who has only the manual: every word that is printed can be typed, every wrong one is told by name."""
from lib import *


def plain_run(job, run_dir, *words, stdin=None):
    run = Run(job, run_dir, extra=words, stdin=stdin)
    assert run.wait() == 0, run.output()[-2000:]
    return run


def standard_input_may_be_set(space):
    train = synth(space / "train.tsv", 3000, 1)
    with open(train) as rows:
        run = plain_run(job_file(space / "job.yaml", "nowhere.tsv"), space / "run", "--set", "data.train=-", stdin=rows)
    assert run.report()["examples"] == 3000


if __name__ == "__main__":
    main([standard_input_may_be_set])
