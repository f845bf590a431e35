#!/usr/bin/env python3
"""test_page: the coordinator's status page, over HTTP: its figures are those of the status, a dead server stands first and goes when it is back, names of
strangers stay text, and after a pause of the coordinator the first page is of now."""
import html.parser
import re
import socket
import urllib.error
import urllib.request

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


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        return answer.read().decode()


def fleet_with_page(space, *words):
    port, fleet = free_port(), Fleet(space, "a")
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000, 1), **LONG)
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
        before = fleet.state()
        page = Reader(get(port))
        assert "Nothing is wrong." in page.text and page.title == "e2e – Shoal", page.title
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
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10)
                raise AssertionError(path)
            except urllib.error.HTTPError as e:
                assert e.code == status, (path, e.code)


def a_dead_server_stands_first_until_it_is_back(space):
    fleet, port = fleet_with_page(space)
    with fleet:
        fleet.kill("s1")
        within(15, "the page to tell", lambda: "server s1" in Reader(get(port)).text)  # the lease is 2 s
        page = Reader(get(port))
        assert page.text.index("server s1") < page.text.index("Job |e2e") < page.text.index("Servers"), page.text
        assert [s["state"].split()[0] for s in page.table("shard")] == ["not", "ready"] and page.table("shard")[0]["shard"].endswith(" s1"), page.text
        assert page.title.startswith("(2) ") and "2 things are wrong" in page.text
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
                "lanes": ", ".join(str(lane["lane"]) for lane in status["lanes"] if lane["worker"] == w["worker"]) or "none",
                "computes on": f"{w['backend']} {w['device']}"} for w in status["workers"]]
    tiles = {"Epoch": f"{status['epoch']:,} of {status['epochs']:,}", "Logloss": f"{status['loss']:.4f}" if status["loss"] is not None else "-",
             "AUC": f"{status['train_auc']:.4f}", "Calibration": f"{status['train_calibration']:.4f}", "Staleness": short(status["staleness"]["p50"])}
    return servers, workers, tiles


def tile_of(page, name):
    found = re.search(rf"\|{name}\|([^|]*)\|( of [^|]*)?", page.text)
    return found and found[1] + (found[2] or "")


def every_value_is_that_of_the_status(space):
    """While a job stands, because its worker is stopped, nothing moves: the page is compared value by value with a status from before and after it."""
    fleet, port = fleet_with_page(space, "--set", "lease=20s")  # so long a stopped worker is waited for
    with fleet:
        within(60, "an AUC", lambda: fleet.state().get("train_auc") and fleet.state()["workers"][0]["rate"])
        fleet.running["w"].send_signal(signal.SIGSTOP)
        differ = ["nothing has been compared"]

        def equal():
            before, page, after = fleet.state(), Reader(get(port)), fleet.state()
            servers, workers, tiles = expected(after)
            if expected(before) != expected(after):
                return False
            assert len(servers) == 2 and len(workers) == 1 and len(tiles) == 5, after
            want = [*servers, *workers, tiles]
            rows = [*page.table("shard"), *page.table("worker"), {k: tile_of(page, k) for k in tiles}]
            differ[:] = [(k, row[k], w[k]) for row, w in zip(rows, want) for k in w if row[k] != w[k]]
            return len(rows) == len(want) and differ == []
        try:
            within(15, "page and status to be equal", equal)
        except AssertionError as e:
            raise AssertionError(f"{e}: {differ}") from None
        fleet.running["w"].send_signal(signal.SIGCONT)


if __name__ == "__main__":
    main([the_page_has_the_figures_of_the_status, a_dead_server_stands_first_until_it_is_back, names_of_strangers_stay_text,
          the_first_page_after_a_pause_is_of_now, every_value_is_that_of_the_status])
