/* test_doctor.c: `shoal doctor` on a machine of files and functions: a machine without a fault has
 * no problem, and each planted fault has its sentence, alone. */
#include "deploy/cli/doctor.h"
#include "proto/base/file.h"
#include "proto/base/time.h"
#include "proto/net/keyfile.h"

#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the machine ---- */

static char root[64];
static struct doctor_settings settings;
static struct doctor_probe probe;
static struct doctor_report report;

static struct {
    const char *core_told, *libraries, *driver, *no_name, *not_here;
    bool module, disk_hangs, name_ends; /* name_ends: a lookup ends its process */
    uint64_t bytes, left;
    struct doctor_disk disk;
    const char *disk_wrong, *clock_wrong;
    int64_t ahead_s;
} machine;

static const char *environment(const char *name)
{
    if (strcmp(name, "OPENBLAS_CORETYPE") == 0)
        return machine.core_told;
    return NULL;
}

static const char *libraries(void)
{
    return machine.libraries;
}

static const char *core_type(void)
{
    return "SkylakeX";
}

static bool opens(const char *library)
{
    if (strcmp(library, "libcuda.so.1") == 0)
        return machine.driver != NULL;
    return machine.module;
}

static int resolve(const char *endpoint, char numeric[256], struct err *e)
{
    if (machine.name_ends)
        raise(SIGKILL);
    if (machine.no_name != NULL && strstr(endpoint, machine.no_name) != NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE, "the name %s has no address", machine.no_name);
    (void)snprintf(numeric, 256, "tcp://10.0.0.1:1");
    return 0;
}

static bool own(const char *endpoint)
{
    return machine.not_here == NULL || strstr(endpoint, machine.not_here) == NULL;
}

static int space(const char *folder, uint64_t *bytes, uint64_t *left)
{
    (void)folder;
    *bytes = machine.bytes;
    *left = machine.left;
    return 0;
}

static int disk(const char *folder, struct doctor_disk *out, struct err *e)
{
    (void)folder;
    while (machine.disk_hangs)
        pause();
    *out = machine.disk;
    if (machine.disk_wrong != NULL)
        return err_set(e, SHOAL_E_IO, "%s", machine.disk_wrong);
    return 0;
}

static int clock_ask(const char *coordinator, int64_t *ahead_s, struct err *e)
{
    (void)coordinator;
    *ahead_s = machine.ahead_s;
    if (machine.clock_wrong != NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE, "%s", machine.clock_wrong);
    return 0;
}

/* Writes a file below the root, and makes its folders. */
static void put(const char *path, const char *text)
{
    char whole[512], failed[LIMIT_PATH];
    (void)snprintf(whole, sizeof whole, "%s%s", root, path);
    char *slash = strrchr(whole, '/');
    *slash = '\0';
    ck_assert_int_eq(file_make_folders(whole, 0700, failed), 0);
    *slash = '/';
    FILE *f = fopen(whole, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void limits_put(const char *files, const char *locked, const char *processes)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "Limit                     Soft Limit           Hard Limit           Units\n"
                   "Max processes             %-20s %-20s processes\n"
                   "Max open files            1024                 %-20s files\n"
                   "Max locked memory         65536                %-20s bytes\n",
                   processes, processes, files, locked);
    put("/proc/self/limits", text);
}

static void path_of(char *out, size_t bytes, const char *path)
{
    (void)snprintf(out, bytes, "%s%s", root, path);
}

static void setup(void)
{
    char pub[KEYFILE_KEY];
    struct err e;
    (void)snprintf(root, sizeof root, "/tmp/shoal-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    setenv("SHOAL_RUNTIME_DIR", root, 1);
    limits_put("65536", "8388608", "unlimited");
    put("/proc/meminfo", "MemTotal:       16777216 kB\nMemAvailable:   12582912 kB\n");
    put("/proc/self/cgroup", "0::/unit\n");
    put("/sys/fs/cgroup/unit/memory.max", "max\n");
    put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    put("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512bw\nbugs\t\t:\n");
    put("/proc/net/tcp", "  sl  local_address rem_address   st\n");
    put("/data/name", "s");
    put("/allow", "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7 worker w1\n");
    memset(&machine, 0, sizeof machine);
    machine.libraries = "libzmq 4.3.4, libuv 1.44.2, RocksDB 7.8.3";
    machine.bytes = UINT64_C(1000) << 30;
    machine.left = UINT64_C(500) << 30;
    machine.disk = (struct doctor_disk){500, 1};
    settings = (struct doctor_settings){.kind = DOCTOR_SERVER,
                                        .listen = "tcp://0.0.0.0:7100",
                                        .advertise = "a.example",
                                        .coordinator = "tcp://c.example:7000",
                                        .shards = 2,
                                        .memory = UINT64_C(8) << 30};
    path_of(settings.folder, sizeof settings.folder, "/data");
    path_of(settings.keys, sizeof settings.keys, "/server.key");
    path_of(settings.allow, sizeof settings.allow, "/allow");
    ck_assert_int_eq(keyfile_make(settings.keys, NULL, pub, &e), 0);
    ck_assert_int_eq(chmod(settings.allow, 0644), 0);
    probe = (struct doctor_probe){.root = root,
                                  .environment = environment,
                                  .libraries = libraries,
                                  .core_type = core_type,
                                  .opens = opens,
                                  .resolve = resolve,
                                  .own = own,
                                  .space = space,
                                  .disk = disk,
                                  .clock = clock_ask,
                                  .patience_ms = 20000};
}

static void teardown(void)
{
    ck_assert_int_eq(file_remove_tree(root), 0);
}

static const char *all(void)
{
    static char text[8192];
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < report.count; i++)
        if (report.finding[i].rank != DOCTOR_FINE)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s: %s\n",
                                     report.finding[i].check, report.finding[i].text);
    return text;
}

static void look(void)
{
    const struct doctor_host h = {&settings, &probe};
    struct err e;
    ck_assert_int_eq(doctor_run(&h, &report, &e), 0);
}

/* The machine has this problem and no other. */
static void has(const char *check, const char *sentence)
{
    char want[8192];
    look();
    (void)snprintf(want, sizeof want, "%s: %s\n", check, sentence);
    ck_assert_str_eq(all(), want);
}

START_TEST(a_machine_without_a_fault_has_no_problem)
{
    look();
    ck_assert_str_eq(all(), "");
    ck_assert_uint_ge(report.count, 13);
    ck_assert_uint_eq(report.problems, 0);
}
END_TEST

/* ---- the faults ---- */

START_TEST(libraries_that_are_too_old)
{
    machine.libraries = "libzmq 4.3.2, libuv 1.44.2";
    has("libraries", "libzmq 4.3.2 is loaded, and Shoal needs 4.3.3 or later: upgrade that "
                     "library's package, and look with ldd for another copy, such as in "
                     "/usr/local/lib");
    machine.libraries = "libzmq 4.10.0, RocksDB 6.11.4";
    has("libraries", "RocksDB 6.11.4 is loaded, and Shoal needs 7.8 or later: upgrade that "
                     "library's package, and look with ldd for another copy, such as in "
                     "/usr/local/lib");
}
END_TEST

/* A job that reads Kafka, or a store in ZooKeeper, needs a package of its own. */
START_TEST(a_module_that_the_file_asks_for_and_is_missing)
{
    settings.kafka = true;
    has("libraries", "data.train reads Kafka, and Shoal's module libshoal_kafka.so or a library "
                     "that it needs does not open here: install the package shoal-kafka on each "
                     "machine with workers");
    settings.kafka = false;
    (void)snprintf(settings.store, sizeof settings.store, "zookeeper://z.example:2181/shoal");
    has("libraries", "store is in ZooKeeper, and Shoal's module libshoal_zookeeper.so or a library "
                     "that it needs does not open here: install the package shoal-zookeeper");
    settings.kafka = true;
    machine.module = true;
    look();
    ck_assert_str_eq(all(), "");
}
END_TEST

START_TEST(limits_that_are_too_low)
{
    limits_put("1024", "8388608", "unlimited");
    has("limits", "at most 1024 files may be open, and a daemon needs 4,096 or more for its "
                  "connections and store: raise nofile in /etc/security/limits.conf, or "
                  "LimitNOFILE= of the unit");
    limits_put("65536", "0", "unlimited");
    has("limits", "at most 0 bytes of memory may be locked, so secret keys could be swapped to a "
                  "disk: raise memlock in /etc/security/limits.conf to 64 KiB, or LimitMEMLOCK= of "
                  "the unit");
    limits_put("65536", "unlimited", "64");
    has("limits", "at most 64 processes and threads are allowed to this user, and this daemon may "
                  "need 96: raise nproc in /etc/security/limits.conf, or LimitNPROC= of the unit");
}
END_TEST

static void listener_put(unsigned port)
{
    char text[256];
    (void)snprintf(text, sizeof text,
                   "  sl  local_address rem_address   st\n"
                   "   0: 00000000:%04X 00000000:0000 0A 00000000:00000000 00:00000000 00000000  "
                   "   0        0 4711 1 0 100 0 0 10 0\n",
                   port);
    put("/proc/net/tcp", text);
}

START_TEST(ports_that_are_taken)
{
    char link[512];
    listener_put(7101);
    has("ports", "port 7101 of listen is taken by a process that this user may not see: run shoal "
                 "doctor as root for its name, and set another port in listen, or end that process "
                 "if it is not needed");
    put("/proc/77/comm", "nginx\n");
    put("/proc/77/fd/x", "");
    (void)snprintf(link, sizeof link, "%s/proc/77/fd/5", root);
    ck_assert_int_eq(symlink("socket:[4711]", link), 0);
    has("ports",
        "port 7101 of listen is taken by nginx (process 77): set another port in listen, or end "
        "that process if it is not needed");
    put("/proc/77/comm", "shoal-server\n"); /* its own daemon */
    look();
    ck_assert_str_eq(all(), "");
    listener_put(7102); /* another port */
    put("/proc/77/comm", "nginx\n");
    look();
    ck_assert_str_eq(all(), "");
    machine.not_here = "0.0.0.0";
    has("ports", "listen: 0.0.0.0:7100 is no address of this machine, so the daemon cannot listen "
                 "there: set one that `ip address` shows");
    (void)snprintf(settings.listen, sizeof settings.listen, "ipc:///nowhere/s/socket");
    has("ports", "the folder /nowhere/s of listen is not there: make it (mkdir -p /nowhere/s) for "
                 "the daemon's user, or set another path");
}
END_TEST

/* The daemon works without metrics then, so its own log alone says it. */
START_TEST(metrics_that_cannot_be_served)
{
    char link[512], want[4096];
    settings.kind = DOCTOR_WORKER;
    settings.listen[0] = '\0';
    (void)snprintf(settings.metrics, sizeof settings.metrics, "127.0.0.1:9464");
    look();
    ck_assert_str_eq(all(), "");
    put("/proc/77/comm", "nginx\n");
    put("/proc/77/fd/x", "");
    (void)snprintf(link, sizeof link, "%s/proc/77/fd/5", root);
    ck_assert_int_eq(symlink("socket:[4711]", link), 0);
    listener_put(9464);
    has("ports",
        "port 9464 of metrics is taken by nginx (process 77): set another port in metrics, or end "
        "that process if it is not needed");
    put("/proc/77/comm", "shoal-worker\n");
    look();
    ck_assert_str_eq(all(), "");
    machine.not_here = "127.0.0.1";
    has("ports", "metrics: 127.0.0.1:9464 is no address of this machine, so the daemon cannot "
                 "listen there: set one that `ip address` shows");
    (void)snprintf(settings.metrics, sizeof settings.metrics, "0.0.0.0:9464");
    has("ports", "metrics: 0.0.0.0:9464: other machines reach this address, and without a token "
                 "everybody there could read: set metrics_token: FILE, or listen at 127.0.0.1 "
                 "behind a proxy that asks for a password");
    path_of(settings.token, sizeof settings.token, "/token");
    put("/token", "abcdefghijklmnopqrst\n");
    ck_assert_int_eq(chmod(settings.token, 0644), 0);
    (void)snprintf(want, sizeof want,
                   "metrics_token: %s: mode 0644 lets others than its owner read it: chmod 0400 "
                   "%s, and make another token",
                   settings.token, settings.token);
    has("ports", want);
    ck_assert_int_eq(chmod(settings.token, 0400), 0);
    look();
    ck_assert_str_eq(all(), "");
    (void)snprintf(settings.metrics, sizeof settings.metrics, "unix:/nowhere/m/socket");
    has("ports", "the folder /nowhere/m of metrics is not there: make it (mkdir -p /nowhere/m) for "
                 "the daemon's user, or set another path");
}
END_TEST

/* Two servers on one machine, whose files name one address. */
START_TEST(metrics_that_another_server_serves)
{
    char link[512];
    FILE *f;
    (void)snprintf(settings.metrics, sizeof settings.metrics, "127.0.0.1:9464");
    listener_put(7100);
    path_of(link, sizeof link, "/proc/net/tcp");
    ck_assert_ptr_nonnull(f = fopen(link, "a"));
    fputs("   1: 0100007F:24F8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0     "
          "   0 4712 1 0 100 0 0 10 0\n",
          f);
    fclose(f);
    for (int i = 0; i < 2; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/proc/%d/comm", 77 + i);
        put(path, "shoal-server\n");
        (void)snprintf(path, sizeof path, "/proc/%d/fd/x", 77 + i);
        put(path, "");
        (void)snprintf(link, sizeof link, "%s/proc/%d/fd/5", root, 77 + i);
        ck_assert_int_eq(symlink(i == 0 ? "socket:[4711]" : "socket:[4712]", link), 0);
    }
    has("ports", "metrics: 127.0.0.1:9464 is served by process 78, and the daemon of this file is "
                 "process 77, which works without metrics: give each daemon on this machine an "
                 "address of its own");
    (void)snprintf(link, sizeof link, "%s/proc/77/fd/6", root);
    ck_assert_int_eq(symlink("socket:[4712]", link), 0); /* its own */
    (void)snprintf(link, sizeof link, "%s/proc/78/fd/5", root);
    ck_assert_int_eq(unlink(link), 0);
    look();
    ck_assert_str_eq(all(), "");
}
END_TEST

START_TEST(a_disk_that_is_slow_or_cannot_be_written)
{
    char want[512];
    machine.disk = (struct doctor_disk){500, 80};
    (void)snprintf(want, sizeof want,
                   "a synced write in %s/data takes 80 ms, and with durability: fsync every group "
                   "of pushes waits for one: use a local SSD, and look at the kernel's log for "
                   "errors of the disk",
                   root);
    has("disk", want);
    machine.disk = (struct doctor_disk){12, 1};
    (void)snprintf(want, sizeof want,
                   "%s/data takes 12 MB/s, and journal, flushes and checkpoints want 50 or more: "
                   "use a local SSD, or end what else writes there",
                   root);
    has("disk", want);
    machine.disk_wrong = "Read-only file system";
    (void)snprintf(want, sizeof want,
                   "%s/data cannot be written: Read-only file system; free some of it where it is "
                   "full, else give it to the daemon's user, or run shoal doctor as that user",
                   root);
    has("disk", want);
}
END_TEST

START_TEST(a_disk_that_is_too_small)
{
    char want[512];
    machine.left = UINT64_C(2) << 30;
    (void)snprintf(want, sizeof want,
                   "the file system of %s/data has 2.0 GiB free, less than 8.0 GiB (disk_free): "
                   "pushes are refused until more is free; remove what does not belong to Shoal "
                   "there, or use a larger disk",
                   root);
    has("space", want);
    settings.disk_free = UINT64_C(1) << 30;
    look();
    ck_assert_str_eq(all(), "");
    settings.disk = UINT64_C(2000) << 30;
    (void)snprintf(want, sizeof want,
                   "disk: 2000.0 GiB is more than the whole file system of %s/data, 1000.0 GiB: "
                   "lower disk, or use a larger file system",
                   root);
    has("space", want);
    settings.disk = UINT64_C(100) << 30;
    settings.journal = UINT64_C(50) << 30;
    look();
    ck_assert_str_eq(all(), "");
    settings.journal = UINT64_C(60) << 30;
    (void)snprintf(want, sizeof want,
                   "journal.max and journal.keep may take 60.0 GiB together, and the rows leave "
                   "them 50.0 GiB at most in %s/data: lower journal.keep or journal.max",
                   root);
    has("space", want);
    settings.disk = settings.journal = 0;
    look();
    ck_assert_str_eq(all(), "");
    settings.kind = DOCTOR_COORDINATOR; /* another daemon suffers otherwise */
    settings.disk_free = 0;
    (void)snprintf(want, sizeof want,
                   "the file system of %s/data has 2.0 GiB free, less than 8.0 GiB: a job's place "
                   "cannot be stored when it is full; remove what does not belong to Shoal there, "
                   "or use a larger disk",
                   root);
    has("space", want);
}
END_TEST

START_TEST(memory_that_is_not_there)
{
    put("/sys/fs/cgroup/unit/memory.max", "4294967296\n");
    has("memory", "memory: 8.0 GiB, which takes 8.5 GiB with messages and the store, is more than "
                  "the 4.0 GiB that this machine or its control group allows: lower memory, or "
                  "raise MemoryMax= of the unit where that is less than the machine has");
    put("/sys/fs/cgroup/unit/memory.max", "max\n");
    put("/proc/meminfo", "MemTotal:       16777216 kB\nMemAvailable:    3145728 kB\n");
    has("memory", "memory: 8.0 GiB, and other programs leave 3.0 GiB (this is no fault while the "
                  "server itself runs): lower memory, or end the others");
}
END_TEST

START_TEST(pages_that_cost)
{
    put("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    has("pages", "transparent huge pages are off, so every row costs more page faults: echo "
                 "madvise > /sys/kernel/mm/transparent_hugepage/enabled, and at each start "
                 "transparent_hugepage=madvise on the kernel's command line");
    put("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
    put("/sys/bus/virtio/drivers/virtio_balloon/virtio3/features", "1100100000000000\n");
    look();
    ck_assert_str_eq(all(), "");
    put("/sys/bus/virtio/drivers/virtio_balloon/virtio3/features", "1100110000000000\n");
    has("pages", "this virtual machine gives free pages back to its host while it runs (free page "
                 "reporting), which stops shards for tens of milliseconds: start it with "
                 "free-page-reporting=off of its balloon device");
}
END_TEST

START_TEST(calendars_that_differ)
{
    machine.ahead_s = 3600;
    has("clock", "this machine's calendar is 3600 s behind that of the coordinator at "
                 "tcp://c.example:7000: run a time service (chrony) on both; event times and the "
                 "times in logs would differ");
    machine.ahead_s = -40;
    has("clock", "this machine's calendar is 40 s ahead of that of the coordinator at "
                 "tcp://c.example:7000: run a time service (chrony) on both; event times and the "
                 "times in logs would differ");
    machine.clock_wrong = "no answer to STATUS within 3 s";
    has("clock", "the coordinator at tcp://c.example:7000 cannot be asked for its time: no answer "
                 "to STATUS within 3 s");
}
END_TEST

START_TEST(keys_that_others_may_read_and_lists_that_others_may_write)
{
    char want[4096];
    ck_assert_int_eq(chmod(settings.keys, 0644), 0);
    (void)snprintf(want, sizeof want,
                   "keys: %s: mode 0644 lets others than its owner at the key: chmod 0400 %s, and "
                   "make a new one (shoal keygen) if somebody may have read it",
                   settings.keys, settings.keys);
    has("keys", want);
    ck_assert_int_eq(chmod(settings.keys, 0400), 0);
    ck_assert_int_eq(chmod(settings.allow, 0666), 0);
    (void)snprintf(want, sizeof want,
                   "allow: %s has mode 0666, so any user can let keys in: chmod 0644 %s, and look "
                   "through its lines",
                   settings.allow, settings.allow);
    has("keys", want);
    ck_assert_int_eq(unlink(settings.allow), 0);
    (void)snprintf(want, sizeof want,
                   "allow: %s cannot be read: No such file or directory; make it (a line of shoal "
                   "keygen for each daemon and person), or correct allow",
                   settings.allow);
    has("keys", want);
}
END_TEST

/* A file of a unit names neither: systemd hands them over. */
START_TEST(the_folder_and_the_keys_of_units_are_looked_at)
{
    char want[4096], key[256], pub[KEYFILE_KEY];
    struct err e;
    settings.folder[0] = settings.keys[0] = '\0';
    look();
    ck_assert_str_eq(all(), "");
    put("/etc/shoal/keys/readme", "");
    path_of(key, sizeof key, "/etc/shoal/keys/server-1.key");
    ck_assert_int_eq(keyfile_make(key, NULL, pub, &e), 0);
    put("/var/lib/shoal/server-1/name", "s");
    look();
    ck_assert_str_eq(all(), "");
    ck_assert_int_eq(chmod(key, 0440), 0);
    (void)snprintf(want, sizeof want,
                   "%s: mode 0440 lets others than its owner at the key: chmod 0400 %s, and make a "
                   "new one (shoal keygen) if somebody may have read it",
                   key, key);
    has("keys", want);
    ck_assert_int_eq(chmod(key, 0400), 0);
    machine.disk_wrong = "No space left on device";
    (void)snprintf(want, sizeof want,
                   "%s/var/lib/shoal cannot be written: No space left on device; free some of it "
                   "where it is full, else give it to the daemon's user, or run shoal doctor as "
                   "that user",
                   root);
    has("disk", want);
}
END_TEST

START_TEST(signers_that_cannot_be_read)
{
    (void)snprintf(settings.signers, sizeof settings.signers, "/nowhere/signers");
    has("keys", "checkpoint_signers: cannot read the list of signers /nowhere/signers: No such "
                "file or directory; make it (the line of shoal keygen FILE --role sign for each "
                "signer), or correct checkpoint_signers");
}
END_TEST

START_TEST(names_without_an_address)
{
    machine.no_name = "c.example";
    has("names", "coordinator: tcp://c.example:7000: the name c.example has no address");
    machine.no_name = "a.example";
    has("names", "advertise: tcp://a.example:1: the name a.example has no address");
    machine.no_name = "z2.example";
    machine.module = true;
    (void)snprintf(settings.store, sizeof settings.store,
                   "zookeeper://z1.example:2181,z2.example:2181/shoal");
    has("names", "store: tcp://z2.example:2181: the name z2.example has no address");
}
END_TEST

START_TEST(gpus_that_cannot_be_used)
{
    put("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    put("/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
    put("/sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n"); /* its sound */
    put("/sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");
    has("gpu", "there are 1 GPUs, and no driver has been loaded: install nvidia-driver (Debian "
               "non-free) and load it with modprobe nvidia; workers compute on the CPU");
    put("/proc/driver/nvidia/version", "NVRM version: 580.65\nGCC version: 14\n");
    has("gpu", "the GPU's driver is loaded, but its library libcuda.so.1 does not open: install "
               "libcuda1 of the driver's version; workers compute on the CPU");
    machine.driver = "580.65";
    has("gpu", "there is a driver, and Shoal's module libshoal_cuda.so or a library that it needs "
               "does not open: install shoal-cuda and cuBLAS (shoal-worker train --backend "
               "cuda says which); workers compute on the CPU");
    machine.module = true;
    look();
    ck_assert_str_eq(all(), "");
}
END_TEST

START_TEST(a_gpu_that_is_asked_for_and_absent)
{
    settings.cuda = true;
    has("gpu", "backend: cuda is asked for, and this machine has no driver of a GPU: install one, "
               "or set backend: auto");
}
END_TEST

START_TEST(blas_kernels_that_do_not_fit_the_processor)
{
    machine.core_told = "Haswell";
    has("blas", "OPENBLAS_CORETYPE=Haswell pins kernels without AVX-512, which this processor has: "
                "products of matrices take up to twice as long; unset OPENBLAS_CORETYPE");
    put("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu avx2 avx512fx\n");
    look();
    ck_assert_str_eq(all(), "");
    machine.core_told = "SkylakeX";
    has("blas", "OPENBLAS_CORETYPE=SkylakeX asks for kernels with AVX-512, which this processor "
                "lacks: a worker would end by SIGILL; unset OPENBLAS_CORETYPE");
}
END_TEST

START_TEST(crash_reports_are_found)
{
    char want[4096];
    put("/data/crash-1796000001-shoal-server-7.txt", "an older one\n");
    put("/data/crash-1796000002-shoal-server-8.txt",
        "shoal-server has crashed: signal 11\nversion: 0.2.0\n");
    (void)snprintf(want, sizeof want,
                   "2 crash reports in %s/data, the newest crash-1796000002-shoal-server-8.txt: "
                   "shoal-server has crashed: signal 11; pack what is needed to look into it with "
                   "shoal doctor --bundle FILE.tar.gz, then remove the reports",
                   root);
    has("crashes", want);
    ck_assert_int_eq(file_remove_tree(settings.folder), 0);
    put("/data/name", "s");
    put("/var/cache/shoal/worker-1/crash-1796000003-shoal-worker-9.txt",
        "shoal-worker has crashed: signal 6\n");
    (void)snprintf(want, sizeof want,
                   "1 crash reports in %s/var/cache/shoal/worker-1, the newest "
                   "crash-1796000003-shoal-worker-9.txt: shoal-worker has crashed: signal 6; pack "
                   "what is needed to look into it with shoal doctor --bundle FILE.tar.gz, then "
                   "remove the reports",
                   root);
    has("crashes", want);
}
END_TEST

/* Root runs doctor, and another user may name any file a report. */
START_TEST(a_crash_report_that_is_a_link_is_not_read)
{
    char named[200], report_path[200], want[512];
    put("/data/name", "LINKED-SECRET\n");
    path_of(named, sizeof named, "/data/name");
    path_of(report_path, sizeof report_path, "/data/crash-1796000001-shoal-server-7.txt");
    ck_assert_int_eq(symlink(named, report_path), 0);
    (void)snprintf(want, sizeof want,
                   "1 crash reports in %s/data, the newest crash-1796000001-shoal-server-7.txt: "
                   "it cannot be read; pack what is needed to look into it with shoal doctor "
                   "--bundle FILE.tar.gz, then remove the reports",
                   root);
    has("crashes", want);
}
END_TEST

/* The files of starts.h, as the units' runtime folders have them. */
START_TEST(units_that_fail_to_start)
{
    char text[128];
    (void)snprintf(text, sizeof text, "3 %" PRIu64 " 0 0 the disk is gone", time_monotonic_ns());
    put("/server-1/starts", text);
    has("units", "shoal-server@1 on this machine has failed to start 3 times in 0 s: the disk is "
                 "gone");
    (void)snprintf(text, sizeof text, "%s/server-1", root);
    ck_assert_int_eq(file_remove_tree(text), 0); /* it has started */
    look();
    ck_assert_str_eq(all(), "");
    (void)snprintf(text, sizeof text, "1 %" PRIu64 " 0 0 no key", time_monotonic_ns());
    put("/coordinator/starts", text);
    has("units", "shoal-coordinator on this machine has failed to start 1 times in 0 s: no key");
}
END_TEST

/* ---- checks that do not end ---- */

START_TEST(a_check_that_hangs_is_left_and_told)
{
    machine.disk_hangs = true;
    probe.patience_ms = 1000;
    has("disk", "this check has not ended after 1 s: a disk or a file system of the network does "
                "not answer: see the kernel's log (dmesg) and what is mounted there; a daemon "
                "would hang as well");
    ck_assert_uint_ge(report.count, 13); /* all others have ended */
}
END_TEST

START_TEST(a_check_that_is_killed_is_told)
{
    machine.name_ends = true;
    has("names", "this check was ended by signal 9: see the kernel's log (dmesg); if it is no lack "
                 "of memory, report it with shoal doctor --bundle FILE.tar.gz");
}
END_TEST

/* ---- the rest ---- */

START_TEST(the_kind_of_a_file_is_that_of_its_name)
{
    static const struct string_list none;
    struct doctor_settings s;
    struct err e;
    char path[128];
    put("/server-1.yaml", "listen: tcp://h:7100\nmemory: 1GiB\nshards: 3\n");
    put("/coordinator.yaml", "store: zookeeper://h:1/p\n");
    put("/worker.yaml", "backend: cuda\nlisten: tcp://h:7080\nadvertise: h2\n");
    put("/any.yaml", "listen: tcp://h:7100\n");
    path_of(path, sizeof path, "/server-1.yaml");
    ck_assert_int_eq(doctor_settings_read(path, &none, &s, &e), 0);
    ck_assert(s.kind == DOCTOR_SERVER && s.shards == 3 && s.memory == 1u << 30);
    ck_assert_str_eq(s.listen, "tcp://h:7100");
    path_of(path, sizeof path, "/coordinator.yaml");
    ck_assert_int_eq(doctor_settings_read(path, &none, &s, &e), 0);
    ck_assert(s.kind == DOCTOR_COORDINATOR && strcmp(s.store, "zookeeper://h:1/p") == 0);
    path_of(path, sizeof path, "/worker.yaml");
    ck_assert_int_eq(doctor_settings_read(path, &none, &s, &e), 0);
    ck_assert(s.kind == DOCTOR_WORKER && s.cuda);
    ck_assert(strcmp(s.listen, "tcp://h:7080") == 0 && strcmp(s.advertise, "h2") == 0);
    put("/clicks.yaml",
        "job: clicks\ndata: {train: {kafka: clicks}, kafka: {brokers: \"h:9092\"}}\n");
    path_of(path, sizeof path, "/clicks.yaml");
    ck_assert_int_eq(doctor_settings_read(path, &none, &s, &e), 0);
    ck_assert(s.kind == DOCTOR_JOB && s.kafka);
    put("/files.yaml", "job: clicks\ndata: {train: clicks.csv}\n");
    path_of(path, sizeof path, "/files.yaml");
    ck_assert_int_eq(doctor_settings_read(path, &none, &s, &e), 0);
    ck_assert(s.kind == DOCTOR_JOB && !s.kafka);
    path_of(path, sizeof path, "/any.yaml"); /* a job's, which has no such key */
    ck_assert_int_eq(doctor_settings_read(path, &none, &s, &e), SHOAL_E_CONFIG);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("doctor");
    TCase *t = tcase_create("doctor");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_machine_without_a_fault_has_no_problem);
    tcase_add_test(t, libraries_that_are_too_old);
    tcase_add_test(t, a_module_that_the_file_asks_for_and_is_missing);
    tcase_add_test(t, limits_that_are_too_low);
    tcase_add_test(t, ports_that_are_taken);
    tcase_add_test(t, metrics_that_cannot_be_served);
    tcase_add_test(t, metrics_that_another_server_serves);
    tcase_add_test(t, a_disk_that_is_slow_or_cannot_be_written);
    tcase_add_test(t, a_disk_that_is_too_small);
    tcase_add_test(t, memory_that_is_not_there);
    tcase_add_test(t, pages_that_cost);
    tcase_add_test(t, calendars_that_differ);
    tcase_add_test(t, keys_that_others_may_read_and_lists_that_others_may_write);
    tcase_add_test(t, the_folder_and_the_keys_of_units_are_looked_at);
    tcase_add_test(t, signers_that_cannot_be_read);
    tcase_add_test(t, names_without_an_address);
    tcase_add_test(t, gpus_that_cannot_be_used);
    tcase_add_test(t, a_gpu_that_is_asked_for_and_absent);
    tcase_add_test(t, blas_kernels_that_do_not_fit_the_processor);
    tcase_add_test(t, crash_reports_are_found);
    tcase_add_test(t, a_crash_report_that_is_a_link_is_not_read);
    tcase_add_test(t, units_that_fail_to_start);
    tcase_add_test(t, a_check_that_hangs_is_left_and_told);
    tcase_add_test(t, a_check_that_is_killed_is_told);
    tcase_add_test(t, the_kind_of_a_file_is_that_of_its_name);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
