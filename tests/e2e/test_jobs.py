#!/usr/bin/env python3
"""test_jobs: what ran on a cluster: `shoal jobs` and the reports of jobs that finished, failed and were stopped, also after the coordinator has
started again."""
import re

from fleet import *


def jobs(fleet):
    got = shoal("jobs", "--coordinator", fleet.endpoint, "--json")
    assert got.returncode == 0, got
    return json.loads(got.stdout)


def report(fleet, *words):
    got = shoal("report", "--coordinator", fleet.endpoint, *words)
    assert got.returncode == 0, got
    return got.stdout


def three_jobs(space, fleet):
    """One that finishes, one that fails in its second epoch, one that is stopped in training."""
    log = synth(space / "log.tsv", 2000, 1)
    fleet.job(job_file(space / "good.yaml", log, job="good", space="jobs", **{"data.valid": str(log)}))
    bad = space / "bad.tsv"
    bad.write_text(log.read_text() + "no row\n" * 400)
    worker = fleet.start("worker", "train", "--config", job_file(space / "bad.yaml", bad, job="bad", space="jobs", **{"data.max_bad": 0.01}), "--coordinator",
                         fleet.endpoint, program="shoal-worker")
    failed = shoal("submit", space / "bad.yaml", "--coordinator", fleet.endpoint, "--start-from", "fleet")
    assert failed.returncode == 65, failed
    worker.wait(30)
    long = job_file(space / "long.yaml", log, job="long", space="jobs", **{"data.valid": str(log), "train.epochs": 100000})
    worker = fleet.start("worker", "train", "--config", long, "--coordinator", fleet.endpoint, program="shoal-worker")
    assert shoal("submit", long, "--coordinator", fleet.endpoint, "--start-from", "fleet", "--no-wait").returncode == 0
    within(60, "a second epoch", lambda: fleet.state().get("epoch", 0) >= 2 and fleet.state().get("valid_auc"))
    running = jobs(fleet)[-1]
    assert (running["state"], running["job"], running["ended"]) == ("running", "long", None), running
    none = shoal("report", "--coordinator", fleet.endpoint, running["number"])
    assert none.returncode != 0 and "has not ended" in none.stderr, none
    assert shoal("stop", "--coordinator", fleet.endpoint).returncode == 0
    within(30, "the end", lambda: jobs(fleet)[-1]["state"] == "stopped")
    worker.wait(30)


def jobs_that_ended_are_listed_and_shown(space):
    with Fleet(space, "f", 1) as fleet:
        fleet.up().fits()
        assert jobs(fleet) == []
        assert "no job" in shoal("jobs", "--coordinator", fleet.endpoint).stdout
        three_jobs(space, fleet)
        for again in (False, True):
            if again:
                fleet.stop("coordinator")
                fleet.coordinator()
                fleet.fits()
            good, bad, long = jobs(fleet)
            assert [(j["job"], j["state"]) for j in (good, bad, long)] == [("good", "finished"), ("bad", "failed"), ("long", "stopped")]
            assert all(j["began"] and j["ended"] and j["began"] <= j["ended"] for j in (good, bad, long)), (good, bad, long)
            assert good["valid_auc"] > 0.5 and long["valid_auc"] > 0.5 and "reason" not in good
            assert "malformed" in bad["reason"] and "stopped by request" in long["reason"], (bad, long)
            table = shoal("jobs", "--coordinator", fleet.endpoint).stdout
            assert "malformed" in table and str(good["number"]) in table and "nan" not in table, table
            reports = [json.loads(report(fleet, j["number"], "--json")) for j in (good, bad, long)]
            assert [r["state"] for r in reports] == ["finished", "failed", "stopped"]
            assert reports[0]["tables"][0]["digest"] and len(reports[2]["epochs"]) >= 1 and reports[2]["training"]
            assert "digest" not in reports[2]["tables"][0] and reports[2]["test"] is None, reports[2]["tables"]
            assert reports[1]["reason"] == bad["reason"] and reports[1]["bad_lines"] > 0, reports[1]
            assert json.loads(report(fleet, "--json")) == reports[2]
            for j, r in zip((good, bad, long), reports):
                shown = report(fleet, j["number"])
                assert r.get("reason", "examples a second") in shown and "nan" not in shown and "?" not in shown, shown
                page = space / f"{j['job']}.html"
                assert report(fleet, j["number"], "--html", page).strip() == str(page)
                assert j["job"] in page.read_text() and "nan" not in re.sub("<[^>]*>", "", page.read_text()), page
            assert "stopped by request" in (space / "long.html").read_text()
        lost = shoal("report", "--coordinator", fleet.endpoint, 12)
        assert lost.returncode != 0 and "shoal jobs" in lost.stderr, lost
        assert shoal("report", 12).returncode == 64 or "SHOAL_COORDINATOR" in os.environ


if __name__ == "__main__":
    main([jobs_that_ended_are_listed_and_shown])
