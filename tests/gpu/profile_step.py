"""profile: where a step's time is, by kernel, of one build or of several side by side; for whoever changes kernels.

    tests/gpu/run profile [FOLDER...]        FOLDER: another unpacked archive or build folder

For each model and precision: milliseconds of a step and of its products alone (as the speed half has them), then, by Nsight Compute (ncu, of the
toolkit), microseconds of a step by kernel. ncu waits for each kernel, so the sum of them is not the step's time. Writes PROFILE.md into --out."""
import csv
import io
import pathlib
import re
import shutil
import time

from session import Place, json_lines
from smoke import KINDS

PRECISIONS, BATCH, ROWS, STEPS = ["tf32", "bf16"], 16384, 127000, 3  # steps that gpu_step --steps 1 makes in all
SHOWN = 14  # kernels of a table; the others are one line
LIBRARY = (("products", re.compile(r"gemm|cutlass|xmma|nvjet|splitK|cublas", re.I)), ("sort", re.compile(r"cub::|Onesweep|RadixSort", re.I)))


def ncu_find():
    places = [p for pattern in ("cuda*/bin/ncu", "cuda*/nsight-compute*/ncu") for p in sorted(pathlib.Path("/usr/local").glob(pattern))]
    places += sorted(pathlib.Path("/opt/nvidia").glob("nsight-compute/*/ncu"))
    return shutil.which("ncu") or next((str(p) for p in places), None)


def kernel_short(name):
    for short, pattern in LIBRARY:
        if pattern.search(name):
            return short
    found = re.match(r"(\w+?)_kernel\b", name)
    return found[1] if found else name[:40]


def kernels_of(text):
    """{kernel: [runs, microseconds]} of ncu's table."""
    begin, found = text.find('"ID"'), {}
    if begin < 0:
        return found
    unit = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3}
    for row in csv.DictReader(io.StringIO(text[begin:])):
        if row.get("Metric Name") != "gpu__time_duration.sum":
            continue
        sums = found.setdefault(kernel_short(row["Kernel Name"]), [0, 0.0])
        sums[0] += 1
        sums[1] += float(row["Metric Value"].replace(",", "")) * unit[row["Metric Unit"]]
    return found


def step_words(s, place, precision, *more):
    size = ["--batch", "8", "--rows", "520"] if s.dry else ["--batch", BATCH, "--rows", ROWS]
    return [place.bin / "gpu_step", "--module", s.module, "--precision", precision, *size, *more]


def kernels_run(s, ncu, place, kind, precision):
    words = [ncu, "--csv", "--metrics", "gpu__time_duration.sum", "--clock-control", "none",
             *step_words(s, place, precision, "--steps", "1", "whole", kind)]
    code, out = s.run(f"ncu {kind} {precision}", words, 60, place.env())
    return kernels_of(out) if s.judge(f"ncu {kind} {precision}", code, out) else {}


def table(columns):
    """columns: of each build, kernels_of."""
    names = sorted({name for c in columns for name in c}, key=lambda name: -max(c.get(name, (0, 0))[1] for c in columns))
    lines = ["| kernel | " + " | ".join("runs, us" for _ in columns) + " |", "| --- |" + " --- |" * len(columns)]
    for title, those in [(name, [name]) for name in names[:SHOWN]] + [(f"{len(names[SHOWN:])} others", names[SHOWN:]), ("all", names)]:
        sums = [[sum(c.get(n, (0, 0))[i] for n in those) / STEPS for i in (0, 1)] for c in columns]
        lines.append(f"| {title} | " + " | ".join(f"{runs:.0f}, {us:.1f}" for runs, us in sums) + " |")
    return lines


def steps_of(s, places):
    """By turns, so that all builds see the same clocks."""
    lines = ["| model | precision | " + " | ".join(f"{p.facts.get('commit', p.bin)} ms (products)" for p in places) + " |",
             "| --- | --- |" + " --- |" * len(places)]
    for precision in PRECISIONS:
        found = {}
        for turn in range(2):
            for place in places if turn == 0 else places[::-1]:
                words = ["--steps", "1"] if s.dry else ["--seconds", "0.2"]
                code, out = s.run(f"step {precision}", step_words(s, place, precision, *words, "device", *KINDS), 60, place.env())
                for r in json_lines(out) if s.judge(f"step {precision}", code, out) else []:
                    found.setdefault((r["kind"], place.bin), []).append((r["ms"], r["products_ms"]))
        for kind in KINDS:
            shown = [min(found.get((kind, p.bin), [(0, 0)])) for p in places]
            lines.append(f"| {kind} | {precision} | " + " | ".join(f"{ms:.3f} ({products:.3f})" for ms, products in shown) + " |")
    return lines


def profile(s, others, write):
    """Writes after each part: the machine may be taken away."""
    places = [*(Place(folder, s.module, pathlib.Path(folder)) for folder in others), s.place]
    lines = ["# A step's time", "", *steps_of(s, places)]
    write(lines)
    ncu = ncu_find()
    if ncu is None:
        s.notes.append("kernels are left out: ncu is neither on PATH nor with a toolkit in /usr/local or /opt/nvidia")
        return s.say(s.notes[-1])
    for precision in PRECISIONS:
        for kind in KINDS:
            begin = time.monotonic()
            columns = [kernels_run(s, ncu, place, kind, precision) for place in places]
            lines += ["", f"## {kind}, {precision}", "", *table(columns)]
            write(lines)
            s.say(f"{kind} {precision}: {time.monotonic() - begin:.0f} s")
