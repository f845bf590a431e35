"""bare: a bare Debian in a folder and this tree in it, for test-bare, test-systemd, package and test-package."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent.parent
WORDS = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C", "DEBIAN_FRONTEND=noninteractive"]


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def run(*words, check=True, **options):
    return subprocess.run([str(w) for w in words], check=check, **options)


def lacking(tools):
    """Why this cannot run here, or nothing; tools: program -> its package."""
    missing = [package for tool, package in tools.items() if shutil.which(tool) is None]
    return "needs root" if os.geteuid() != 0 else "apt-get install " + " ".join(missing) if missing else ""


def debian(root, suite, *packages):
    """Makes a bare Debian at `root`; what an earlier call made is used again."""
    if (root / "bare").exists():
        return
    say(suite, "debootstrap")
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    run("debootstrap", "--variant=minbase", *[f"--include={','.join(packages)}"] * bool(packages), suite, root, stdout=subprocess.DEVNULL)
    (root / "bare").touch()


def tree_files():
    """What git has of this tree, changes included; of one without git all but what was built or run in it."""
    if (HERE / ".git").exists():
        files = run("git", "-C", HERE, "ls-files", "-z", "--cached", "--others", "--exclude-standard", stdout=subprocess.PIPE).stdout
        return [f for f in files.split(b"\0") if f and (HERE / os.fsdecode(f)).exists()]
    made = [HERE / "runs", HERE / "shoal-bench", *HERE.glob("build*")]
    return [os.fsencode(p.relative_to(HERE)) for p in sorted(HERE.rglob("*"))
            if not p.is_dir() and not any(p.is_relative_to(m) for m in made) and "__pycache__" not in p.parts]


def tree_put(root, at="root/shoal"):
    """Copies this tree to `at` below root."""
    tree = root / at
    tree.mkdir(parents=True, exist_ok=True)
    packed = run("tar", "-C", HERE, "--null", "-T", "-", "-c", input=b"\0".join(tree_files()), stdout=subprocess.PIPE).stdout
    run("tar", "-C", tree, "-x", input=packed)


@contextlib.contextmanager
def layer(root):
    """Gives a folder that shows `root`; what is written in it is thrown away at the end."""
    space = pathlib.Path(tempfile.mkdtemp(prefix="shoal-layer-", dir=root.parent))
    for name in ("disk", "upper", "work"):
        (space / name).mkdir()
    run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={root},upperdir={space}/upper,workdir={space}/work", space / "disk")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)) # it is taken down then, too
    try:
        yield space / "disk"
    finally:
        subprocess.run(["umount", "-l", str(space / "disk")], check=False)
        if not os.path.ismount(space / "disk"):
            shutil.rmtree(space, ignore_errors=True)


def inside(root, line, **options):
    """A line of shell in a bare tree, with /proc and no other mount. Processes and mounts end with it: they are in namespaces of their own, of
    which the outer shell is the first process, and reaps."""
    outer = 'mount -t proc proc "$0/proc" && { chroot "$0" "$@"; exit "$?"; }'
    return run("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", outer, root, *WORDS, "sh", "-ec", line, **options)
