#!/usr/bin/env python3
"""test_export_scores: what `shoal predict` writes follows from an export and the manual alone: no code of ours computes here, neither keys nor sums.

Keys are by the formula of deploy/manual/run.md, XXH3 by the system's libxxhash; rows and tensors by deploy/manual/export.md, from a safetensors; a value
without a row is zeros."""
import array
import ctypes
import math

from exports import arrays_of, told_of
from lib import *
from test_predict import auc, lines_of, scores_of, shoal

NUMBERS, CATEGORIES, DIM, HIDDEN = 13, 26, 4, [16, 8]
NEW, SEEN = 1500, 500  # rows that are scored: of another log, and of the training's


def xxh3_64(value, seed, lib=ctypes.CDLL("libxxhash.so.0")):
    lib.XXH3_64bits_withSeed.restype = ctypes.c_uint64
    lib.XXH3_64bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    return lib.XXH3_64bits_withSeed(value, len(value), seed)


def key_of(field, value):
    return field << 48 | xxh3_64(value, field) & (1 << 48) - 1


def sparse_rows(folder):
    """The rows of table emb of an export: by key, the first-order weight and the vector."""
    found = arrays_of(folder)
    rows = zip(found["emb.first"].rows(), found["emb.vectors"].rows(), strict=True)
    return {key: array.array("f", first + vector) for key, (first, vector) in zip(found["emb.keys"].values(), rows, strict=True)}


def dense_tensors(folder, shapes):
    """The values of the network's tensors, in the order of their numbers; they are those of the manual."""
    found, told = arrays_of(folder), sorted(told_of(folder)["tensors"], key=lambda t: t["number"])
    assert [found[t["name"]].shape for t in told] == shapes, [(t["name"], found[t["name"]].shape) for t in told]
    return [found[t["name"]].values() for t in told]


def number(cell):
    x = int(cell or "0")
    return math.copysign(math.log1p(abs(x)), x)


def network(x, tensors):
    """Linear layers of (out, in) and a bias each, relu; then the head, which has none."""
    for at in range(0, len(tensors) - 1, 2):
        weights, bias = tensors[at], tensors[at + 1]
        x = [max(0.0, sum(w * v for w, v in zip(weights[o * len(x):], x)) + bias[o]) for o in range(len(bias))]
    return sum(w * v for w, v in zip(tensors[-1], x))


def score(line, rows, tensors):
    """Also how many of its values have no row."""
    cells = line.split("\t")
    numbers = [number(c) for c in cells[1:1 + NUMBERS]]
    found = [rows.get(key_of(f, c.encode())) for f, c in enumerate(cells[1 + NUMBERS:])]
    row = [r or [0.0] * (1 + DIM) for r in found]
    z = tensors[0][0] + sum(r[0] for r in row) + sum(w * x for w, x in zip(tensors[1], numbers))
    for d in range(1, 1 + DIM):  # sum over pairs = half of (square of the sum - sum of the squares)
        z += (sum(r[d] for r in row) ** 2 - sum(r[d] ** 2 for r in row)) / 2
    if len(tensors) > 2:
        z += network([x for r in row for x in r[1:]] + numbers, tensors[2:])
    return 1 / (1 + math.exp(-z)), found.count(None)


def scored_by_hand(space, model, shapes):
    train, test = synth(space / "train.tsv", 8000, 1), synth(space / "test.tsv", NEW, 2)
    test.write_text("\n".join([*lines_of(test), *lines_of(train)[:SEEN]]) + "\n")
    job = job_file(space / "job.yaml", train, **{"data.test": str(test), "model.kind": model, "checkpoint.at_end": True, "train.epochs": 2})
    report = run_job(job, space / "run", servers=2)
    [made] = [p for p in (space / "run/checkpoints").iterdir() if (p / "manifest.json").exists()]
    shoal("export", made, "--format", "safetensors", "--out", space / "exported")
    shoal("predict", "--from", space / "run", "--out", space / "scores.csv")
    rows, tensors = sparse_rows(space / "exported"), dense_tensors(space / "exported", shapes)
    lines, told = lines_of(test), [float(s) for s in scores_of(space / "scores.csv")]
    mine = [score(line, rows, tensors) for line in lines]
    worst = max(abs(m - t) for (m, _), t in zip(mine, told, strict=True))
    new = sum(missing > 0 for _, missing in mine)
    print(f"      {model}: {len(told)} rows, {new} of them with a value without a row; {worst:.2g} at most between", flush=True)
    assert worst < 1e-5 and 0 < new <= NEW and len({f"{t:.6f}" for t in told}) > NEW // 2
    labels = [int(line[0]) for line in lines]
    assert abs(auc(labels, told) - report["test"]["auc"]) < 1e-12
    assert abs(auc(labels, [m for m, _ in mine]) - report["test"]["auc"]) < 1e-4  # ties fall otherwise


def fm_follows_from_an_export(space):
    scored_by_hand(space, "fm", [[1], [1, NUMBERS]])


def deepfm_follows_from_an_export(space):
    inputs = CATEGORIES * DIM + NUMBERS
    layers = [shape for i, out in zip([inputs, *HIDDEN], HIDDEN) for shape in ([out, i], [out])]
    scored_by_hand(space, "deepfm", [[1], [1, NUMBERS], *layers, [1, HIDDEN[-1]]])


if __name__ == "__main__":
    main([fm_follows_from_an_export, deepfm_follows_from_an_export])
