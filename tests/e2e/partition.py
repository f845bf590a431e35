"""partition: machines that are network namespaces, joined by a router that drops what goes from one to another. Needs root."""
import ctypes
import os
import pathlib
import subprocess

from lib import Skip

CLONE_NEWNET = 0x40000000


def command(*words):
    subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)


def router():
    """Makes this process the router, in a network namespace of its own. It reaches every machine, whatever is cut."""
    if os.geteuid() != 0 or ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise Skip("needs root, to make network namespaces")
    command("ip", "link", "set", "lo", "up")
    pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")


class Machine:
    """A namespace with one address. It is gone with `holder`."""

    def __init__(self, number):
        self.address, near, self.link = f"10.77.{number}.2", f"10.77.{number}.1", f"m{number}"
        # pylint: disable-next=consider-using-with
        self.holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep infinity"], stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.enter = ["nsenter", "-t", str(self.holder.pid), "-n"]
        command("ip", "link", "add", "name", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.holder.pid)
        command("ip", "addr", "add", f"{near}/30", "dev", self.link)
        command("ip", "link", "set", self.link, "up")
        for words in (["addr", "add", f"{self.address}/30", "dev", "eth0"], ["link", "set", "eth0", "up"], ["link", "set", "lo", "up"],
                      ["route", "add", "default", "via", near]):
            command(*self.enter, "ip", *words)

    def close(self):
        command("ip", "link", "del", self.link)
        self.holder.kill()
        self.holder.wait()


def rule(what, source, target):
    command("ip", "rule", what, "from", source.address, "to", target.address, "priority", "100", "blackhole")


def cut(source, target):
    """The router drops without a word what goes from one machine to the other; the way back stays."""
    rule("add", source, target)


def heal(source, target):
    rule("del", source, target)
