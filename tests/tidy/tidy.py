#!/usr/bin/env python3
"""tidy: holds the sources against the house's rules: include arrows, doors of third-party headers, guards, names, unfinished words.

    tidy.py ROOT            exit 0 when ROOT keeps every rule, 1 with a line for each breach
    tidy.py --control DIR   exit 0 only when DIR breaks every rule at least once (the negative control)
"""
import pathlib
import re
import sys

FOLDERS = ("proto", "embedding", "dense", "server", "worker", "deploy", "tests")
# Whom a folder may include, itself aside. proto's parts: base <- wire, base <- net.
MAY = {
    "proto/base": {"proto/base"},
    "proto/wire": {"proto/base", "proto/wire"},
    "proto/net": {"proto/base", "proto/net"},
    "embedding": {"embedding", "proto/base"},
    "dense": {"dense", "proto/base"},
    "server": {"server", "embedding", "proto/base", "proto/wire", "proto/net"},
    "worker": {"worker", "dense", "proto/base", "proto/wire", "proto/net"},
    "deploy": {"deploy", "embedding", "proto/base", "proto/wire", "proto/net"},
}
# Each third-party header has one door: files whose path matches.
DOORS = {
    r"zmq\.h|uv\.h": r"proto/net/",
    r"systemd/.*": r"proto/net/notify\.c",
    r".*pb-c\.h|protobuf-c/.*": r"proto/wire/",
    r"rocksdb/c\.h": r"embedding/store_rocks\.c",
    r"cblas.*|openblas.*": r"dense/cpu/",
    r"cuda.*|cublas.*|cub/.*": r"dense/cuda/",
    r"zlib\.h|zstd\.h": r"worker/source\.c",
    r"xxhash\.h": r"proto/base/hash\.c",
    r"jansson\.h": r"proto/base/json\.c",
    r"yaml\.h": r"proto/base/config\.c",
    r"check\.h": r"tests/",
    r"dlfcn\.h": r"(dense/(backend|library)|embedding/crc32c)\.c",
    r"pthread\.h": r"server/server_main\.c|proto/net/|proto/base/msg\.c|worker/source\.c|dense/cuda/device_host_memory\.c",
}
RULES = ("arrow", "door", "guard", "purpose", "unfinished", "engine", "status")
# Calls of CUDA that give no status; all others are made inside of these macros (dense/cuda/device_cuda.h), or what they give is kept.
STATUSLESS = ("cudaGetErrorString", "cudaGetErrorName", "cublasLtGetStatusString", "cublasLtGetVersion")
KEPT = re.compile(r"(\b(CUDA|CUBLAS|CUDA_TELL)\(\s*[\w&>.-]+\s*,|cudaError_t status =|cublasStatus_t status =|status ==)\s*(lt\.)?$")


def part_of(path):
    bits = path.split("/")
    return "/".join(bits[:2]) if bits[0] == "proto" else bits[0]


def check_includes(path, text, breach):
    part = part_of(path)
    for number, line in enumerate(text.split("\n"), 1):
        found = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if not found:
            continue
        quote, name = found.groups()
        for pattern, door in DOORS.items():
            if re.fullmatch(pattern, name) and not re.match(door, path) and part != "tests":
                breach("door", path, number, f"{name} is included in {door} only")
        if quote == '"' and not name.endswith(".pb-c.h"):
            target = part_of(name)
            if "/" not in name or target.split("/")[0] not in FOLDERS:
                breach("arrow", path, number, f'"{name}": write includes from the root')
            elif part in MAY and target not in MAY[part]:
                breach("arrow", path, number, f"{part} must not include {target}")


def check_file(path, text, breach):
    if not re.match(r"/\*", text):
        breach("purpose", path, 1, "the first line says what the file is for")
    if path.endswith(".h") and not path.endswith("_inner.h"):
        guard = re.sub(r"[/.]", "_", path).upper()
        if f"#ifndef {guard}\n" not in text and "#pragma" not in text and "#ifndef" in text:
            breach("guard", path, 1, f"the include guard is {guard}")
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line):
            breach("unfinished", path, number, line.strip()[:80])
    if part_of(path) in ("embedding", "dense") and not path.endswith("/work.c"):  # it waits, when an engine closes
        for number, line in enumerate(text.split("\n"), 1):
            if re.search(r"\b(clock_gettime|time_monotonic_ns|time_wall_ns|socket|pthread_create|usleep|nanosleep)\s*\(", line):
                breach("engine", path, number, "an engine has no clock, socket or thread")


def check_status(path, text, breach):
    if not path.startswith("dense/cuda/"):
        return
    bare = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)
    for call in re.finditer(r"\b(cuda[A-Z]\w*|cublas[A-Z]\w*|cub::[\w:]+)\s*\(|<<<", bare):
        before = bare[:call.start()]
        if call[1] in STATUSLESS or KEPT.search(before) or re.search(r"(&&|=)\s*$", before) and bare[call.end():].startswith(") =="):
            continue
        breach("status", path, before.count("\n") + 1, f"{call[0]}: the status of a CUDA call is looked at: CUDA(s, ..)")


def run(root):
    found = []

    def breach(rule, path, number, text):
        found.append((rule, f"{path}:{number}: {rule}: {text}"))

    files = [p for f in FOLDERS for kind in ("*.[ch]", "*.cu") for p in sorted((root / f).rglob(kind))]
    for file in files:
        path = file.relative_to(root).as_posix()
        if path.startswith("tests/tidy/bad/"):
            continue
        text = file.read_text(encoding="utf-8")
        check_includes(path, text, breach)
        check_file(path, text, breach)
        check_status(path, text, breach)
    return files, found


def main():
    control = sys.argv[1] == "--control"
    root = pathlib.Path(sys.argv[2 if control else 1]).resolve()
    files, found = run(root)
    if not files:
        print(f"tidy: no sources under {root}")
        return 1
    if control:
        missing = [r for r in RULES if r not in {rule for rule, _ in found}]
        print(f"tidy control: {len(found)} breaches found" + (f"; never seen: {', '.join(missing)}" if missing else ""))
        return 1 if missing else 0
    for _, text in found:
        print(text)
    print(f"tidy: {len(files)} files, {len(found)} breaches")
    return 1 if found else 0


sys.exit(main())
