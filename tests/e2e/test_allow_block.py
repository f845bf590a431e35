#!/usr/bin/env python3
"""test_allow_block: keys that are allowed, blocked or reset by name: which rows a table then gets, through kills, moves, takeovers, checkpoints and
restores; lists of a million keys; lists that are refused."""
import re

import test_moves
import test_replicas
from fleet import Fleet, ended, shoal, submit, within
from lib import *
from test_keys import Keyed

ROWS = 4000
PLAIN = {"train.lanes": 1, "data.shuffle": False, "durability": None, "tables[0].optimizer.kind": "sgd"}
CHOSEN = {**PLAIN, "tables[0].admit": {"none": True}}


def values_of(train, column=14):
    """The values of the field C1, the most common first."""
    counts = {}
    for line in train.read_text().splitlines():
        value = line.split("\t")[column]
        if value:
            counts[value] = counts.get(value, 0) + 1
    return sorted(counts, key=lambda v: (-counts[v], v))


def order(fleet, *words, code=0):
    got = shoal(*words, "--coordinator", fleet.endpoint)
    assert got.returncode == code, got
    return got


def told(fleet, *words):
    return json.loads(order(fleet, *words, "--json").stdout)


def named(fleet, verb, values, file):
    """Names values of C1 by a file; returns the numbers of those that changed and those that had that name already."""
    file.write_text("".join(f"{v}\n" for v in values))
    got = told(fleet, "keys", verb, "emb", "--field", "C1", "--values", file)
    assert got["table"] == "emb" and got["action"] == verb and got["keys"] == got["changed"] + got["unchanged"] == len(set(values)), got
    assert sum(s["keys"] for s in got["shards"]) == got["keys"] and sum(s["changed"] for s in got["shards"]) == got["changed"], got
    return got["changed"], got["unchanged"]


def listed(*where):
    """{key: state} of the list, whose sums and order are checked."""
    got = shoal("keys", "list", "emb", "--json", *where)
    assert got.returncode == 0, got
    whole = json.loads(got.stdout)
    assert whole["table"] == "emb" and all(k["field"] == int(k["key"], 16) >> 48 for k in whole["keys"]), whole
    found = {k["key"]: k["named"] for k in whole["keys"]}
    assert len(found) == len(whole["keys"])
    for state in ("erased", "blocked", "allowed"):
        assert whole[state] == sum(s == state for s in found.values()), whole
    return found


def at(fleet):
    return ("--coordinator", fleet.endpoint)


def rows(fleet):
    return told(fleet, "tables", "emb")[0]["rows"]


def row(fleet, value):
    got = shoal("inspect", "emb", f"C1:{value}", "--json", *at(fleet))
    return json.loads(got.stdout) if got.returncode == 0 else None


def restarted(fleet, who):
    fleet.kill(who)
    fleet.server(who)
    within(30, "the rows to be back", lambda: shoal("tables", "emb", *at(fleet)).returncode == 0)


def a_table_gets_the_allowed_rows_alone(space):
    """Admission is `none`: allowed values get rows and no other; one that was erased comes back when it is let in."""
    train = synth(space / "train.tsv", ROWS, 3)
    job, some = job_file(space / "job.yaml", train, **CHOSEN), values_of(train)[:6]
    with Fleet(space, "f").up() as fleet:
        fleet.job(job)
        assert rows(fleet) == 0
        assert named(fleet, "allow", some[:5], space / "values") == (5, 0)
        assert named(fleet, "allow", some[1:6], space / "values") == (1, 4)
        text = order(fleet, "keys", "allow", "emb", "--field", "C1", "--value", some[0]).stdout
        assert text == "emb: 1 keys: 0 newly allowed, 1 already\n", text
        for who in ("s0", "s1"):
            restarted(fleet, who)
        fleet.job(job)
        assert rows(fleet) == 6 and all(row(fleet, v)["named"] == "allowed" for v in some)
        held = listed(*at(fleet))
        assert list(held.values()) == ["allowed"] * 6 and set(held) == {row(fleet, v)["key"] for v in some}

        order(fleet, "erase", "emb", "--field", "C1", "--value", some[0])
        assert named(fleet, "allow", [some[0]], space / "values") == (1, 0)
        assert rows(fleet) == 5 and row(fleet, some[0]) is None  # it is let in, and its row begins anew with its next push
        restarted(fleet, "s0")
        fleet.job(job)
        assert rows(fleet) == 6

        assert named(fleet, "reset", some, space / "values") == (6, 0) and listed(*at(fleet)) == {} and rows(fleet) == 6
        order(fleet, "erase", "emb", "--field", "C1", "--value", some[0])
        assert named(fleet, "reset", [some[0]], space / "values") == (1, 0)
        fleet.job(job)
        assert rows(fleet) == 5  # the rules of the table decide again


def a_blocked_row_stays_and_none_is_made(space):
    """What is there when its key is blocked is trained on; what goes does not come back."""
    train = synth(space / "train.tsv", ROWS, 3)
    job, (there, gone, new, *_) = job_file(space / "job.yaml", train, **PLAIN), values_of(train)
    with Fleet(space, "f").up() as fleet:
        fleet.job(job)
        before, weights = rows(fleet), row(fleet, there)["weights"]
        assert named(fleet, "block", [there, gone, "a value that no row has"], space / "values") == (3, 0)
        assert rows(fleet) == before and row(fleet, there)["named"] == "blocked"
        text = order(fleet, "inspect", "emb", f"C1:{there}").stdout
        assert "  by name   blocked\n" in text, text
        order(fleet, "erase", "emb", "--field", "C1", "--value", gone)
        fleet.job(job)
        assert rows(fleet) == before - 1 and row(fleet, there)["weights"] != weights and row(fleet, gone) is None
        none = order(fleet, "inspect", "emb", f"C1:{gone}", code=66).stderr
        assert "the key is erased by name" in none, none
        table = told(fleet, "tables", "emb")[0]
        assert table["named"] == {"erased": 1, "blocked": 2, "allowed": 0}, table["named"]
        assert "by name: blocked" in order(fleet, "tables", "emb").stdout
        assert row(fleet, new) and "named" not in row(fleet, new)
        lines = order(fleet, "keys", "list", "emb")
        assert sorted(line.split("\t")[1:] for line in lines.stdout.splitlines()) == [["C1", "blocked"], ["C1", "blocked"], ["C1", "erased"]], lines
        assert lines.stderr == "3 keys by name: 1 erased, 2 blocked, 0 allowed\n", lines
        (space / "keys").write_text("".join(line.split("\t")[0] + "\n" for line in lines.stdout.splitlines()))
        assert told(fleet, "keys", "reset", "emb", "--keys", space / "keys")["changed"] == 3  # the list's first column is a list of keys
        fleet.job(job)
        assert rows(fleet) == before


def checkpoints_carry_the_names(space):
    """What is listed of a checkpoint and of an ended run is what was listed of the cluster; a job that resumes or starts from it has it too, and going
    back to a cut forgets no name that came after."""
    train = synth(space / "train.tsv", ROWS, 3)
    some = values_of(train)[:4]
    job = job_file(space / "job.yaml", train, **{**CHOSEN, "checkpoint.dir": str(space / "made"), "checkpoint.at_end": True})
    with Fleet(space, "f").up() as fleet:
        fleet.job(job)
        named(fleet, "allow", some, space / "values")
        order(fleet, "erase", "emb", "--field", "C1", "--value", some[3])
        fleet.job(job)
        made = sorted(p for p in (space / "made").iterdir() if p.name.isdigit())
        held, kept = listed(*at(fleet)), listed("--from", made[-1])
        assert sorted(held.values()) == ["allowed"] * 3 + ["erased"] and kept == held and rows(fleet) == 3
        assert json.loads(shoal("tables", "emb", "--from", made[-1], "--json").stdout)[0]["named"] == {"erased": 1, "blocked": 0, "allowed": 3}
        assert listed("--from", made[0]) == {}
        refused = shoal("keys", "block", "emb", "--field", "C1", "--value", "x", "--from", made[-1])
        assert refused.returncode == 69 and "while the cluster runs" in refused.stderr, refused

        later = job_file(space / "later.yaml", train, **{**CHOSEN, "train.epochs": 2})
        for how in ("--start-from", "--resume"):
            with Fleet(space, f"g{how[2]}").up() as other:
                other.job(job if how == "--resume" else later, how, made[-1])
                assert listed(*at(other)) == held and rows(other) == 3, how

        named(fleet, "block", [some[0]], space / "values")
        fleet.start("worker", "run", "--set", f"coordinator={fleet.endpoint}", program="shoal-worker")
        got = shoal("checkpoint", "restore", made[-1], "--set", "fresh=all", *at(fleet))
        assert got.returncode == 0 and listed(*at(fleet)) == held, got


def chosen_rows_outlive_kills_checkpoint_and_restore(space):
    """The listed rows and no other, an erased one again once it is let in: after kill -9 of servers and coordinator, in a checkpoint, and after going back to
    it."""
    train = synth(space / "train.tsv", ROWS, 3)
    some = values_of(train)[:5]
    job = job_file(space / "job.yaml", train, **{**CHOSEN, "checkpoint.dir": str(space / "made")})

    def has(fleet, values):
        return rows(fleet) == len(values) and all(row(fleet, v) for v in values)

    with Fleet(space, "f").up() as fleet:
        fleet.job(job)
        named(fleet, "allow", some[:4], space / "values")
        fleet.job(job)
        assert has(fleet, some[:4])
        order(fleet, "erase", "emb", "--field", "C1", "--value", some[0])
        fleet.job(job)
        assert has(fleet, some[1:4])
        assert named(fleet, "allow", [some[0]], space / "values") == (1, 0)
        for who in ("s0", "s1"):
            restarted(fleet, who)
        fleet.kill("coordinator")
        fleet.coordinator()
        fleet.fits()
        held = listed(*at(fleet))
        assert list(held.values()) == ["allowed"] * 4 and has(fleet, some[1:4])
        made = json.loads(order(fleet, "checkpoint", "create", "let-in", "--json").stdout)["path"]
        assert listed("--from", made) == held
        fleet.job(job)
        assert has(fleet, some[:4])

        named(fleet, "allow", [some[4]], space / "values")
        fleet.job(job)
        assert has(fleet, some)
        fleet.start("worker", "run", "--set", f"coordinator={fleet.endpoint}", program="shoal-worker")
        order(fleet, "checkpoint", "restore", made, "--set", "fresh=all")
        assert listed(*at(fleet)) == held and has(fleet, some[1:4])
        for who in ("s1", "s0", "worker"):
            fleet.kill(who)
        for who in ("s0", "s1"):
            fleet.server(who)
        within(30, "the rows to be back", lambda: shoal("tables", "emb", *at(fleet)).returncode == 0)
        fleet.job(job)
        assert has(fleet, some[:4]) and row(fleet, some[4]) is None


def a_job_that_goes_back_keeps_later_names(space):
    """The best epoch's cut was made before keys were blocked and erased: they stay so, and the erased row does not come back."""
    train, valid = synth(space / "train.tsv", 6000, 1), synth(space / "valid.tsv", 2000, 2)
    some = values_of(train)[:3]
    job = job_file(space / "job.yaml", train, **{
        "data.valid": str(valid), "train.epochs": longer(60), "train.early_stop.patience": longer(40), "train.early_stop.lr_decay": 1.0,
        "tables[0].optimizer.lr": 0.5, "dense_optimizer.lr": 0.05, "durability": None})
    with Fleet(space, "f").up() as fleet:
        running = submit(fleet, job, 1)
        within(60, "some epochs to end", lambda: running.poll() is not None or (fleet.state().get("epoch") or 0) > 8)
        if running.poll() is not None:
            raise TooShort
        named(fleet, "block", some[:2], space / "values")
        order(fleet, "erase", "emb", "--field", "C1", "--value", some[2])
        held = listed(*at(fleet))
        if running.poll() is not None:
            raise TooShort
        ended(fleet, running)
        report = json.loads((space / "report.json").read_text())
        if report["final_epoch"] > 8:
            raise TooShort
        assert report["final_epoch"] < len(report["epochs"]), "the last epoch is the best: nothing was restored"
        assert sorted(held.values()) == ["blocked", "blocked", "erased"] and listed(*at(fleet)) == held and row(fleet, some[2]) is None


def keys_follow_their_tablets(space):
    """Tablets move to a fourth server, and servers die, while a job trains and keys are blocked: none is lost."""
    train = synth(space / "train.tsv", 6000, 5)
    job = job_file(space / "job.yaml", train, **{**PLAIN, "train.lanes": 2, "train.epochs": longer(60)})
    with test_moves.Fleet(space, "f").up() as fleet:
        running = submit(fleet, job, 2)
        test_moves.trained(fleet, running)
        keys = sorted({f"0x{random.Random(n).randrange(26) << 48 | n:016x}" for n in range(20000)})
        fleet.added("s3")
        fleet.order("rebalance")
        changed = 0
        for n in range(20):
            (space / "keys").write_text("\n".join(keys[n::20]))
            changed += told(fleet, "keys", "block", "emb", "--keys", space / "keys")["changed"]
            if n in (5, 12):
                restarted(fleet, "s1" if n == 5 else "s3")
        assert changed == len(keys), changed
        fleet.wait_moved()
        if running.poll() is not None:
            raise TooShort
        assert fleet.tablets()["s3"] > 0
        found = listed(*at(fleet))
        assert set(found) == set(keys) and set(found.values()) == {"blocked"}
        running.terminate()
        running.wait()


def a_killed_server_is_waited_for(space):
    """A command that meets a dead server waits for it, and does the rest when it is there again; one that stays away is named."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 1000, 3), **PLAIN)
    (space / "keys").write_text("".join(f"{n}\n" for n in range(2000)))
    with Fleet(space, "f").up() as fleet:
        fleet.job(job)
        fleet.kill("s1")
        begun = subprocess.Popen([SHOAL, "keys", "block", "emb", "--keys", space / "keys", "--json", *at(fleet)], stdout=subprocess.PIPE, text=True)
        time.sleep(2)
        assert begun.poll() is None
        fleet.server("s1")
        out = begun.communicate(timeout=90)[0]
        assert begun.returncode == 0 and json.loads(out)["keys"] == 2000, out
        assert set(listed(*at(fleet)).values()) == {"blocked"} and len(listed(*at(fleet))) == 2000


def a_copy_that_takes_over_has_the_names(space):
    train = synth(space / "train.tsv", ROWS, 3)
    with test_replicas.Fleet(space, "f").up() as fleet:
        fleet.wait_in_sync()
        ended(fleet, submit(fleet, job_file(space / "job.yaml", train, **CHOSEN), 1))
        named(fleet, "allow", values_of(train)[:100], space / "values")
        held = listed(*at(fleet))
        fleet.kill(fleet.leaders()[0])
        assert len(held) == 100 and listed(*at(fleet)) == held  # the list waits for another copy to lead
        assert named(fleet, "block", values_of(train)[:100], space / "values") == (100, 0)
        assert set(listed(*at(fleet)).values()) == {"blocked"}


def a_million_keys_are_listed(space):
    """Page by page: the command's memory does not grow with the list."""
    million = 1000000
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 1000, 3), **PLAIN)
    (space / "keys").write_text("".join(f"0x{n % 26 << 48 | n:016x}\n" for n in range(million)))
    with Fleet(space, "f").up() as fleet:
        fleet.job(job)
        few = subprocess.run([SHOAL, "keys", "list", "emb", *at(fleet)], capture_output=True, check=True)
        assert few.stdout == b"" and few.stderr.startswith(b"0 keys by name")
        begin = time.monotonic()
        got = order(fleet, "keys", "allow", "emb", "--keys", space / "keys")
        assert got.stdout == "emb: 1,000,000 keys: 1,000,000 newly allowed, 0 already\n", got
        sent = time.monotonic() - begin
        for i in range(2):
            restarted(fleet, f"s{i}")
        begin = time.monotonic()
        text, most = "", 0
        with subprocess.Popen([SHOAL, "keys", "list", "emb", "--json", *at(fleet)], stdout=subprocess.PIPE, text=True) as process:
            while part := process.stdout.read(1 << 22):
                text += part
                peak = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{process.pid}/status").read_text())
                most = max(most, int(peak[1]) >> 10 if peak else 0)  # none of a process that has just ended
        print(f"      sent in {sent:.1f} s, listed in {time.monotonic() - begin:.1f} s with {most} MiB")
        assert process.returncode == 0 and 0 < most < 48, most
        found = json.loads(text)
        assert found["allowed"] == million and len({k["key"] for k in found["keys"]}) == million
        got = order(fleet, "keys", "reset", "emb", "--keys", space / "keys")
        assert got.stdout == "emb: 1,000,000 keys: 1,000,000 newly reset, 0 already\n" and listed(*at(fleet)) == {}, got


def wrong_lists_are_refused(space):
    """By the number of the line, and no key of such a list is sent."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 1000, 3), **PLAIN)
    path = space / "list"
    with Fleet(space, "f").up() as fleet:
        fleet.job(job)
        for text, words, code, says in (
                (b"1\n0:a\0b\n", ["--keys", path], 65, f"{path}:2: a NUL in it"),
                (b"1\n" + b"a" * (1 << 20) + b"a\n", ["--keys", path], 65, f"{path}:2: longer than 1048576 bytes"),
                (b"1\n2\nkey\n", ["--keys", path], 64, f"{path}:3: key is neither a key"),
                (b"1\nnothing:a\n", ["--keys", path], 66, f"{path}:2: the tables have no field nothing"),
                (b"a\n", ["--field", "nothing", "--values", path], 66, f"{path}:1: the tables have no field nothing"),
                (b"\n\n", ["--keys", path], 65, "names no key"),
                (b"1\n", [], 64, "say which keys"),
                (b"1\n", ["--keys", path, "--field", "C1"], 64, "say which keys"),
                (b"1\n", ["--values", path], 64, "say which keys"),
                (b"1\n", ["--field", "C1", "--values", path, "--value", "a"], 64, "say which keys"),
                (b"1\n", ["--keys", space / "none"], 66, "cannot read"),
                (b"1\n", ["--keys", space.path], 74, "cannot read")):
            path.write_bytes(text)
            for verb in ("allow", "block", "reset"):
                got = order(fleet, "keys", verb, "emb", *words, code=code)
                assert says in got.stderr and got.stdout == "", (words, got)
        path.write_bytes(b"1\n")
        assert "emb" in order(fleet, "keys", "block", "none", "--keys", path, code=66).stderr
        dense = order(fleet, "keys", "block", "dense", "--keys", path, code=64).stderr
        assert "table dense is dense" in dense, dense
        order(fleet, "keys", "list", "dense", code=64)
        order(fleet, "keys", "list", "none", code=66)
        order(fleet, "keys", "block", code=64)
        assert shoal("keys", "give").returncode == 64 and shoal("keys", "--help").returncode == 0
        assert listed(*at(fleet)) == {}


def administrators_name_keys_and_are_audited(space):
    """Over tcp with keys: the role admin alone; the server's log says which key named how many keys of which table."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 1000, 1))
    with Keyed(space).up() as f:
        worker = f.worker(job)
        assert f.ask("ann", "submit", job).returncode == 0 and worker.wait(60) == 0

        def ask(key, *words):
            return subprocess.run([SHOAL, "keys", *words, "--coordinator", f.endpoint], capture_output=True, text=True, timeout=60, check=False,
                                  env={**os.environ, "SHOAL_KEYS": str(space / f"{key}.key")})

        keys = ("emb", "--field", "C1", "--value", "a", "--value", "b")
        assert ask("ann", "block", *keys).returncode == 0
        for words in (("block", *keys), ("list", "emb")):
            got = ask("w1", *words)
            assert got.returncode == 77 and "the role worker may not send" in got.stderr, got
        assert ask("ann", "list", "emb").stderr == "2 keys by name: 0 erased, 2 blocked, 0 allowed\n"
        lines = [line for line in f.audit("server") if "op=KEYS" in line or "op=NAMED" in line]
        assert lines == ['role=admin name=ann peer=127.0.0.1 op=KEYS object="block 2 keys of emb" result=taken',
                         'role=worker name=w1 peer=127.0.0.1 op=KEYS object="block 2 keys of emb" result=denied',
                         'role=worker name=w1 peer=127.0.0.1 op=NAMED object="" result=denied'], lines


if __name__ == "__main__":
    main([a_table_gets_the_allowed_rows_alone, a_blocked_row_stays_and_none_is_made, checkpoints_carry_the_names,
          chosen_rows_outlive_kills_checkpoint_and_restore, a_job_that_goes_back_keeps_later_names, keys_follow_their_tablets, a_killed_server_is_waited_for, a_copy_that_takes_over_has_the_names, a_million_keys_are_listed,
          wrong_lists_are_refused, administrators_name_keys_and_are_audited])
