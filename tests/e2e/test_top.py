#!/usr/bin/env python3
"""test_top: `shoal top`, in a script and on a screen (a pseudo terminal), beside a job: it shows the figures of the status, tells a dead server, fits
small terminals, follows a changed size, and leaves the terminal as it was. And since when a problem is: status and top say it."""
import fcntl
import os
import pty
import re
import select
import struct
import termios

from fleet import *
from test_sight import begun, goes_on

QUIT = b"q"


class Screen:
    """`shoal top` in a pseudo terminal of some size. What a terminal would show is made by a small reading of what it is sent: xterm's way to place
    the cursor, to clear, and to write."""

    def __init__(self, fleet, rows, columns, *words, env=None):
        self.rows, self.columns = rows, columns
        self.sent = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            env = {**os.environ, "TERM": "xterm", **(env or {})}
            os.execve(SHOAL, [SHOAL, "top", "--coordinator", fleet.endpoint, *words], env)
        self.size(rows, columns)

    def size(self, rows, columns):
        self.rows, self.columns = rows, columns
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.sent += os.read(self.fd, 65536)
                except OSError:  # it has ended
                    return

    def shows(self, pattern, seconds=20 * PATIENCE):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(0.3)
            if re.search(pattern, self.text()):
                return
        raise AssertionError(f"the screen does not show {pattern}:\n{self.text()}")

    def text(self):
        """The rows as they stand, of all that was sent."""
        rows, row, column = [[" "] * 600 for _ in range(200)], 0, 0
        first, last = 0, self.rows - 1  # the part that scrolls
        for token in re.finditer(rb"\x1b\[([?>!]?)([0-9;]*)([A-Za-z@`])|\x1b[()][A-Z0-9]|\x1b([=>78M])|([\x00-\x1f])|([^\x00-\x1f\x1b])", self.sent):
            private, numbers, final, one, control, letter = token.groups()
            n = [int(x) if x else 0 for x in (numbers or b"").split(b";")]
            if letter:
                rows[row][column] = letter.decode("latin-1")
                column += 1
            elif control == b"\r":
                column = 0
            elif control == b"\n" and row == last:
                rows[first:last + 1] = rows[first + 1:last + 1] + [[" "] * 600]
            elif control == b"\n":
                row += 1
            elif one == b"M" and row == first:
                rows[first:last + 1] = [[" "] * 600] + rows[first:last]
            elif control == b"\t":
                column = column // 8 * 8 + 8
            elif control == b"\x08":
                column -= 1
            elif private or not final:
                continue
            elif final == b"r":
                first, last, row, column = max(n[0], 1) - 1, (n[1] if len(n) > 1 else self.rows) - 1, 0, 0
            elif final == b"H":
                row, column = max(n[0], 1) - 1, (n[1] if len(n) > 1 else 1) - 1
            elif final == b"d":
                row = max(n[0], 1) - 1
            elif final == b"G":
                column = max(n[0], 1) - 1
            elif final == b"C":
                column += max(n[0], 1)
            elif final == b"A":
                row -= max(n[0], 1)
            elif final == b"B":
                row += max(n[0], 1)
            elif final == b"Z":
                column = max(column - 1, 0) // 8 * 8
            elif final == b"b":  # the last letter again
                for _ in range(max(n[0], 1)):
                    rows[row][column] = rows[row][column - 1]
                    column += 1
            elif final == b"D":
                column -= max(n[0], 1)
            elif final == b"K" and n[0] == 1:
                rows[row][:column + 1] = [" "] * (column + 1)
            elif final == b"K":
                rows[row][column:] = [" "] * (600 - column)
            elif final == b"J":
                for r in range(row + (column > 0), 200):
                    rows[r] = [" "] * 600
            elif final == b"X":
                rows[row][column:column + n[0]] = [" "] * n[0]
            elif final == b"P":
                rows[row] = rows[row][:column] + rows[row][column + max(n[0], 1):] + [" "] * max(n[0], 1)
        return "\n".join("".join(r).rstrip() for r in rows[:self.rows])

    def keys(self, keys):
        os.write(self.fd, keys)

    def ends(self):
        """Quits it; returns its exit status."""
        self.keys(QUIT)
        self.read(0.5)
        end = time.monotonic() + PATIENCE * 10
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
            self.read(0.1)
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError("q does not quit")


def top(fleet, *words):
    return shoal("top", "--coordinator", fleet.endpoint, *words)


def number(text):
    return int(text.replace(",", ""))


def a_script_gets_lines_and_the_figures_of_the_status(space):
    fleet, _ = begun(space)
    with fleet:
        within(20, "a rate", lambda: (fleet.state().get("rate") or 0) > 0)
        within(20, "nothing to be wrong", lambda: fleet.state().get("problems") == [])
        before = fleet.state()
        got = top(fleet, "-b")
        after = fleet.state()
        assert got.returncode == 0 and got.stderr == "", got
        assert "nothing is wrong" in got.stdout and "\x1b" not in got.stdout
        assert before["examples"] <= number(re.search(r"([\d,]+) examples", got.stdout)[1]) <= after["examples"]
        for s in after["servers"]:
            assert re.search(rf"^ +{s['shard']} {s['name']} +ready +\S", got.stdout, re.M), got.stdout
        assert re.search(r"^w +beats +\S", got.stdout, re.M), got.stdout
        twice = top(fleet, "--batch", "--count", "2").stdout
        assert twice.count("SERVER") == 2, twice
        no = top(fleet)
        assert no.returncode == 64 and "--batch" in no.stderr, no  # no terminal here
        assert top(fleet, "--batch", "--sort", "size").returncode == 64


def a_dead_server_comes_first_and_says_since_when(space):
    fleet, _ = begun(space)
    with fleet:
        fleet.running["s1"].send_signal(signal.SIGSTOP)
        within(20, "the problem", lambda: any("server s1 " in p for p in fleet.state().get("problems", [])))

        def told():
            state = fleet.state()
            seconds = [s for p, s in zip(state.get("problems", []), state.get("problem_seconds", []), strict=True) if p.startswith("server s1 ")]
            return seconds and min(seconds) >= 1.5 and state.get("waiting_seconds", 0) >= 1.5
        within(20, "the seconds since then", told)
        assert re.search(r"problem: server s1 .*\(found for \d+ s\)", fleet.told().stdout)
        lines = top(fleet, "--batch", "--sort", "name").stdout.splitlines()
        assert any(re.match(r"! server s1 .*found for \d+ s", line) for line in lines), lines
        first = lines[next(i for i, line in enumerate(lines) if line.startswith("SERVER")) + 1]
        assert " s1 " in first and "silent" in first, lines
        fleet.running["s1"].send_signal(signal.SIGCONT)
        goes_on(fleet)
        within(20, "no seconds of problems", lambda: fleet.state().get("problem_seconds") == [])


def a_screen_fits_follows_its_size_and_quits(space):
    fleet, _ = begun(space)
    with fleet:
        s = Screen(fleet, 24, 80)
        s.shows(r"job \w+: train")
        s.shows(r"SERVER +state +pull/s")
        assert "q quit" in s.text().splitlines()[23], s.text()
        assert all(len(line) <= 80 for line in s.text().splitlines())
        assert b"\x1b[3" in s.sent  # green: nothing is wrong
        seen = re.search(r"([\d,]+) examples", s.text())[1]
        within(10, "the examples to go on", lambda: (s.read(0.5), number(re.search(r"([\d,]+) examples", s.text())[1]) > number(seen))[1])
        so_far = len(s.sent)
        s.size(12, 40)
        within(20, "all to be drawn anew", lambda: (s.read(0.3), b"\x1b[H\x1b[2J" in s.sent[so_far:])[1])
        s.sent = s.sent[s.sent.rindex(b"\x1b[H\x1b[2J"):]
        s.keys(b"n")
        s.shows(r"SERVER")
        assert all(len(line) <= 40 for line in s.text().splitlines()[:12]), s.text()
        s.keys(b"\x1bOB" * 30)  # down to the end
        s.shows(r"JOB")
        assert s.ends() == 0
        assert b"\x1b[?1049l" in s.sent  # the terminal's own screen is back
        plain = Screen(fleet, 24, 80, env={"NO_COLOR": "1"})
        plain.shows(r"nothing is wrong")
        assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m", plain.sent)
        assert plain.ends() == 0
        unknown = Screen(fleet, 24, 80, env={"TERM": "unheard-of"})
        unknown.shows(r"terminal unheard-of is not known")
        assert os.waitstatus_to_exitcode(os.waitpid(unknown.pid, 0)[1]) == 78


def a_screen_outlives_its_coordinator(space):
    fleet, _ = begun(space)
    with fleet:
        s = Screen(fleet, 30, 100)
        s.shows(r"nothing is wrong")
        fleet.running["coordinator"].send_signal(signal.SIGSTOP)
        s.shows(r"what is below is \d+ s old")
        fleet.running["coordinator"].send_signal(signal.SIGCONT)
        s.shows(r"(?s)^(?!.*what is below)")
        assert s.ends() == 0


if __name__ == "__main__":
    main([a_script_gets_lines_and_the_figures_of_the_status, a_dead_server_comes_first_and_says_since_when, a_screen_fits_follows_its_size_and_quits,
          a_screen_outlives_its_coordinator])
