#!/usr/bin/env python3
"""test_report: what a job tells of itself: measures by group and value, a page that opens from disk, event files for TensorBoard."""
import calendar
import collections
import html
import html.parser
import math
import struct

from lib import *

NAME = "report <script>alert('x')<img onerror=x> & \"more\""


def measured_job(space, **over):
    train, valid = synth(space / "train.tsv", 20000, 1), synth(space / "valid.tsv", 5000, 2)
    keys = {"job": NAME, "data.valid": str(valid), "data.test": str(valid), "train.epochs": 2, "evaluate.group": "C1",
            "evaluate.by": ["C1", "C5"], "evaluate.buckets": 10}
    keys.update(over)
    return job_file(space / "job.yaml", train, **keys)


# ---- the page ----

class Page(html.parser.HTMLParser):
    """Tags in balance, texts, and every attribute."""
    VOID = {"meta", "br", "line", "rect", "circle", "path"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], [], [], {}
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if tag in self.VOID:  # <rect><title>..</title></rect>
            return
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def page_check(text):
    page = Page(text)
    for tag in ("script", "iframe", "object", "link", "img", "a"):
        assert tag not in page.tags, f"<{tag}> in the page"
    for name, value in page.attributes:
        assert name not in ("src", "href", "onload", "onclick"), (name, value)
        assert "nan" not in (value or "").lower().replace("nano", "") and "inf" not in (value or "").split(), (name, value)
    assert "http" not in text and "@import" not in text, "the page asks the network for something"
    return page


def page_text(path):
    """Returns the text of the page; the case is skipped without node."""
    text = drawn(path)
    if text is None:
        raise Skip("needs node")
    page_check(text)
    return text


def report_page_is_whole_and_harmless(space):
    job = measured_job(space)
    report = run_job(job, space / "run")
    file = (space / "run" / "report.html").read_text(encoding="utf-8")
    assert sealed(file) == report
    again = subprocess.run([SHOAL, "report", str(space / "run" / "report.json"), "--html", str(space / "again.html")],
                           capture_output=True, text=True, check=True)
    assert again.stdout.strip() == str(space / "again.html")
    assert (space / "again.html").read_text(encoding="utf-8") == file
    for right, wrong in (("</main>", "<script>1</script></main>"), ('"use strict"', '"use strict" '), ("body{", "body{ "), ("\\u003c", "<"), ("document.title", "main.innerHTML"),
                         ("<main>", "<main><a href='http://x'>y</a>")):
        assert right in file, right
        try:
            sealed(file.replace(right, wrong, 1))
        except AssertionError:
            continue
        raise AssertionError(f"a page with {wrong} is taken for sealed")

    text = page_text(space / "run" / "report.html")
    page = Page(text)
    assert page.texts["h1"] == [NAME] or "".join(page.texts["h1"]) == NAME, page.texts["h1"]
    assert page.tags.count("svg") >= 6, page.tags.count("svg")
    shown = "".join("".join(t) for t in page.texts.values())
    assert f"{report['valid']['auc']:.4f}" in shown
    assert report["tables"][0]["digest"] in shown
    assert "deepfm" in shown and "C5" in shown and report["version"] in shown
    texts = [line.split("\t") for line in (space / "valid.tsv").read_text().splitlines()]
    for split in ("valid", "test"):
        for field, column in (("C1", 14), ("C5", 18)):
            count = collections.Counter(row[column] for row in texts)
            told = {v["value"]: v["examples"] for v in report[split]["by"][field] if v["key"] != "other"}
            assert len(told) == min(50, len(count)) and all(count[value] == n for value, n in told.items()), (field, told)
    assert all(f">{v['value'] or '(empty)'}<" in text for v in report["test"]["by"]["C1"][:10])
    lost = run_job(job, space / "lost", extra=["--set", "data.valid={cmd: \"cat " + str(space / "valid.tsv") + "\"}"])
    assert not any("value" in v for v in lost["valid"]["by"]["C1"]) and any("value" in v for v in lost["test"]["by"]["C1"])

    for damage in (text.replace("</main>", ""), text + "<script>1</script>", text.replace("<header>", "<header><a href='http://x'>y</a>")):
        try:
            page_check(damage)
        except AssertionError:
            continue
        raise AssertionError("the check of the page lets everything pass")


def page_says_what_there_is(space):
    """Pages of one epoch and of three, the first of which was the best: useful figures are drawn and described, others are left out."""
    def page(epochs, **more):
        r = {"job": "a", "epochs": [{"epoch": i + 1, "valid": {"auc": auc}} for i, auc in enumerate(epochs)], "final_epoch": len(epochs),
             "training": [{"epoch": i + 1, "examples": 100 * (i + 1), "logloss": 0.5} for i in range(len(epochs))],
             "valid": {"auc": epochs[-1], "buckets": [{"predicted": p, "label": p, "examples": 100} for p in (0.1, 0.2)]},
             "tables": [{"name": "emb", "rows": 3, "digest": "0x1"}], "teacher_auc": 0.8125, "teacher_split": "valid", **more}
        (space / "r.json").write_text(json.dumps(r), encoding="utf-8")
        subprocess.run([SHOAL, "report", str(space / "r.json")], check=True, capture_output=True)
        return page_text(space / "r.html")
    def chart(text):
        return text.split('aria-label="AUC by', 1)[1].split("</svg>")[0]
    one, three, kept = page([0.75]), page([0.752, 0.7, 0.618]), page([0.752, 0.7, 0.618], final_epoch=1, valid={"auc": 0.752})
    assert ">1 epoch<" in one and ">3 epochs<" in three and "epoch 1 had 0.7520" in three and " had " not in one
    for text in (one, three):
        assert "best possible</span>" in text and "<th>rules</th>" not in text and "Bars: examples" not in text
        assert ' class="c5" d="M' in chart(text), "the teacher's AUC is drawn"
        assert "repeat(auto-fill," in text and ".counts td:first-child{white-space:normal}" in text and 'class="counts"' in text
    assert [chart(text).count('class="mark"') for text in (one, three, kept)] == [0, 0, 1] and " had " not in kept
    assert "<th>rules</th>" in page([0.75], tables=[{"name": "emb", "rows": 3, "rules": {"expired": 2}}])
    uneven = [{"predicted": p, "label": p, "examples": n} for p, n in ((0.1, 100), (0.2, 50))]
    assert "Bars: examples" in page([0.75], valid={"auc": 0.75, "buckets": uneven})


def reports_can_be_told_apart(space):
    """Two of one job, which differ in data, batch, rates and optimizer: the json, the page and the printed report say so."""
    other = synth(space / "other.tsv", 3000, 5)
    began, told = time.time(), []
    settings = {"data.train": str(other), "train.batch": 128, "tables[0].optimizer.kind": "adam", "tables[0].optimizer.lr": 0.002}
    for i, over in enumerate(({}, settings)):
        job = measured_job(space, **{"evaluate.by": None, "data.test": None, **over})
        if i == 0:
            with open(job, "a", encoding="utf-8") as f:
                f.write(f'data.test: {{cmd: "cat {space / "valid.tsv"} # secret"}}\n')
        run = Run(job, space / f"run{i}")
        assert run.wait(100) == 0, run.output()
        report, page = (space / f"run{i}/report.json").read_text(), (space / f"run{i}/report.html").read_text()
        assert "secret" not in report + page + run.output()
        told.append((json.loads(report), drawn(space / f"run{i}/report.html") or "", run.output()))
    place = f"{socket.gethostname()}:{space / 'run1'}"
    r, page, said = told[1]
    assert r["data"] == {"format": "criteo", "train": [str(other)], "valid": [str(space / "valid.tsv")], "test": []}, r["data"]
    assert told[0][0]["data"]["test"] == ["{cmd}"] and r["batch"] == 128 and r["place"] == place
    moment = lambda text: calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))
    assert began - 1 <= moment(told[0][0]["began"]) <= moment(told[0][0]["ended"]) <= moment(r["began"]) <= moment(r["ended"]) <= time.time()
    emb, dense = (next(t for t in r["tables"] if t["name"] == name) for name in ("emb", "dense"))
    assert (emb["optimizer"], emb["lr"], emb["dim"]) == ("adam", 0.002, 4) and dense["optimizer"] == "adam" and dense["lr"] > 0
    for text in filter(None, (html.unescape(page), said)):
        assert "batch 128; emb: adam 0.002, dim 4" in text and str(other) in text and place in text and r["began"] in text and "39: I1, " in text and "C1, C2" in text, text[:3000]
    if not page:
        raise Skip("needs node")
    assert "Logloss, test" in told[0][1] and "Calibration, test" in told[0][1] and "Group AUC, test" in told[0][1]
    assert "Logloss, valid" in page and "Calibration, valid" in page and "Group AUC, valid" in page


def page_of_little_is_a_page(space):
    """A report of another release, or of a job that only counted: what is not there is left out."""
    for text in ('{"job": "a", "epochs": []}', '{"job": "a", "epochs": [{"epoch": 1}], "valid": null, "training": [{"examples": 5}]}',
                 '{"job": "a", "epochs": [{"epoch": 1, "valid": {"auc": null}}], "valid": {"auc": null, "buckets": [{}]}, "tables": [{}]}'):
        (space / "r.json").write_text(text, encoding="utf-8")
        subprocess.run([SHOAL, "report", str(space / "r.json")], check=True, capture_output=True)
        page_text(space / "r.html")


def no_value_becomes_markup_or_script(space):
    """Names, sentences, labels, values and keys that would end the script, begin another or a comment, or name what every object has."""
    bad = "</script><img src=x onerror=alert(1)><!--<script>\u2028' onload=\"1\""
    v = {"auc": 0.7, "examples": 5, "buckets": [{"predicted": 0.1, "label": 0.2, "examples": 5}], "by": {bad: [{"key": "0x1", "value": bad}], "__proto__": [{"key": bad}]}}
    tasks = [{"label": bad, **v}]
    day = {"from": "2026-01-01T00:00:00Z", "figures": v, "hours": [{"from": bad}]}
    r = {"job": bad, "epochs": [{"epoch": 1, "tasks": tasks}], "training": [{"epoch": 1, "examples": 5, "tasks": [0.5]}], "reason": bad, "warning": bad, "notes": [bad], "bad_where": [bad],
         "tables": [{"name": bad, "lr": 1, "optimizer": bad, "digest": bad, "rules": {bad: 1, "__proto__": 2}}], "valid": {**v, "tasks": tasks}, "batch": 1,
         "model": bad, "kernels": bad, "version": bad, "input": {"fields": [{"name": bad, "kind": bad, "examples": [bad]}]}, "data": {"train": [bad], "format": bad},
         "bottleneck": {"stage": bad, "next": bad, "speedup_if_free": 2}, "time": {"read": 1}, "backends": [{"name": bad, "why": bad}], "began": bad, "place": bad,
         "replay": {"every": 86400, "window": 3600, "days": [day, {**day, "from": bad}]}, "events": {"from": bad, "to": bad}}
    (space / "r.json").write_text(json.dumps(r), encoding="utf-8")
    subprocess.run([SHOAL, "report", str(space / "r.json")], check=True, capture_output=True)
    file = (space / "r.html").read_text(encoding="utf-8")
    assert sealed(file) == r
    if chromium := shutil.which("chromium"):
        got = subprocess.run([chromium, "--headless", "--no-sandbox", f"--user-data-dir={space / 'chromium'}", "--dump-dom", f"file://{space / 'r.html'}"],
                             capture_output=True, text=True, timeout=100, check=False)
        assert "<img" not in got.stdout and got.stdout.count("<script") == 2 and "<h1>&lt;/script&gt;&lt;img src=x" in got.stdout, got.stdout[-5000:]
    page = Page(page_text(space / "r.html"))
    assert page.texts["h1"] == [bad] and sum(text.count(bad[:20]) for texts in page.texts.values() for text in texts) > 30, page.texts


def page_of_anything_has_an_end(space):
    """A report may come from anywhere: numbers without another one between them, numbers that overflow, lists longer than ours."""
    def point(examples, **more):
        return {"epoch": 1, "examples": examples, "logloss": 0.5, "seconds": 1.0, "dense_norm": 1.0, "row_norm": 1.0, **more}
    reports = [[point(1e17), point(1e17 + 16)], [point(5e16 + 8 * i, seconds=i * 1e-320) for i in range(100)],
               [point(-1e308), point(1e308)], [point(1e300 * i, logloss=1e300 * i) for i in range(10)],
               [point(i, logloss=1 + i * 1e-16, seconds=1e308) for i in range(100)], [point(i) for i in range(20000)],
               [point(1e-320), point(3e-320, logloss=-0.5)]]
    task = {"label": "a", "train_logloss": 1}
    for training in reports:
        for tasks in ([], [task] * 5000):
            many = {"by": {f"f{i}": [] for i in range(5000)}, "buckets": [{"predicted": 1e308, "label": -1e308, "examples": 1e308}] * 3}
            r = {"job": "x", "epochs": [{"epoch": 1, "tasks": tasks}], "training": training, "valid": {"auc": 1e308, "tasks": tasks, **many}}
            (space / "r.json").write_text(json.dumps(r), encoding="utf-8")
            subprocess.run([SHOAL, "report", str(space / "r.json")], check=True, capture_output=True, timeout=100)
            text = page_text(space / "r.html")
            assert text.count("<text ") < 2000, text.count("<text ")


def page_that_cannot_be_written_leaves_nothing(space):
    (space / "r.json").write_text('{"job": "a", "epochs": []}', encoding="utf-8")
    (space / "r.html").mkdir()
    p = subprocess.run([SHOAL, "report", str(space / "r.json")], capture_output=True, text=True)
    assert p.returncode == 73 and "r.html" in p.stderr, (p.returncode, p.stderr)
    assert sorted(f.name for f in space.path.iterdir()) == ["r.html", "r.json"]


def no_report_is_refused(space):
    (space / "r.json").write_text('{"state": "train"}', encoding="utf-8")
    (space / "x.json").write_text("not json", encoding="utf-8")
    for name, status in (("r.json", 65), ("x.json", 65), ("none.json", 66)):
        p = subprocess.run([SHOAL, "report", str(space / name)], capture_output=True, text=True)
        assert p.returncode == status, (name, p.returncode, p.stderr)
        assert name in p.stderr or status == 65, p.stderr
        assert not (space / name.replace(".json", ".html")).exists()


# ---- the measures ----

def measures_agree_with_one_another(space):
    """The same split as valid and test, twice: once exact, once in bounded memory."""
    exact = run_job(measured_job(space, **{"train.consistency": "bsp"}), space / "exact")
    bounded = run_job(measured_job(space, **{"train.consistency": "bsp", "evaluate.exact": 1000}), space / "bounded")
    assert digests(exact) == digests(bounded)
    v, b = exact["valid"], bounded["valid"]
    assert exact["test"] == v and exact["final_epoch"] == 2
    assert v["auc_error"] == 0 and 0 < b["auc_error"] < 1e-3 and abs(v["auc"] - b["auc"]) <= b["auc_error"], (v["auc"], b["auc"])
    assert abs(v["logloss"] - b["logloss"]) < 1e-12 and v["by"] == b["by"]
    assert b["gauc_share"] < 1 and abs(b["gauc"] - v["gauc"]) < 0.1 and "gauc_share" not in v
    rate = v["positives"] / v["examples"]
    entropy = -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)
    assert abs(v["ne"] - v["logloss"] / entropy) < 1e-9
    assert len(v["buckets"]) == 10 and sum(x["examples"] for x in v["buckets"]) == v["examples"]
    ece = sum(x["examples"] * abs(x["predicted"] - x["label"]) for x in v["buckets"]) / v["examples"]
    assert abs(ece - v["ece"]) < 1e-9
    for field in ("C1", "C5"):
        values = v["by"][field]
        assert sum(x["examples"] for x in values) == v["examples"]
        loss = sum(x["examples"] * x["logloss"] for x in values) / v["examples"]
        assert abs(loss - v["logloss"]) < 1e-9
        assert values[-1]["key"] == "other" and all(x["key"].startswith("0x") for x in values[:-1])
    last = exact["training"][-1]
    assert last["examples"] == exact["examples"] and last["logloss"] > 0
    assert any((p["dense_norm"] or 0) > 0 and (p["row_norm"] or 0) > 0 for p in exact["training"])
    assert exact["epochs"][-1]["valid"]["gauc"] == v["gauc"]


# ---- event files ----

def crc32c(data):
    c = 0xFFFFFFFF
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = (c >> 1) ^ (0x82F63B78 if c & 1 else 0)
    return c ^ 0xFFFFFFFF


def masked(data):
    c = crc32c(data)
    return ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    """(number, value) of a protobuf message: varints as int, the others as bytes."""
    at = 0

    def varint():
        nonlocal at
        x = shift = 0
        while True:
            b = data[at]
            at += 1
            x |= (b & 127) << shift
            shift += 7
            if b < 128:
                return x

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            assert kind == 2, kind
            size = varint()
        assert at + size <= len(data)
        yield key >> 3, data[at:at + size]
        at += size


def events(data):
    """(step, {tag: value}) of every record but the first, which must name the version."""
    at, found = 0, []
    while at < len(data):
        assert masked(data[at:at + 8]) == struct.unpack("<I", data[at + 8:at + 12])[0], f"length at {at} is damaged"
        size = struct.unpack("<Q", data[at:at + 8])[0]
        payload = data[at + 12:at + 12 + size]
        assert masked(payload) == struct.unpack("<I", data[at + 12 + size:at + 16 + size])[0], f"record at {at} is damaged"
        event = dict(fields(payload))
        if at == 0:
            assert event[3] == b"brain.Event:2", event
        else:
            values = [dict(fields(v)) for n, v in fields(event[5]) if n == 1]
            found.append((event[2], {v[1].decode(): struct.unpack("<f", v[2])[0] for v in values}))
        assert 1.6e9 < struct.unpack("<d", event[1])[0] < 1e10
        at += 16 + size
    return found


def tensorboard_files_can_be_read(space):
    assert crc32c(b"123456789") == 0xE3069283
    report = run_job(measured_job(space), space / "run", 2, 2, ["--tensorboard", str(space / "tb")])
    files = list((space / "tb").rglob("*tfevents*"))
    assert len(files) == 1 and len(files[0].relative_to(space / "tb").parts) == 2, files
    data = files[0].read_bytes()
    found = events(data)
    steps = [s for s, _ in found]
    assert steps == sorted(steps) and steps[-1] == report["examples"], steps
    last = {}
    for _, values in found:
        last.update(values)
    for tag in ("train/logloss", "rate/examples_per_second", "staleness/p50", "staleness/p99", "norm/dense", "norm/rows", "lr/scale",
                "valid/auc", "valid/logloss", "valid/ne", "valid/calibration", "valid/ece", "valid/gauc", "test/auc"):
        assert tag in last, (tag, sorted(last))
    assert abs(last["valid/auc"] - report["valid"]["auc"]) < 1e-6 and abs(last["test/ne"] - report["test"]["ne"]) < 1e-6
    for at in (3, 9, 20, len(data) // 2, len(data) - 2):  # the control: the reader above notices a damaged byte anywhere
        damaged = bytearray(data)
        damaged[at] ^= 4
        try:
            events(bytes(damaged))
        except (AssertionError, KeyError, IndexError, struct.error):
            continue
        raise AssertionError(f"byte {at} was changed and nothing noticed")


def tensorboard_folder_that_cannot_be_made_is_told_before_the_job(space):
    run = Run(measured_job(space), space / "run", extra=["--tensorboard", "/proc/none"])
    assert run.wait() == 73, run.output()[-2000:]
    assert "--tensorboard: cannot write in /proc/none" in run.output(), run.output()[-2000:]


def asked_for_and_not_done(space, over, spoil=None):
    """Returns the output of a job that is done, except for something that it asked for beside its tables."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 20000, 5), **over)
    run = Run(job, space / "run")
    if spoil is not None:
        started(run)
        spoil()
        stopped_early(run)  # its end is spoilt
    assert run.wait() in (73, 74), run.output()[-2000:]
    said = run.output()
    assert "the job is done, but" in said.splitlines()[-1], said[-2000:]
    report = json.loads((space / "run" / "report.json").read_text(encoding="utf-8"))
    assert any("the job is done, but" in note for note in report["notes"]), report["notes"]
    assert (space / "run" / "report.html").is_file()
    return said.splitlines()[-1]


def command_that_fails_is_told_behind_the_report(space):
    said = asked_for_and_not_done(space, {"checkpoint.at_end": True, "checkpoint.publish": ["sh", "-c", "exit 3"]})
    assert "checkpoint.publish" in said and "exit status 3" in said, said


def checkpoint_of_the_end_that_cannot_be_made_is_told_behind_the_report(space):
    folder = space / "made"

    def spoil():
        os.rename(folder, space / "away")
        folder.write_text("no folder", encoding="utf-8")

    said = asked_for_and_not_done(space, {"checkpoint.dir": str(folder), "checkpoint.at_end": True, "durability": "memory", "train.epochs": longer(40)}, spoil)
    assert "checkpoint.at_end" in said and "in memory alone" in said, said


if __name__ == "__main__":
    main([reports_can_be_told_apart, report_page_is_whole_and_harmless, page_says_what_there_is, page_of_little_is_a_page, no_value_becomes_markup_or_script, page_of_anything_has_an_end,
          page_that_cannot_be_written_leaves_nothing, no_report_is_refused, measures_agree_with_one_another,
          tensorboard_files_can_be_read, tensorboard_folder_that_cannot_be_made_is_told_before_the_job,
          command_that_fails_is_told_behind_the_report, checkpoint_of_the_end_that_cannot_be_made_is_told_behind_the_report])
