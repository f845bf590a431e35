"""form.py: how lines look: .clang-format, and 100 columns (which hold for comments too, that clang-format leaves alone)."""
import re
import shutil
import subprocess

RULES = ("format", "columns")
COLUMNS = 100
PROCESSES = 2


def missing():
    """Why the format cannot be looked at here; "" where it can."""
    program = shutil.which("clang-format")
    if not program:
        return "no clang-format"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"version (\d+)", said)
    if not version or int(version[1]) != 14:
        return f"clang-format 14 is needed, others format otherwise: {said.strip()}"
    return ""


def check(tree, breach):
    for path, source in tree.sources.items():
        for number, line in enumerate(source.text.split("\n"), 1):
            if len(line) > COLUMNS:
                breach("columns", path, number, f"{len(line)} columns, {COLUMNS} at most")
    if not missing():
        check_format(tree, breach)


def check_format(tree, breach):
    paths = list(tree.sources)
    runs = [subprocess.Popen(["clang-format", "--dry-run", "--style=file", *paths[n::PROCESSES]], cwd=tree.root, stderr=subprocess.PIPE, text=True)
            for n in range(PROCESSES) if paths[n::PROCESSES]]
    lines = {}
    for run in runs:
        for m in re.finditer(r"^(.*?):(\d+):\d+: warning: code should be clang-formatted", run.communicate()[1], re.M):
            lines.setdefault(m[1], []).append(int(m[2]))
        if run.returncode:
            breach("format", ".clang-format", 1, f"clang-format ends with {run.returncode}")
    for path, numbers in sorted(lines.items()):
        breach("format", path, numbers[0], f"clang-format -i {path} ({len(numbers)} places)")
