"""results: results.json, which keeps both halves with every figure, and RESULTS.md, which is made of it and of nothing else."""
import json
import re

from smoke import ALL_KINDS, KINDS
from steps import PRECISIONS, VARIANTS
from whole import GOAL

HALVES = ("correctness", "speed")
FORMAT = 1  # format of a half in results.json: one with another number is not read
TITLES = {"correctness": "Correctness", "speed": "Speed"}

SANITIZER_TEXT = """- memcheck and initcheck: with every tensor and piece of scratch an allocation of its own; before them initcheck had
  to see rows that nobody wrote. What the libraries write (products, sorted values) is zeroed before, because tools do not see all of their
  stores: what they leave unwritten is not found. In bf16 what they read is not looked at. racecheck is not run: it looks at shared memory, of
  which our kernels have none."""
MODELS_TEXT = """Three steps of every model at its real width. Memory: all that is in use on the card, the context included (in a dry run:
of the process)."""
STEP_TEXT = """Rows gathered, forward, backward, gradients merged by row, all in the card's memory, no optimizer (the servers have it), one
step queued behind the other. Milliseconds: mean of two runs and how far they are from it; a run is the median of 11 windows. Ours and
PyTorch's were measured by turns. Outside: the share of ours that is not matrix products, which were timed alone on the same numbers.
Not det.: `train.deterministic: false`. Graphs: `torch.compile(mode="reduce-overhead")`. The last three columns: PyTorch's time / ours."""
COPIES_TEXT = """tf32. Compute: as above. Copies: a step's alone, from and to pinned memory: values, numbers, labels, parameters
and rows in (42,000 and 127,000 rows: unique keys of such a batch of the synthetic log), gradients and scores out. Whole: the step as the worker calls it, which waits for each; with four lanes the copies of one overlap with another's compute."""
WHOLE_TEXT = """`shoal local`, DeepFM 400-400-400, tf32, durability memory, three epochs over a synthetic Criteo log (of {lines:,} lines in
{files} files each run reads the first files, as many as its time allows: the column lines), servers, worker and card on this host. First, last: examples/s of the first epoch, in which the tables grow, and of the
last. One thing is changed at a time, and what was faster is kept for the next. Time: of the lanes; busy: of each stage, which overlap;
CPU: seconds by program, and microseconds an example of all. Card: mean of what nvidia-smi calls utilisation. `fm on the CPU` has no
network and no card: the host's own ceiling."""


def half_of(s, ended=True):
    return {"format": FORMAT, "dry": s.dry, "complete": ended and s.complete(), "ended": ended, "missing": s.missing(),
            "about": s.about, "seconds": round(s.took(), 1), "stages": s.stages, "failures": s.failures, "notes": s.notes, "figures": s.figures}


def read(path):
    """The halves of a results.json; none where it is not there or is not one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: found[name] for name in HALVES
            if isinstance(found, dict) and isinstance(found.get(name), dict) and found[name].get("format") == FORMAT}


def write(folder, halves):
    (folder / "results.json").write_text(json.dumps(halves, indent=1) + "\n", encoding="utf-8")
    (folder / "RESULTS.md").write_text(text_of(halves), encoding="utf-8")


RATE = re.compile(r"the whole way at [\d,]+ examples/s or more: .*\(([\d,]+) examples/s\)")
README_RATE = re.compile(r"(?<=<!-- rate -->)[\d.]+(?=<!-- /rate -->)")


def rate_of(page):
    """Millions of examples/s of the whole way, as a README says it; None where the page has none."""
    found = RATE.search(page)
    return None if found is None else f"{int(found[1].replace(',', '')) / 1e6:.1f}"


def readme_put(readme, page):
    """The README's figure is the page's."""
    if rate_of(page) is not None:
        readme.write_text(README_RATE.sub(rate_of(page), readme.read_text(encoding="utf-8")), encoding="utf-8")


# ---- words ---------------------------------------------------------------------------------------------------------


def mean(values):
    return sum(values) / len(values)


def spread(values):
    """How far runs are apart, as a share of their mean."""
    return (max(values) - min(values)) / mean(values) if len(values) > 1 and mean(values) > 0 else 0.0


def ms_text(figure):
    return f"{mean(figure['ms']):.3f} ±{50 * spread(figure['ms']):.0f} %" if figure and figure["ms"] else "-"


def ratio(figures, key, name):
    """How many times as long the other takes; None without both."""
    ours, other = figures.get(f"{key}/ours"), figures.get(f"{key}/{name}")
    return mean(other["ms"]) / mean(ours["ms"]) if ours and other else None


def ratio_text(value):
    return "-" if value is None else f"{value:.2f}"


def fallback_lines(figures):
    """Returns the lines that tell which figures a card computed in another way than planned. figures: by the name that is shown."""
    counted = {name: r["counters"] for name, r in figures.items() if r and r.get("counters")}
    found = [f"{name} {c['refusals']:,} and {c['spoiled']:,} ({c['choices']:,} ways asked for, {c['recordings']:,} recordings, {c['plays']:,} plays)"
             for name, c in counted.items() if c["refusals"] or c["spoiled"]]
    words = "; ".join(found) if found else "none" if counted else "not counted"
    return ["", f"Ways of computing a product that were refused, and recordings that were spoiled: {words}."]


def table(head, rows):
    return ["| " + " | ".join(str(c) for c in row) + " |" for row in (head, ["---"] * len(head), *rows)] if rows else []


# ---- marks ---------------------------------------------------------------------------------------------------------


def batches_in(figures):
    return sorted({int(key.split("/")[2]) for key in figures if key.startswith("step/")})


def mark_eager(figures, precision):
    found = {}
    for batch in batches_in(figures):
        for kind in KINDS:
            found[f"{kind} {batch}"] = ratio(figures, f"step/{kind}/{batch}/{precision}", "eager")
    name = f"the step is at least as fast as PyTorch's eager in {precision}"
    if not found or None in found.values():
        return f"- {name}: not measured"
    words = ", ".join(f"{which} {value:.2f}" for which, value in found.items())
    return f"- {name}: **{'yes' if min(found.values()) >= 1 else 'no'}** (eager / Shoal: {words})"


def mark_whole(figures):
    best, name = figures.get("whole/best"), f"the whole way at {GOAL:,.0f} examples/s or more"
    if not best:
        return f"- {name}: not measured"
    return f"- {name}: **{'yes' if best['last'] >= GOAL else 'no'}** ({best['last']:,} examples/s)"


def marks(halves):
    figures = halves.get("speed", {}).get("figures", {})
    return [mark_eager(figures, "fp32"), mark_eager(figures, "tf32"), mark_whole(figures)]


# ---- correctness ---------------------------------------------------------------------------------------------------


def correctness_lines(f):
    lines = []
    tests = {k: v for k, v in f.items() if k.startswith("tests/")}
    if tests:
        lines.append(f"- {len(tests)} test programs of tests/dense passed: gradients against finite differences, kernels and loss curves "
                     "against the CPU, the same bits at each run")
    if f.get("job/auc"):
        a = f["job/auc"]
        lines.append(f"- a bsp job of {a['lines']:,} lines: valid AUC {a['cuda']:.5f} on cuda, {a['cpu']:.5f} on the CPU; "
                     f"the best possible {a['teacher'] or 0:.4f}")
    if f.get("job/digest"):
        same = f["job/digest"][0] == f["job/digest"][1]
        lines.append(f"- the same bsp job twice on cuda: {'equal' if same else 'DIFFERENT'} digests {' '.join(f['job/digest'][0])}")
    if f.get("job/bad lines"):
        b = f["job/bad lines"]
        lines.append(f"- a job with data.negatives 0.3 and {b['of']:,} bad lines ended well: {b['bad lines']:,} of them were drawn and "
                     f"counted, AUC {b['auc']:.4f}")
    for name in ("several devices", "chosen experts"):
        if f.get(f"job/{name}"):
            a = f[f"job/{name}"]
            idle = f"; the devices waited {100 * a['idle']:.0f} % of their time" if a["idle"] else ""
            lines.append(f"- a bsp job with {name}: valid AUC {a['cuda']:.5f} on cuda, {a['cpu']:.5f} on the CPU{idle}")
    checked = [(name, precision) for name in ("memcheck", "initcheck") for precision in ("fp32", "bf16") if f.get(f"sanitizer/{name}/{precision}")]
    for name, precision in checked:
        r = f[f"sanitizer/{name}/{precision}"]
        lines.append(f"- compute-sanitizer {name}: clean on {', '.join(r['kinds'])} in {precision}, {r['of']}, in {r['seconds']:.0f} s")
    if checked:
        lines.append(SANITIZER_TEXT)
    if f.get("sanitizer/16 bytes") is False:
        lines.append("- initcheck does NOT see reads of 16 bytes at once of what nobody wrote: most of what our kernels read")
    rows = [[kind, r["batch"], precision, f"{r['loss']:.4f}", f"{r['ms']:.2f}", f"{r['memory_mib']:,.0f}"]
            for kind in ALL_KINDS for precision in ("fp32", "bf16") for r in [f.get(f"model/{kind}/{precision}")] if r]
    if rows:
        lines += ["", MODELS_TEXT, "", *table(["model", "batch", "precision", "loss", "ms a step", "MiB"], rows)]
        lines += fallback_lines({f"{kind} {precision}": f.get(f"model/{kind}/{precision}") for kind in ALL_KINDS for precision in ("fp32", "bf16")})
    return lines


# ---- speed ---------------------------------------------------------------------------------------------------------


def step_lines(f):
    rows = []
    for batch in batches_in(f):
        for kind in KINDS:
            for precision in PRECISIONS:
                key = f"step/{kind}/{batch}/{precision}"
                ours = f.get(f"{key}/ours")
                if not ours:
                    continue
                outside = f"{100 * (1 - ours['products_ms'] / ours['ms'][-1]):.0f} %"
                rows.append([kind, batch, precision, ms_text(ours), outside, ms_text(f.get(f"{key}/not deterministic")),
                             *(ms_text(f.get(f"{key}/{v}")) for v in VARIANTS), *(ratio_text(ratio(f, key, v)) for v in VARIANTS)])
    if not rows:
        return []
    runs = {" ".join([*key.split("/")[1:4], *(["not det."] if key.endswith("/not deterministic") else [])]): f[key] for key in f
            if key.startswith("step/") and key.split("/")[4] in ("ours", "not deterministic")}
    return ["", "### Dense step", "", STEP_TEXT, "",
            *table(["model", "batch", "precision", "Shoal ms", "outside", "not det. ms", "eager ms", "compiled ms", "graphs ms",
                    "eager", "compiled", "graphs"], rows), *fallback_lines(runs)]


def copies_lines(f):
    rows = []
    for key, copy in f.items():
        bits = key.split("/")
        if bits[0] != "copies" or bits[3] != "copies":
            continue
        kind, batch = bits[1], bits[2]
        one, four = f.get(f"copies/{kind}/{batch}/whole/1"), f.get(f"copies/{kind}/{batch}/whole/4")
        compute = f.get(f"step/{kind}/{batch}/tf32/ours")
        bytes_text = f"{copy['bytes_up'] / 1e6:.1f} + {copy['bytes_down'] / 1e6:.1f}"
        rates = [f"{r['examples_per_second']:,.0f}" if r else "-" for r in (one, four)]
        rows.append([kind, batch, ms_text(compute), f"{copy['ms']:.3f}", bytes_text, f"{one['ms']:.3f}" if one else "-", *rates])
    if not rows:
        return []
    return ["", "### Copies and compute", "", COPIES_TEXT, "",
            *table(["model", "batch", "compute ms", "copies ms", "MB in + out", "whole ms", "examples/s, 1 lane", "4 lanes"], rows)]


def share_text(parts):
    total = sum(parts.values())
    return ", ".join(f"{k} {100 * v / total:.0f} %" for k, v in parts.items()) if total > 0 else "-"


def whole_lines(f):
    tries = sorted((k for k in f if k.startswith("whole/try")), key=lambda k: int(k.split()[-1]))
    names = ["whole/start", *tries, "whole/ceiling", "whole/best"]
    rows = []
    for key in names:
        r = f.get(key)
        if r:
            what = {"whole/ceiling": "**fm on the CPU**: ", "whole/best": "**the figure**: "}.get(key, "") + r["setting"]
            cpu = ", ".join(f"{k.removeprefix('shoal-')} {v:.0f}" for k, v in sorted(r["cpu_seconds"].items()))
            rows.append([what, f"{r['lines']:,}", f"{r['first']:,}", f"**{r['last']:,}**", r["bottleneck"] or "-", share_text(r["time"]),
                         share_text(r["busy"]), cpu, r["cpu_us_an_example"], "-" if r["card_busy"] is None else f"{r['card_busy']:.0f} %"])
    if not rows:
        return []
    made = f.get("whole/input", {})
    return ["", "### Whole way", "", WHOLE_TEXT.format(lines=made.get("lines", 0), files=made.get("files", 0)), "",
            *table(["setting", "lines", "first", "last", "limited by", "time", "busy", "CPU seconds", "CPU us", "card"], rows)]


# ---- the page ------------------------------------------------------------------------------------------------------


def half_lines(name, half):
    state = "complete" if half["complete"] else "NOT complete"
    lines = ["", f"## {TITLES[name]}: {state}", ""]
    if half["dry"]:
        lines += ["**A dry run: the device was the host. These are not figures of a card.**", ""]
    lines += [f"- {k}: {v}" for k, v in half["about"].items()]
    stages = [f"{st['name']} {st['seconds']:.0f}" + ("" if st["state"] == "ok" else " " + st["state"]) for st in half["stages"]]
    lines.append(f"- took: {half['seconds']:.0f} s ({', '.join(stages)})")
    lines += [f"- {note}" for note in half["notes"]]
    if not half["ended"]:
        lines.append("- it was cut off after these stages")
    if half["failures"]:
        lines += ["", "Failed:", "", *(f"- {failure.splitlines()[0]}" for failure in half["failures"])]
        lines += ["", *("    " + line for failure in half["failures"] for line in failure.splitlines()[1:])]
    if half["missing"]:
        lines += ["", f"Without a figure: {', '.join(half['missing'])}"]
    f = half["figures"]
    return lines + ["", *(correctness_lines(f) if name == "correctness" else [*step_lines(f), *copies_lines(f), *whole_lines(f)])]


def text_of(halves):
    dry = any(h["dry"] for h in halves.values())
    lines = ["# A dry run of tests/gpu/run: NOT measured on a GPU" if dry else "# Measured on a GPU", "",
             "Written by tests/gpu/run from results.json; figures of one machine, nothing else.", ""]
    for name in HALVES:
        state = "not run" if name not in halves else "complete" if halves[name]["complete"] else "not complete"
        lines.append(f"- {name}: {state}")
    lines += ["", "## Marks", "", *(["(of a dry run: they mean nothing)", ""] if dry else []), *marks(halves)]
    for name in HALVES:
        if name in halves:
            lines += half_lines(name, halves[name])
    return "\n".join(lines) + "\n"
