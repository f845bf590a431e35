"""browser: a headless Chromium for the tests of pages, by the DevTools protocol over its pipe: messages are JSON that ends with a zero byte.

    with Browser(space) as browser:
        browser.window(390, dark=True)
        browser.open("http://127.0.0.1:9465/")
        assert browser.value("document.title") == "Shoal"
        browser.picture(space / "page.png")"""
import base64
import json
import os
import select
import shutil
import subprocess
import time

from lib import Skip


class Browser:
    def __init__(self, space):
        program = shutil.which("chromium")
        if program is None:
            raise Skip("needs chromium")
        (theirs_in, self.out), (self.into, theirs_out) = os.pipe(), os.pipe()
        # its own files go with the test's; a sandbox needs rights that a container lacks, and the pages are the test's own
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}', program, "--headless", "--no-sandbox", "--remote-debugging-pipe",
             "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage", f"--user-data-dir={space / 'chromium'}", "about:blank"],
            pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(theirs_in)
        os.close(theirs_out)
        self.number, self.rest, self.session, self.events = 0, b"", None, []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for room in ("Page", "Runtime", "Log", "Performance"):
            self.ask(f"{room}.enable")

    def message(self, seconds):
        """Returns the next message; None: there is none for so long."""
        end = time.monotonic() + seconds
        while b"\0" not in self.rest:
            if not select.select([self.into], [], [], max(end - time.monotonic(), 0))[0]:
                return None
            more = os.read(self.into, 1 << 20)
            assert more != b"", "chromium has ended"
            self.rest += more
        one, _, self.rest = self.rest.partition(b"\0")
        return json.loads(one)

    def ask(self, method, **words):
        self.number += 1
        ask = {"id": self.number, "method": method, "params": words}
        if self.session is not None:
            ask["sessionId"] = self.session
        os.write(self.out, json.dumps(ask).encode() + b"\0")
        while True:
            got = self.message(60)
            assert got is not None, f"chromium does not answer {method}"
            if got.get("id") == self.number:
                assert "error" not in got, (method, got)
                return got["result"]
            self.events.append(got)

    def event(self, method, seconds=30):
        """Waits for an event that has not been taken yet."""
        end = time.monotonic() + seconds
        while True:
            for i, got in enumerate(self.events):
                if got.get("method") == method:
                    return self.events.pop(i)["params"]
            got = self.message(max(end - time.monotonic(), 0))
            assert got is not None, f"no {method} in {seconds} s"
            self.events.append(got)

    def window(self, width, height=844, dark=False, scripts=True, media=""):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)

    def open(self, address):
        self.events = []
        self.ask("Page.navigate", url=address)
        self.event("Page.loadEventFired")

    def value(self, expression):
        got = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in got, got
        return got["result"].get("value")

    def said(self):
        """What the page has told the console: errors of scripts, and what its policy refused."""
        self.value("0")
        return [e["params"] for e in self.events if e.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")]

    def picture(self, path):
        """The whole page, however high."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.out)  # it ends with its pipe
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.into)
