#!/usr/bin/env python3
"""test_commands: every command that a page prints is typed here, or stands in CANNOT with the reason; every option that a page, a help text or a report
names is one of its verb.

A command is a line of an indented block of a README or of the manual, or of a fence ```sh; three blanks or a # begin what is said of it. AS says what is
typed where a page has a placeholder. What is in neither list and cannot be typed as it stands fails, as does a line of a list that no page has."""
import gzip
import re

import test_import
import test_tour
from fleet import Fleet, shoal, within
from lib import *

TREE = pathlib.Path(__file__).parents[2]
VERB = r"shoal(?: checkpoint| keys)? [a-z]+|shoal-(?:server|coordinator|worker)"

# Blocks of code and files, by their first line.
NO_COMMANDS = {
    "CONTRIBUTING.md": ["int rc = journal_commit(j, e);", "if (p == NULL || !j->open)", 'log_warn("cut %" PRIu64 " was not made", cut);',
                        "struct shard *s = container_of(t, struct shard, park.timer);", "journal.h: journal_append        server/coord/job/flow.h: coord_flow_step",
                        "/*  1. A generation is never used twice. [assert: segment_make]"],
    "deploy/manual/fleet.md": ["# systemctl edit shoal-server@ (and shoal-coordinator, shoal-worker@)"],
    "deploy/manual/job.md": ["tables:", "tables:", "data: {format: csv, train: [shown/*.csv], time: time, label: click,",
                             'data: {train: ["logs/*.csv"], objects: {grow: 1min}}'],
    "deploy/manual/replay.md": ["data: {train: logs/*/*/part-*, partition: '{date}/{hour}/part-*'}"],
}

ROOT, CTEST, LONG = "changes the machine; deploy/test-systemd does it in a container", "each of it is in ctest", "minutes to hours, and by hand"
CANNOT = {
    "CONTRIBUTING.md": {
        "clang-format -i $(git diff --name-only --diff-filter=d HEAD -- '*.c' '*.h' '*.cu')": "changes the tree",
        "cmake --preset release && cmake --build --preset release": "a whole build; this is a test of one",
        "ctest --preset release -LE 'e2e|gpu'": CTEST,
        "tests/tidy/tidy.py . --build build/release": CTEST,
    },
    "README.md": {"deploy/quickstart": "deploy/test-bare runs it", "deploy/test": "deploy/test-bare runs it",
                  "shoal import TABLE FILES": "test_import types it"},
    "deploy/manual/choosing.md": {"build/release/bin/sim_test_pace": CTEST, "tests/gpu/run speed": "needs a GPU",
                                  "SHOAL_LARGE=1 build/release/bin/dense_cuda_test_devices": "ctest runs it, smaller: this takes 3 GiB",
                                  "SHOAL_BIN=build/release/bin python3 tests/e2e/test_kill.py looking_ahead_gives_the_bits_of_prefetch_0": CTEST},
    "deploy/manual/coming-from.md": {
        **{command: "test_import types it" for command in ("shoal import TABLE FILE --field NAME --job JOB.yaml", "shoal submit JOB.yaml --start-from fleet",
                                                           *test_import.PAGE_COMMANDS.values())},
    },
    "deploy/manual/fleet.md": {
        **{command: ROOT for command in ("systemctl enable --now shoal-coordinator shoal-server@1 shoal-worker@1", "cd /etc/shoal/keys")},
        "shoal replace SERVER --from DIR/000007": "test_replace types it: the server must be gone",
        "shoal checkpoint create NAME --without SERVER": "test_replace types it: the server must be gone",
        "kubectl apply -k .; kubectl -n shoal logs -f job/shoal-submit": "needs a cluster of Kubernetes",
    },
    "deploy/manual/kafka.md": {
        "apt-get install shoal-kafka": "deploy/test-package installs it",
        **{command: "test_kafka types the page" for command in ("shoal local clicks.yaml --run-dir runs/1", "shoal status --run-dir runs/1",
                                                               "shoal local clicks.yaml --run-dir runs/2 --start-from runs/1")},
    },
    "deploy/manual/own.md": {command: "test_own types it, with files of its own" for command in ("shoal data train.csv valid.csv test.csv", "shoal data FOLDER")},
    "deploy/manual/pytorch.md": {command: "test_python runs both examples, with files of its own" for command in (
        "/usr/bin/python3 worker/python/examples/deepfm.py worker/python/examples/frappe.yaml 20",
        "shoal local worker/python/examples/frappe.yaml --servers 2 --workers 2 --worker '/usr/bin/python3 worker/python/examples/deepfm_shoal.py'")},
    "deploy/manual/tour.md": {command: "test_tour types the whole page" for command in test_tour.page()[1]},
    "tests/README.md": {
        **{f"deploy/test{words}": LONG for words in ("", " asan", " tsan", " long", "-systemd", "-bare", "-bare --only compilers", "-bare --only python", "-package")},
        "SHOAL_BIN=build/release/bin python3 tests/e2e/test_kill.py CASE...": CTEST,
        "tests/gpu/pack": LONG, "tar xzf shoal-gpu.tar.gz": LONG, "shoal-gpu/tests/gpu/run correctness": "needs a GPU",
        "shoal-gpu/tests/gpu/run speed": "needs a GPU", "tests/gpu/run correctness --dry": LONG,
        "tests/long [kills] [points] [days] [budget] [plant] [checkpoints] [sim] [rogue] [fuzz]": LONG, "tests/claims [CASE...]": LONG, "deploy/test-ha": "installs and starts ZooKeeper", "tests/replicas [CASE...]": LONG, "tests/sight [CASE...]": LONG, "tests/moves [CASE...]": LONG,
        "tests/restore [--rows N]": LONG, "tests/page [BIN]": "needs Chromium and a quiet machine", "tests/arm64 [DIR]": LONG, "tests/cases DIR [NAME...]": "its cases come with no tree",
        "tests/plants/run [NAME...]": LONG, "tests/plants/run --draw 10 --seed S": "deploy/test draws", "tests/plants/run --compile": "deploy/test does",
        "tests/plants/run --check": CTEST, "tests/plants/run --renew": "changes the tree", "tests/power [CASE...]": LONG, "tests/load [--seconds N] [CASE...]": LONG,
        "tests/scrape [--pairs N] [--seconds S] [--trace N]": LONG, "tests/pairs --job JOB --a SETTINGS [--b SETTINGS]...": LONG,
        "tests/overlap [--prefetch N,N] [--lanes N]": LONG, "tests/link [--rounds N] [--seconds S] [CASE...]": LONG,
        "tests/forms [--workers N,N] [--delay MS,MS]": LONG, "tests/older --old DIR [--pairs N] [-- WORD...]": LONG,
        "tests/marks LIST --folder DIR [--minutes M] [NAME...]": LONG,
    },
    "worker/python/README.md": {command: LONG for command in ("deploy/test-bare --only python", "tests/python_auc", "tests/python_rate train")},
    "tests/sim/README.md": {"tests/sim/seeds": LONG, "tests/sim/seeds --of rogue": LONG, "tests/sim/seeds --of replicas": LONG,
                            "tests/sim/seeds --of moves": LONG},
}

# the job that goes on has a traced batch after some beats
TRACED = ("shoal trace --every 2 --coordinator tcp://GOING && for i in $(seq 60); do shoal trace --coordinator tcp://GOING > traced && break; sleep 1; done"
          " && grep 'the slowest: shoal trace' traced")
RUN, KEPT, EMPTY = "--run-dir runs/kept", "runs/kept/checkpoints", "tcp://EMPTY"
AS = {
    "README.md": {
        "shoal status --run-dir DIR": f"shoal status {RUN}",
        "shoal tables --run-dir DIR": f"shoal tables {RUN} && shoal tables {RUN} emb --what-if shows=2",
        "shoal inspect --run-dir DIR emb 0:68fd1e64": f"shoal inspect {RUN} emb 0:VALUE",
        "shoal checkpoint create | list | verify | sign | diff | restore | remove": "shoal checkpoint --help",
        "shoal local JOB.yaml --resume CHECKPOINT": f"shoal local job.yaml --resume {KEPT}/MIDDLE --set data.valid=[]",
        "shoal local JOB.yaml --start-from RUN": "shoal local job.yaml --start-from runs/kept",
        "shoal replay JOB.yaml": "shoal replay replay.yaml",
        "shoal sweep JOB.yaml --set KEY=A,B": "shoal sweep job.yaml --set model.hidden=[8],[16]",
        "shoal predict --from RUN --in FILE": "shoal predict --from runs/kept --in day_1.tsv",
        "shoal export RUN --out FOLDER": "shoal export runs/kept --out exported",
    },
    "deploy/manual/fleet.md": {
        "shoal-coordinator --check --config /etc/shoal/coordinator.yaml": f"shoal-coordinator --check --config {TREE}/deploy/systemd/coordinator.yaml",
        "shoal-server --check --instance 1": "shoal-server --check --instance 1",
        "shoal-worker run --check --instance 1": "shoal-worker run --check --instance 1",
        "shoal submit JOB.yaml": "shoal submit next.yaml --no-wait --coordinator tcp://EMPTY",
        "shoal submit JOB --resume CHECKPOINT --set fresh=all":
            f"shoal submit job.yaml --resume {KEPT}/MIDDLE --set fresh=all --set checkpoint.dir=$PWD/made --no-wait --coordinator {EMPTY}",
        "shoal submit JOB.yaml --start-from DIR/monday": f"shoal submit next.yaml --start-from {KEPT}/MIDDLE --no-wait --coordinator {EMPTY}",
        "shoal submit JOB.yaml --start-from DIR/monday --set train.skip=true":
            f"shoal submit job.yaml --start-from {KEPT}/MIDDLE --set train.skip=true --set checkpoint.dir=$PWD/made --no-wait --coordinator {EMPTY}",
        # several at once: e2e/test_side
        "shoal submit search.yaml --coordinator EP --workers 2 --no-wait": f"shoal submit next.yaml --coordinator {EMPTY} --workers 2 --no-wait",
        "shoal submit ads.yaml --coordinator EP --workers 2": f"shoal submit next.yaml --no-wait --coordinator {EMPTY} --workers 2",
        "shoal status --coordinator EP": "shoal status --coordinator tcp://GOING | grep -q 'job e2e'",
        "shoal status --coordinator EP --job NUMBER":
            "! shoal status --coordinator tcp://GOING --job 12 2> refused && grep -q 'does not run here' refused",
        "shoal tables --coordinator EP": "shoal tables --coordinator tcp://GOING > there",
        "shoal digest --coordinator EP --space search": "shoal digest --coordinator tcp://GOING --space e2e > there",
        "shoal predict search.yaml --from fleet --coordinator EP":
            "shoal predict going.yaml --from fleet --coordinator tcp://GOING --in day_1.tsv --out going.csv",
        "shoal checkpoint create --space search --coordinator EP": "shoal checkpoint create --space e2e --coordinator tcp://GOING",
        "shoal drop search/emb --coordinator EP": "! shoal drop e2e/emb --coordinator tcp://GOING 2> refused && grep -q 'is running' refused",
        "shoal drop search --coordinator EP": "! shoal drop e2e --coordinator tcp://GOING 2> refused && grep -q 'is running' refused",
        "shoal jobs --coordinator EP": "shoal jobs --coordinator tcp://GOING | grep -q running",
        "shoal stop NUMBER --coordinator EP": "! shoal stop 12 --coordinator tcp://GOING 2> refused && grep -q 'no job here has number 12' refused",
        "shoal doctor --cluster --coordinator EP": f"shoal doctor --cluster --coordinator {EMPTY}",
        "shoal replace b --coordinator EP": f"! shoal replace b --coordinator {EMPTY} 2> refused && grep -q 'replicas: 1' refused",
        "shoal promote 0 --coordinator EP": f"! shoal promote 0 --coordinator {EMPTY} 2> refused && grep -q 'no other copies' refused",
        "shoal trace --every 100 --coordinator EP": "shoal trace --every 2 --coordinator tcp://GOING",
        "shoal trace --coordinator EP": TRACED,
        "shoal trace RUN LANE BATCH --coordinator EP": f"{TRACED} && $(sed -n 's/the slowest: //p' traced) --coordinator tcp://GOING | grep '^sum'",
        "shoal trace --every 0 --coordinator EP": "shoal trace --every 0 --coordinator tcp://GOING",
        "shoal rebalance --coordinator EP": "shoal rebalance --coordinator tcp://GOING | grep -q 'no tablet has to move'",
        "shoal add b --coordinator EP": "! shoal add b --coordinator tcp://GOING 2> refused && grep -q 'no server b waits for a place' refused",
        "shoal drain b --coordinator EP": "! shoal drain b --coordinator tcp://GOING 2> refused && grep -q 'no shard is on a server b' refused",
        "shoal checkpoint create [NAME] --run-dir runs/...": f"shoal checkpoint create mine {RUN}",
        "shoal checkpoint list DIR": f"shoal checkpoint list {KEPT}",
        "shoal checkpoint verify DIR/000007": f"shoal checkpoint verify {KEPT}/LAST",
        "flock --shared DIR/000007/manifest.json tar -C DIR -cf monday.tar 000007":
            f"flock --shared {KEPT}/LAST/manifest.json tar -C {KEPT} -cf monday.tar LAST",
        "shoal checkpoint sign DIR/000007 --key ann-signs.key": f"shoal checkpoint sign {KEPT}/LAST --key ann-signs.key",
        "shoal checkpoint verify DIR/000007 --signers ../signers": f"shoal checkpoint verify {KEPT}/LAST --signers ../signers",
        "shoal checkpoint diff DIR/000006 DIR/000007": f"shoal checkpoint diff {KEPT}/MIDDLE {KEPT}/LAST",
        "shoal export DIR/000007 --out FOLDER": f"shoal export {KEPT}/LAST --out last",
        "shoal export DIR/NAME TABLE --out FOLDER --missing-ok": f"rm -rf there; shoal export {KEPT}/LAST emb --out there --missing-ok",
        "shoal checkpoint remove 000006 --coordinator EP": f"shoal checkpoint create old {RUN} && shoal checkpoint remove old {RUN}",
        "shoal local JOB.yaml --resume DIR/000007 --servers 3": f"shoal local job.yaml --resume {KEPT}/LAST --servers 3",
        "shoal checkpoint restore DIR/000007 --coordinator EP": f"shoal checkpoint restore {KEPT}/MIDDLE --no-wait --coordinator {EMPTY}",
    },
    "deploy/manual/export.md": {
        "shoal export WHERE --out FOLDER": "shoal export runs/kept --out whole",
        "shoal export WHERE emb --format safetensors --state --out FOLDER": f"shoal export {KEPT}/LAST emb --format safetensors --state --out emb",
        "shoal export WHERE --format tsv --since OLDER --out FOLDER": f"shoal export {KEPT}/LAST --format tsv --since {KEPT}/MIDDLE --out changed",
        "shoal export WHERE --onnx --out FOLDER": "shoal export runs/kept --onnx --out onnx && test -s onnx/model.onnx",
    },
    "deploy/manual/job.md": {
        "shoal local day1.yaml --run-dir runs/1": "shoal local job.yaml --run-dir runs/1",
        "shoal local day2.yaml --run-dir runs/2 --start-from runs/1 --servers 2": "shoal local job.yaml --run-dir runs/2 --start-from runs/1 --servers 2",
        "shoal local day3.yaml --run-dir runs/3 --start-from runs/2 --set fresh=dense":
            "shoal local job.yaml --run-dir runs/3 --start-from runs/2 --set fresh=dense",
    },
    "deploy/manual/replay.md": {
        "shoal replay JOB.yaml [--since TIME] [--until TIME] [--leave-out SPAN]... [--servers N] [--workers N]":
            "shoal replay replay.yaml --since 2023-11-15 --until 2023-11-17 --run-dir runs/replayed --servers 2 --workers 2",
        "shoal replay JOB.yaml --rewind TIME --of RUN [--leave-out SPAN]...":
            "shoal replay replay.yaml --rewind 2023-11-16 --of runs/replayed --leave-out 2023-11-16T05 --servers 2 --run-dir runs/again",
        "shoal replay diff RUN_A RUN_B": "shoal replay diff runs/replayed runs/again",
    },
    "deploy/manual/run.md": {
        "build/release/bin/shoal local JOB.yaml [--servers N] [--workers N] [--set KEY=VALUE]...":
            "build/release/bin/shoal local job.yaml --servers 2 --workers 2 --set train.lanes=3",
        "shoal predict [JOB.yaml] --from WHERE [--in FILE]... [--out FILE] [--column NAME]... [--workers N]":
            f"shoal predict job.yaml --from {KEPT}/LAST --in day_1.tsv --out scores.csv --column C1 --workers 2",
        "shoal sweep JOB.yaml --set KEY=VALUE,VALUE [--set KEY=VALUE,VALUE]... [--dir DIR] [--at-once N]":
            "shoal sweep job.yaml --set tables[0].dim=4,8 --dir swept --at-once 2",
        "shoal eval [JOB.yaml] --from WHERE [--in FILE]...": "shoal eval job.yaml --from runs/kept --in day_1.tsv",
        "shoal export WHERE [TABLE]... --out FOLDER": "shoal export runs/kept dense --out dense --format csv --state",
        "shoal import TABLE FILE|FOLDER --field NAME":  # e2e/test_import imports; here a job runs, and a log is no file of rows
            "! shoal import emb day_0.tsv --field C1 --coordinator tcp://GOING 2> refused && grep -q 'the columns are' refused",
        "shoal data FILE... [--job FILE] [--label NAME] [--rows N] [--json]": "shoal data events.csv --job own.yaml && shoal data events.csv --json",
        "shoal status ...": f"shoal status {RUN} --json",
        "shoal digest ... [TABLE]": f"shoal digest {RUN} emb",
        "shoal inspect ... TABLE KEY|FIELD:VALUE": f"shoal inspect {RUN} emb C1:VALUE && shoal inspect {RUN} emb --field C1 --value VALUE",
        "shoal top ... [-b] [-n N] [--sort KEY]": "shoal top --coordinator tcp://GOING -b -n 2 --sort rows",
        "shoal tables ... [TABLE] [--what-if RULE=VALUE]": f"shoal tables {RUN} emb --what-if memory=1M",
        "shoal trace ... --every N": "shoal trace --coordinator tcp://GOING --every 3",
        "shoal trace ... [RUN [LANE BATCH]]": TRACED,
        "shoal tables ... [TABLE] --heat": "shoal tables --coordinator tcp://GOING emb --heat",
        "shoal tables --sample JOB.yaml [--share P]": "shoal tables --sample job.yaml --share 0.5",
        "shoal blame ... TABLE KEY|FIELD:VALUE [--limit N]": f"shoal blame {RUN} emb C1:VALUE --limit 3",
        "shoal erase ... TABLE --keys FILE":
            f"echo C1:VALUE > keys && shoal erase --coordinator tcp://GOING emb --keys keys --job job.yaml --receipt receipt.json --checkpoints {KEPT}",
        "shoal keys allow ... TABLE --keys FILE": "echo C1:VALUE > keys && shoal keys allow --coordinator tcp://GOING emb --keys keys --job job.yaml",
        "shoal keys block ... TABLE --keys FILE": "echo C1:VALUE > keys && shoal keys block --coordinator tcp://GOING emb --keys keys --json",
        "shoal keys reset ... TABLE --keys FILE": "echo C1:VALUE > keys && shoal keys reset --coordinator tcp://GOING emb --keys keys",
        "shoal keys list ... TABLE": f"shoal keys list {RUN} emb && shoal keys list --from {KEPT}/LAST emb --json",
        "shoal keys allow emb --field C1 --values users.txt --coordinator EP":
            "echo VALUE > users.txt && shoal keys allow emb --field C1 --values users.txt --coordinator tcp://GOING | grep '1 newly allowed'",
        "shoal keys list emb --coordinator EP": "shoal keys list emb --coordinator tcp://GOING | grep 'C1.allowed'",
        "shoal keys block emb --field C1 --value VALUE --coordinator EP": "shoal keys block emb --field C1 --value VALUE --coordinator tcp://GOING",
        "shoal drop TABLE/FIELD --coordinator EP":  # e2e/test_fleet_names drops; here no field is gone
            "! shoal drop emb/C1 --coordinator tcp://GOING 2> refused && grep -q 'shoal drop: ' refused",
        "shoal drop SPACE/TABLE --coordinator EP":  # e2e/test_two_spaces drops; here the job runs
            "! shoal drop e2e/emb --coordinator tcp://GOING 2> refused && grep -q 'is running' refused",
        "shoal drop SPACE --coordinator EP":  # e2e/test_spaces drops; here the job runs
            "! shoal drop e2e --coordinator tcp://GOING 2> refused && grep -q 'is running' refused",
        "shoal promote SHARD --coordinator EP":  # e2e/test_replicas has copies; here there are none
            "! shoal promote 0 --coordinator tcp://GOING 2> refused && grep -q 'no other copies' refused",
        "shoal replace SERVER --coordinator EP":
            "! shoal replace b --coordinator tcp://GOING 2> refused && grep -q 'replicas: 1' refused",
        "shoal jobs --coordinator EP [--json]": "shoal jobs --coordinator tcp://GOING --json | grep -q running",
        "shoal report REPORT.json [--html FILE]": "shoal report runs/kept/report.json --html page.html",
        "shoal report --coordinator EP [NUMBER]":  # e2e/test_jobs shows reports; here the only job runs
            "! shoal report --coordinator tcp://GOING 2> refused && grep -q 'has not ended' refused",
        "shoal convert JOB.yaml --out FILE [--split valid] [--set KEY=VALUE]...": "shoal convert job.yaml --out made.events --set data.max_bad=0.1",
        "shoal convert --check FILE": "shoal convert job.yaml --out log.events && shoal convert --check log.events",
        "shoal synth --out FILE [--kind criteo|sequence|tasks] [--rows N]": "shoal synth --out made.csv --kind sequence --rows 1000",
    },
    "worker/python/README.md": {  # 77: without numpy
        "/usr/bin/python3 tests/python/test_package.py": "/usr/bin/python3 tests/python/test_package.py || [ $? = 77 ]",
    },
    "tests/README.md": {
        "ctest --test-dir build/release -R embedding/ --output-on-failure": "ctest --test-dir build/release -R embedding/ --output-on-failure -N",
    },
}


# ---- what is printed ----------------------------------------------------------------------------------------------------


def pages():
    words = ["git", "ls-files", "*README.md", "CONTRIBUTING.md", "deploy/manual/*.md"]
    got = subprocess.run(words, cwd=TREE, capture_output=True, text=True, check=False) if shutil.which("git") else None
    if got is not None and got.returncode == 0:
        names = got.stdout.split()
    else:
        found = [*TREE.glob("**/README.md"), TREE / "CONTRIBUTING.md", *TREE.glob("deploy/manual/*.md")]
        names = sorted(p for p in (str(p.relative_to(TREE)) for p in found) if not p.startswith(("build", "runs", "shoal-bench")))
    assert len(names) > 20, names
    return {name: (TREE / name).read_text(encoding="utf-8") for name in names}


def blocks(text):
    """Lines of indented blocks, and of fences of sh."""
    fence, block = None, []
    for line in text.splitlines() + [""]:
        if line.startswith("```"):
            fence = line[3:] if fence is None else None
            inside = False
        else:
            inside = fence == "sh" or (fence is None and line.startswith("    "))
        if inside:
            block.append(line if fence else line[4:])
        elif block:
            yield block
            block = []


def commands_of(block):
    """A line that ends in a backslash goes on; what is said of a command is cut off."""
    for line in re.sub(r" *\\\n *", " ", "\n".join(block)).splitlines():
        command = re.split(r"\s#\s|(?<=\S) {3,}(?! |\.\.\.)", line.strip())[0]
        yield re.sub(r" +", " ", command.strip())


def printed(name, text):
    known = list(NO_COMMANDS.get(name, []))
    for block in blocks(text):
        if block[0].strip() in known:
            known.remove(block[0].strip())
        else:
            yield from commands_of(block)
    assert not known, f"{name}: no block begins so any more: {known}"


def help_texts():
    """Returns the help text of every program and verb."""
    verbs = [line.split()[0] for line in help_of("shoal").splitlines() if line.startswith("  ")]
    verbs += [f"checkpoint {line.split()[0]}" for line in help_of("shoal checkpoint").splitlines() if line.startswith("  ")]
    return {name: help_of(name) for name in ["shoal", *(f"shoal {v}" for v in verbs), "shoal-server", "shoal-coordinator", "shoal-worker"]}


def help_of(name):
    got = subprocess.run([BIN / name.split()[0], *name.split()[1:], "--help"], capture_output=True, text=True)
    assert got.returncode == 0, got
    return got.stdout


def named_options(text):
    """(program or verb, option) wherever a text names one behind the other, in one command; line ends are blanks. `...` ends it, as do ; | and &."""
    for found in re.finditer(rf"(?:^|(?<=[\s`/(=]))({VERB})(?![\w.-])((?:[^`;|&#\n]|\|(?=[\w\[])|\n(?! *\n))*)", text):
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", re.split(r" {3,}|\. |, |: ", found[2])[0]):
            yield found[1], option


# ---- facts --------------------------------------------------------------------------------------------------------------


def options_that_are_named_exist(space):
    helps = help_texts()
    seen = 0
    for page, text in {**pages(), **helps}.items():
        for verb, option in named_options(text):
            if verb not in helps and verb.split()[0] == "shoal":
                assert verb in ("shoal checkpoint",) or not re.search(rf"`{verb}\b", text), f"{page}: `{verb}`: there is no such verb"
                continue
            seen += 1
            assert re.search(rf"{option}(?![\w-])", helps[verb]) or option == "--help", f"{page}: {verb} has no option {option}"
    assert seen > 60, seen
    assert list(named_options("as `shoal predict --from X\n--no-such Y`, or shoal tables | head")) == [("shoal predict", "--from"), ("shoal predict", "--no-such")]


def lists_are_of_what_is_printed(space):
    """Nothing in them is stale, nothing stands in two."""
    for page, text in pages().items():
        there = list(printed(page, text))
        for table in (CANNOT, AS):
            assert not [c for c in table.get(page, {}) if c not in there], (page, [c for c in table[page] if c not in there], there)
        assert not CANNOT.get(page, {}).keys() & AS.get(page, {}).keys()
        for command in there:
            program = next(word for word in command.split() if "=" not in word)
            if program.startswith(("deploy/", "tests/")):
                assert os.access(TREE / program, os.X_OK), (page, command)
    assert not (CANNOT.keys() | AS.keys() | NO_COMMANDS.keys()) - pages().keys()


def home_make(space):
    """A folder as the pages take for granted: the tree's own below it, a log of two days, an ended run with checkpoints, a cluster that is empty and a run
    that goes on."""
    home = space / "home"
    (home / "build/release").mkdir(parents=True)
    (home / "runs").mkdir()
    for name in ("deploy", "tests"):
        (home / name).symlink_to(TREE / name)
    for entry in BIN.parent.iterdir():
        (home / "build/release" / entry.name).symlink_to(entry)
    for day in (0, 1):
        log = synth(home / f"day_{day}.tsv", 2000, day + 1)
        with gzip.open(home / f"day_{day}.gz", "wb") as f:
            f.write(log.read_bytes())
    job = job_file(home / "job.yaml", home / "day_0.tsv", **{
        "data.valid": [str(home / "day_1.tsv")], "data.test": str(home / "day_1.tsv"), "train.epochs": 20 * longer(1), "journal.keep": 1 << 28,
        "checkpoint.every_batches": 20, "checkpoint.at_end": True, "checkpoint.keep": 0, "tables[0].stats": True})
    run_job(job, home / "runs/kept")
    job_file(home / "next.yaml", home / "day_0.tsv")
    (home / "events.csv").write_text("label,at,user\n" + "".join(f"{n % 3 % 2},{1700006400 + 60 * n},u{n % 50}\n" for n in range(4000)))
    job_file(home / "replay.yaml", home / "events.csv", **{"data.format": "csv", "data.label": "label", "data.time": "at", "train.batch": 32,
                                                           "checkpoint.keep": 0})
    return home


def typed(home, command, words):
    for word, value in words.items():
        command = command.replace(word, value)
    got = subprocess.run(command, shell=True, cwd=home, capture_output=True, text=True, timeout=120, env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"})
    assert got.returncode == 0, (command, got.returncode, got.stdout[-1500:], got.stderr[-1500:])


def commands_of_all_pages_run(space):
    home = home_make(space)
    kept = [c["name"] for c in json.loads(shoal("checkpoint", "list", home / "runs/kept/checkpoints", "--json").stdout)]
    # --resume with another data.valid is refused where the checkpoint was made in the middle of an evaluation
    middle = [name for name in kept[:-1] if json.loads((home / "runs/kept/checkpoints" / name / "manifest.json").read_text())["phase"] == "train"]
    if not middle:
        raise TooShort(kept)
    going = Run(job_file(home / "going.yaml", home / "day_0.tsv", **{"train.epochs": 100000}), space / "going")
    within(60, "the other run to train", lambda: "epoch" in going.output() and going.sockets())
    try:
        words = {"VALUE": (home / "day_0.tsv").read_text().split("\n", 1)[0].split("\t")[14], "MIDDLE": middle[0], "LAST": kept[-1],
                 "tcp://GOING": f"ipc://{next(s for s in going.sockets() if s.endswith('coordinator'))}"}
        done = 0
        for page, text in pages().items():
            for command in printed(page, text):
                if command in CANNOT.get(page, {}):
                    continue
                say = AS.get(page, {}).get(command, command)
                with Fleet(space, f"fleet-{done}", 1) as fleet:
                    if EMPTY in say:
                        fleet.up().fits()
                    typed(home, say, {**words, EMPTY: fleet.endpoint})
                done += 1
        assert done >= 35, done
    finally:
        going.process.send_signal(signal.SIGINT)
    going.wait(60)


if __name__ == "__main__":
    main([options_that_are_named_exist, lists_are_of_what_is_printed, commands_of_all_pages_run])
