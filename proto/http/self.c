/* self.c: reads /proc/self. */
#include "proto/http/self.h"

#include "proto/base/file.h"
#include "proto/base/log.h"
#include "proto/base/machine.h"
#include "proto/base/time.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* The resident bytes; NAN: not known. */
static double resident(void)
{
    uint64_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    bool good = f != NULL && fscanf(f, "%*u %" SCNu64, &pages) == 1;
    if (f != NULL)
        fclose(f);
    if (!good)
        return NAN;
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* Seconds since 1970: the machine's clock now, less the age of the process. */
static double started(void)
{
    char line[1024];
    uint64_t ticks = 0;
    FILE *f = fopen("/proc/self/stat", "re");
    const char *behind = NULL;
    if (f != NULL && fgets(line, sizeof line, f) != NULL)
        behind = strrchr(line, ')'); /* the name may hold any character */
    bool good = behind != NULL &&
                sscanf(behind + 1,
                       " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                       "%*s %" SCNu64,
                       &ticks) == 1;
    if (f != NULL)
        fclose(f);
    if (!good)
        return NAN;
    double begun = (double)ticks / (double)sysconf(_SC_CLK_TCK); /* since the boot */
    return (double)time_wall_ns() * 1e-9 - (double)time_of(CLOCK_BOOTTIME) * 1e-9 + begun;
}

void self_put(struct meter_sheet *s, const char *program, const char *version)
{
    struct rlimit most;
    const uint64_t files = machine_files_open();
    meter_put(s, BUILD, 1, program, version, NULL);
    meter_put(s, CPU, (double)time_of(CLOCK_PROCESS_CPUTIME_ID) * 1e-9, NULL);
    meter_put(s, RSS, resident(), NULL);
    meter_put(s, MEMORY_LIMIT, (double)machine_memory(""), NULL);
    meter_put(s, START_TIME, started(), NULL);
    meter_put(s, LOG_DROPPED, (double)log_dropped(), NULL);
    meter_put(s, OPEN_FDS, files > 0 ? (double)files : NAN, NULL);
    if (getrlimit(RLIMIT_NOFILE, &most) == 0)
        meter_put(s, MAX_FDS, (double)most.rlim_cur, NULL);
}
