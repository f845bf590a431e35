"""correctness: what tests/gpu/run looks at first: the tests of dense on the module, every model at its real width, jobs that learn on the
card, compute-sanitizer over our kernels."""
import concurrent.futures
import os
import pathlib
import shutil
import time

import jobs
from session import NO_TIME, last_lines, output_of
from smoke import ALL_KINDS, KINDS

# libcheck forks for each case, and each fork makes a context on the card; so it does not (CK_FORK=no), but for these:
FORKED = {"dense_layer_test_plan": "cases that abort on purpose", "dense_cuda_test_ops": "a comparison that must fail and exit",
          "dense_cuda_test_model": "cases that set the module's environment"}
# tests of the host's stand-in itself: a card has nothing to show there
STAND_IN = ("dense_cuda_test_host", "dense_cuda_test_devices", "dense_cuda_test_refused")
PRECISIONS = ["fp32", "bf16"]
AUC_APART = 0.001
# Forms of a network; its devices are one card where there is one.
FORMS = {"several devices": ["model.hidden=[64, 48, 32]", "model.stages=2", "model.split=2", "model.split_above=32", "train.micro_batches=4"],
         "chosen experts": ["model.kind=ple", "model.hidden=[64, 32]", "model.experts=6", "model.own_experts=2", "model.top_k=2"]}
# Every kernel of ours takes one struct NAME_args, whose name is part of the kernel's mangled one; of the libraries' kernels none does. What
# the option is called changed from version to version.
FILTERS = (("--kernel-name", "kns=_args"), ("--kernel-regex", "kns=_args"), ("--kernel-name", "kns=_kernel"), ("--filter", "kns=_kernel"))
# The libraries' kernels in fp32 are checked, too; in 16 bits they load and store in ways that no tool up to CUDA 13.0 follows.
LOOKED_AT = {"fp32": "all kernels", "bf16": "our kernels"}
assert list(LOOKED_AT) == PRECISIONS


# ---- the tests of dense --------------------------------------------------------------------------------------------


def test_env(s, name):
    env = s.place.env(CK_DEFAULT_TIMEOUT="100", CK_FORK="yes" if name in FORKED else "no", SHOAL_DENSE_BACKEND=s.module)
    if s.dry and name.startswith("dense_cuda_test_"):  # these run on the host's module without being told, and with it not at all
        del env["SHOAL_DENSE_BACKEND"]
    return env


def stage_tests(s):
    programs = sorted(p for p in s.place.bin.glob("dense_*test_*") if p.name not in STAND_IN)
    if s.dry:  # all but one of the programs that fork run elsewhere as they do here; the longest of the others is left out
        programs = [p for p in programs if p.name == "dense_layer_test_plan" or p.name not in (*FORKED, "dense_cuda_test_sizes")]
    if not programs:
        return s.fail(f"{s.place.bin} has no test program of dense (dense_*test_*): build all targets")
    s.want(["tests/" + p.name for p in programs])

    def one(program):
        begin = time.monotonic()
        code, out = s.run(f"tests {program.name}", [program], 120, test_env(s, program.name))
        return program.name, code, out, time.monotonic() - begin

    with concurrent.futures.ThreadPoolExecutor(max(1, min(8, (os.cpu_count() or 2) // 2))) as pool:
        for name, code, out, seconds in pool.map(one, programs):
            if code == 77:
                s.fail(f"{name}: skipped:\n{last_lines(out)}")
            elif s.judge(name, code, out):
                s.figure("tests/" + name, round(seconds, 1))


# ---- models at their width -----------------------------------------------------------------------------------------


def stage_models(s):
    """Loss, time and memory of three steps, each model in a process of its own, so that memory is its alone."""
    size = ["--steps", "1", "--batch", "8", "--rows", "520"] if s.dry else ["--steps", "3", "--batch", "4096", "--rows", "42000"]
    s.want([f"model/{kind}/{precision}" for kind in ALL_KINDS for precision in PRECISIONS])
    for kind in ALL_KINDS:
        for precision in PRECISIONS:
            for r in s.gpu_step(f"model {kind} {precision}", ["--precision", precision, *size, "whole", kind], 60):
                if r["loss"] is None:
                    s.fail(f"model {kind} {precision}: the loss is not finite")
                else:
                    s.figure(f"model/{kind}/{precision}", {k: r[k] for k in ("loss", "ms", "memory_mib", "batch", "counters")})


# ---- jobs that learn -----------------------------------------------------------------------------------------------


def job_run(s, name, train, backend, *sets):
    return jobs.run_local(s, f"job {name}", backend=backend, servers=2, workers=1, seconds=150,
                          sets=[f"data.train={train}", "train.lanes=4", f"train.batch={256 if s.dry else 4096}", "train.precision=fp32",
                                *(["model.hidden=[32, 16]"] if s.dry else []), *sets])


def lines_spoilt(path, to):
    """Each hundredth line is none; how many."""
    bad = 0
    with open(path, encoding="utf-8") as lines, open(to, "w", encoding="utf-8") as out:
        for number, line in enumerate(lines):
            bad += number % 100 == 50
            out.write("this is no line of the log\n" if number % 100 == 50 else line)
    return bad


def form_run(s, name, train, sets):
    """A network whose layers are on several devices, or whose experts have few examples each, learns on the card what it learns on the CPU."""
    ours, cpu = (job_run(s, f"{name} on {backend}", train, backend, *sets) for backend in ("cuda", "cpu"))
    if ours and cpu:
        auc = {"cuda": ours["valid"]["auc"], "cpu": cpu["valid"]["auc"], "idle": ours.get("idle")}
        s.figure(f"job/{name}", auc)
        if abs(auc["cuda"] - auc["cpu"]) > AUC_APART:
            s.fail(f"the job with {name} has AUC {auc['cuda']:.5f} on cuda and {auc['cpu']:.5f} on cpu: more than {AUC_APART} apart")


def stage_jobs(s):
    s.want(["job/auc", "job/digest", "job/bad lines", *(f"job/{name}" for name in FORMS)])
    rows = 6000 if s.dry else 600000
    train, valid = s.scratch / "learn.tsv", s.scratch / "learn-valid.tsv"
    words = [s.place.bin / "shoal", "synth", "--rows", rows, "--out", train, "--valid-rows", rows // 6, "--valid-out", valid]
    if not s.judge("shoal synth", *s.run("shoal synth", words, 60)):
        return
    learn = [f"data.valid={valid}", "train.consistency=bsp", "train.epochs=1"]
    ours, again = (job_run(s, f"bsp on cuda, {run}", train, "cuda", *learn) for run in ("first", "second"))
    cpu = job_run(s, "bsp on cpu", train, "cpu", *learn)
    if ours and cpu:
        auc = {"cuda": ours["valid"]["auc"], "cpu": cpu["valid"]["auc"], "teacher": ours.get("teacher_auc"), "lines": rows}
        s.figure("job/auc", auc)
        if abs(auc["cuda"] - auc["cpu"]) > AUC_APART:
            s.fail(f"the job's AUC is {auc['cuda']:.5f} on cuda and {auc['cpu']:.5f} on cpu: more than {AUC_APART} apart")
    if ours and again:
        digests = [[t["digest"] for t in r["tables"]] for r in (ours, again)]
        s.figure("job/digest", digests)
        if digests[0] != digests[1]:
            s.fail(f"two runs of a bsp job on cuda gave different tables: {digests[0]} and {digests[1]}")
    spoilt = s.scratch / "learn-spoilt.tsv"
    bad = lines_spoilt(train, spoilt)
    sets = [f"data.valid={valid}", "data.negatives=0.3", "data.max_bad=0.05", "train.epochs=2"]
    r = job_run(s, "negatives and bad lines", spoilt, "cuda", *sets)
    if r:
        s.figure("job/bad lines", {"bad lines": r["bad_lines"], "of": bad, "examples": r["examples"], "auc": r["valid"]["auc"]})
        if not 0 < r["bad_lines"] <= bad:
            s.fail(f"the job with {bad} bad lines counted {r['bad_lines']}")
    for name, sets in FORMS.items():
        form_run(s, name, train, [*learn, *sets])


# ---- compute-sanitizer ---------------------------------------------------------------------------------------------


def sanitizer_find():
    patterns = ("cuda*/bin/compute-sanitizer", "cuda*/compute-sanitizer/compute-sanitizer")
    places = [p for pattern in patterns for p in sorted(pathlib.Path("/usr/local").glob(pattern))]
    return shutil.which("compute-sanitizer") or next((str(p) for p in places if os.access(p, os.X_OK)), None)


def check(s, tool, check_name, kinds, words=(), step=(), seconds=25):
    """A batch of more than 32 x 32 examples: so sums have all of their stages."""
    env = s.place.env(SHOAL_CUDA_EXACT="1")
    program = [s.place.bin / "gpu_step", "--module", s.module, "--batch", "1100", "--rows", "2000", "--steps", "1", *step, "whole", *kinds]
    return s.run(f"compute-sanitizer {check_name}", [tool, "--tool", check_name, "--error-exitcode", "9", *words, *program], seconds, env)


# Each value that is read is an error, and the tool takes two milliseconds for each: few.
CONTROL = ["--batch", "1", "--rows", "26", "--leave-out", "rows"]


def control(s, tool, kind, reader, words):
    """True when initcheck sees that this kernel of ours read rows that were never written; None: there was no time."""
    code, out = check(s, tool, "initcheck", [kind], words, CONTROL, seconds=15)
    return None if code == NO_TIME else code == 9 and "ninitialized" in out and reader in out


def filter_find(s, tool, text):
    """The first filter by name with which initcheck sees what it must: a filter that fits nothing finds nothing either. None: no filter does."""
    for words in (f for f in FILTERS if f[0] in text):
        seen = control(s, tool, "lr", "pool_weights", words)
        if seen or seen is None:
            return words if seen else None
    return None


def stage_sanitizer(s):
    checks = {"memcheck": [*KINDS, "xdeepfm", "mmoe"], "initcheck": KINDS}
    tool = sanitizer_find()
    if s.dry and not tool:
        return s.notes.append("compute-sanitizer is left out: there is no card in a dry run")
    s.want([f"sanitizer/{name}/{precision}" for name in checks for precision in PRECISIONS] + ["sanitizer/16 bytes"])
    if not tool:
        return s.fail("compute-sanitizer is neither on PATH nor in /usr/local/cuda*/bin or /usr/local/cuda*/compute-sanitizer; "
                      "it comes with the CUDA toolkit")
    text = output_of([tool, "--help"])
    words = filter_find(s, tool, text)
    if words is None:
        return s.fail("compute-sanitizer initcheck does not see rows that nobody wrote (gpu_step --leave-out rows): "
                      "what it passes means nothing")
    for name, kinds in reversed(checks.items()):
        apart = ["--padding", "64"] if name == "memcheck" and "--padding" in text else []
        for precision in PRECISIONS:  # in 16 bits other kernels write what products read
            begin, ours = time.monotonic(), words if LOOKED_AT[precision] == "our kernels" else ()
            code, out = check(s, tool, name, kinds, [*ours, *apart], ["--precision", precision])
            if s.judge(f"compute-sanitizer {name} {precision}", code, out, 20):
                took = round(time.monotonic() - begin, 1)
                s.figure(f"sanitizer/{name}/{precision}", {"seconds": took, "kinds": kinds, "of": LOOKED_AT[precision], "filter": " ".join(ours)})
    s.figure("sanitizer/16 bytes", control(s, tool, "dlrm", "pool_fours", ()))  # the others' reads have four
    return None
