#!/usr/bin/env python3
"""run: what tests/gpu/run does on a machine with a GPU, in two halves of less than ten minutes each; nothing is built there.

    run.py [correctness|speed] [--build DIR] [--out DIR] [--seconds 570] [--keep] [--dry]
    run.py results FILE...
    run.py profile [FOLDER...]

correctness: smoke, the tests of dense on the module, every model at its real width, jobs that learn, compute-sanitizer.
speed: smoke, the dense step beside PyTorch's, copies, the whole way with a sweep.
results: RESULTS.md from results.json of several calls.
profile: PROFILE.md, a step's time by kernel, beside that of other builds (profile_step.py).

In the output folder (--out, else $OUT, else build/gpu of the tree or results/ of the archive): RESULTS.md, results.json (both halves: what an
earlier call left there is kept) and logs-HALF.tar.gz. A half is complete when each of its figures has a number and nothing failed. Exit status 0
when every half that ran is complete, 1 when not. --dry: the same on the host's stand-in for a device, tiny: it tests this script."""
import argparse
import datetime
import os
import pathlib
import platform
import shutil
import sys
import tarfile
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import correctness
import profile_step
import results
import steps
import whole
from session import ROOT, Place, Session, adopt, card, output_of
from smoke import ALL_KINDS, KINDS, smoke


def look(s):
    """Notes the machine and the programs of the measurement."""
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    s.about["date"] = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC"
    s.about["host"] = f"{len(os.sched_getaffinity(0))} cores, {model}, {whole.memory_free() >> 30} GiB free, Linux {platform.release()}"
    s.about.update(s.place.facts)
    words = ["nvidia-smi", "-i", card(), "--query-gpu=name,driver_version,clocks.max.sm,power.limit", "--format=csv,noheader"]
    driver = "" if s.dry else output_of(words)
    if driver:
        s.about["card"] = driver.splitlines()[0]


def run_correctness(s):
    s.stage("smoke", 60, smoke(ALL_KINDS))
    s.stage("tests of dense", 200, correctness.stage_tests)
    s.stage("models", 120, correctness.stage_models)
    s.stage("jobs", 150, correctness.stage_jobs)
    s.stage("compute-sanitizer", 140, correctness.stage_sanitizer)


def run_speed(s):
    s.stage("smoke", 60, smoke(KINDS))
    if s.stopped:
        return
    begun = []
    try:
        s.stage("begun", 90, lambda s: (begun.append(whole.Input(s)), begun.append(steps.Peers(s))))
        if len(begun) < 2:
            return
        made, peers = begun
        s.stage("made ready", 170, lambda s: (made.wait(s), peers.wait_ready(s)))
        s.stage("steps", 220, steps.stage_steps(peers))
        peers.close()
        s.stage("copies", 60, steps.stage_copies)
        s.stage("whole way", 400, whole.stage_whole(made))
    finally:
        for thing in begun:
            thing.close()


RUN = {"correctness": run_correctness, "speed": run_speed}


def half_run(o, half, place, scratch, write):
    """A half, written; its logs are kept whatever happens."""
    try:
        return half_stages(o, half, place, scratch, write)
    finally:
        logs_keep(scratch, half, o.out)


def half_stages(o, half, place, scratch, write):
    s = Session(half, o.dry, place, scratch, o.seconds)
    s.after_stage = write
    try:
        s.stage("look", 60, look)
        RUN[half](s)
    except Exception as error:  # the results so far are worth keeping
        s.fail(f"{half}: {type(error).__name__}: {error}")
    write(s, ended=True)
    return s


def logs_keep(scratch, half, out):
    if not (scratch / "logs" / half).exists():
        return
    with tarfile.open(out / f"logs-{half}.tar.gz", "w:gz") as archive:
        archive.add(scratch / "logs" / half, f"logs-{half}")


def earlier(o, home):
    """Returns the results of earlier calls: from where results go, or from where they go without $OUT, which is empty at each call on some machines. A dry half
    and a real one are not put together."""
    found = {**results.read(home / "results.json"), **results.read(o.out / "results.json")}
    return {name: half for name, half in found.items() if half.get("dry") == o.dry}


def writer(o, home, halves):
    """Writes what is known so far: after each stage, and when the half has ended; only then it may be complete. Into home too, for the next
    call to find, where that can be."""
    def write(s, ended=False):
        halves[s.half] = results.half_of(s, ended)
        o.out.mkdir(parents=True, exist_ok=True)
        results.write(o.out, halves)
        if o.dry or home == o.out:
            return
        try:
            home.mkdir(parents=True, exist_ok=True)
            results.write(home, halves)
        except OSError as error:
            note = f"results are in {o.out} alone: {home} cannot be written ({error.strerror})"
            if note not in s.notes:
                s.notes.append(note)
                s.say(note)
    return write


def results_verb(o):
    halves = {}
    for name in o.files:
        found = results.read(pathlib.Path(name))
        if not found:
            print(f"tests/gpu/run: {name} is not there or is no results.json of this program", file=sys.stderr)
            return 65
        halves.update(found)
    o.out.mkdir(parents=True, exist_ok=True)
    results.write(o.out, halves)
    if o.out.resolve() == ROOT / "tests/gpu" and (ROOT / "README.md").exists():
        results.readme_put(ROOT / "README.md", results.text_of(halves))
    print(f"{o.out / 'RESULTS.md'}")
    return 0


def profile_verb(o, place):
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="shoal-gpu-"))
    s = Session("profile", o.dry, place, scratch, o.seconds)
    s.stage_end = s.end
    try:
        profile_step.profile(s, o.files, lambda lines: (o.out / "PROFILE.md").write_text("\n".join(lines) + "\n", encoding="utf-8"))
    finally:
        logs_keep(scratch, "profile", o.out)
        shutil.rmtree(scratch, ignore_errors=True)
    print((o.out / "PROFILE.md").read_text(encoding="utf-8"))
    return 1 if s.failures else 0


def arguments():
    a = argparse.ArgumentParser(prog="tests/gpu/run", allow_abbrev=False)
    a.add_argument("verb", nargs="?", choices=["correctness", "speed", "results", "profile"])
    a.add_argument("files", nargs="*", help="of the verb results; folders of the verb profile")
    a.add_argument("--build", default=os.environ.get("SHOAL_BUILD", ROOT / "build/release"))
    a.add_argument("--out", type=pathlib.Path)
    a.add_argument("--seconds", type=float, default=570, help="of a half")
    a.add_argument("--keep", action="store_true", help="keep the folder of inputs and runs")
    a.add_argument("--ctest", action="store_true", help="results into the build folder")
    a.add_argument("--dry", action="store_true")
    return a.parse_intermixed_args()


def main():
    o = arguments()
    packed = (ROOT / "PACKED").exists()
    home = ROOT / "results" if packed else pathlib.Path(o.build).resolve() / "gpu" if o.ctest or o.dry else ROOT / "build/gpu"
    o.out = o.out or pathlib.Path(os.environ.get("OUT") or home)
    if o.verb == "results":
        return results_verb(o)
    try:
        o.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"tests/gpu/run: {o.out} cannot be made ({error.strerror}); name another with --out", file=sys.stderr)
        return 73
    adopt()
    place = Place(o.build, "cudahost" if o.dry else "cuda")
    if o.verb == "profile":
        return profile_verb(o, place)
    halves, complete = earlier(o, home), True
    for half in [o.verb] if o.verb else results.HALVES:
        scratch = pathlib.Path(tempfile.mkdtemp(prefix="shoal-gpu-"))
        try:
            s = half_run(o, half, place, scratch, writer(o, home, halves))
        finally:
            if o.keep:
                print(f"files kept in {scratch}")
            else:
                shutil.rmtree(scratch, ignore_errors=True)
        complete = complete and s.complete()
        s.say(f"{half}: {'complete' if s.complete() else 'NOT complete'}; {o.out / 'RESULTS.md'}")
        for key in s.missing():
            print(f"  without a figure: {key}")
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
