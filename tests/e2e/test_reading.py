#!/usr/bin/env python3
"""test_reading: inspect, tables, blame and erase on a small fleet, against what the log says must be there."""
import resource
from collections import Counter

from fleet import Fleet as AnyFleet
from lib import *
from test_fleet import Fleet, shoal

ROWS, BATCH = 4000, 256
KEYS = {"train.lanes": 1, "train.batch": BATCH, "data.shuffle": False, "tables[0].optimizer.kind": "sgd"}


class Two(Fleet):
    """One coordinator, two servers."""

    def __init__(self, space, keep="64MiB"):
        self.endpoint, self.space, self.daemons = f"ipc://{space}/c.sock", space, []
        self.head = ("shoal-coordinator", "--set", f"listen={self.endpoint}", "--set", f"data_dir={space / 'coordinator'}",
                     "--set", "shards=2", "--set", f"report={space / 'report.json'}")
        self.begun = False
        self.start(*self.head)
        self.args = [("shoal-server", "--set", f"listen=ipc://{space}/s{i}.sock", "--set", f"data_dir={space / f'server-{i}'}",
                      "--set", f"coordinator={self.endpoint}", "--set", f"journal.keep={keep}", "--set", "journal.segment=64KiB")
                     for i in range(2)]
        self.servers = [self.start(*words) for words in self.args]

    def train(self, job):
        worker = self.worker(job)
        got = shoal("submit", job, "--coordinator", self.endpoint, *(["--start-from", "fleet"] if self.begun else []))
        self.begun = True
        assert got.returncode == 0, got
        assert worker.wait(60) == 0

    def restart(self, i):
        self.servers[i].kill()
        self.servers[i].wait()
        self.servers[i] = self.start(*self.args[i])

    def restart_all(self):
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
        self.start(*self.head)
        self.servers = [self.start(*words) for words in self.args]

    def ask(self, *words):
        return shoal(*words, "--coordinator", self.endpoint)

    def json(self, *words):
        got = self.ask(*words, "--json")
        assert got.returncode == 0, got
        return json.loads(got.stdout)


def log_of(path):
    return [line.split("\t") for line in path.read_text().splitlines()]


def rare_and_common(rows, column):
    counts = Counter(r[column] for r in rows)
    return counts.most_common()[-1][0], counts.most_common(1)[0][0]


def heat_is_of_all_tablets(fleet, table):
    """The heat of both shards after a job, against the census of table emb."""
    heat, text = fleet.json("tables", "--heat"), fleet.ask("tables", "--heat").stdout
    emb = next(t for t in heat if t["table"] == "emb")
    assert sum(t["rows"] for t in emb["tablets"]) == table["rows"] and sum(t["bytes"] for t in emb["tablets"]) == table["bytes"]
    assert [s["shard"] for s in emb["shards"]] == [0, 1] and {t["shard"] for t in emb["tablets"]} == {0, 1}
    for shard in emb["shards"]:
        own = [t for t in emb["tablets"] if t["shard"] == shard["shard"]]
        assert shard["tablets"] == len(own)
        assert all(shard[k] == sum(t[k] for t in own) > 0 for k in ("rows", "bytes", "pull_ns", "push_ns")), shard
    assert all(t["pull_ns"] > 0 and t["push_ns"] > 0 for t in emb["tablets"] if t["rows"] > 5), emb
    assert abs(sum(t["load"] for t in heat) - 1) < 1e-9 and emb["load"] > 0.5, heat
    assert "\nemb: " in "\n" + text and "hottest tablets: " in text and "\nall tables: shard 0 " in text, text
    assert [t["table"] for t in fleet.json("tables", "emb", "--heat")] == ["emb"]
    assert fleet.ask("tables", "emb", "--heat", "--what-if", "shows=2").returncode == 64


def figures_are_those_of_the_log(space):
    train = synth(space / "train.tsv", ROWS, 3)
    rows = log_of(train)
    job = job_file(space / "job.yaml", train, **KEYS)
    with Two(space) as fleet:
        fleet.train(job)
        table = fleet.json("tables", "emb")[0]
        for field in table["fields"]:
            expected = len({r[14 + field["field"]] for r in rows})
            assert field["rows"] == expected, (field, expected)
        assert len(table["fields"]) == 26 and sum(f["rows"] for f in table["fields"]) == table["rows"]
        assert table["tier"] == {"memory": table["rows"]} and table["memory_bytes"] >= table["bytes"]
        assert table["norms"]["zero"] + sum(n for _, n in table["norms"]["cells"]) == table["rows"]
        half = fleet.json("tables", "emb", "--what-if", f"memory={table['memory_bytes'] // 3}")[0]["what_if"]
        assert 0 < half["rows"] < table["rows"], half
        text = fleet.ask("tables", "--job", job)
        assert text.returncode == 0 and "C26" in text.stdout and "\nemb (fp32): " in "\n" + text.stdout and "\ndense (fp32): " in text.stdout, text
        assert fleet.ask("tables", "emb", "--what-if", "shows=2").returncode == 64
        assert fleet.ask("tables", "emb", "--what-if", "show=2").returncode == 78
        assert fleet.ask("tables", "none").returncode == 66
        heat_is_of_all_tablets(fleet, table)
        _, value = rare_and_common(rows, 16)
        by_name = fleet.json("inspect", "emb", "--field", "C3", "--value", value, "--job", job)
        assert by_name == fleet.json("inspect", "emb", f"2:{value}") == fleet.json("inspect", "emb", by_name["key"])
        assert by_name["field"] == 2 and by_name["tier"] == "memory" and len(by_name["weights"]) == 5
        none = fleet.ask("inspect", "emb", "C3:never", "--job", job)
        assert none.returncode == 66 and "field 2" in none.stderr, none


def sample_tells_what_the_log_makes(space):
    train = synth(space / "train.tsv", ROWS, 3)
    job = job_file(space / "job.yaml", train, **{"data.cache": str(space / "cache")})
    got = shoal("tables", "--sample", job, "--json")
    assert got.returncode == 0, got
    counted = json.loads(got.stdout)
    for field in counted["fields"]:
        times = Counter(r[14 + field["field"]] for r in log_of(train)).values()
        for k in (1, 2, 3, 5, 10):
            assert field["kept"][str(k)] == sum(t >= k for t in times), (field, k)
        assert field["whole"] == field["kept"]
    part = json.loads(shoal("tables", "--sample", job, "--share", "0.25", "--json").stdout)
    assert part["sampled"] == ROWS // 4
    reckoned, true = sum(f["whole"]["1"] for f in part["fields"]), sum(f["keys"] for f in counted["fields"])
    assert 0.7 < reckoned / true < 1.3, (reckoned, true)
    assert shoal("tables", "--sample", space / "nowhere.yaml").returncode == 66


def blame_leads_back_to_worker_and_rows(space):
    train = synth(space / "train.tsv", ROWS, 3)
    rows = log_of(train)
    job = job_file(space / "job.yaml", train, **KEYS)
    with Two(space) as fleet:
        fleet.train(job)
        _, value = rare_and_common(rows, 14)
        batches = [b for b in range(0, (ROWS + BATCH - 1) // BATCH)
                   if any(r[14] == value for r in rows[b * BATCH:(b + 1) * BATCH])]
        found = fleet.json("blame", "emb", f"0:{value}", "--limit", "1000")
        assert found["complete"] and [p["batch"] - 1 for p in found["pushes"]] == batches[::-1], (found, batches)
        for p in found["pushes"]:
            who = p["who"]
            assert who["epoch"] == 1 and who["position"] == (p["batch"] - 1) * BATCH and who["worker"] >= 1, p
            assert who["rows"] == min(BATCH, ROWS - who["position"]) and p["norm"] > 0, p
        few = fleet.json("blame", "emb", f"0:{value}", "--limit", "2")
        assert few["pushes"] == found["pushes"][:2] and not few["complete"]
        text = fleet.ask("blame", "emb", f"0:{value}")
        assert text.returncode == 0 and "epoch 1" in text.stdout, text
        assert fleet.json("blame", "emb", "0:never")["pushes"] == []


def erased_keys_stay_gone(space):
    train = synth(space / "train.tsv", ROWS, 3)
    rows = log_of(train)
    job = job_file(space / "job.yaml", train, **KEYS)
    values = [value for value, _ in Counter(r[14] for r in rows).most_common(5)]
    with Two(space) as fleet:
        fleet.train(job)
        before = fleet.json("tables", "emb")[0]["rows"]
        keys = [fleet.json("inspect", "emb", f"0:{v}")["key"] for v in values]
        (space / "keys").write_text("\n".join(keys) + "\n")
        got = fleet.ask("erase", "emb", "--keys", space / "keys", "--receipt", space / "receipt.json")
        assert got.returncode == 0, got
        receipt = json.loads((space / "receipt.json").read_text())
        assert receipt["keys"] == 5 and receipt["table"] == "emb" and receipt["checkpoints"] == [], receipt
        assert sum(s["newly_erased"] for s in receipt["shards"]) == 5 and all(s["sequence"] > 0 for s in receipt["shards"])
        assert fleet.json("tables", "emb")[0]["rows"] == before - 5

        def gone():
            for value, key in zip(values, keys):
                assert fleet.ask("inspect", "emb", f"0:{value}").returncode == 66
                assert fleet.json("blame", "emb", f"0:{value}")["pushes"] == []
                raw = int(key, 16).to_bytes(8, "little")
                for i in range(2):  # the key is blocked by name, but no record of a push and no row of it is left
                    for part in ("archive", "journal"):
                        for file in (space / f"server-{i}").glob(f"shard-*/{part}/seg-*"):
                            assert file.read_bytes().count(raw) <= 1, file

        gone()
        for i in range(2):
            fleet.restart(i)
        deadline = time.monotonic() + 30
        while any(fleet.ask("inspect", "emb", key).returncode != 66 for key in keys) and time.monotonic() < deadline:
            time.sleep(0.2)
        gone()
        fleet.train(job)  # the same log again: they do not come back
        for value in values:
            assert fleet.ask("inspect", "emb", f"0:{value}").returncode == 66
        assert fleet.json("tables", "emb")[0]["rows"] == before - 5
        again = fleet.ask("erase", "emb", "--field", "0", "--value", values[0], "--value", "never")
        assert again.returncode == 0 and json.loads(again.stdout)["keys"] == 2, again
        assert fleet.ask("erase", "emb").returncode == 64
        assert fleet.ask("erase", "emb", "--keys", space / "nothing").returncode == 66


def keys_are_read_as_they_are_written(space):
    """Erased rows are gone for good, so a line is read exactly as it is: no part is guessed or left out."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 2000, 3), **KEYS)
    path = space / "keys"
    with Two(space) as fleet:
        fleet.train(job)

        def digest(lines, keys):
            path.write_bytes(lines)
            got = fleet.ask("erase", "emb", "--keys", path)
            assert got.returncode == 0 and json.loads(got.stdout)["keys"] == keys, (lines[:60], got)
            return json.loads(got.stdout)["digest"]

        some = digest(b"123\n0x2aF", 2)
        assert some == digest(b"0x2AF\r\n\n0123\r\n", 2), "a leading 0 is no base"
        wide = b"0:" + b"a" * 4094 + b"17"  # a line is one key, however long it is
        assert digest(wide, 1) == json.loads(fleet.ask("erase", "emb", "--field", "0", "--value", wide[2:].decode()).stdout)["digest"]
        for wrong in (b"-1", b"+1", b" 1", b"1 ", b"18446744073709551616", b"0x10000000000000000", b"0x", b"0x-1", b"1\r2", b"-0:a"):
            path.write_bytes(b"5\n" + wrong + b"\n")
            got = fleet.ask("erase", "emb", "--keys", path)
            assert got.returncode in (64, 66) and f"{path}:2: " in got.stderr and got.stdout == "", (wrong, got)
        path.write_bytes(b"0:a\0b\n")
        got = fleet.ask("erase", "emb", "--keys", path)
        assert got.returncode == 65 and f"{path}:1: " in got.stderr, got
        got = fleet.ask("erase", "emb", "--keys", space.path)
        assert got.returncode == 74 and "cannot read" in got.stderr, got


def a_large_fleet_is_read_with_few_descriptors(space):
    """Each shard that is asked takes some; a fleet may have more shards than a shell lets a process have connections."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", ROWS, 3), **{**KEYS, "tables[0].tablets": 128})
    with AnyFleet(space, "f") as fleet:
        fleet.coordinator(shards=8)
        fleet.server("s0", "--set", "shards=8")
        fleet.job(job)
        keys = space / "keys"
        keys.write_text("".join(f"0:{row[14]}\n" for row in log_of(space / "train.tsv")))
        for words in (["digest"], ["tables", "emb"], ["erase", "emb", "--keys", keys]):
            line = [str(SHOAL), *map(str, words), "--coordinator", fleet.endpoint]
            whole = shoal(*line[1:])
            for soft, hard in ((48, 48), (33, 33), (32, 256)):
                got = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False,
                                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))
                assert got.returncode == 0 and (words[0] == "erase" or got.stdout == whole.stdout), (words, soft, got, whole)


def all_is_read_after_a_restart_without_a_job(space):
    train = synth(space / "train.tsv", ROWS, 3)
    rows = log_of(train)
    job = job_file(space / "job.yaml", train, **KEYS)
    _, value = rare_and_common(rows, 14)
    questions = [("tables", "emb"), ("digest",), ("inspect", "emb", f"0:{value}"), ("blame", "emb", f"0:{value}"),
                 ("tables", "emb", "--what-if", "memory=1MiB")]
    with Two(space) as fleet:
        fleet.train(job)
        before = [fleet.json(*q) for q in questions]
        fleet.restart_all()
        deadline = time.monotonic() + 60  # no job is submitted; the daemons have to start
        while fleet.ask("digest").returncode != 0 and time.monotonic() < deadline:
            time.sleep(0.2)
        after = [fleet.json(*q) for q in questions]
        for question, was, now in zip(questions, before, after):
            for table in [was[0], now[0]] if question[0] == "tables" else []:
                table.pop("memory_bytes")  # pages and indices are built anew
            assert was == now, (question, was, now)
        got = fleet.ask("erase", "emb", "--field", "0", "--value", value)
        assert got.returncode == 0 and json.loads(got.stdout)["keys"] == 1, got
        assert fleet.ask("inspect", "emb", f"0:{value}").returncode == 66
        fleet.restart_all()
        deadline = time.monotonic() + 60
        while fleet.ask("digest").returncode != 0 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert fleet.ask("inspect", "emb", f"0:{value}").returncode == 66
        assert fleet.json("tables", "emb")[0]["rows"] == before[0][0]["rows"] - 1


if __name__ == "__main__":
    main([figures_are_those_of_the_log, sample_tells_what_the_log_makes, blame_leads_back_to_worker_and_rows, erased_keys_stay_gone, keys_are_read_as_they_are_written,
          a_large_fleet_is_read_with_few_descriptors, all_is_read_after_a_restart_without_a_job])
