"""files.py: what every file keeps: guards, a first line that tells, no unfinished words; engines without a clock; CUDA calls whose status counts."""
import re

RULES = ("guard", "purpose", "unfinished", "includers", "engine", "status")
# The first waits, when an engine closes; the stand-in tells how long a card would have waited.
WAITS = ("embedding/engine/offload.c", "dense/cuda/device_host_queue.c")
CLOCKS = re.compile(r"\b(clock_gettime|time_monotonic_ns|time_wall_ns|socket|pthread_create|usleep|nanosleep)\s*\(")
INCLUDERS = re.compile(r"[Nn]obody (?:else|above)\s+(?:\*\s+)?includes|\b[Ii]ncluded by\b|\bmay include (?:it|this)\b")
# Calls of CUDA that give no status; all others are made inside of these macros (dense/cuda/device_cuda.h), or what they give is kept.
STATUSLESS = ("cudaGetErrorString", "cudaGetErrorName", "cublasLtGetStatusString", "cublasLtGetVersion")
CALL = re.compile(r"\b(cuda[A-Z]\w*|cublas[A-Z]\w*|cub::[\w:]+)\s*\(|<<<")
KEPT = re.compile(r"(\b(CUDA|CUBLAS|CUDA_TELL)\(\s*[\w&>.-]+\s*,|(cudaError_t|cublasStatus_t) \w+ =|\b(status|rc) ==)\s*(lt\.)?$")


def check(tree, breach):
    for source in tree.sources.values():
        check_form(source, breach)
        if source.path.startswith(("embedding/", "dense/")) and source.path not in WAITS:
            for m in CLOCKS.finditer(source.code):
                breach("engine", source.path, source.line(m.start()), "an engine has no clock, socket or thread")
        if source.path.startswith("dense/cuda/"):
            check_status(source, breach)


def check_form(source, breach):
    path, text = source.path, source.text
    if not text.startswith("/*"):
        breach("purpose", path, 1, "the first line says what the file is for")
    if path.endswith(".h") and not path.endswith("_inner.h"):
        guard = re.sub(r"[/.]", "_", path).upper()
        if path == "worker/lib/shoal.h" or path.startswith("tests/worker/lib/abi/shoal-"):  # users have it as <shoal.h>
            guard = "SHOAL_H"
        if f"#ifndef {guard}\n" not in text and "#pragma" not in text and "#ifndef" in text:
            breach("guard", path, 1, f"the include guard is {guard}")
    for m in re.finditer(r"\b(TODO|FIXME|XXX|HACK)\b.*", text):
        breach("unfinished", path, source.line(m.start()), m[0][:80])
    for start, comment in source.comments:
        m = INCLUDERS.search(comment)
        if m:
            breach("includers", path, source.line(start + m.start()), "who includes a file is the room's matter (rooms.py), not a comment's")


def check_status(source, breach):
    bare = source.bare
    for call in CALL.finditer(bare):
        before = bare[:call.start()]
        if call[1] in STATUSLESS or KEPT.search(before) or re.search(r"(&&|=)\s*$", before) and bare[call.end():].startswith(") =="):
            continue
        breach("status", source.path, source.line(call.start()), f"{call[0]}: the status of a CUDA call is looked at: CUDA(s, ..)")
