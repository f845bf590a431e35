#!/usr/bin/env python3
"""test_package: the package shoal against a libshoal in memory (fake_shoal.c): structs, arrays, errors, signals, modules.

/usr/bin/python3 has Debian's numpy and torch. Without numpy all is skipped (77), without torch or a compiler what needs them."""
import ctypes
import gc
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGE = pathlib.Path(os.environ.get("SHOAL_PACKAGE", ROOT / "worker/python"))  # tests/plants/run tries others
sys.path.insert(0, str(PACKAGE))
try:
    import numpy as np
except ImportError:
    print("skip: needs python3-numpy")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None
import shoal
from shoal import library

if torch is not None:
    import shoal.torch
    torch.manual_seed(1)
    torch.set_num_threads(1)
SCRATCH = tempfile.TemporaryDirectory()
NAMES = {library.ErrorText: "shoal_error", library.FleetOptions: "shoal_fleet_options", library.TableInfo: "shoal_table",
         library.AssignedCounts: "shoal_assigned", library.TensorInfo: "shoal_tensor", library.BatchTable: "shoal_batch_table", library.BatchTensor: "shoal_batch_tensor",
         library.BatchField: "shoal_batch_field", library.BatchInfo: "shoal_batch", library.WorkOptions: "shoal_work_options",
         library.ProgressCounts: "shoal_progress", library.ReadOptions: "shoal_read_options"}


def compiled(name, source, *words):
    path = pathlib.Path(SCRATCH.name) / name
    subprocess.run(["cc", "-std=gnu11", "-O1", f"-I{ROOT}", "-o", path, *words, source], check=True)
    return path


class Layout(unittest.TestCase):
    def test_structs_are_those_of_the_header(self):
        lines = []
        for kind, name in NAMES.items():
            lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
            lines += [f'printf("{name}.{member[0]} %zu\\n", offsetof(struct {name}, {member[0]}));' for member in kind._fields_]
        source = pathlib.Path(SCRATCH.name) / "layout.c"
        source.write_text("#include <stdio.h>\n#include \"worker/lib/shoal.h\"\nint main(void)\n{\n" + "\n".join(lines) + "\n}\n", encoding="utf-8")
        told = dict(line.split() for line in subprocess.run([compiled("layout", source)], capture_output=True, text=True, check=True).stdout.splitlines())
        for kind, name in NAMES.items():
            self.assertEqual(ctypes.sizeof(kind), int(told[name]), name)
            for member in kind._fields_:
                self.assertEqual(getattr(kind, member[0]).offset, int(told[f"{name}.{member[0]}"]), f"{name}.{member[0]}")

    def test_every_struct_and_code_of_the_header_is_here(self):
        header = (ROOT / "worker/lib/shoal.h").read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r"^struct (\w+) \{", header, re.M)), set(NAMES.values()))
        codes = {int(n) for n in re.findall(r"SHOAL_ERROR_\w+ = (\d+)", header)}
        self.assertEqual(codes, set(shoal.errors.OF_CODE))
        functions = set(re.findall(r"SHOAL_API[^;]*?(shoal_\w+)\(", header)) - {"shoal_code_text"}
        self.assertEqual(functions, set(library.FUNCTIONS))

    def test_versions_are_one(self):
        version = re.search(r"project\(shoal VERSION (\S+) ", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
        self.assertIn(f'version = "{version}"', (ROOT / "worker/python/pyproject.toml").read_text(encoding="utf-8"))


class Hints(unittest.TestCase):
    def test_what_is_public_says_its_types(self):
        kinds = [shoal.Fleet, shoal.Table, shoal.Work, shoal.Reader, shoal.batch.Batch, shoal.read.ReadBatch]
        if torch is not None:
            kinds += [shoal.torch.EmbeddingBag, shoal.torch.Embedding, shoal.torch.Servers]
        calls = [shoal.join, shoal.version]
        for kind in kinds:
            members = [m for name, m in vars(kind).items() if not name.startswith("_")]
            calls += [getattr(m, "fget", None) or m for m in members if callable(m) or isinstance(m, property)]
        lacking = [call.__qualname__ for call in calls if "return" not in call.__annotations__]
        self.assertEqual(lacking, [])
        self.assertTrue((PACKAGE / "shoal/py.typed").exists())


class Missing(unittest.TestCase):
    """What is not installed is named with the way to get it."""

    def told(self, script, **environment):
        got = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(PACKAGE), **environment})
        self.assertEqual(got.returncode, 1)
        return got.stderr.splitlines()[-1]

    def test_numpy(self):
        self.assertIn("apt-get install python3-numpy", self.told("import sys; sys.modules['numpy'] = None; import shoal"))

    def test_torch(self):
        self.assertIn("apt-get install python3-torch", self.told("import sys; sys.modules['torch'] = None; import shoal; import shoal.torch"))

    def test_the_library(self):
        script = "import shoal; shoal.library.NAME = 'libshoal.so.none'; shoal.Fleet('one')"
        self.assertRegex(self.told(script), "ImportError: libshoal.so.none cannot be loaded .* install the package libshoal1")

    def test_a_function_of_a_later_library(self):
        script = "import shoal; shoal.library.FUNCTIONS['shoal_later'] = (None, []); shoal.library.function('shoal_later')"
        self.assertRegex(self.told(script), "has no function shoal_later: it is of another version")


class Tables(unittest.TestCase):
    def setUp(self):
        self.fleet = shoal.Fleet("one")
        self.addCleanup(self.fleet.close)

    def test_a_table_says_what_it_is(self):
        table = self.fleet["emb"]
        self.assertEqual((table.width, table.first, table.dim, table.optimizer, table.values), (3, 1, 2, "sgd", "bf16"))
        self.assertEqual(list(self.fleet.tables), ["emb", "wide"])
        self.assertEqual(table.key("user", "7"), (ord("u") << 48) + ord("7"))

    def test_fetch_fills_the_array_in_place(self):
        out = np.full((3, 3), np.nan, np.float32)
        got = self.fleet["emb"].fetch(np.array([1, 99, 2], np.uint64), out=out)
        self.assertIs(got, out)
        self.assertTrue((out[1] == 0).all() and out[0].any())

    def test_fetch_gives_state_and_found_where_asked(self):
        rows, state, found = self.fleet["wide"].fetch([1, 99] + np.zeros(2, np.int64), state=True, found=True)
        self.assertEqual((rows.shape, state.shape, found.tolist()), ((2, 4), (2, 2), [True, False]))

    def test_keys_of_int64_are_the_same_bits(self):
        self.assertTrue((self.fleet["emb"].fetch(np.array([-1, 3])) == self.fleet["emb"].fetch(np.array([2**64 - 1, 3], np.uint64))).all())

    def test_assigned_rows_are_fetched(self):
        keys, rows = np.arange(4, dtype=np.uint64), np.arange(12.0).reshape(4, 3)
        self.assertEqual(self.fleet["emb"].assign(keys, rows), (0, 4, 0, 0))
        self.assertTrue((self.fleet["emb"].fetch(keys) == rows).all())
        self.assertEqual(self.fleet["emb"].assign(keys, rows * 0, keep=True).kept, 4)
        self.assertTrue((self.fleet["emb"].fetch(keys) == rows).all())

    def test_wrong_arrays_are_refused_before_the_library(self):
        table = self.fleet["emb"]
        for wrong in (np.zeros(2, np.float32), np.zeros((2, 2), np.uint64), np.zeros(2, np.int32)):
            self.assertRaises(shoal.UsageError, table.fetch, wrong)
        keys = np.arange(2, dtype=np.uint64)
        for out in (np.zeros((2, 4), np.float32), np.zeros((2, 3)), np.zeros((3, 2), np.float32).T):
            self.assertRaises(shoal.UsageError, table.fetch, keys, out=out)
        self.assertRaises(shoal.UsageError, table.assign, keys, np.zeros((3, 3)))

    def test_tensors(self):
        self.assertEqual(self.fleet.tensors, {"deep.weight": (1, 6)})
        values = self.fleet.read_tensor("deep.weight")
        self.fleet.write_tensor("deep.weight", values + 1)
        self.assertTrue((self.fleet.read_tensor("deep.weight") == values + 1).all())
        self.fleet.write_tensor("deep.weight", values)
        self.assertRaises(shoal.NotFound, self.fleet.read_tensor, "other")

    def test_errors_have_code_sentence_and_class(self):
        with self.assertRaises(shoal.NotFound) as caught:
            self.fleet["none"]
        self.assertEqual((caught.exception.code, str(caught.exception)), (3, "there is no such table: there are emb, wide"))
        with self.assertRaises(PermissionError) as caught:
            self.fleet["emb"].assign(np.array([99], np.uint64), np.zeros((1, 3)))
        self.assertIsInstance(caught.exception, shoal.Denied)
        self.assertRaises(ConnectionError, shoal.Fleet, "elsewhere")
        self.assertEqual(shoal.errors.make(77, "later").code, 77)


    def test_a_closed_fleet_is_told(self):
        table = self.fleet["emb"]
        self.fleet.close()
        for call in (lambda: table.fetch(np.arange(2)), lambda: self.fleet["emb"], lambda: self.fleet.tensors, lambda: table.key("user", "7")):
            self.assertRaisesRegex(shoal.UsageError, "was closed", call)
        self.fleet.close()

    def test_an_array_that_may_not_be_written_is_refused(self):
        out = np.zeros((1, 3), np.float32)
        out.flags.writeable = False
        self.assertRaisesRegex(shoal.UsageError, "may not be written", self.fleet["emb"].fetch, np.array([1]), out=out)

    def test_threads_take_turns(self):
        """A fleet that another thread uses waits for it: the lock is held during a call."""
        self.fleet._lock.acquire()
        thread = threading.Thread(target=self.fleet.read_tensor, args=("deep.weight",))
        thread.start()
        thread.join(0.2)
        self.assertTrue(thread.is_alive())
        self.fleet._lock.release()
        thread.join(10)
        self.assertFalse(thread.is_alive())


def of_a_child(work):
    """Runs a function in a forked process; its exit status: 0, or 1 where it raised."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Processes(unittest.TestCase):
    """The library ends a process (FORKED) that uses a handle of its parent's."""

    def test_a_forked_child_connects_anew(self):
        with shoal.Fleet("one") as fleet:
            table = fleet["emb"]

            def work():
                assert (table.fetch(np.array([1, 2])) == rows).all() and fleet.tensors
                fleet.close()

            rows = table.fetch(np.array([1, 2]))
            self.assertEqual(of_a_child(work), 0)
            self.assertTrue((table.fetch(np.array([1, 2])) == rows).all())

    def test_a_table_that_the_child_does_not_find_is_not_another_one(self):
        with shoal.Fleet("one") as fleet:
            gone = fleet.tables["gone"] = pickle.loads(pickle.dumps(fleet["emb"]))
            gone.name, gone.fleet = "gone", fleet

            def work():
                try:
                    gone.fetch(np.array([1]))
                except shoal.UsageError:
                    return
                raise AssertionError("it read another table's rows")

            self.assertEqual(of_a_child(work), 0)

    def test_a_worker_stays_with_its_process(self):
        def wrong():
            with work:
                for call in (work.next, lambda: work.progress, lambda: batch.done(np.zeros(5))):
                    try:
                        call()
                    except shoal.UsageError as error:
                        assert "forked" in str(error), error
                    else:
                        raise AssertionError("it worked")

        with shoal.join("one") as work:
            batch = work.next()
            self.assertEqual(of_a_child(wrong), 0)
            batch.done(np.zeros(5))

    def test_fleets_and_tables_are_pickled_by_their_names(self):
        with shoal.Fleet("one") as fleet:
            other = pickle.loads(pickle.dumps(fleet["emb"]))
            self.assertIsNot(other.fleet, fleet)
            self.assertTrue((other.fetch(np.array([3])) == fleet["emb"].fetch(np.array([3]))).all())


class Loop(unittest.TestCase):
    def test_all_batches_come_once_and_are_acknowledged(self):
        with shoal.join("one") as work:
            kinds = []
            for batch in work:
                kinds.append(batch.train)
                self.assertEqual(batch.rows if hasattr(batch, "rows") else batch.table("emb").rows.shape[1], 3)
                batch.done(np.full(batch.examples, 0.5))
            self.assertEqual(kinds, [True, True, False] * 2)
            self.assertEqual(work.progress[:3], (4, 20, 4))
            self.assertEqual(work.job, "job: fake\n")

    def test_arrays_are_the_librarys_memory(self):
        with shoal.join("one") as work:
            batch = work.next()
            for values in (batch.index, batch.numeric, batch.table("emb").rows):
                self.assertFalse(values.flags.owndata or values.flags.writeable)
            self.assertTrue(batch.table("emb").gradients.flags.writeable)
            self.assertIsNone(batch.weight)
            batch.done(np.zeros(5))

    def test_a_batch_that_is_not_given_back_is_told(self):
        with shoal.join("one") as work, self.assertRaisesRegex(shoal.UsageError, "batch 1 of lane 0 was not given back"):
            for _ in work:
                pass

    def test_a_batch_is_given_back_once(self):
        with shoal.join("one") as work:
            batch = work.next()
            batch.done(np.zeros(5))
            self.assertRaisesRegex(shoal.UsageError, "given back before", batch.done, np.zeros(5))

    def test_arrays_of_a_batch_that_was_given_back_are_told(self):
        with shoal.join("one") as work:
            batch = work.next()
            table, tensor = batch.tables[0], batch.tensors["deep.weight"]
            batch.done(np.zeros(5))
            for use in (lambda: batch.label, lambda: batch.bags, lambda: table.rows, lambda: tensor.values):
                self.assertRaisesRegex(shoal.UsageError, "given back", use)
            self.assertRaises(AttributeError, lambda: batch.lable)
            self.assertEqual((batch.number, table.name, tensor.name), (1, "emb", "deep.weight"))

    def test_a_loop_that_was_left_gives_its_batch_to_the_next_loop(self):
        """As Ctrl-C in a notebook, where the cell is run again: without `with`."""
        work = shoal.join("one")
        try:
            for batch in work:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            pass
        numbers = []
        for again in work:
            numbers.append(again.number)
            again.done(np.zeros(5))
        self.assertFalse(batch.out)
        self.assertEqual((numbers, work.progress.keys_pushed), ([1, 2, 3, 4, 5, 6], 1))
        work.close()

    def test_an_exception_gives_the_batch_back(self):
        with self.assertRaises(ZeroDivisionError), shoal.join("one") as work:
            for batch in work:
                batch.number / 0
        self.assertFalse(batch.out)

    def test_a_batch_that_a_signal_took_from_next_comes_again(self):
        with shoal.join("one") as work:
            with unittest.mock.patch("shoal.work.Batch", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
                work.next()
            batch = work.next()
            self.assertEqual(batch.number, 1)
            batch.done(np.zeros(5))

    def test_a_failed_batch_comes_again(self):
        with shoal.join("one") as work:
            work.next().fail("the card is gone")
            self.assertEqual(work.next().number, 1)

    def test_scores_of_another_shape_are_refused_and_the_batch_stays_out(self):
        with shoal.join("one") as work:
            batch = work.next()
            self.assertRaises(shoal.UsageError, batch.done, np.zeros(4))
            self.assertTrue(batch.out)
            batch.done(np.zeros((5, 1)))

    def test_a_score_that_is_not_finite_is_told(self):
        with shoal.join("one") as work:
            self.assertRaises(shoal.NotFinite, work.next().done, np.full(5, np.nan))

    def test_numbers_out_of_bounds_are_refused(self):
        """The library would take -1 for four billion."""
        for words in ({"lanes": -1}, {"cores": -1}, {"cores": 1 << 32}, {"lanes": 1.5}, {"wait": -1}, {"wait": 4294968}):
            self.assertRaises(shoal.UsageError, shoal.join, "one", **words)
        with shoal.join("one") as work:
            self.assertRaises(shoal.UsageError, work.next, wait=-1)
        self.assertRaises(shoal.UsageError, shoal.Fleet, "one", wait=-1)
        self.assertRaises(shoal.UsageError, next, iter(shoal.Reader("one", epoch=-1)))

    def test_the_end_waits_for_batches_of_other_threads(self):
        """An exception in one thread's `with`, while another one computes over its batch, and a third one waits for one."""
        events, taken = [], threading.Event()

        def compute(work):
            batch = work.next()
            taken.set()
            time.sleep(0.5)
            batch.done(batch.tables[0].rows[:1, 0].repeat(5))
            events.append("given back")
            self.assertRaises(shoal.Stopped, work.next)

        with self.assertRaises(ZeroDivisionError), shoal.join("one") as work:
            thread = threading.Thread(target=compute, args=(work,))
            thread.start()
            taken.wait()
            end = work.close
            work.close = lambda: (end(), events.append("closed"))
            1 / 0
        thread.join()
        self.assertEqual(events, ["given back", "closed"])

    def test_the_end_does_not_wait_for_a_dead_thread(self):
        with shoal.join("one") as work:
            thread = threading.Thread(target=work.next)
            thread.start()
            thread.join()

    def test_waiting_has_an_end(self):
        with shoal.join("idle") as work:
            self.assertRaises(TimeoutError, work.next, wait=0.25)

    def test_a_closed_worker_has_no_batches(self):
        with shoal.join("one") as work:
            batch = work.next()
        self.assertRaises(shoal.Stopped, work.next)
        self.assertRaisesRegex(shoal.UsageError, "the end of its worker", batch.done)
        work.close()

    def test_no_fleet_is_an_exception(self):
        self.assertRaises(shoal.Unreachable, shoal.join, "elsewhere")

    def test_another_job_is_left(self):
        self.assertEqual(shoal.join("one", job="fake").name, "fake")
        self.assertRaisesRegex(shoal.ConfigError, "gave this worker job fake, and it is for job other", shoal.join, "one", job="other")

    def test_memory_does_not_grow_with_batches(self):
        def batches(count):
            for _ in range(count):
                for batch in shoal.Reader("one"):
                    batch.done()

        batches(20)
        gc.collect()
        before = len(gc.get_objects())
        batches(50)
        gc.collect()
        self.assertLess(len(gc.get_objects()) - before, 50)


class Signals(unittest.TestCase):
    SCRIPT = "import shoal, sys\nwith shoal.join('idle') as work:\n    print('works', flush=True)\n    for batch in work:\n        pass\n"

    def begun(self, script):
        environment = {**os.environ, "FAKE_SAYS": "1", "PYTHONPATH": str(PACKAGE)}
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, env=environment)
        self.assertEqual(process.stdout.readline(), b"works\n")
        return process

    def end_of(self, process):
        """What it said since, and told on stderr."""
        said, told = process.communicate(timeout=20)
        return said.decode(), told.decode()

    def ended_by(self, number, script=SCRIPT, wanted="closed\n"):
        process = self.begun(script)
        begin = time.monotonic()
        time.sleep(0.1)
        process.send_signal(number)
        said, told = self.end_of(process)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(said, wanted)
        return process.returncode, told

    def test_ctrl_c_ends_the_wait_for_a_job(self):
        status, told = self.ended_by(signal.SIGINT, "import shoal; print('works', flush=True); shoal.join('nothing')", "gave up\n")
        self.assertIn("KeyboardInterrupt", told)
        self.assertNotEqual(status, 0)

    def test_a_second_ctrl_c_leaves_a_worker_that_does_not_end(self):
        process = self.begun(self.SCRIPT.replace("idle", "stuck"))
        for _ in range(2):
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", self.end_of(process)[1])

    def test_the_end_of_a_program_closes_its_worker(self):
        process = self.begun("import shoal; work = shoal.join('one'); work.next(); print('works', flush=True)")
        self.assertEqual(self.end_of(process)[0], "closed\n")

    def test_sigterm_gives_the_lanes_back(self):
        self.assertEqual(self.ended_by(signal.SIGTERM), (143, ""))

    def test_ctrl_c_gives_the_lanes_back(self):
        status, told = self.ended_by(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", told)
        self.assertNotEqual(status, 0)


    def test_the_end_of_a_child_closes_nothing(self):
        process = self.begun("import os, shoal; work, fleet = shoal.join('one'), shoal.Fleet('one'); print('works', flush=True)\n"
                             "if child := os.fork():\n    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)")
        self.assertEqual(self.end_of(process)[0], "0\nclosed\n")


class Reading(unittest.TestCase):
    def test_a_reader_gives_batches_without_rows(self):
        batches = [(b.train, b.table("emb").rows, b.scores) for b in shoal.Reader("one")]
        self.assertEqual(batches, [(True, None, None)] * 6)

    def test_arrays_of_the_last_batch_stay(self):
        reader = shoal.Reader("one")
        for batch in reader:
            pass
        del reader
        gc.collect()
        self.assertEqual(batch.label.shape, (5, 1))

    def test_arrays_that_are_kept_keep_their_numbers(self):
        for source in (shoal.Reader("many"), shoal.join("many")):
            with source:
                seen = []
                for batch in source:
                    seen.append((batch.label, batch.label.copy()) + ((batch.index, batch.index.copy()) if batch.scores is None else ()))
                    batch.done(np.zeros(5))
                for one in seen:
                    for kept, then in zip(one[::2], one[1::2]):
                        np.testing.assert_array_equal(kept, then)

    def test_a_whole_job_has_an_evaluation_behind_each_epoch(self):
        kinds = [(b.epoch, b.train) for b in shoal.Reader("one", epochs=2)]
        self.assertEqual(kinds, [(1, True)] * 6 + [(1, False)] * 6 + [(2, True)] * 6 + [(2, False)] * 6)

    def test_a_whole_job_without_validation_is_read_without(self):
        self.assertEqual([b.train for b in shoal.Reader("one-novalid", epochs=2)], [True] * 12)
        self.assertRaisesRegex(shoal.NotFound, "names no input", next, iter(shoal.Reader("one-novalid", "valid")))
        self.assertRaisesRegex(shoal.NotFound, "no such file", list, shoal.Reader("nothing", epochs=2))

    def test_ids_number_the_keys(self):
        of_key = {}
        for batch in shoal.Reader("many", epochs=1):
            keys = np.concatenate([t.keys for t in batch.tables])[batch.index]
            for key, number in zip(keys.tolist(), batch.ids.tolist()):
                self.assertEqual(of_key.setdefault(key, number), number)
        self.assertEqual(sorted(of_key.values()), list(range(len(of_key))))

    def test_no_job_file(self):
        self.assertRaisesRegex(shoal.NotFound, "no such file", next, iter(shoal.Reader("nothing")))


def slow_bags(batch, columns, mode):
    """The sums by plain loops: what EmbeddingBag must give."""
    fields, sums = len(batch.fields), []
    for i in range(batch.examples):
        for f in columns:
            bag = i * fields + f
            values = range(bag, bag + 1) if batch.offset is None else range(batch.offset[bag], batch.offset[bag + 1])
            table = batch.tables[batch.fields[f].table]
            rows = [table.rows[batch.index[v] - table.base] * (batch.factor[v] if mode is None and batch.factor is not None else 1) for v in values]
            averaged = mode == "mean" or (mode is None and batch.factor is None and batch.fields[f].pooling == "mean")
            total = np.sum(rows, axis=0) if rows else np.zeros(table.width)
            sums.append(total / max(1, len(rows)) if averaged else total)
    return np.array(sums).reshape(batch.examples, len(columns), -1)


@unittest.skipIf(torch is None, "needs python3-torch")
class Modules(unittest.TestCase):
    def test_sums_are_those_of_plain_loops(self):
        for fleet in ("one", "many", "mean"):
            with shoal.join(fleet) as work:
                for batch in work:
                    for mode in (None, "sum", "mean"):
                        for fields, columns in ((None, [0, 1]), (["f1"], [1]), (["f1", "f0"], [1, 0])):
                            got = shoal.torch.EmbeddingBag("emb", fields, mode)(batch).detach().numpy()
                            np.testing.assert_allclose(got, slow_bags(batch, columns, mode), rtol=1e-5, atol=1e-6)
                    np.testing.assert_allclose(shoal.torch.EmbeddingBag("wide")(batch).detach().numpy(), slow_bags(batch, [2], None), rtol=1e-5, atol=1e-6)
                    batch.done(np.zeros(5))

    def test_backward_writes_the_gradients_of_unique_rows(self):
        """By differences: the gradient of a loss of two modules that share a table."""
        with shoal.join("many") as work:
            batch, bag, one = work.next(), shoal.torch.EmbeddingBag("emb"), shoal.torch.EmbeddingBag("emb", ["f0"], "mean")

            def loss():
                batch.leaves.clear()
                return (bag(batch).square().sum() + one(batch).pow(3).sum())

            rows, gradients = shoal.torch.tensor(batch.table("emb").rows), batch.table("emb").gradients
            loss().backward()
            analytic = gradients.copy()
            self.assertTrue(analytic.any())
            for r in range(min(4, len(rows))):
                for d in range(3):
                    before = float(rows[r, d])
                    rows[r, d] = before + 1e-2
                    up = float(loss())
                    rows[r, d] = before - 1e-2
                    down = float(loss())
                    rows[r, d] = before
                    self.assertAlmostEqual((up - down) / 2e-2, analytic[r, d], delta=2e-2 * max(1, abs(analytic[r, d])))
            batch.done(np.zeros(5))

    def test_gradients_that_autograd_puts_elsewhere_are_pushed(self):
        """create_graph makes a new .grad, and scripts assign one."""
        with shoal.join("one") as work:
            for how in ("create_graph", "assigned", "none"):
                batch = work.next()
                while not batch.train:
                    batch.done(np.zeros(5))
                    batch = work.next()
                gradients = batch.table("emb").gradients
                shoal.torch.EmbeddingBag("emb")(batch).pow(2).sum().mul(1e-3).backward(create_graph=how == "create_graph")
                leaf = batch.leaves["emb"]
                if how == "assigned":
                    leaf.grad = leaf.grad * 2
                if how == "none":
                    leaf.grad = None
                wanted = np.zeros_like(gradients) if leaf.grad is None else leaf.grad.detach().numpy().copy()
                batch.done(np.zeros(5))
                np.testing.assert_array_equal(gradients, wanted, how)  # the fake library leaves them as they are

    def test_tensors_of_columns_have_their_numbers(self):
        values = np.arange(6, dtype=np.float32).reshape(3, 2)
        self.assertEqual(shoal.torch.tensor(values[:, 0]).tolist(), [0, 2, 4])
        self.assertEqual(shoal.torch.tensor(values.T).tolist(), values.T.tolist())
        self.assertRaises(ValueError, shoal.torch.tensor, values[::-1])

    def test_a_model_is_called_with_one_training_batch_at_a_time(self):
        with shoal.join("one") as work:
            batch = work.next()
            net = torch.nn.Module()
            net.deep = torch.nn.Linear(6, 1, bias=False)
            net.forward = lambda batch: net.deep(torch.ones(1, 6))
            servers = shoal.torch.Servers(net)
            self.assertRaises(shoal.UsageError, servers.step)
            net(batch)
            other = unittest.mock.Mock(train=True, number=9, tensors=batch.tensors)
            self.assertRaisesRegex(shoal.UsageError, "while batch 1 is out", net, other)
            batch.done(np.zeros(5))

    def test_embedding_keeps_the_order(self):
        with shoal.join("many") as work:
            batch, module = work.next(), shoal.torch.Embedding("emb", "f1")
            got, lengths = module(batch), module.lengths(batch)
            table = batch.table("emb")
            for i in range(batch.examples):
                bag = i * 3 + 1
                rows = [table.rows[batch.index[v]] for v in range(batch.offset[bag], batch.offset[bag + 1])]
                self.assertEqual(int(lengths[i]), len(rows))
                np.testing.assert_array_equal(got[i, :len(rows)].detach().numpy(), np.array(rows).reshape(-1, 3))
                self.assertFalse(got[i, len(rows):].any())
            got.sum().backward()
            self.assertTrue(table.gradients.any())
            batch.done(np.zeros(5))

    def test_training_is_that_of_local_modules(self):
        """The same network with nn.EmbeddingBag and SGD, and with the fleet's tables and tensors: the same rows at the end."""
        keys = np.arange(64, dtype=np.uint64)
        for kind in ("one", "many"):
            with shoal.Fleet(kind) as fleet:
                local = torch.nn.EmbeddingBag.from_pretrained(torch.from_numpy(fleet["emb"].fetch(keys)), freeze=False, mode="sum")
                deep = torch.nn.Linear(6, 1, bias=False)
                deep.weight.data.copy_(torch.from_numpy(fleet.read_tensor("deep.weight")))
                mine = torch.optim.SGD([*local.parameters(), *deep.parameters()], lr=1.0)

                class Net(torch.nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.rows, self.deep = shoal.torch.EmbeddingBag("emb"), torch.nn.Linear(6, 1, bias=False)

                    def forward(self, batch):
                        return self.deep(self.rows(batch).flatten(1))

                net = Net()
                servers = shoal.torch.Servers(net)
                with shoal.join(kind) as work:
                    for batch in work:
                        label = shoal.torch.labels(batch)
                        score = net(batch)
                        if batch.train:
                            table = batch.table("emb")
                            places, starts = shoal.torch._bags(batch, [0, 1])
                            ids = torch.from_numpy(table.keys[batch.index[places]].astype(np.int64))
                            factor = None if batch.factor is None else torch.from_numpy(batch.factor[places])
                            own = deep(local(ids, torch.from_numpy(starts).long(), factor).view(5, -1))
                            torch.testing.assert_close(own, score, rtol=1e-4, atol=1e-5)
                            mine.zero_grad()
                            ((own - label) ** 2).mean().backward()
                            mine.step()
                            servers.zero_grad()
                            ((score - label) ** 2).mean().backward()
                            servers.step()
                        batch.done(score)
                np.testing.assert_allclose(fleet["emb"].fetch(keys), local.weight.detach().numpy(), rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(fleet.read_tensor("deep.weight"), deep.weight.detach().numpy(), rtol=1e-4, atol=1e-5)

    def test_parameters_that_the_job_lacks_are_told(self):
        net = torch.nn.Sequential(torch.nn.Linear(2, 1))
        shoal.torch.Servers(net)
        with shoal.join("one") as work:
            self.assertRaisesRegex(shoal.ConfigError, "parameter 0.weight has the shape", net, work.next())
        self.assertRaisesRegex(shoal.UsageError, "without a batch", net, torch.zeros(1, 2))

    def test_a_field_or_table_that_is_not_there(self):
        with shoal.join("one") as work:
            batch = work.next()
            self.assertRaisesRegex(shoal.NotFound, "no field f2: there are f0, f1", shoal.torch.EmbeddingBag("emb", ["f2"]), batch)
            self.assertRaisesRegex(shoal.NotFound, "no table x: there are emb, wide", shoal.torch.EmbeddingBag("x"), batch)
        self.assertRaisesRegex(shoal.UsageError, "reads without a fleet", shoal.torch.EmbeddingBag("emb"), next(iter(shoal.Reader("one"))))

    def test_describe_writes_the_tensors(self):
        net = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.BatchNorm1d(2))
        self.assertEqual(shoal.torch.describe(net), "  tensors:\n    - {name: 0.weight, shape: [2, 4], init: {kind: uniform, scale: 0.5}}\n"
                         "    - {name: 0.bias, shape: [2], init: {kind: zero}}\n    - {name: 1.weight, shape: [2], init: {kind: constant, scale: 1}}\n"
                         "    - {name: 1.bias, shape: [2], init: {kind: zero}}")

    def test_numpy_alone_does_not_import_torch(self):
        got = subprocess.run([sys.executable, "-c", "import shoal, sys; print('torch' in sys.modules)"], capture_output=True, text=True, check=True,
                             env={**os.environ, "PYTHONPATH": str(PACKAGE)})
        self.assertEqual(got.stdout, "False\n")


if __name__ == "__main__":
    try:
        folder = compiled("libshoal.so.1", HERE / "fake_shoal.c", "-shared", "-fPIC").parent
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"skip: needs a C compiler ({error})")
        sys.exit(77)
    # The loader reads LD_LIBRARY_PATH when a process begins: here the name is loaded by its path first.
    os.environ["LD_LIBRARY_PATH"] = str(folder)
    library.NAME = str(folder / "libshoal.so.1")
    unittest.main(verbosity=0)
