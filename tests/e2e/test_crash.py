#!/usr/bin/env python3
"""test_crash: a daemon that a signal ends leaves a report, and the signal is the status that its supervisor sees."""
import resource

from fleet import *


def daemon(words, log):
    return subprocess.Popen([str(w) for w in words], stdout=log, stderr=log, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))


def crashes(space, words, folder, number, ready):
    """Starts it, kills it by the signal, and returns the newest report and what it said."""
    with open(space / "log", "w+", encoding="utf-8") as log:
        p = daemon(words, log)
        try:
            within(20, f"{words[0]} to serve", lambda: ready in (space / "log").read_text(encoding="utf-8"))
            p.send_signal(number)
            assert p.wait(60) == -number, p.returncode
        finally:
            p.kill()
            p.wait()
    reports = sorted(folder.glob("crash-*.txt"))
    assert reports, list(folder.iterdir())
    return reports, reports[-1].read_text(encoding="utf-8"), (space / "log").read_text(encoding="utf-8")


def a_crash_leaves_a_report(space):
    """Signal, thread, build id, backtrace and the last lines of the log in the folder; without the lines on standard error."""
    server = [BIN / "shoal-server", "--set", f"listen=ipc://{space}/s.sock", "--set", f"data_dir={space / 's'}", "--set", "coordinator="]
    coordinator = [BIN / "shoal-coordinator", "--set", f"listen=ipc://{space}/c.sock", "--set", f"data_dir={space / 'c'}"]
    for words, folder, ready in ((server, space / "s", "1 shards ready"), (coordinator, space / "c", "listens at")):
        _, report, said = crashes(space, words, folder, signal.SIGSEGV, ready)
        name = words[0].name
        first = f"{name} has crashed: signal 11 (SIGSEGV, a wrong address), sent by process {os.getpid()}\n"
        assert report.startswith(first) and first in said, (report, said)
        for part in ("build id: ", "uptime: ", "thread: ", f"{name}(+0x", "the last lines of the log:", ready):
            assert part in report, (part, report)
        assert "build id: unknown" not in report
        assert "report: " in said and "the last lines of the log" not in said, said
    for _ in range(6):
        reports, _, _ = crashes(space, server, space / "s", signal.SIGABRT, "1 shards ready")
    assert len(reports) == 5, reports
    assert f"{BIN / 'shoal-server'}" in reports[0].read_text(encoding="utf-8")


def json_lines(space):
    """Each line of a daemon with --log-format json is an object with the members that the manual names."""
    with open(space / "log", "w", encoding="utf-8") as log:
        p = daemon([BIN / "shoal-server", "--log-format", "json", "--set", f"listen=ipc://{space}/s.sock", "--set", f"data_dir={space / 's'}", "--set", "coordinator=",
                    "--set", "log=info,server=debug"], log)
        within(20, "the server", lambda: "SERVER_READY" in (space / "log").read_text(encoding="utf-8"))
        p.terminate()
        assert p.wait(60) == 0
    lines = [json.loads(line) for line in (space / "log").read_text(encoding="utf-8").splitlines()]
    assert all(set(line) == {"time", "level", "program", "room", "text", "fields"} for line in lines), lines
    ready = [line for line in lines if line["fields"].get("event") == "SERVER_READY"]
    assert len(ready) == 1 and ready[0]["room"] == "server" and ready[0]["fields"]["SHOAL_SERVER"], ready


if __name__ == "__main__":
    main([a_crash_leaves_a_report, json_lines])
