#!/usr/bin/env python3
"""test_grow_tables: what a growing log has learnt is state of the tables: whatever becomes of the coordinator's folder, and whatever job came before, each
file is learnt once. The probe model adds 1 an example, and each file has a value of its own, so the row of that value is the file's count."""
import shutil
import uuid
import zlib

from fleet import *

ROWS = 40
KEYS = {"model.kind": "probe", "tables[0].dim": 1, "tables[0].optimizer.kind": "sgd", "tables[0].optimizer.lr": 1.0, "train.batch": 16,
        "train.consistency": "async"}
GROWS = {**KEYS, "data.objects.grow": "1s"}


def value(name):
    """Returns the value of the first field in all rows of this file."""
    return f"{zlib.crc32(name.encode()):08x}"


def put(folder, *names, rows=ROWS):
    """Files come, whole."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name("." + path.name)
        hidden.write_text(("0" + "\t" * 14 + value(name) + "\t" * 25 + "\n") * rows, encoding="utf-8")
        hidden.rename(path)


class Tables:
    """A fleet of two servers, and what jobs made of its tables."""

    def __init__(self, space):
        self.space, self.log, self.jobs = space, space / "log", 0
        self.log.mkdir()
        self.fleet = Fleet(space, "f")

    def __enter__(self):
        self.fleet.up()
        return self

    def __exit__(self, *_):
        self.fleet.__exit__()

    def file(self, train=None, **over):
        self.jobs += 1
        path = job_file(self.space / f"job-{self.jobs}.yaml", train or f"{self.log}/*", **over)
        return path

    def begin(self, job, *words, workers=1):
        for w in range(workers):
            self.fleet.start(f"w{w}", "train", "--coordinator", self.fleet.endpoint, "--name", f"w{w}", "--allow-commands", program="shoal-worker")
        return self.fleet.start("submit", "submit", job, "--coordinator", self.fleet.endpoint, "--workers", workers, *words, program="shoal")

    def learnt(self, count):
        def look():
            s = self.fleet.state()
            assert self.fleet.running["submit"].poll() is None, self.fleet.said("submit") + self.fleet.said("coordinator")[-1500:]
            return s.get("state") == "objects" and s["objects"]["read"] == count
        within(60, f"{count} objects to be learnt", look)

    def end(self, stop=True):
        """The job's, and its workers'; its exit status."""
        if stop:
            got = shoal("stop", "--coordinator", self.fleet.endpoint)
            assert got.returncode == 0, got
        submit = self.fleet.running.pop("submit")
        status = submit.wait(PATIENCE * 60)
        for w in [w for w in self.fleet.running if w.startswith("w")]:
            worker = self.fleet.running.pop(w)
            if status != 0:  # a job that is ended from without: it may look for the next one
                worker.kill()
            worker.wait(PATIENCE * 30)
        self.said = submit.log.read_text()
        return status

    def grow(self, count, *words, **over):
        """A growing job that learns so many objects and is stopped then; 0: it finds none."""
        self.begin(self.file(**{**GROWS, **over}), *words)
        if count > 0:
            self.learnt(count)
        else:
            within(60, "an empty list", lambda: "that its tables have not learnt" in self.fleet.state().get("waiting", ""))
        status = self.end()
        assert status == (0 if count > 0 else 69), (status, self.said)

    def plain(self, *words, train=None, **over):
        self.begin(self.file(train, **{**KEYS, **over}), *words)
        assert self.end(False) == 0, self.said

    def refused(self, *words, **over):
        got = shoal("submit", self.file(**{**GROWS, **over}), "--coordinator", self.fleet.endpoint, "--workers", 1, *words)
        assert got.returncode == 78, got
        return got.stderr

    def lose(self, how="lost"):
        """The coordinator's folder is emptied, or what it was when it was kept."""
        self.fleet.stop("coordinator")
        shutil.rmtree(self.fleet.folder("coordinator"))
        if how == "older":
            shutil.copytree(self.space / "copy", self.fleet.folder("coordinator"))
        self.fleet.coordinator()

        def look():  # all fits, except the report of an empty folder, whose last job is unknown
            told = self.fleet.doctor().stdout
            return told.count("  fits") == self.fleet.shards and told.count("problem:") == told.count("began with an empty data_dir")
        within(15, "the cluster to fit", look)

    def keep(self):
        self.fleet.fits()
        self.fleet.stop("coordinator")
        shutil.rmtree(self.space / "copy", ignore_errors=True)
        shutil.copytree(self.fleet.folder("coordinator"), self.space / "copy")
        self.fleet.coordinator()
        self.fleet.fits()

    def count(self, name):
        got = shoal("inspect", "emb", f"0:{value(name)}", "--coordinator", self.fleet.endpoint, "--json")
        return round(abs(json.loads(got.stdout)["weights"][0])) if got.returncode == 0 else 0

    def are(self, *names, rows=ROWS, times=1):
        counts = {name: self.count(name) for name in names}
        assert counts == dict.fromkeys(names, rows * times), counts


FLEET = ("--start-from", "fleet")


def folder_lost_and_older(space):
    """Followed as it is advised: submitted again, with the tables that are there."""
    with Tables(space) as t:
        put(t.log, "10", "11")
        t.grow(2)
        t.keep()
        put(t.log, "12", "13")
        t.grow(2, *FLEET)
        t.lose("older")
        put(t.log, "14")
        t.grow(1, *FLEET)
        t.are("10", "11", "12", "13", "14")
        t.lose()
        put(t.log, "15")
        t.grow(1, *FLEET)
        t.are("10", "11", "12", "13", "14", "15")


def folder_older_while_the_job_runs(space):
    with Tables(space) as t:
        put(t.log, "10")
        job = t.file(**GROWS)
        t.begin(job)
        t.learnt(1)
        t.fleet.running["coordinator"].kill()
        t.fleet.running.pop("coordinator").wait()
        shutil.copytree(t.fleet.folder("coordinator"), space / "copy")
        t.fleet.coordinator()
        put(t.log, "11")
        t.learnt(2)
        t.lose("older")
        assert t.end(False) != 0 and "data_dir is older than it was" in t.said, t.said
        put(t.log, "12")
        t.grow(1, *FLEET)
        t.are("10", "11", "12")


def plain_then_growing(space):
    """Files, twice; then a folder that is lost, and one that is older."""
    with Tables(space) as t:
        put(t.log, "10", "11")
        t.keep()
        t.plain(**{"train.epochs": 2})
        put(t.log, "12")
        t.lose("older")
        t.grow(1, *FLEET)
        t.are("10", "11", times=2)
        t.are("12")
        put(t.log, "13", "14")
        t.lose()
        t.plain(*FLEET, train=f"{t.log}/13")
        t.lose()
        t.grow(1, *FLEET)
        t.are("12", "13", "14")
        t.grow(0, *FLEET)


def growing_then_plain(space):
    """A plain job learns what it is told to; names that were there stay."""
    with Tables(space) as t:
        put(t.log, "10", "11")
        t.grow(2)
        put(t.log, "12")
        t.plain(*FLEET, train=f"{t.log}/12")
        t.lose()
        put(t.log, "13")
        t.grow(1, *FLEET)
        t.are("10", "11", "12", "13")


def objects_then_growing(space):
    """A command lists each object once: the same names."""
    with Tables(space) as t:
        listing = [{"object": {"list": f"cd {t.log}; ls", "open": f'cat "{t.log}/$1"'}}]
        put(t.log, "10", "11")
        t.plain(**{"data.train": listing})
        t.lose()
        put(t.log, "12")
        t.grow(1, *FLEET, **{"data.train": listing})
        t.are("10", "11", "12")
        t.grow(0, *FLEET, **{"data.train": listing})


def replay_then_growing(space):
    """Days in the names of files, _1: as objects."""
    with Tables(space) as t:
        days = ["2026-03-01", "2026-03-02", "2026-03-03"]
        keys = {"data.partition": "{date}"}
        for n, over in enumerate(({}, {"data.objects": True})):
            names = [f"{day}-{n}" for day in days]
            put(t.log, *names)
            t.plain(*(FLEET if n > 0 else ()), train=f"{t.log}/*-{n}", **{**over, "replay.window": "1d", "replay.checkpoint": False, "data.partition": f"{{date}}-{n}"})
            t.are(*names)
            t.lose()
            t.grow(0, *FLEET)
        put(t.log, "2026-03-04-1")
        t.grow(1, *FLEET)
        t.are("2026-03-04-1")


def checkpoint_hands_on(space):
    """Checkpoints of a plain job and of a growing one; into a new fleet, after a folder was lost."""
    with Tables(space) as t:
        points = {"checkpoint.dir": str(space / "points"), "checkpoint.at_end": True}
        newest = lambda: str(max((space / "points").iterdir(), key=lambda p: p.stat().st_mtime))
        fresh = ("--set", "fresh=all")
        put(t.log, "10", "11")
        t.plain(**points)
        put(t.log, "12")
        t.lose()
        t.grow(1, "--start-from", newest(), *fresh, **points)
        put(t.log, "13")
        t.grow(1, "--start-from", newest(), *fresh, **points)
        t.are("10", "11", "12", "13")
        put(t.log, "14")
        t.lose()
        t.begin(t.file(**{**GROWS, **points}), "--resume", newest(), *fresh)
        t.learnt(2)  # that job's: 13, and 14 now
        assert t.end() == 0, t.said
        t.are("10", "11", "12", "13", "14")


def stopped_within_a_round(space):
    """A part of it is learnt: neither the whole of it again nor nothing more is right, and the way that is told is."""
    with Tables(space) as t:
        points = {"checkpoint.dir": str(space / "points"), "checkpoint.at_end": True}
        long = longer(30000)
        put(t.log, "10", "11", rows=long)
        job = t.file(**{**GROWS, **points, "train.batch": 4, "train.task_batches": 2})
        t.begin(job)
        within(60, "the first batches", lambda: t.fleet.state().get("examples", 0) > 100)
        assert t.end() == 0, t.said
        if t.count("10") + t.count("11") == 2 * long:
            raise TooShort("the round was over")
        for lost in (False, True):
            if lost:
                t.lose()
            told = t.refused(*FLEET)
            assert "2 files or objects are learnt in part" in told and "and --set fresh=all, which drops the tables that are here" in told, told
        made = str(next((space / "points").iterdir()))
        told = t.refused("--start-from", made, "--set", "fresh=all")
        assert "learnt in part" in told, told
        t.begin(job, "--resume", made, "--set", "fresh=all")
        t.learnt(2)
        put(t.log, "12")
        t.learnt(3)
        assert t.end() == 0, t.said
        t.are("10", "11", rows=long)
        t.are("12")
        put(t.log, "13")
        t.grow(1, *FLEET)
        t.are("10", "11", rows=long)


def what_is_not_known_is_refused(space):
    """A stream has no name; what is then said by hand, from a later name on, is taken."""
    with Tables(space) as t:
        put(t.log, "10", "11")
        t.plain(**{"data.train": [{"cmd": f"cat {t.log}/10 {t.log}/11"}]})
        put(t.log, "12")
        for lost in (False, True):
            if lost:
                t.lose()
            told = t.refused(*FLEET)
            assert "not known what its tables have learnt" in told and "data.objects.all_new: true" in told, told
        t.grow(1, *FLEET, **{"data.train": f"{t.log}/12", "data.objects.all_new": True})
        t.are("10", "11", "12")
        put(t.log, "13")
        assert "not known" in t.refused(*FLEET)  # it still is not, of what it did not list
        t.grow(1, *FLEET, **{"data.train": f"{t.log}/1[23]", "data.objects.all_new": True})
        t.are("10", "11", "12", "13")


def names_of_all_shapes(space):
    """Two prefixes, parts with random names, names that come late, come again or disappear, while the worker that lists is killed."""
    with Tables(space) as t:
        put(t.log, "web/0001", "web/0002", "app/0009")
        t.begin(t.file(f"{t.log}/*/*", **GROWS), workers=2)
        t.learnt(3)
        parts = [f"app/part-{uuid.UUID(int=random.getrandbits(128))}" for _ in range(6)]
        put(t.log, *parts[:3], "app/0001")
        t.fleet.running["w0"].kill()
        t.fleet.running.pop("w0").wait()
        t.learnt(7)
        (t.log / "web/0001").unlink()  # the list shrinks; then it comes again, as another file
        put(t.log, *parts[3:], "aaa/0000")
        t.learnt(11)
        put(t.log, "web/0001", "web/0002", "app/0009")
        put(t.log, "zzz/1")
        t.learnt(12)
        assert t.end() == 0, t.said
        names = ["web/0001", "web/0002", "app/0009", "app/0001", "aaa/0000", "zzz/1", *parts]
        t.are(*names)
        t.lose()
        t.grow(0, *FLEET, **{"data.train": f"{t.log}/*/*"})


def killed_at_any_moment_then_a_folder_lost(space):
    """Each process, as files come; one of the kills meets the moment at which a round's names are told."""
    with Tables(space) as t:
        def struck(who):
            t.fleet.running[who].kill()
            t.fleet.running.pop(who).wait()
            if who == "coordinator":
                t.fleet.coordinator()
            elif who.startswith("s"):
                t.fleet.server(who)
            else:
                t.fleet.start(who, "train", "--coordinator", t.fleet.endpoint, "--name", who, program="shoal-worker")

        put(t.log, "00")
        t.begin(t.file(**GROWS), workers=2)
        t.learnt(1)
        names = ["00"]
        for n in range(5):
            names += [f"{n + 1}-a", f"{n + 1}-b"]
            put(t.log, *names[-2:])
            for who in random.sample(("coordinator", "s0", "s1", "w0", "w1"), 3):
                time.sleep(random.random())
                struck(who)
            t.learnt(len(names))
        assert t.end() == 0, t.said
        t.are(*names)
        t.lose()
        put(t.log, "99")
        t.grow(1, *FLEET)
        t.are(*names, "99")


if __name__ == "__main__":
    main([folder_lost_and_older, folder_older_while_the_job_runs, plain_then_growing, growing_then_plain, objects_then_growing, replay_then_growing,
          checkpoint_hands_on, stopped_within_a_round, what_is_not_known_is_refused, names_of_all_shapes, killed_at_any_moment_then_a_folder_lost])
