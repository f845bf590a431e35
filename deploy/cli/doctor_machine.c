/* doctor_machine.c: checks of the machine: libraries, limits, memory, pages, processor, GPU. */
#include "deploy/cli/doctor.h"
#include "proto/base/file.h"
#include "proto/base/machine.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB (1024.0 * 1024 * 1024)

/* ---- libraries ---- */

static const struct {
    const char *name, *least;
} wanted[] = {{"libzmq", "4.3.3"}, {"libuv", "1.44"},          {"protobuf-c", "1.4"},
              {"RocksDB", "7.8"},  {"jansson", "2.14"},        {"libyaml", "0.2.5"},
              {"xxHash", "0.8"},   {"libmicrohttpd", "0.9.75"}};

/* -1, 0 or 1 as version a is below, equal to or above b, number by number. */
static int version_compare(const char *a, const char *b)
{
    for (;;) {
        char *a_end, *b_end;
        unsigned long x = strtoul(a, &a_end, 10), y = strtoul(b, &b_end, 10);
        if (x != y)
            return x < y ? -1 : 1;
        if (*b_end != '.')
            return 0;
        if (*a_end != '.')
            return -1;
        a = a_end + 1;
        b = b_end + 1;
    }
}

static void module_check(const struct doctor_host *h, struct doctor_report *r, const char *what,
                         const char *module, const char *package)
{
    if (!h->probe->opens(module))
        doctor_wrong(r,
                     "%s, and Shoal's module %s or a library that it needs does not open here: "
                     "install the package %s",
                     what, module, package);
}

void doctor_check_libraries(const struct doctor_host *h, struct doctor_report *r)
{
    const char *have = h->probe->libraries();
    uint32_t wrong = r->problems;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        char version[32] = "";
        size_t name = strlen(wanted[i].name);
        const char *at = strstr(have, wanted[i].name);
        if (at != NULL && at[name] == ' ')
            (void)snprintf(version, sizeof version, "%.*s", (int)strcspn(at + name + 1, ","),
                           at + name + 1);
        if (version[0] != '\0' && version_compare(version, wanted[i].least) < 0)
            doctor_wrong(r,
                         "%s %s is loaded, and Shoal needs %s or later: upgrade that library's "
                         "package, and look with ldd for another copy, such as in /usr/local/lib",
                         wanted[i].name, version, wanted[i].least);
    }
    if (h->settings->kafka)
        module_check(h, r, "data.train reads Kafka", "libshoal_kafka.so",
                     "shoal-kafka on each machine with workers");
    if (strncmp(h->settings->store, "zookeeper:", strlen("zookeeper:")) == 0)
        module_check(h, r, "store is in ZooKeeper", "libshoal_zookeeper.so", "shoal-zookeeper");
    if (r->problems == wrong)
        doctor_fine(r, "shoal %s; %s", SHOAL_VERSION, have);
}

/* ---- limits ---- */

/* The hard limit of a row of /proc/self/limits. */
static uint64_t limit_of(const char *limits, const char *row)
{
    const char *at = strstr(limits, row);
    char soft[32], hard[32];
    if (at == NULL || sscanf(at + strlen(row), "%31s %31s", soft, hard) != 2 ||
        strcmp(hard, "unlimited") == 0)
        return UINT64_MAX;
    return strtoull(hard, NULL, 10);
}

void doctor_check_limits(const struct doctor_host *h, struct doctor_report *r)
{
    char limits[4096];
    uint32_t wrong = r->problems, shards = h->settings->shards > 0 ? h->settings->shards : 1;
    uint64_t threads_need = UINT64_C(64) + 16 * shards;
    doctor_text(h, "/proc/self/limits", limits, sizeof limits);
    uint64_t files = limit_of(limits, "Max open files"),
             locked = limit_of(limits, "Max locked memory"),
             threads = limit_of(limits, "Max processes");
    if (files < 4096)
        doctor_wrong(r,
                     "at most %" PRIu64 " files may be open, and a daemon needs 4,096 or more for "
                     "its connections and store: raise nofile in /etc/security/limits.conf, or "
                     "LimitNOFILE= of the unit",
                     files);
    if (locked < 64 * 1024)
        doctor_wrong(r,
                     "at most %" PRIu64 " bytes of memory may be locked, so secret keys could be "
                     "swapped to a disk: raise memlock in /etc/security/limits.conf to 64 KiB, or "
                     "LimitMEMLOCK= of the unit",
                     locked);
    if (threads < threads_need)
        doctor_wrong(r,
                     "at most %" PRIu64 " processes and threads are allowed to this user, and this "
                     "daemon may need %" PRIu64 ": raise nproc in /etc/security/limits.conf, or "
                     "LimitNPROC= of the unit",
                     threads, threads_need);
    if (r->problems == wrong)
        doctor_fine(r, "open files, locked memory and threads suffice");
}

/* ---- memory ---- */

/* A number of /proc/meminfo, in bytes; 0: there is none. */
static uint64_t meminfo(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    if (at == NULL)
        return 0;
    return strtoull(at + strlen(name), NULL, 10) * 1024;
}

void doctor_check_memory(const struct doctor_host *h, struct doctor_report *r)
{
    char text[4096];
    doctor_text(h, "/proc/meminfo", text, sizeof text);
    uint64_t budget = h->settings->memory, machine = meminfo(text, "MemTotal:"),
             left = meminfo(text, "MemAvailable:"), allowed = machine_memory(h->probe->root);
    if (machine > 0 && machine < allowed)
        allowed = machine;
    double need = (double)budget * 1.05 + 64 * 1024 * 1024;
    if (budget > 0 && need > (double)allowed)
        doctor_wrong(
            r,
            "memory: %.1f GiB, which takes %.1f GiB with messages and the store, is more "
            "than the %.1f GiB that this machine or its control group allows: lower "
            "memory, or raise MemoryMax= of the unit where that is less than the machine has",
            (double)budget / GIB, need / GIB, (double)allowed / GIB);
    else if (budget > left && left > 0)
        doctor_wrong(r,
                     "memory: %.1f GiB, and other programs leave %.1f GiB (this is no fault while "
                     "the server itself runs): lower memory, or end the others",
                     (double)budget / GIB, (double)left / GIB);
    else
        doctor_fine(r, "%.1f GiB are allowed, %.1f GiB available", (double)allowed / GIB,
                    (double)left / GIB);
}

/* ---- pages ---- */

/* True when the balloon device of a virtual machine has negotiated free page reporting, bit 5 of
 * its features (virtio specification 1.2, 5.5.3). */
static bool reporting_on(const struct doctor_host *h)
{
    static const char folder[] = "/sys/bus/virtio/drivers/virtio_balloon";
    char path[DOCTOR_PATH], features[128];
    struct file_walk w;
    const char *name;
    bool on = false;
    (void)file_walk_open(&w, doctor_below(h, path, folder));
    while ((name = file_walk_next(&w)) != NULL) {
        if (strncmp(name, "virtio", 6) != 0)
            continue;
        (void)snprintf(path, sizeof path, "%s/%.64s/features", folder, name);
        doctor_text(h, path, features, sizeof features);
        on |= strlen(features) > 5 && features[5] == '1';
    }
    file_walk_close(&w);
    return on;
}

void doctor_check_pages(const struct doctor_host *h, struct doctor_report *r)
{
    char enabled[128];
    uint32_t wrong = r->problems;
    doctor_text(h, "/sys/kernel/mm/transparent_hugepage/enabled", enabled, sizeof enabled);
    if (strstr(enabled, "[never]") != NULL)
        doctor_wrong(r, "transparent huge pages are off, so every row costs more page faults: echo "
                        "madvise > /sys/kernel/mm/transparent_hugepage/enabled, and at each start "
                        "transparent_hugepage=madvise on the kernel's command line");
    if (reporting_on(h))
        doctor_wrong(r,
                     "this virtual machine gives free pages back to its host while it runs (free "
                     "page reporting), which stops shards for tens of milliseconds: start it "
                     "with free-page-reporting=off of its balloon device");
    if (r->problems == wrong)
        doctor_fine(r, "transparent huge pages: %s; no free page reporting",
                    text_unless_empty(enabled, "unknown"));
}

/* ---- the processor ---- */

static bool processor_has(const char *cpuinfo, const char *flag)
{
    const char *at = strstr(cpuinfo, "\nflags");
    size_t bytes = strlen(flag);
    if (at == NULL)
        return false;
    const char *end = strchr(at + 1, '\n');
    while ((at = strstr(at, flag)) != NULL && (end == NULL || at < end)) {
        if (at[-1] == ' ' && (at[bytes] == ' ' || at[bytes] == '\n' || at[bytes] == '\0'))
            return true;
        at += bytes;
    }
    return false;
}

static bool wide(const char *type)
{
    return strcmp(type, "SkylakeX") == 0 || strcmp(type, "Cooperlake") == 0 ||
           strcmp(type, "SapphireRapids") == 0;
}

void doctor_check_blas(const struct doctor_host *h, struct doctor_report *r)
{
    char cpuinfo[16384];
    const char *told = h->probe->environment("OPENBLAS_CORETYPE"), *best = h->probe->core_type();
    doctor_text(h, "/proc/cpuinfo", cpuinfo, sizeof cpuinfo);
    bool avx512 = processor_has(cpuinfo, "avx512f");
    if (told != NULL && wide(told) && !avx512)
        doctor_wrong(r,
                     "OPENBLAS_CORETYPE=%s asks for kernels with AVX-512, which this processor "
                     "lacks: a worker would end by SIGILL; unset OPENBLAS_CORETYPE",
                     told);
    else if (told != NULL && avx512 && !wide(told))
        doctor_wrong(r,
                     "OPENBLAS_CORETYPE=%s pins kernels without AVX-512, which this processor has: "
                     "products of matrices take up to twice as long; unset OPENBLAS_CORETYPE",
                     told);
    else
        doctor_fine(r, "OpenBLAS kernels: %s", text_or(told, text_or(best, "its own")));
}

/* ---- GPU ---- */

/* The number of NVIDIA's 3D and VGA devices. */
static uint32_t cards(const struct doctor_host *h)
{
    static const char folder[] = "/sys/bus/pci/devices";
    char path[DOCTOR_PATH], vendor[16], class[16];
    struct file_walk w;
    const char *name;
    uint32_t count = 0;
    (void)file_walk_open(&w, doctor_below(h, path, folder));
    while ((name = file_walk_next(&w)) != NULL) {
        (void)snprintf(path, sizeof path, "%s/%.64s/vendor", folder, name);
        doctor_text(h, path, vendor, sizeof vendor);
        (void)snprintf(path, sizeof path, "%s/%.64s/class", folder, name);
        doctor_text(h, path, class, sizeof class);
        count += strcmp(vendor, "0x10de") == 0 && strncmp(class, "0x03", 4) == 0;
    }
    file_walk_close(&w);
    return count;
}

void doctor_check_gpu(const struct doctor_host *h, struct doctor_report *r)
{
    char driver[512];
    uint32_t count = cards(h);
    doctor_text(h, "/proc/driver/nvidia/version", driver, sizeof driver);
    driver[strcspn(driver, "\n")] = '\0';
    bool library = h->probe->opens("libcuda.so.1");
    if (count > 0 && driver[0] == '\0')
        doctor_wrong(r,
                     "there are %u GPUs, and no driver has been loaded: install nvidia-driver "
                     "(Debian non-free) and load it with modprobe nvidia; workers compute on the "
                     "CPU",
                     count);
    else if (driver[0] != '\0' && !library)
        doctor_wrong(r, "the GPU's driver is loaded, but its library libcuda.so.1 does not open: "
                        "install libcuda1 of the driver's version; workers compute on the CPU");
    else if (library && !h->probe->opens("libshoal_cuda.so"))
        doctor_wrong(r, "there is a driver, and Shoal's module libshoal_cuda.so or a library that "
                        "it needs does not open: install shoal-cuda and cuBLAS "
                        "(shoal-worker train --backend cuda says which); workers compute on the "
                        "CPU");
    else if (h->settings->cuda && !library)
        doctor_wrong(r, "backend: cuda is asked for, and this machine has no driver of a GPU: "
                        "install one, or set backend: auto");
    else if (library)
        doctor_fine(r, "%s", text_unless_empty(driver, "a driver is there"));
    else
        doctor_fine(r, "none: workers compute on the CPU");
}
