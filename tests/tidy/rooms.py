"""rooms.py: the rooms of the house and whom each may use: by #include, and by what its objects call.

A room is a folder and a static library. Its row names every room that it may use besides itself, and nothing follows from
another row. The headers at the top of a house (embedding/table.h) are its doors: each is owned by a room inside, and from
outside a house is entered through them alone.
"""
import re

BELOW = "proto/base proto/job"
COORD = f"proto/wire proto/metric {BELOW}"
ROWS = "embedding/rows embedding/rows/optimizer embedding/rows/rules"
ROOMS = {
    "proto/base": "",
    "proto/job": "proto/base",
    "proto/metric": BELOW,
    "proto/meter": "proto/base",
    "proto/http": "proto/meter proto/base",
    "proto/wire": BELOW,
    "proto/net": "proto/base",
    "embedding/rows/optimizer": BELOW,
    "embedding/rows/rules": BELOW,
    "embedding/rows": f"embedding/rows/optimizer embedding/rows/rules {BELOW}",
    "embedding/journal": f"{ROWS} {BELOW}",
    "embedding/store": f"embedding/journal {ROWS} {BELOW}",
    "embedding/engine": f"embedding/store embedding/journal {ROWS} proto/meter {BELOW}",
    "embedding/checkpoint": f"embedding/engine embedding/store embedding/journal {ROWS} {BELOW}",
    "dense": BELOW,
    "dense/layer": f"dense {BELOW}",
    "dense/model": f"dense/layer dense {BELOW}",
    "dense/cpu": "dense proto/base",
    "dense/cuda": "dense proto/base",
    "server/shard": f"embedding/checkpoint embedding/engine embedding/rows proto/wire proto/meter {BELOW}",
    "server/coord/store": "proto/base",
    "server/coord/zookeeper": "server/coord/store proto/base",
    "server/coord/fleet": f"server/coord/store proto/meter {COORD}",
    "server/coord/core": f"server/coord/fleet server/coord/store {COORD}",
    "server/coord/work": f"server/coord/core server/coord/fleet server/coord/store {COORD}",
    "server/coord/figures": f"server/coord/work server/coord/core server/coord/fleet server/coord/store {COORD}",
    "server/coord/keep": f"server/coord/figures server/coord/work server/coord/core server/coord/fleet server/coord/store {COORD}",
    "server/coord/job": f"server/coord/keep server/coord/figures server/coord/work server/coord/core server/coord/fleet server/coord/store {COORD}",
    "server/coord": f"proto/meter server/coord/job server/coord/keep server/coord/figures server/coord/work server/coord/core server/coord/fleet server/coord/store {COORD}",
    "server/coord/page": "proto/base",
    "server": f"server/shard server/coord server/coord/page server/coord/figures server/coord/keep server/coord/fleet server/coord/store proto/wire proto/net proto/http proto/meter {BELOW}",
    "worker/data": f"dense/model dense proto/wire {BELOW}",
    "worker/data/kafka": f"worker/data {BELOW}",
    "worker/ring": f"embedding/rows proto/wire {BELOW}",
    "worker/train": f"worker/ring worker/data dense/model dense proto/wire proto/metric proto/meter {BELOW}",
    "worker/lib": f"worker/train worker/data dense/model dense proto/wire proto/net {BELOW}",
    "worker": f"worker/train worker/data dense/model dense proto/wire proto/metric proto/net proto/http proto/meter {BELOW}",
    "deploy/reference": f"proto/wire proto/meter {BELOW}",
    "deploy/cli": f"dense/model dense worker/train worker/data embedding/checkpoint embedding/engine embedding/rows proto/wire proto/metric proto/net proto/http {BELOW}",
}
OWNERS = {
    "embedding/engine.h": "embedding/engine",
    "embedding/follow.h": "embedding/engine",
    "embedding/store.h": "embedding/store",
    "embedding/table.h": "embedding/rows",
    "embedding/arena.h": "embedding/rows",
    "embedding/census.h": "embedding/rows",
    "embedding/copy.h": "embedding/engine",
    "embedding/move.h": "embedding/engine",
    "embedding/row_json.h": "embedding/rows",
    "embedding/checkpoint.h": "embedding/checkpoint",
    "dense/model.h": "dense/model",
    "dense/backend.h": "dense",
}
HOUSES = ("embedding", "dense")
# Each third-party header has one door: files whose path matches.
DOORS = {
    r"zmq\.h|uv\.h": r"proto/net/",
    r"systemd/.*": r"proto/net/notify\.c|proto/base/log_journald\.c",
    r".*pb-c\.h|protobuf-c/.*": r"proto/wire/",
    r"microhttpd\.h": r"proto/http/http\.c",
    r"rocksdb/c\.h": r"embedding/store/store_rocks\.c|server/coord/store/store_disk\.c",
    r"zookeeper/.*": r"server/coord/zookeeper/",
    r"librdkafka/.*": r"worker/data/kafka/",
    r"cblas.*|openblas.*": r"dense/cpu/",
    r"cuda.*|cublas.*|cub/.*": r"dense/cuda/",
    r"isa-l\.h": r"worker/data/decode_gzip\.c",
    r"zstd\.h": r"worker/data/(decode|pack)\.c",
    r"bzlib\.h|lzma\.h": r"worker/data/decode_xz\.c",
    r"xxhash\.h": r"proto/base/hash\.c",
    r"sodium\.h": r"proto/base/(secret|sign)\.c",
    r"jansson\.h": r"proto/base/json\.c",
    r"ncurses\.h": r"deploy/cli/top_screen\.c",
    r"yaml\.h": r"proto/job/config\.c",
    r"check\.h": r"tests/",
    r"dlfcn\.h": r"(dense/(backend|library)|embedding/store/rocks_crc32c|proto/base/module|server/coord_stand|worker/data/kafka)\.c",
    r"pthread\.h": r"server/server_thread\.[ch]|proto/net/|proto/http/|server/coord/store/store_zookeeper\.c|proto/base/msg\.c|worker/data/(source_stream|groups)\.c|worker/lib/|dense/cuda/device_host_memory\.c",
}
# So has the disk: what makes, syncs, renames and removes is called there alone, so that a test can put a bad disk under it.
DISK = re.compile(r"(?<![\w.>])(?:rename|renameat|link|symlink|unlink|unlinkat|remove|mkdir|rmdir|fsync|fdatasync|opendir|scandir|nftw)\("
                  r"|(?<![\w.>])(?:open\([^;()]*?\bO_CREAT\b|f?truncate\(|mkd?o?stemps?\()")
WRITTEN = re.compile(r'(?<![\w.>])fopen\([^;()]*?,\s*"[wa]')
DISK_DOOR = "proto/base/file.c"
# And other programs: one way to start them, which leaks no descriptor, mask or child.
START = re.compile(r"(?<![\w.>])(?:v?fork|clone3?|f?exec(?:l|lp|le|v|vp|ve|vpe|veat)|posix_spawnp?|popen|system)\(")
START_DOOR = "proto/base/process.c"
RULES = ("arrow", "inside", "door", "disk", "start", "table", "link")


def table_of(tree):
    """The table, and in a planted tree the rows that spoil it (bad/rooms)."""
    table = {room: set(row.split()) for room, row in ROOMS.items()}
    spoilt = tree.root / "rooms"
    for line in spoilt.read_text().split("\n") if spoilt.is_file() else ():
        room, _, row = line.partition(":")
        if row:
            table[room] = set(row.split())
    return table


def room_of(path):
    return OWNERS.get(path, path.rpartition("/")[0])


def check(tree, breach):
    table = table_of(tree)
    check_table(table, breach)
    for source in tree.sources.values():
        disk = () if source.path.startswith("tests/") or source.path == DISK_DOOR else (*DISK.finditer(source.code), *WRITTEN.finditer(source.text))
        for m in disk:
            breach("disk", source.path, source.line(m.start()), f"{m[0].partition('(')[0]}: the disk is changed through proto/base/file.h")
        start = () if source.path.startswith("tests/") or source.path == START_DOOR else START.finditer(source.code)
        for m in start:
            breach("start", source.path, source.line(m.start()), f"{m[0].partition('(')[0]}: programs are started through proto/base/process.h")
        for m in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)', source.text, re.M):
            check_include(tree, table, source, source.line(m.start()), m[1], m[2], breach)


def check_table(table, breach):
    """Rooms are taken off that use none of those left, or that none of those left uses: what stays stands in circles."""
    left, before = dict(table), None
    while left != before:
        before = left
        left = {room: row for room, row in before.items() if row & set(before) and any(room in other for other in before.values())}
    if left:
        breach("table", "tests/tidy/rooms.py", 1, "the table has a circle: " + ", ".join(sorted(left)))


def check_include(tree, table, source, line, quote, name, breach):
    path, room = source.path, room_of(source.path)
    for pattern, door in DOORS.items():
        if re.fullmatch(pattern, name) and not re.match(door, path) and not path.startswith("tests/"):
            breach("door", path, line, f"{name} is included in {door} only")
    if quote == "<" or name.endswith(".pb-c.h"):
        return
    target = room_of(name)
    if "/" not in name or target.split("/")[0] not in ("tests",) + tuple(r.split("/")[0] for r in table):
        breach("arrow", path, line, f'"{name}": write includes from the root')
    elif path.startswith("tests/"):
        return
    elif room not in table:
        breach("arrow", path, line, f"{room} is no room: rooms.py")
    elif target != room and target not in table[room]:
        breach("arrow", path, line, f"{room} must not include {target}: {name}")
    for house in HOUSES:
        if name.startswith(house + "/") and not path.startswith(house + "/") and name not in OWNERS:
            breach("inside", path, line, f"{name} is inside of {house}: enter by a door, {house}/*.h")


def check_objects(tree, objects, breach):
    """Link arrows: what an object leaves undefined and an object of another room defines."""
    table = table_of(tree)
    for one in objects.all:
        room = room_of(one.path)
        for symbol in sorted(one.undefined):
            rooms = {room_of(path) for path in objects.defined.get(symbol, ())}
            if rooms and room not in rooms and not rooms & table.get(room, set()):
                breach("link", one.path, 1, f"{room} must not call {'/'.join(sorted(rooms))}: {symbol}")
