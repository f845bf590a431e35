#!/usr/bin/env python3
"""test_export: all formats of `shoal export` hold the same bits; the bytes are those that were recorded, whatever servers made the tables; a difference
(--since) applied to the older export gives the newer one; what is broken off, full, there already or asked wrongly leaves nothing that counts."""
import signal

from exports import *
from lib import *

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))
import golden  # noqa: E402 - of that folder

FORMATS = ("npy", "safetensors", "tsv", "csv")
WAYS = {**{f: ["--format", f, "--state"] for f in FORMATS}, "plain": [], "stored": ["--format", "safetensors", "--values", "stored"]}


def shoal(*words, status=0):
    done = subprocess.run([SHOAL, *map(str, words)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == status, f"{words}: status {done.returncode}, {status} expected:\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def export(where, out, *words, status=0):
    said = shoal("export", where, "--out", out, *words, status=status)
    assert not pathlib.Path(f"{out}.tmp").exists()
    return said


def kept(space):
    """The checkpoint of 0.2.0: six tables of six optimizers and three kinds of values, four with statistics, and a network with running means."""
    return golden.unpack(GOLDEN / "0.2.0", space.path) / "checkpoint/middle"


def files(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest()[:16] for p in sorted(pathlib.Path(folder).iterdir())}


def bytes_are_those_that_were_recorded(space):
    """SHOAL_WRITE_EXPORTS=1 records them anew."""
    made, record, where = {}, GOLDEN / "0.2.0/exports.json", kept(space)
    for name, words in WAYS.items():
        export(where, space / name, *words)
        made[name] = files(space / name)
        export(where, space / f"{name}-again", *words)
        assert files(space / f"{name}-again") == made[name], name
    if os.environ.get("SHOAL_WRITE_EXPORTS"):
        record.write_text(json.dumps(made, indent=1) + "\n")
    recorded = json.loads(record.read_text())
    assert made == recorded, {name: [f for f in {*made[name], *recorded[name]} if made[name].get(f) != recorded[name].get(f)] for name in made}


def formats_hold_the_same_bits(space):
    where = kept(space)
    for name, words in WAYS.items():
        export(where, space / name, *words)
    whole, told = arrays_of(space / "npy"), told_of(space / "npy")
    assert {t["name"] for t in told["tables"]} == {"user", "goods", "tail", "city", "page", "day"} and arrays_of(space / "safetensors") == whole
    assert {t["name"] for t in told["tensors"]} >= {"dense.hidden.0.weight", "dense_stats.hidden.1.variance"}
    assert whole["dense.hidden.0.weight"].shape == [8, 30] and whole["dense_stats.hidden.1.mean"].shape == [4]
    for table in told["tables"]:
        keys = whole[f"{table['name']}.keys"].values()
        assert len(keys) == table["rows"] > 0 and keys == sorted(set(keys), key=mixed), table
    for suffix in ("tsv", "csv"):
        found, tensors = text_arrays(space / suffix)
        for table in told["tables"]:
            name = table["name"]
            parts = [whole[f"{name}.{part}"].rows() for part in ("first", "vectors") if f"{name}.{part}" in whole]
            assert found.pop(f"{name}.weights").rows() == [b"".join(row) for row in zip(*parts, strict=True)], name
        assert found == {n: a for n, a in whole.items() if not n.startswith("dense") and n.rsplit(".", 1)[1] not in ("first", "vectors")}, sorted(found)
        assert sorted(tensors) == sorted(t["name"] for t in told["tensors"])
        for name, elements in tensors.items():
            values, state, blocks = (whole[name + end].data if name + end in whole else b"" for end in ("", ".state", ".blocks"))
            split = [values[i:i + 4] for i in range(0, len(values), 4)]
            deep = [state[i * len(values):(i + 1) * len(values)] for i in range(len(state) // len(values))]
            for i, element in enumerate(elements):
                row = blocks[i // 512 * (len(blocks) // -(-len(split) // 512)):][:len(blocks) // -(-len(split) // 512)]
                assert element == [split[i], *(d[4 * i:4 * i + 4] for d in deep), *(row[k:k + 4] for k in range(0, len(row), 4))], (name, i)
            assert len(elements) == len(split)
    plain = arrays_of(space / "plain")
    assert plain == {n: whole[n] for n in plain} and not any(n.endswith((".state", ".show", ".blocks")) for n in plain)
    stored = arrays_of(space / "stored")
    assert sorted(stored) == sorted(plain) and {a.dtype for a in stored.values()} == {"U64", "F32", "F16", "BF16"}
    for name, a in stored.items():
        assert a.shape == plain[name].shape and a.values() == plain[name].values(), name


def servers_do_not_change_a_byte(space):
    """Also of a run's folder, whose stores are opened, and of its checkpoint at the end."""
    train = synth(space / "train.tsv", 6000, 3)
    job = job_file(space / "job.yaml", train, **{"train.consistency": "bsp", "train.staleness": None, "checkpoint.at_end": True, "tables[0].stats": True})
    for servers in (1, 3):
        run_job(job, space / f"run-{servers}", servers)
        [made] = [p for p in (space / f"run-{servers}/checkpoints").iterdir() if (p / "manifest.json").exists()]
        for name in FORMATS[:3]:
            export(made, space / f"{name}-{servers}", "--format", name, "--state")
            export(space / f"run-{servers}", space / f"{name}-{servers}-run", "--format", name, "--state")
    for name in FORMATS[:3]:
        told = [{n: s for n, s in files(space / f"{name}{end}").items() if n != "export.json"} for end in ("-1", "-3", "-1-run", "-3-run")]
        assert told[0] == told[1] == told[2] == told[3], told
    assert told_of(space / "npy-1")["tables"] == told_of(space / "npy-3-run")["tables"]


def two_checkpoints(space):
    """A job; and another that began with its tables, without the rows of a column, on another log."""
    job = job_file(space / "job.yaml", synth(space / "one.tsv", 4000, 5), **{"checkpoint.at_end": True})
    run_job(job, space / "older", 2)
    synth(space / "two.tsv", 1500, 6)
    run_job(job, space / "newer", 2, extra=["--start-from", space / "older", "--set", f"data.train={space}/two.tsv", "--set", "fresh=[C3]"])
    return [next(p for p in (space / name / "checkpoints").iterdir() if (p / "manifest.json").exists()) for name in ("older", "newer")]


def difference_applied_to_the_older_gives_the_newer(space):
    older, newer = two_checkpoints(space)
    for name in FORMATS:
        for state in ([], ["--state"]):
            ends = [space / f"{name}{len(state)}-{end}" for end in ("older", "newer", "since")]
            export(older, ends[0], "--format", name, *state)
            export(newer, ends[1], "--format", name, *state)
            said = export(newer, ends[2], "--format", name, *state, "--since", older)
            was, now, rows, gone = (rows_of(ends[0]), rows_of(ends[1]), rows_of(ends[2]), erased_of(ends[2]))
            assert len(gone["emb"]) > 10 and 0 < len(rows["emb"]) < len(now["emb"]), (len(gone["emb"]), len(rows["emb"]), len(now["emb"]))
            assert all(key in was["emb"] and key not in now["emb"] for key in gone["emb"]) and len(set(gone["emb"])) == len(gone["emb"])
            assert all(was["emb"].get(key) != row for key, row in rows["emb"].items()), "a row that did not change"
            for key in gone["emb"]:
                del was["emb"][key]
            was["emb"].update(rows["emb"])
            assert was == now and f"{len(gone['emb'])} keys erased" in said, said
            if name in ("npy", "safetensors"):
                whole, part = (arrays_of(end) for end in ends[1:])
                assert {n: a for n, a in part.items() if n.startswith("dense")} == {n: a for n, a in whole.items() if n.startswith("dense")}
    export(newer, space / "same", "--since", newer, "--state")
    assert rows_of(space / "same") == {"emb": {}} and erased_of(space / "same") == {"emb": []}
    run_job(space / "job.yaml", space / "wider", extra=["--set", "tables[0].dim=5"])
    said = export(space / "wider", space / "no", "--since", older, status=78)
    assert "table emb" in said and "without --since" in said and not (space / "no").exists(), said


def a_killed_export_leaves_nothing_that_counts(space):
    train = synth(space / "train.tsv", longer(20000), 4)
    run_job(job_file(space / "job.yaml", train, **{"checkpoint.at_end": True}), space / "run")
    for number in (signal.SIGKILL, signal.SIGTERM):
        out, left = space / f"out-{number}", space / f"out-{number}.tmp"
        writer = subprocess.Popen([SHOAL, "export", space / "run", "--format", "tsv", "--out", out], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while writer.poll() is None and not (left / "emb.tsv").exists():
            pass
        writer.send_signal(signal.SIGSTOP)
        if writer.poll() is not None or out.exists():
            raise TooShort("the export was through")
        said = shoal("export", space / "run/checkpoints/000001", "--out", out, status=73)
        assert "another `shoal export` writes" in said and left.exists(), said
        writer.send_signal(number)
        writer.send_signal(signal.SIGCONT)
        writer.wait(60)
        assert left.exists() and not out.exists()
        said = export(space / "run", out)
        assert f"{left} is removed: an export was broken off" in said and len(rows_of(out)["emb"]) > 1000, said
    # a folder that no export has left stays
    assert "does not end in .tmp" in shoal("export", space / "run", "--out", space / "mine.tmp", status=64)
    (space / "mine.tmp").mkdir()
    (space / "mine.tmp/notes").write_text("mine")
    assert "is in the way" in shoal("export", space / "run", "--out", space / "mine", status=73) and (space / "mine.tmp/notes").exists()


def a_network_with_holes_is_none(space):
    """The rows of one of two servers are lost."""
    run_job(job_file(space / "job.yaml", synth(space / "train.tsv", 4000, 4), **{"checkpoint.at_end": True}), space / "run", 2)
    export(space / "run", space / "whole", "emb")
    shutil.move(space / "run/server-1", space / "away")
    assert "--missing-ok" in export(space / "run", space / "x", status=66)
    assert "the network in table dense is not whole" in export(space / "run", space / "x", "--missing-ok", status=66)
    assert "not all rows of emb" in export(space / "run", space / "part", "emb", "--missing-ok")
    whole, part = rows_of(space / "whole")["emb"], rows_of(space / "part")["emb"]
    assert 0 < len(part) < len(whole) and part.items() <= whole.items()
    assert "would count as erased" in export(space / "run", space / "x", "emb", "--missing-ok", "--since", space / "run/checkpoints/000001", status=66)


def a_full_disk_is_said(space):
    train = synth(space / "train.tsv", 20000, 4)
    run_job(job_file(space / "job.yaml", train), space / "run")
    with small_disk(space, "256k") as disk:
        for name in FORMATS:
            said = export(space / "run", disk / "out", "--format", name, "--state", status=73)
            assert "No space left on device" in said and str(disk) in said and not list(disk.iterdir()), said


def wrong_words_are_refused(space):
    where = kept(space)
    shoal("export", status=64)
    assert "--out FOLDER" in shoal("export", where, status=64)
    assert "--format" in shoal("export", where, "--out", space / "x", "--format", "binary", status=64)
    assert "tsv" in shoal("export", where, "--out", space / "x", "--format", "binary", status=64)
    for name in ("tsv", "csv"):
        assert "npy or safetensors" in export(where, space / "x", "--format", name, "--values", "stored", status=64)
    assert "table tail are bf16" in export(where, space / "x", "--values", "stored", status=64)
    export(where, space / "f16", "user", "--values", "stored")
    assert npy(space / "f16/user.vectors.npy").dtype == "F16" and sorted(rows_of(space / "f16")) == ["user"]
    assert "there are: user, goods" in export(where, space / "x", "nothing", status=66)
    export(space / "none", space / "x", status=66)
    export(where, space / "x", "--since", space / "none", status=66)
    (space / "there").mkdir()
    assert "exists already" in export(where, space / "there", status=73)
    assert "cannot make" in shoal("export", where, "--out", space / "no/such/x", status=73)
    assert not (space / "x").exists() and not list(space.path.glob("*.tmp"))


def the_former_verb_says_the_line_of_today(space):
    where = kept(space)
    said = shoal("checkpoint", "export", where, "page", "--format", "binary", "--out", space / "page", status=64)
    assert "page.keys.npy" not in said and "npy takes the place of binary" in said, said
    [line] = re.findall(r"^  (shoal export .*)$", said, re.M)
    subprocess.run(line.replace("shoal", str(SHOAL), 1), shell=True, check=True, stdout=subprocess.DEVNULL)
    assert len(npy(space / "page/page.keys.npy").values()) == told_of(space / "page")["tables"][0]["rows"] > 0
    [line] = re.findall(r"^  (shoal export .*)$", shoal("checkpoint", "export", where, "day", "--out", space / "day", "--state", status=64), re.M)
    subprocess.run(line.replace("shoal", str(SHOAL), 1), shell=True, check=True, stdout=subprocess.DEVNULL)
    assert (space / "day/day.tsv").read_text().startswith("key\tfield\tw0\t")


if __name__ == "__main__":
    main([bytes_are_those_that_were_recorded, formats_hold_the_same_bits, servers_do_not_change_a_byte, difference_applied_to_the_older_gives_the_newer,
          a_killed_export_leaves_nothing_that_counts, a_network_with_holes_is_none, a_full_disk_is_said, wrong_words_are_refused, the_former_verb_says_the_line_of_today])
