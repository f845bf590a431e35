#!/usr/bin/env python3
"""test_marks: tests/forms, tests/older and tests/marks measure, go on from what they have, and end with words and a status of their own where they cannot."""
import shlex

import seeded
from delayed import Spread, round_trip
from fleet import within
from lib import *

TESTS = pathlib.Path(__file__).resolve().parents[1]
STRANGER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
# A bench whose figures are those of the environment.
BENCH = """#!/bin/sh
[ -z "$BENCH_FAILS" ] || { echo "no such part" >&2; exit 64; }
echo "$*" >> "$0.calls"
cat "$0.json"
"""


def tool(name, *words, program=BIN, before=()):
    return subprocess.run([*before, TESTS / name, *map(str, words)], capture_output=True, text=True, timeout=600, check=False,
                          env={**os.environ, "SHOAL_BIN": str(program)})


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# ---- forms -----------------------------------------------------------------------------------------------------------

def machines_on_a_bridge_are_as_far_as_they_are_told(space):
    took = {}
    for seconds in (0, 0.1):
        with Spread(seconds, "a", "b", "c") as nets:
            took[seconds] = [round_trip(nets, *pair) for pair in (("a", "b"), ("c", "a"))]
            sent, received = nets.traffic("b")
            assert sent > 0 and received > 0 and nets.traffic("a") != (0, 0), (sent, received)
    assert all(0.1 <= one < 0.3 for one in took[0.1]) and all(one < 0.09 for one in took[0]), took


def forms_are_measured_and_kept(space):
    words = ["--workers", 2, "--networks", "small", "--forms", "servers-ssp,allreduce-bsp", "--steps", 100, "--rounds", 1, "--resume", space / "kept"]
    first = tool("forms", *words, "--delay", 0, "--seconds", 0)
    if first.returncode == 77:
        raise Skip(first.stdout)
    assert first.returncode == 75 and "runs are left" in first.stdout and len(lines(space / "kept")) == 1, first
    done = tool("forms", *words, "--delay", "0,20")
    assert done.returncode == 0, done
    kept = {(run["of"]["delay"], run["of"]["form"]): run["figures"] for run in lines(space / "kept")}
    assert len(kept) == 4 and done.stdout.count("2 | servers-ssp | ") == 2, (kept, done)
    ring = kept[0, "allreduce-bsp"]
    assert 0.95 < ring["ring"] / ring["network"] < 1.2 and ring["sent"] > ring["ring"], ring  # two workers: 2 (2 - 1) / 2 is 1
    assert kept[0, "servers-ssp"]["ring"] is None and kept[0, "servers-ssp"]["network"] == ring["network"], kept
    # a step of the ring has two hops, one behind the other
    assert 100 * 0.02 < kept[20, "allreduce-bsp"]["train_seconds"] and kept[20, "allreduce-bsp"]["rate"] < ring["rate"], kept
    again = tool("forms", *words, "--delay", "0,20")
    assert again.returncode == 0 and len(lines(space / "kept")) == 4, again


def forms_and_pairs_say_why_they_cannot(space):
    for words in (["forms"], ["pairs", "--job", "criteo-deepfm", "--a", ""]):
        wrong = tool(*words, program=space.path)
        assert wrong.returncode == 66 and f"{space} has no " in wrong.stderr and not wrong.stdout, wrong
    unknown = tool("forms", "--forms", "servers-async")
    assert unknown.returncode == 2 and "allreduce-ssp" in unknown.stderr, unknown
    if os.geteuid() != 0:
        raise Skip("needs root, to be without it")
    stranger = tool("forms", "--steps", 10, before=STRANGER)
    assert stranger.returncode == 77 and "forms: skipped: needs root" in stranger.stdout, stranger


# ---- older -----------------------------------------------------------------------------------------------------------

def build(folder, **figures):
    """A folder with programs whose bench has these figures."""
    folder.mkdir(exist_ok=True)
    for name in seeded.PROGRAMS:
        (folder / name).write_text(BENCH)
        (folder / name).chmod(0o700)
    (folder / "shoal.json").write_text(json.dumps(figures))
    return folder


def a_slower_figure_is_found(space):
    old = build(space / "old", pull_w1=100, push_s=1.0, rows_mb=5, gone=1)
    words = ["--old", old, "--pairs", 3, "--parts", "memory", "--dir", space / "files"]
    rows = {"equal": ({"pull_w1": 100, "push_s": 1.0}, 0), "a lower rate": ({"pull_w1": 90, "push_s": 1.0}, 1), "a longer time": ({"pull_w1": 100, "push_s": 1.1}, 1),
            "within": ({"pull_w1": 96, "push_s": 1.02}, 0), "both better": ({"pull_w1": 200, "push_s": 0.1}, 0), "nothing": ({"pull_w1": 0, "push_s": 1.0}, 1)}
    for name, (figures, status) in rows.items():
        done = tool("older", *words, program=build(space / "new", rows_mb=1, come=1, **figures))
        assert done.returncode == status, (name, done)
        assert "rows_mb | 1 | 5 | 3 | - | -" in done.stdout and "only this build has: come" in done.stdout and "only the other build has: gone" in done.stdout, done
    assert "pull_w1 | 0 | 100 | 3 | - | a figure of 0 has no ratio" in done.stdout and "pull_w1 is 0" in done.stdout, done
    nothing = tool("older", *words, program=build(space / "new", other=1))
    assert nothing.returncode == 1 and "no figure that both have" in nothing.stdout, nothing
    slower = tool("older", *words, "--at-least", 0.5, program=build(space / "new", pull_w1=60, push_s=1.5))
    assert slower.returncode == 0 and "pull_w1 | 60 | 100 | 3 | 0.600 | 0.600 .. 0.600" in slower.stdout and "push_s | 1.5 | 1 | 3 | 0.667" in slower.stdout, slower


def pairs_of_builds_are_kept_and_get_the_words(space):
    new, old = (build(space / name, pull_w1=100) for name in ("new", "old"))
    words = ["--old", old, "--pairs", 2, "--parts", "memory,train", "--dir", space / "files", "--resume", space / "kept", "--seconds"]
    first = tool("older", *words, 0, program=new)  # how long a part takes is not known before the first
    assert first.returncode == 75 and "pairs are left" in first.stdout and len(lines(space / "kept")) == 1, first
    done = tool("older", *words, 100, "--", "--rows", 8192, program=new)
    assert done.returncode == 0 and len(lines(space / "kept")) == 5, done  # others' words are others' figures
    calls = (new / "shoal.calls").read_text().splitlines()
    assert calls == (old / "shoal.calls").read_text().splitlines() and len(calls) == 5, calls
    assert calls[1:3] == [f"bench --only {part} --json --dir {space}/files --rows 8192" for part in ("memory", "train")], calls
    assert not (space / "files").exists()


def older_says_why_it_cannot(space):
    new, old, empty = build(space / "new", pull_w1=1), build(space / "old", pull_w1=1), space / "empty"
    empty.mkdir()
    for one, other in ((new, empty), (empty, old)):
        done = tool("older", "--old", other, "--dir", space / "files", program=one)
        assert done.returncode == 66 and f"{empty} has no shoal, " in done.stderr, done
    os.environ["BENCH_FAILS"] = "1"
    failed = tool("older", "--old", old, "--dir", space / "files", program=new)
    del os.environ["BENCH_FAILS"]
    assert failed.returncode == 70 and "ended with status 64" in failed.stderr and "no such part" in failed.stderr, failed
    there = tool("older", "--old", old, "--dir", empty, program=new)
    assert there.returncode == 2 and "would be removed" in there.stderr and empty.exists(), there


def real_benches_are_paired(space):
    done = tool("older", "--old", BIN, "--pairs", 1, "--parts", "memory", "--dir", space / "files", "--at-least", 0.01, "--", "--rows", 8192, "--seconds", 1)
    assert done.returncode == 0 and "pull_w1 | " in done.stdout and "push_memory_w4_cpu_ns | " in done.stdout and "only" not in done.stdout, done


# ---- marks -----------------------------------------------------------------------------------------------------------

# Each call makes one run, up to three, as far as --seconds allow: then it takes that long.
RUNNER = """#!/bin/sh
name=$1 resume=$3 seconds=$5
echo "nice $(nice)" >&2
[ "$seconds" -ge 12 ] || exit 75
echo run >> "$resume"
count=$(wc -l < "$resume")
echo "table of $name with $count runs"
[ "$count" -ge 3 ] || exit 75
exit $(cat "$0.status")
"""


def listed(space, *text):
    runner, path = space / "runner", space / "list"
    runner.write_text(RUNNER)
    runner.chmod(0o700)
    path.write_text("# a comment\n\n" + "".join(f"{line}\n" for line in text).replace("RUN", str(runner)))
    return path


def marks_are_played_in_turn_until_they_are_whole(space):
    path, folder = listed(space, "one: RUN first", "two: RUN 'the second'"), space / "kept"
    (space / "runner.status").write_text("0")
    before = tool("marks", path, "--folder", folder)
    assert before.returncode == 75 and before.stdout.count("it has printed nothing yet") == 2 and "runs may be left: one, two" in before.stdout, before
    # turns of 6 s are too short for a run, twice as long is enough
    done = tool("marks", path, "--folder", folder, "--minutes", 1, "--turn", 0.1)
    assert done.returncode == 0 and "table of the second with 3 runs\nstatus 0, " in done.stdout and "one: " in done.stdout and "3 runs are there" in done.stdout, done
    assert "nice 19" in (folder / "one.log").read_text()
    again = tool("marks", path, "--folder", folder)
    assert "table of first with 3 runs" in again.stdout and "first" not in tool("marks", path, "--folder", folder, "two").stdout, again


def a_mark_that_fails_is_told(space):
    path, folder = listed(space, "one: RUN first", "two: tests/no-such-program"), space / "kept"
    (space / "runner.status").write_text("1")
    done = tool("marks", path, "--folder", folder, "--minutes", 1)
    assert done.returncode == 1 and "failed: two (127), one (1)" in done.stdout and "status 1, " in done.stdout, done


def running(text):
    """Processes whose command line has this text."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text in path.read_bytes().decode(errors="replace"):
                found.append(int(path.parent.name))
    return found


def a_command_ends_with_its_player(space):
    path = space / "list"
    path.write_text(f"slow: {sys.executable} -c 'import time; time.sleep(1000)' {space}/slow\n")
    with subprocess.Popen([TESTS / "marks", path, "--folder", space / "kept", "--minutes", "1"], stdout=subprocess.PIPE) as marks:
        within(20, "the command to run", lambda: running(f"{space}/slow"))
        marks.terminate()
        assert marks.wait(60) == 143
    assert not running(f"{space}/slow")


def a_wrong_list_is_refused_by_its_line(space):
    for text, why in ((["one RUN"], ":3: a line is `NAME: COMMAND`"), (["one: RUN a", "one: RUN b"], ":4: one stands there twice"), (["one: RUN 'a"], ":3: No closing"),
                      ([], ": no command is there")):
        done = tool("marks", listed(space, *text), "--folder", space / "kept", "--minutes", 1)
        assert done.returncode == 64 and why in done.stderr, (text, done)
    for words, why in (([space / "nowhere", "--folder", space / "kept"], "there is no such file"),
                       ([listed(space, "one: RUN a"), "--folder", space / "kept", "three"], "has no three; it has one")):
        done = tool("marks", *words)
        assert done.returncode == 64 and why in done.stderr, done


def commands_of_the_shipped_list_are_taken(space):
    """Each names a shipped job, and the job is taken with each of its settings."""
    names = {"frappe": "label,user,item,daytime,weekday,isweekend,homework,cost,weather,country,city", "ml1m": "label,user,item,age,gender,occupation,year,genre"}
    for name, head in names.items():
        (space / name).write_text(f"{head}\n" + f"1{',2' * head.count(',')}\n" * 10)
    synth(space / "criteo", 100)
    seen = 0
    for line in (TESTS / "accuracy.marks").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        program, *words = shlex.split(line.split(": ", 1)[1])
        assert program == "tests/pairs" and words[0] == "--job", line
        both = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
        data = space / words[1].split("-")[0]
        for text in [words[i + 1] for i, word in enumerate(words) if word in ("--a", "--b")]:
            sets = [word for setting in [f"data.train={data}", f"data.valid={data}", *both, *shlex.split(text)] for word in ("--set", setting)]
            done = subprocess.run([BIN / "shoal-worker", "check", "--config", seeded.JOBS / f"{words[1]}.yaml", *sets], capture_output=True, text=True, check=False)
            assert done.returncode == 0, (line, text, done)
            seen += 1
    assert seen > 40, seen


if __name__ == "__main__":
    main([machines_on_a_bridge_are_as_far_as_they_are_told, forms_are_measured_and_kept, forms_and_pairs_say_why_they_cannot, a_slower_figure_is_found,
          pairs_of_builds_are_kept_and_get_the_words, older_says_why_it_cannot, real_benches_are_paired, marks_are_played_in_turn_until_they_are_whole,
          a_mark_that_fails_is_told, a_command_ends_with_its_player, a_wrong_list_is_refused_by_its_line, commands_of_the_shipped_list_are_taken])
