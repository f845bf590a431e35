#!/usr/bin/env python3
"""formats: one made-up log as csv, libsvm (by place, and as one field with values) and libffm, each with its job, for bench_read. By hand:

    tests/bench/formats.py FOLDER [ROWS]
    bench_read FOLDER/csv.log 1 10 4096 - FOLDER/csv.yaml

A row has 26 columns of categories, numbered through as libsvm wants them; values are 1 in `places` and have four digits elsewhere.
"""
import json
import pathlib
import random
import sys

COLUMNS, EACH = 26, 4000


def main():
    folder, rows = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 200000
    dice, folder_jobs = random.Random(1), {
        "csv": {"format": "csv", "label": "label"}, "places": {"format": "libsvm"}, "one": {"format": "libsvm"}, "libffm": {"format": "libffm"},
        "weighted": {"format": "csv", "label": "label", "columns": [{"name": "ids", "type": "multi", "weighted": True}]}}
    folder.mkdir(exist_ok=True)
    files = {name: open(folder / f"{name}.log", "w", encoding="utf-8") for name in folder_jobs}
    files["csv"].write("label," + ",".join(f"C{i}" for i in range(COLUMNS)) + "\n")
    files["weighted"].write("label,ids\n")
    for _ in range(rows):
        ids = [c * EACH + int(dice.paretovariate(0.7)) % EACH for c in range(COLUMNS)]
        values = [f"{dice.random():.4f}" for _ in range(COLUMNS)]
        label = dice.randrange(2)
        files["csv"].write(f"{label}," + ",".join(map(str, ids)) + "\n")
        files["places"].write(f"{label} " + " ".join(f"{i}:1" for i in ids) + "\n")
        files["one"].write(f"{label} " + " ".join(f"{i}:{v}" for i, v in zip(ids, values)) + "\n")
        files["libffm"].write(f"{label} " + " ".join(f"{f}:{i}:{v}" for f, (i, v) in enumerate(zip(ids, values))) + "\n")
        files["weighted"].write(f"{label}," + "|".join(f"{i}:{v}" for i, v in zip(ids, values)) + "\n")
    for name, data in folder_jobs.items():
        files[name].close()
        job = {"job": name, "data": {"train": str(folder / f"{name}.log"), **data}, "tables": [{"name": "emb", "dim": 8}], "model": {"kind": "lr"}}
        (folder / f"{name}.yaml").write_text(json.dumps(job) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
