#!/usr/bin/env python3
"""test_page: the coordinator's status page, over HTTP: its figures are those of the status, a dead server stands first and goes when it is back, names of
strangers stay text, and after a pause of the coordinator the first page is of now."""
import html.parser
import re
import shutil
import urllib.error
import urllib.request

from browser import Browser
from fleet import *
from test_sight import LONG, worker

VOID = {"meta", "link", "br", "img", "input"}
# what may stand in what, of the kinds that are wrong elsewhere
WITHIN = {"li": {"ul"}, "tr": {"thead", "tbody"}, "th": {"tr"}, "td": {"tr"}, "thead": {"table"}, "tbody": {"table"}, "summary": {"details"},
          "main": {"body"}, "path": {"svg"}, "rect": {"svg"}, "title": {"head"}}
BLOCKS = {"div", "p", "ul", "table", "section", "h1", "h2", "h3", "details"}


class Reader(html.parser.HTMLParser):
    """Reads a page strictly: each element ends where it should and stands where it may; ids are single, headings skip no level, each column of a table
    has a head, each picture has a name or is hidden, what scrolls is reached by the keyboard. What it shows is in `text`, its tables in `tables`."""

    def __init__(self, page):
        super().__init__()
        self.open, self.text, self.kinds, self.title, self.ids, self.level, self.tables, self.said = [], "", {}, "", set(), 0, [], ""
        self.refresh = ""
        assert page.startswith("<!DOCTYPE html>\n<html lang=\"en\">")
        self.feed(page)
        self.close()
        assert self.open == [] and self.title != "" and self.kinds["main"] == self.kinds["h1"] == 1, (self.open, self.kinds)
        for table in self.tables:
            for row in table:
                assert sum(span for _, span in row) == len(table[0]), row

    def handle_starttag(self, tag, attrs):
        names, of, inside = [name for name, _ in attrs], dict(attrs), self.open[-1] if self.open else None
        assert len(names) == len(set(names)) and not any(n.startswith("on") or n == "style" for n in names), (tag, attrs)
        assert tag not in WITHIN or inside in WITHIN[tag], (tag, self.open)
        assert inside != "ul" or tag == "li", (tag, self.open)
        assert not (tag in BLOCKS and {"p", "h1", "h2", "h3", "span"} & set(self.open)), (tag, self.open)
        assert "id" not in of or of["id"] not in self.ids, of
        self.ids.add(of.get("id"))
        if re.fullmatch("h[1-6]", tag):
            assert int(tag[1]) <= self.level + 1, (tag, self.level)
            self.level = int(tag[1])
        if tag == "svg":
            assert (of.get("aria-hidden") == "true") != (of.get("role") == "img" and of.get("aria-label", "") != ""), of
        assert "role" not in of or tag in ("div", "p", "svg"), (tag, of)  # another element would lose its own
        if "scroll" in of.get("class", "").split():
            assert of.get("tabindex") == "0" and of.get("aria-label"), of
        if tag == "th":
            assert of.get("scope") == ("col" if "thead" in self.open else "row"), (of, self.open)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append(["", int(of.get("colspan", "1"))])
        if of.get("http-equiv") == "refresh":
            assert self.open[-1] == "noscript", self.open
            self.refresh = of["content"]
        self.kinds[tag] = self.kinds.get(tag, 0) + 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        if "style" in self.open or "script" in self.open:
            return
        self.text += data + "|" if "main" in self.open else ""
        self.title += data if "title" in self.open else ""
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1][0] += data

    def table(self, first):
        """The rows of the table (with its fold) whose first column is called so, each as {column: text}."""
        rows = []
        for head, *body in self.tables:
            if head[0][0] == first:
                rows += [dict(zip((name for name, _ in head), (text.strip() for text, _ in row))) for row in body if len(row) == len(head)]
        return rows


def get(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE * 10) as answer:
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        return answer.read().decode()


def fleet_with_page(space, *words, **over):
    port, fleet = free_port(), Fleet(space, "a")
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000, 1), **{**LONG, **over})
    fleet.coordinator("--set", f"metrics=127.0.0.1:{port}", *words)
    for i in range(2):
        fleet.server(f"s{i}")
    fleet.fits()
    worker(fleet, job)
    assert shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait").returncode == 0
    within(60, "the job to train", lambda: fleet.state().get("examples", 0) > 0)
    return fleet, port


def the_page_has_the_figures_of_the_status(space):
    fleet, port = fleet_with_page(space)
    with fleet:
        before = within(20, "the status", fleet.state)
        page = within(20, "nothing to be wrong", lambda: (p := Reader(get(port))) and "Nothing is wrong." in p.text and p)
        assert page.title == "e2e – Shoal", page.title
        examples = int(re.search(r"([\d,]+) examples", page.text)[1].replace(",", ""))
        # the status may be a moment older than the page: the coordinator gives one text to all that ask in short order
        after = within(10, "the status to come to what the page had", lambda: (s := fleet.state()).get("examples", 0) >= examples and s)
        assert before["examples"] <= examples, (before["examples"], examples)
        assert [s["state"] for s in page.table("shard")] == ["ready"] * 2 and page.refresh == "10", page.text
        assert after["cluster"]["id"] in page.text
        assert f"{after['cluster']['tablets']} tablets on 2 shards" in page.text
        # the load of tablets is asked for by the first page, and there for a later one
        within(30, "the load", lambda: any(re.match("[1-9]", s["load"]) for s in Reader(get(port)).table("shard")))
        for path, status in (("/status", 404), ("/../etc/passwd", 404)):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE * 10)
                raise AssertionError(path)
            except urllib.error.HTTPError as e:
                assert e.code == status, (path, e.code)


def a_dead_server_stands_first_until_it_is_back(space):
    fleet, port = fleet_with_page(space)
    with fleet:
        fleet.kill("s1")

        def told():
            page = Reader(get(port))  # the lease is 2 s
            return [s["state"].split()[0] for s in page.table("shard")] == ["not", "ready"] and "server s1" in page.text and page
        page = within(15, "the page to tell", told)
        assert page.text.index("server s1") < page.text.index("Job |e2e") < page.text.index("Servers"), page.text
        assert page.table("shard")[0]["shard"].endswith(" s1"), page.text

        def all_told():
            """Each sentence is there but for its numbers, which go on, and all are counted."""
            page, state = Reader(get(port)), fleet.state()
            sentences = [re.sub(r"\d+", "0", text) for text in state["problems"] + [state["waiting"]]]
            count = f"{len(sentences)} things are wrong" in page.text and page.title.startswith(f"({len(sentences)}) ")
            return count and len(sentences) > 1 and all(text in re.sub(r"\d+", "0", page.text) for text in sentences)
        within(15, "page and status to tell the same", all_told)
        fleet.server("s1")
        within(40, "nothing to be wrong", lambda: "Nothing is wrong." in Reader(get(port)).text)


def names_of_strangers_stay_text(space):
    fleet, port = fleet_with_page(space)
    with fleet:
        plain = Reader(get(port))
        fleet.start("odd", "train", "--config", space / "job.yaml", "--coordinator", fleet.endpoint, "--name", "<b>w</b>'\"&", program="shoal-worker")
        page = within(20, "the worker to be shown", lambda: (p := Reader(get(port))) and "<b>w</b>'\"&" in p.text and p)
        assert page.kinds["script"] == plain.kinds["script"] == 1


def the_first_page_after_a_pause_is_of_now(space):
    fleet, port = fleet_with_page(space)
    with fleet:
        get(port)
        pid = fleet.running["coordinator"].pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(7)
        os.kill(pid, signal.SIGCONT)
        # the first answer after it is of now, and is no false alarm
        assert "has not made new figures" not in Reader(get(port)).text


# ---- values ----------------------------------------------------------------------------------------------------------


def scaled(x, units):
    """A number as the page writes it: three digits and a unit."""
    at = 0
    while at + 1 < len(units) and abs(x) >= 999.5:
        x, at = x / 1000, at + 1
    behind = 0 if (at == 0 and x == int(x)) or abs(x) >= 99.95 else 1 if abs(x) >= 9.995 else 2
    return f"{x:.{behind}f}{units[at]}"


def short(x):
    if x is None:
        return "-"
    return f"{x:.3g}" if 0 < abs(x) < 1 else scaled(x, ["", " k", " M", " G", " T"])


def size(x, most=0):
    return scaled(x, [" B", " kB", " MB", " GB", " TB"]) + (f" of {size(most)}" if most > 0 else "")


def expected(status):
    """What the tables of the page have to hold, from the status alone."""
    servers = [{"shard": f"{s['shard']} {s['name']}", "state": "ready", "tablets": f"{s['tablets']:,}", "rows": f"{s['rows']:,}",
                "memory": size(s["rss_bytes"], s["memory_max"]), "pulled keys/s": short(s["pull_rate"]), "pushed keys/s": short(s["push_rate"]),
                "disk": size(s["disk_bytes"], s["disk_max"]), "journal": size(s["journal_bytes"]), "requests waiting": f"{s['parked']:,}"}
               for s in status["servers"]]
    workers = [{"worker": f"{w['worker']} {w['name']}", "examples/s": short(w["rate"]), "examples": f"{w['examples']:,}",
                "lanes (batches)": ", ".join(f"{lane['lane']} ({lane['batch']:,})" for lane in status["lanes"] if lane["worker"] == w["worker"]) or "none",
                "computes on": f"{w['backend']} {w['device']}"} for w in status["workers"]]
    tiles = {"Epoch": f"{status['epoch']:,} of {status['epochs']:,}", "Logloss": f"{status['loss']:.4f}" if status["loss"] is not None else "-",
             "AUC": f"{status['train_auc']:.4f}", "Calibration": f"{status['train_calibration']:.4f}", "Staleness": short(status["staleness"]["p50"])}
    return servers, workers, tiles


def tile_of(page, name):
    found = re.search(rf"\|{name}\|([^|]*)\|( of [^|]*)?", page.text)
    return found and found[1] + (found[2] or "")


def every_value_is_that_of_the_status(space):
    """While a job stands, because its worker is stopped, nothing moves: the page is compared value by value with a status from before and after it."""
    fleet, port = fleet_with_page(space, "--set", "lease=90s", **{"coordinator.lease": "90s"})  # the shorter one counts
    with fleet:
        within(60, "an AUC", lambda: (s := fleet.state()).get("train_auc") and s["workers"] and s["workers"][0]["rate"])
        fleet.running["w"].send_signal(signal.SIGSTOP)
        differ = ["nothing has been compared"]

        def equal():
            before, page, after = fleet.state(), Reader(get(port)), fleet.state()
            servers, workers, tiles = expected(after)
            if expected(before) != expected(after) or (len(servers), len(workers)) != (2, 1):
                differ[:] = ["the status moved", expected(before), expected(after)]
                return False
            want = [*servers, *workers, tiles]
            rows = [*page.table("shard"), *page.table("worker"), {k: tile_of(page, k) for k in tiles}]
            differ[:] = [(k, row[k], w[k]) for row, w in zip(rows, want) for k in w if row[k] != w[k]]
            return len(rows) == len(want) and differ == []
        try:
            within(60, "page and status to be equal", equal)
        except AssertionError as e:
            raise AssertionError(f"{e}: {differ}") from None
        fleet.running["w"].send_signal(signal.SIGCONT)


# ---- its HTML --------------------------------------------------------------------------------------------------------

VALIDATORS = {"vnu": ["--errors-only"],
              # a page without scripts has no other way to go on
              "html-validate": ["--preset", "recommended,a11y", "--rule", "meta-refresh:off"]}


def the_reader_finds_what_is_wrong(space):
    """The control: pages with one mistake each."""
    good = ('<!DOCTYPE html>\n<html lang="en"><head><title>t</title></head><body><h1>a</h1><main><h2>b</h2><table><thead><tr><th scope="col">c</th></tr>'
            '</thead><tbody><tr><td>d</td></tr></tbody></table><ul><li id="i">e</li></ul></main></body></html>')
    Reader(good)
    for old, new in (("<td>d</td>", "<td>d</td><td>e</td>"), ("<h2>b</h2>", "<h3>b</h3>"), ("</li>", ""), ("<ul>", "<ul>text<p>"), ("<h2>", '<h2 id="i">'),
                     ("<h2>", "<p><h2>"), (' scope="col"', ""), ("<ul>", "<svg></svg><ul>"), ("<ul>", '<div class="card scroll"></div><ul>'),
                     ("<h2>", '<h2 role="status">'), ("<h2>", '<h2 onclick="a()">'), ("<title>t</title>", "")):
        assert old in good
        try:
            Reader(good.replace(old, new))
        except (AssertionError, KeyError):
            continue
        raise AssertionError(f"{new} passes")


def validators_find_nothing(space):
    """Of the page without a job, with one, and with copies of which a server is dead."""
    programs = [p for p in VALIDATORS if shutil.which(p)]
    if not programs:
        raise Skip(f"needs {' or '.join(VALIDATORS)}: npm install vnu-jar html-validate, and their node_modules/.bin in PATH")
    port, pages = free_port(), []
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000, 1), **LONG)
    with Fleet(space, "a", 3) as fleet:
        fleet.coordinator("--set", f"metrics=127.0.0.1:{port}", "--set", "replicas=2")
        within(15, "the coordinator", lambda: fleet.state())
        pages.append(get(port))
        for i in range(3):
            fleet.server(f"s{i}", "--set", "shards=2")
        fleet.fits()
        worker(fleet, job)
        assert shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait").returncode == 0
        pages.append(within(30, "curves", lambda: (p := get(port)) and "Examples / s <small>" in p and p))
        fleet.kill("s1")
        missed = lambda p: any("not heard" in c["state"] for c in Reader(p).table("copy of shard"))
        pages.append(within(20, "a copy to be missed", lambda: (p := get(port)) and missed(p) and p))
    files = [space / f"page{i}.html" for i in range(len(pages))]
    for path, page in zip(files, pages):
        path.write_text(page)
        Reader(page)
    for program in programs:
        got = subprocess.run([program, *VALIDATORS[program], *files], capture_output=True, text=True, timeout=100, check=False)
        assert got.returncode == 0, got.stdout + got.stderr
    files[0].write_text(pages[0].replace("<main>", "<main><h2 role='status'>"))
    assert all(subprocess.run([p, *VALIDATORS[p], files[0]], capture_output=True, timeout=100, check=False).returncode != 0 for p in programs), programs


# ---- in a browser ----------------------------------------------------------------------------------------------------

# All texts and lines whose contrast is too low (WCAG 2.1 AA: 4.5; 3 for lines and for large text), and how many were looked at.
CONTRAST = """(() => {
    const rgb = c => (c.match(/[\\d.]+/g) ?? []).map(Number);
    const light = c => rgb(c).slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const under = e => {
        for (; e !== null; e = e.parentElement) {
            const c = getComputedStyle(e).backgroundColor;
            if (rgb(c).length === 3 || rgb(c)[3] > 0)
                return c;
        }
        return "rgb(255,255,255)";
    };
    const bad = [];
    let seen = 0;
    const look = (e, colour, least, what) => {
        const [a, b] = [light(colour), light(under(e))].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
        seen++;
        if (ratio < least)
            bad.push(`${what}: ${ratio.toFixed(2)}`);
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let t; (t = texts.nextNode()) !== null;) {
        const e = t.parentElement, style = getComputedStyle(e);
        if (t.data.trim() === "" || e.getClientRects().length === 0 || ["SCRIPT", "NOSCRIPT"].includes(e.tagName))
            continue;
        const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
        look(e, e instanceof SVGElement ? style.fill : style.color, large ? 3 : 4.5, t.data.trim().slice(0, 40));
    }
    for (const line of document.querySelectorAll(".curves path:not(.grid):not(.axis)"))
        look(line, getComputedStyle(line).stroke, 3, "a curve");
    return {bad, seen};
})()"""
# What the reader can do to the page, before an update and after it.
DONE = """(() => {
    const e = document.getElementById("servers");
    return [document.activeElement.id, getSelection().toString(), e.scrollLeft > 0, window.mark === e];
})()"""


def a_browser_shows_it(space):
    """At both widths and in both colours: nothing runs out of the page, texts have contrast, the console is silent."""
    fleet, port = fleet_with_page(space)
    with fleet, Browser(space) as browser:
        within(30, "the load and curves", lambda: "Examples / s <small>" in get(port) and "The hottest tablet" in get(port))
        fleet.kill("s1")
        within(15, "the page to tell", lambda: "server s1" in get(port))
        for width, dark in ((1280, False), (1280, True), (390, False), (390, True)):
            browser.window(width, dark=dark)
            browser.open(f"http://127.0.0.1:{port}/")
            seen = browser.value(CONTRAST)
            assert seen["bad"] == [] and seen["seen"] > 60, (width, dark, seen)
            assert browser.value("matchMedia('(prefers-color-scheme: dark)').matches") == dark
            wide = browser.value("[document.documentElement.scrollWidth, ...[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll'))"
                                 ".map(e => e.getBoundingClientRect().right)]")
            assert max(wide) <= width, (width, wide)
            assert browser.said() == [], browser.said()
        # without scripts it is the same page
        text = "document.querySelector('main').innerText.replace(/[\\d.,:]+/g, '0')"
        shown = browser.value(text)
        browser.window(390, scripts=False)
        browser.open(f"http://127.0.0.1:{port}/")
        assert browser.value(text) == shown
        # the control of the contrast
        browser.value("document.body.style.setProperty('--ink', '#888')")
        assert browser.value(CONTRAST)["bad"] != []


def what_the_reader_does_outlives_updates(space):
    """The page goes on by itself: nothing moves, focus, selection and scrolling stay, a dead server is told, and so is a coordinator that is gone."""
    fleet, port = fleet_with_page(space)
    with fleet, Browser(space) as browser:
        within(30, "the load and curves", lambda: "Examples / s <small>" in get(port) and "The hottest tablet" in get(port))
        browser.window(390)
        browser.open(f"http://127.0.0.1:{port}/")
        browser.value("""new PerformanceObserver(l => l.getEntries().forEach(e => window.moved = (window.moved ?? 0) + e.value)).observe({type: "layout-shift"});
            window.mark = document.getElementById("servers"); mark.focus(); mark.scrollLeft = 100;
            getSelection().selectAllChildren(document.querySelector("#jobs th[scope=row] bdi")); 0""")
        done, begun = browser.value(DONE), browser.value("document.querySelector('main').innerText")
        assert done == ["servers", "e2e", True, True], done
        within(15, "two updates", lambda: browser.value("performance.getEntriesByType('resource').length") >= 2)
        assert browser.value("document.querySelector('main').innerText") != begun and browser.value(DONE) == done, browser.value(DONE)
        assert browser.value("window.moved ?? 0") < 0.02, browser.value("window.moved")
        fleet.kill("s1")
        within(20, "it to be told", lambda: browser.value("document.title").startswith("("))
        wrong = browser.value("[document.querySelector('main [role=status]').innerText, document.title]")
        assert re.match(r"\d things? (is|are) wrong", wrong[0]) and wrong[1].startswith(f"({wrong[0][0]})") and browser.value(DONE) == done, wrong
        assert "server s1" in browser.value("document.querySelector('.troubles').innerText")
        fleet.kill("coordinator")
        lost = within(20, "the loss to be told", lambda: browser.value("document.getElementById('lost').innerText"))
        assert lost.startswith("No answer from the coordinator since ") and browser.value("document.documentElement.scrollWidth") <= 390, lost


if __name__ == "__main__":
    main([the_page_has_the_figures_of_the_status, a_dead_server_stands_first_until_it_is_back, names_of_strangers_stay_text,
          the_first_page_after_a_pause_is_of_now, every_value_is_that_of_the_status,
          the_reader_finds_what_is_wrong, validators_find_nothing, a_browser_shows_it, what_the_reader_does_outlives_updates])
