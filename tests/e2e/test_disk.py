#!/usr/bin/env python3
"""test_disk: what finished runs and checkpoints take of the disk, beside what their rows take."""
from lib import *



def row_bytes(dim):
    """As the guide's Sizing reckons them, of a deepfm with adagrad: key, first-order weight and vector, each with its state."""
    return 8 + 4 * (1 + dim) * (1 + 1)


SUNDRIES = 6 << 20  # a run's: the log's index, the coordinator's state, logs, pages, RocksDB's own


def taken(folder):
    """Blocks of the files under it, each file once."""
    files = {p.stat().st_ino: p.stat().st_blocks for p in pathlib.Path(folder).rglob("*") if p.is_file()}
    return 512 * sum(files.values())


def a_finished_run_keeps_what_its_rows_take(space):
    """Its journal of two segments of 64 MiB goes, and what was overwritten; so it does again after each command that starts its servers."""
    train = synth(space / "train.tsv", 8000, 1)
    job = job_file(space / "job.yaml", train, **{"train.epochs": 3})
    report = run_job(job, space / "run", 2)
    most = 3 * row_bytes(4) * report["tables"][0]["rows"] + 2 * SUNDRIES
    assert taken(space / "run") < most, (taken(space / "run"), most)
    for words in (("digest", "--run-dir", space / "run"), ("checkpoint", "create", "kept", "--run-dir", space / "run"),
                  ("predict", "--from", space / "run", "--in", train, "--out", space / "scores.csv"), ("digest", "--run-dir", space / "run")):
        subprocess.run([SHOAL, *map(str, words)], check=True, stdout=subprocess.DEVNULL)
        assert taken(space / "run") < 2 * most, (words, taken(space / "run"), most)
    again = run_job(job, space / "again", 1, extra=["--start-from", str(space / "run")])
    assert again["tables"][0]["rows"] == report["tables"][0]["rows"] and taken(space / "again") < most, taken(space / "again")


def a_sweep_keeps_what_its_rows_take(space):
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 2000, 1), **{"data.valid": str(synth(space / "valid.tsv", 500, 2))})
    subprocess.run([SHOAL, "sweep", str(job), "--set", "tables[0].optimizer.lr=0.01,0.02,0.03,0.04", "--dir", str(space / "sweep")],
                   check=True, stdout=subprocess.DEVNULL)
    assert taken(space / "sweep") < 4 * 2 * SUNDRIES, taken(space / "sweep")


def files_of(folder, part):
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and p.parent.name == part)


def checkpoints_take_what_the_guide_says(space):
    """Forty epochs, in which every image is overwritten again and again: the Sizing of deploy/manual/guide.md, held against what is measured."""
    train = synth(space / "train.tsv", longer(20000), 21)
    for durability in ("fsync", "journal", "memory"):
        job = job_file(space / "job.yaml", train, **{
            "durability": durability, "tables[0].dim": 16, "train.batch": 512, "train.epochs": 40, "checkpoint.dir": str(space / durability),
            "checkpoint.keep": 0, "checkpoint.every_batches": 150, "checkpoint.at_end": True})
        run_job(job, space / f"run-{durability}", 2, 2)
        made = [(m.parent, json.loads(m.read_text())) for m in sorted((space / durability).glob("*/manifest.json"))]
        if len(made) < 5:
            raise TooShort(made)
        rows = {folder.name: m["rows"] * row_bytes(16) for folder, m in made}
        found = {folder.name: (files_of(folder, "rows"), files_of(folder, "journal")) for folder, _ in made}
        for name, (images, journal) in found.items():
            assert 0.9 * rows[name] < images < 1.6 * rows[name] + (1 << 20), (durability, name, found, rows)
            assert durability != "memory" or journal == 0, (name, found)
        last = max(found)  # nothing is pushed beside it
        assert found[last][1] <= rows[last] / 4 + 2 * (8 << 20), (durability, found, rows)
        assert taken(space / f"run-{durability}") < 2 * rows[last] + 2 * SUNDRIES, (durability, taken(space / f"run-{durability}"), rows)
        print(f"      {durability}: {rows[last] / 1e6:.1f} MB of rows; checkpoints' rows and journal, MB: "
              + ", ".join(f"{a / 1e6:.0f} + {b / 1e6:.0f}" for a, b in found.values()), flush=True)


if __name__ == "__main__":
    main([a_finished_run_keeps_what_its_rows_take, a_sweep_keeps_what_its_rows_take, checkpoints_take_what_the_guide_says])
