"""spine.py: the one way of a record: who may read records, and who may change tables, marks, runs and names by them."""

# A function and the only files of the product that call it.
APPLY = "embedding/engine/apply.c"
LOAD = ("embedding/checkpoint/load.c", "embedding/checkpoint/load_build.c")  # a load fills tables without a record
CALLERS = {
    "record_read": ("embedding/journal/cursor.c", "embedding/engine/follow.c"),  # follow: a leader's records
    "record_reseal": ("embedding/journal/cursor.c",),
    "record_to_push": (APPLY, "embedding/engine/follow.c"),
    "table_push": (APPLY, "worker/ring/network.c"),  # network: a worker's own tables, which no server has
    "table_keys": (APPLY,),
    "table_undo_drop": (APPLY, LOAD[1]),  # of a run that begins with rows of another
    "marks_take": (APPLY,),
    "marks_move": (APPLY,),
    "marks_reserve": (APPLY,),
    "marks_set": ("embedding/engine/restore.c", LOAD[1]),  # a cut's marks become the restored run's
    "run_fence": (APPLY,),
    "run_lane_moved": (APPLY,),
    "runs_add": (APPLY, "embedding/store/stored.c", *LOAD),  # stored: of the control state
    "runs_end": (APPLY,),
    "apply_record": ("embedding/engine/control.c", "embedding/engine/recover.c"),
}
RULES = ("spine",)


def check(objects, breach):
    by_path = {one.path: one for one in objects.all}
    for symbol, callers in CALLERS.items():
        inside = {path.rpartition("/")[0] for path in objects.defined.get(symbol, ())}
        for one in objects.all:
            room = one.path.rpartition("/")[0]
            if symbol in one.undefined and one.path not in callers and (room not in inside or symbol.startswith("record_")):
                breach("spine", one.path, 1, f"{symbol} is called by {' and '.join(callers)} alone")
        for path in callers:
            if path in by_path and symbol not in by_path[path].undefined:
                breach("spine", path, 1, f"does not call {symbol}: tests/tidy/spine.py says that it does")
