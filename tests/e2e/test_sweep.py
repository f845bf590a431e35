#!/usr/bin/env python3
"""test_sweep: `shoal sweep`: one job in variants, each as a run of its own would be; what is done is not done again."""
import re

from lib import *

GRID = ["--set", "tables[0].dim=4,8", "--set", "model.hidden=[16,8],[8]"]
NAMES = {f"dim={dim},hidden=[{hidden}]": (dim, f"[{hidden}]") for dim in "48" for hidden in ("16,8", "8")}


def job_of(space, rows=20000, **over):
    train, valid = synth(space / "train.tsv", rows, 1), synth(space / "valid.tsv", 4000, 2)
    return job_file(space / "job.yaml", train, **{"data.valid": str(valid), "train.consistency": "bsp", **over})


def sweep(*words, status=0):
    got = subprocess.run([SHOAL, "sweep", *map(str, words)], capture_output=True, text=True, timeout=300, check=False)
    assert got.returncode == status, got
    return got.stdout if status == 0 else got.stderr


def found(space):
    return json.loads((space / "sweep/sweep.json").read_text())


def variants_are_what_single_runs_are(space):
    job = job_of(space)
    said = sweep(job, *GRID, "--dir", space / "sweep", "--at-once", 2)
    got = found(space)
    assert {v["run"] for v in got["variants"]} == {name for name in NAMES}, got
    aucs = [v["auc"] for v in got["variants"]]
    assert aucs == sorted(aucs, reverse=True) and len(set(aucs)) == 4, aucs
    for name, (dim, hidden) in NAMES.items():
        variant = next(v for v in got["variants"] if v["run"] == name)
        assert variant["set"] == {"tables[0].dim": dim, "model.hidden": hidden}, variant
        alone = run_job(job_file(space / "one.yaml", space / "train.tsv", **{
            "data.valid": str(space / "valid.tsv"), "train.consistency": "bsp", "tables[0].dim": int(dim), "model.hidden": json.loads(hidden)}),
            space / f"alone-{dim}-{len(hidden)}")
        assert digests(variant) == digests(alone) and variant["valid"] == alone["valid"], (name, variant, alone)
    table = [line.split()[:2] for line in said.split("logloss   examples/s")[1].splitlines()[1:5]]
    assert table == [list(v["set"].values()) for v in got["variants"]], (table, said)
    page = drawn(space / "sweep/sweep.html")
    assert page is None or page.count("<circle") == 4 and all(f'href="{name}/report.html"' in page for name in NAMES), page
    assert len(list((space / "sweep/cache").glob("*.index"))) == 2, "train and valid are indexed for all"
    worst = [v["auc"] for v in got["variants"]]
    sweep(job, *GRID, "--dir", space / "sweep", "--metric", "logloss")
    losses = [v["logloss"] for v in found(space)["variants"]]
    assert losses == sorted(losses) and worst == sorted(worst, reverse=True), losses


def what_is_done_is_not_done_again(space):
    job = job_of(space, longer(60000))
    run = subprocess.Popen([SHOAL, "sweep", job, *GRID, "--dir", space / "sweep", "--at-once", "1"], stdout=subprocess.PIPE, text=True)
    for line in run.stdout:
        if line.startswith("2 of 4"):
            break
    run.send_signal(signal.SIGTERM)
    run.stdout.read()
    if run.wait(60) == 0:
        raise TooShort("all four were done")
    assert run.returncode == 69, run.returncode
    first = {name: (space / "sweep" / name / "report.json").stat().st_mtime_ns for name in NAMES if (space / "sweep" / name / "report.json").exists()}
    assert 2 <= len(first) < 4, first
    said = sweep(job, *GRID, "--dir", space / "sweep")
    assert said.count("was there") == len(first), said
    assert all((space / "sweep" / name / "report.json").stat().st_mtime_ns == when for name, when in first.items())
    said = sweep(job, "--set", "tables[0].dim=4,8,2", *GRID[2:], "--dir", space / "sweep")
    assert said.count("was there") == 4 and len(found(space)["variants"]) == 6, said


def another_job_is_not_taken_for_a_variant(space):
    """Its folder has the variant's name, and its report is there; control: the same job is taken."""
    job = job_of(space)
    sweep(job, "--set", "tables[0].dim=4,8", "--dir", space / "sweep")
    job_of(space, **{"train.batch": 128})
    said = sweep(job, "--set", "tables[0].dim=4,8", "--dir", space / "sweep", status=73)
    assert "sweep/dim=4 holds a run of another job: name another --dir" in said, said
    job_of(space)
    (space / "sweep/dim=8/job.yaml").rename(space / "away")
    assert "sweep/dim=8 holds a run of another job" in sweep(job, "--set", "tables[0].dim=4,8", "--dir", space / "sweep", status=73)
    (space / "away").rename(space / "sweep/dim=8/job.yaml")
    assert sweep(job, "--set", "tables[0].dim=4,8", "--dir", space / "sweep").count("was there") == 2


def a_variant_that_fails_is_told_and_ends_no_other(space):
    job = job_of(space)
    words = (job, "--set", f"data.valid={space / 'valid.tsv'},{space / 'none.tsv'}", "--dir", space / "sweep")
    said = sweep(*words, status=66)
    assert "1 of 2 variants failed" in said and "none.tsv: No such file or directory" in said, said
    good, bad = found(space)["variants"]
    assert good["valid"]["auc"] > 0 and "No such file" in bad["failed"], (good, bad)
    assert "failed: " in (drawn(space / "sweep/sweep.html") or "failed: ")
    synth(space / "none.tsv", 4000, 3)
    assert sweep(*words).count("was there") == 1


def a_job_that_failed_is_tried_again(space):
    """In training: its servers keep rows that no job takes as its own."""
    job = job_of(space, **{"train.max_refused": 0.0, "tables[0].guard": {"norm": 1e-9, "action": "refuse"}})
    words = (job, "--set", "tables[0].guard.norm=1.0e-9,1.0e9", "--dir", space / "sweep")
    for _ in range(2):
        said = sweep(*words, status=65)
        assert "1 of 2 variants failed" in said and "refused" in found(space)["variants"][1]["failed"], (said, found(space)["variants"][1])


def variants_keep_to_themselves(space):
    """The job's own checkpoints stay, nothing is published, and a job file that changes meanwhile changes no variant."""
    store = space / "store"
    job = job_of(space, 60000, **{"checkpoint.dir": str(store), "checkpoint.at_end": True, "checkpoint.keep": 1})
    run_job(job, space / "run")
    kept = sorted(p.name for p in store.iterdir())
    job = job_of(space, 60000, **{"checkpoint.dir": str(store), "checkpoint.at_end": True, "checkpoint.keep": 1, "checkpoint.publish": ["touch", str(space / "published")]})
    run = subprocess.Popen([SHOAL, "sweep", job, *GRID, "--dir", space / "sweep", "--at-once", "1"], stdout=subprocess.PIPE, text=True)
    next(line for line in run.stdout if line.startswith("1 of 4"))
    job_of(space, 60000, **{"train.batch": 64})
    run.stdout.read()
    assert run.wait(60) == 0
    assert sorted(p.name for p in store.iterdir()) == kept and not (space / "published").exists()
    assert all(len(list((space / "sweep" / name / "checkpoints").iterdir())) == 1 for name in NAMES)
    assert "train.batch: 64" not in "".join((space / "sweep" / name / "job.yaml").read_text() for name in NAMES)


def what_is_no_sweep_is_refused(space):
    job = job_of(space)
    for words, text, status in ((("--set", "tables[0].dim=8"), "no key has several values", 64), (("--set", "tables[0].dim=4,,8"), "a value is empty", 64),
                                (("--set", "tables[0].dim=4,4"), "a value stands there twice", 64),
                                (("--set", "tables[0].dim=4,8", "--set", "tables[0].dim=2,3"), "the key stands there twice", 64),
                                (("--set", "tables[0].dim=4,8", "--set", "tables[0].dim=2"), "the key stands there twice", 64),
                                (("--set", "tables[0].dim=4,8", "--set", "data.train=-"), "standard input can be read once", 64),
                                (("--set", "train.batch=" + ",".join(map(str, range(1, 300)))), "more than 256 variants", 64),
                                (("--set", "tables[0].dim=4,x"), "dim=x: --set: tables[0].dim: x is not", 78)):
        said = sweep(job, *words, "--dir", space / "sweep", status=status)
        assert text in said, (words, said)
    assert not (space / "sweep").exists()


MEASURE = """<style>body{width:390px}</style><script>
const texts=[...document.querySelectorAll("svg text")].map(t=>t.getBoundingClientRect());
document.body.textContent="MEASURED"+JSON.stringify({page:innerWidth,width:document.querySelector("main").scrollWidth,
  texts:texts.length,left:Math.min(...texts.map(t=>t.left)),right:Math.max(...texts.map(t=>t.right)),least:Math.min(...texts.map(t=>t.height))})+"END"
</script></body>"""


def pages_fit_a_narrow_screen(space):
    """At 390 pixels nothing runs out of the page, texts of plots can be read, and a table that scrolls has a shade at its edge."""
    job = job_of(space, 4000)
    long = space / ("train-" + "x" * 120 + ".tsv")
    shutil.copy(space / "train.tsv", long)
    sweep(job, "--set", f"data.train={long}", "--set", "tables[0].optimizer.lr=0.01,0.05", "--set", "model.hidden=[16,8],[64,32]", "--dir", space / "sweep")
    pages = [space / "sweep/sweep.html", next((space / "sweep").glob("*/report.html"))]
    for page in pages:
        rule = re.search(r"\.scroll{[^}]*}", page.read_text()).group()
        assert rule.count(" local ") == 2 and rule.count(" scroll ") == 2 and "overflow-x:auto" in rule, rule
    chromium = shutil.which("chromium")
    for page in pages if chromium else []:
        text = re.sub("<meta http-equiv=[^>]*>", "", page.read_text())  # the policy forbids any other script, this one, too
        (space / "measured.html").write_text(text.replace("</body>", MEASURE))
        got = subprocess.run([chromium, "--headless", "--no-sandbox", f"--user-data-dir={space / 'chromium'}", "--window-size=500,844", "--dump-dom",
                              f"file://{space / 'measured.html'}"], capture_output=True, text=True, timeout=100)
        seen = json.loads(re.search("MEASURED({.*})END", got.stdout).group(1))
        assert seen["page"] == 500 and seen["width"] <= 390 and seen["texts"] > 8, (page, seen)  # 500 is its least; one rule holds up to 560
        assert seen["left"] >= 0 and seen["right"] <= 390 and seen["least"] >= 11, (page, seen)


if __name__ == "__main__":
    main([pages_fit_a_narrow_screen, variants_are_what_single_runs_are, what_is_done_is_not_done_again, another_job_is_not_taken_for_a_variant,
          a_variant_that_fails_is_told_and_ends_no_other, a_job_that_failed_is_tried_again, variants_keep_to_themselves, what_is_no_sweep_is_refused])
