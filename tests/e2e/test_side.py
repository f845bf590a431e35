#!/usr/bin/env python3
"""test_side: several models are trained at the same time on one fleet, by workers that it gives to them; another one is scored meanwhile."""
from concurrent.futures import ThreadPoolExecutor

from fleet import *

WORKERS = 4


def log(path, columns, rows=2000):
    draw, lines = random.Random(len(columns)), []
    for _ in range(rows):
        lines.append(",".join([str(draw.randrange(2)), *(f"x{draw.randrange(30 + i)}" for i, _ in enumerate(columns))]))
    path.write_text("\n".join([",".join(["label", *columns]), *lines]) + "\n", encoding="utf-8")
    return path


def job(space, name, columns, **over):
    """A job of a model of its own; all have a table `emb`, and fields of other names."""
    return job_file(space / f"{name}.yaml", log(space / f"{name}.csv", columns), **{
        "job": name, "data.format": "csv", "data.label": "label", "train.consistency": "bsp", "train.lanes": 4, "train.batch": 50,
        "train.task_batches": 2, "model.kind": "fm", "model.hidden": None, **over})


def workers(fleet, count=WORKERS):
    for i in range(count):
        worker(fleet, i)


def worker(fleet, i):
    """A worker that stays between jobs, and has places for two lanes."""
    own = fleet.space / f"worker-{i}.yaml"
    own.write_text(f"coordinator: {fleet.endpoint}\nbackend: cpu\nname: w{i}\nlanes: 2\ncache: {fleet.space / f'cache-{i}'}\n")
    fleet.start(f"w{i}", "run", "--config", own, program="shoal-worker")


def look(fleet, verb, *words, status=0):
    got = shoal(verb, *words, "--coordinator", fleet.endpoint)
    assert got.returncode == status, got
    return got.stderr if status else got.stdout


def listed(fleet):
    return json.loads(look(fleet, "jobs", "--json"))


def ended(fleet):
    lines = listed(fleet)
    return all(line["state"] not in ("running", "submitted") for line in lines) and lines


def running(fleet):
    """The jobs that run, by name."""
    return {line["job"]: line for line in fleet.state().get("running", [])}


def digest(fleet, name):
    return look(fleet, "digest", "--space", name)


def alone(space, *jobs):
    """The digest of each model when nothing runs beside it."""
    got = []
    for path in jobs:
        with Fleet(space, f"alone-{path.stem}").up() as fleet:
            workers(fleet, 2)
            look(fleet, "submit", path, "--workers", 2)
            got.append(digest(fleet, path.stem))
    return got


def both_train(fleet):
    def look_at():
        states = [line["state"] for line in listed(fleet)]
        if "finished" in states[1:]:
            raise TooShort("a job was over before both were seen to train")
        now = running(fleet)
        return len(now) == 2 and all(line["state"] == "train" and line["workers"] == 2 for line in now.values())

    within(60, "both to train with two workers each", look_at)


def scored(fleet, path):
    """The scores of a model by the fleet."""
    out = fleet.space / "scores"
    got = shoal("predict", path, "--from", "fleet", "--coordinator", fleet.endpoint, "--in", fleet.space / f"{path.stem}.csv", "--out", out)
    assert got.returncode == 0, got
    text = out.read_text()
    out.unlink()
    return text


def models_are_trained_at_once(space):
    """The first job has all workers until the second one comes. Each process is killed once while both train and a third model is scored."""
    epochs = {"train.epochs": longer(12)}
    first, second = job(space, "first", "abc", **epochs), job(space, "second", ["d", "e"], **{"tables[0].dim": 7, **epochs})
    third = job(space, "third", "fg", **{"train.epochs": 1})
    one, two = alone(space, first, second)
    with Fleet(space, "f").up() as fleet:
        workers(fleet)
        look(fleet, "submit", third)
        kept, scores = digest(fleet, "third"), set()
        look(fleet, "submit", first, "--workers", 2, "--no-wait")

        def has_all():
            if listed(fleet)[-1]["state"] == "finished":
                raise TooShort("the only job was over before it was seen to have all workers")
            return running(fleet).get("first", {}).get("workers") == WORKERS
        within(30, "the only job to have all workers", has_all)
        said = look(fleet, "submit", second, "--workers", 2, "--no-wait")
        assert "waits for its turn" not in said and "space second is new" in said, said
        both_train(fleet)
        for who in ("s0", "w1", "coordinator", "s1", "w0", "w2", "w3"):
            fleet.kill(who)
            if who == "coordinator":
                fleet.coordinator()
            elif who[0] == "s":
                fleet.server(who)
            else:
                worker(fleet, int(who[1]))
                scores.add(scored(fleet, third))
        alive = len(running(fleet))
        lines = within(240, "both to end", lambda: ended(fleet))
        assert [line["state"] for line in lines] == ["finished"] * 3, lines
        assert len(scores) == 1, len(scores)
        assert digest(fleet, "first") == one and digest(fleet, "second") == two and digest(fleet, "third") == kept
        if alive < 2:
            raise TooShort("a job was over before all processes were killed")


def twenty_jobs_end_in_their_order(space):
    """They are submitted at once, of four spaces; the coordinator dies while they wait."""
    names = ["one", "two", "three", "four"]
    paths = [job(space, name, ["a", f"b{i}"], **{"train.epochs": 1}) for i, name in enumerate(names)]
    with Fleet(space, "f").up() as fleet:
        workers(fleet)
        for path in paths:
            look(fleet, "submit", path)
        with ThreadPoolExecutor(10) as pool:
            got = list(pool.map(lambda i: shoal("submit", paths[i % 4], "--coordinator", fleet.endpoint, "--start-from", "fleet", "--no-wait",
                                                "--set", f"train.task_batches={i + 2}"), range(20)))
        assert all(one.returncode == 0 for one in got), [one for one in got if one.returncode != 0][:2]
        fleet.kill("coordinator")
        fleet.coordinator()
        lines = within(120, "all to end", lambda: ended(fleet))
        assert all(line["state"] == "finished" for line in lines), lines
        for name in names:
            of = [line["number"] for line in lines if line["space"] == name]
            assert len(of) == 6 and of == sorted(of), (name, of)


def a_job_is_named_where_several_run(space):
    first, second = (job(space, name, "ab", **{"train.epochs": 100000, "train.lanes": 2}) for name in ("first", "second"))
    with Fleet(space, "f").up() as fleet:
        workers(fleet, 2)
        for path in (first, second):
            look(fleet, "submit", path, "--no-wait")
        within(30, "both to train", lambda: [line["state"] for line in running(fleet).values()] == ["train"] * 2)
        one, two = (line["number"] for line in listed(fleet))
        said = look(fleet, "stop", status=64)
        assert f"2 jobs run here, first ({one}), second ({two})" in said, said
        told = look(fleet, "status")
        assert f"job {one}" in told and f"job {two}" in told and told.startswith("job second: train"), told
        assert look(fleet, "status", "--job", one).startswith("job first: train")
        assert f"job {two + 9} does not run here" in look(fleet, "status", "--job", two + 9, status=66)
        top = look(fleet, "top", "--batch", "--job", one)
        assert "job first: train" in top and "RUNS" in top and str(two) in top, top
        waits = look(fleet, "submit", first, "--start-from", "fleet", "--no-wait")
        assert f"job first, number {one}, runs in space first" in waits, waits
        last = listed(fleet)[-1]["number"]
        said = look(fleet, "drop", "first", status=69)
        assert "job first is running" in said, said
        look(fleet, "stop", last)
        assert "job first has ended already, stopped: stopped by request" in look(fleet, "stop", last)
        look(fleet, "stop", one)
        within(30, "the first to end", lambda: list(running(fleet)) == ["second"])
        assert "job first has ended already, stopped" in look(fleet, "stop", one)
        assert "rows dropped" in look(fleet, "drop", "first")
        look(fleet, "stop")
        within(30, "all to be stopped", lambda: [line["state"] for line in listed(fleet)] == ["stopped"] * 3)


if __name__ == "__main__":
    main([models_are_trained_at_once, twenty_jobs_end_in_their_order, a_job_is_named_where_several_run])
