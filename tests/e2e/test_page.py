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


class Reader(html.parser.HTMLParser):
    """Reads a page strictly: each element ends where it should, and each is of a kind that the page has. What it shows is in `text`."""

    def __init__(self, page):
        super().__init__()
        self.open, self.text, self.kinds, self.title = [], "", {}, ""
        self.feed(page)
        assert self.open == [], self.open

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)) and not any(n.startswith("on") or n == "style" for n in names), (tag, attrs)
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
        if "style" not in self.open and "script" not in self.open:
            self.text += data + "|" if "main" in self.open else ""
            self.title += data if "title" in self.open else ""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        return answer.read().decode()


def fleet_with_page(space):
    port, fleet = free_port(), Fleet(space, "a")
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000, 1), **LONG)
    fleet.coordinator("--set", f"metrics=127.0.0.1:{port}")
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
        for s in after["servers"]:
            assert f"|{s['shard']} |{s['name']}|ready|" in page.text, page.text
        assert after["cluster"]["id"] in page.text
        assert f"{after['cluster']['tablets']} tablets on 2 shards" in page.text
        # the load of tablets is asked for by the first page, and there for a later one
        within(30, "the load", lambda: re.search(r"\|s0\|ready\|[1-9][\d.]* %", Reader(get(port)).text))
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
        assert page.text.index("server s1") < page.text.index("Job e2e") < page.text.index("Servers"), page.text
        servers = page.text[page.text.index("Servers"):]
        assert re.search(r"\|s1\|not (heard|ready)", servers), servers
        assert servers.index("|s1|not") < servers.index("|s0|ready")
        assert page.title.startswith("(2) ")
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


if __name__ == "__main__":
    main([the_page_has_the_figures_of_the_status, a_dead_server_stands_first_until_it_is_back, names_of_strangers_stay_text,
          the_first_page_after_a_pause_is_of_now])
