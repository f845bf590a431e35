/* library_calls.c: calls of libshoal, one after the other, and the code of each.
 *
 *     library_calls COORDINATOR KEYS|- TABLE [WAIT_MS]
 *
 * It prints "open 0", "fetch 0" and so on, an error's sentence behind its code. */
#include <shoal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct shoal_error e;

static void say(const char *what, int rc)
{
    printf("%s %d%s%s\n", what, rc, rc != SHOAL_OK ? ": " : "", e.text);
    fflush(stdout);
}

/* A job that waits for workers would have been joined by then. */
static bool patient(void *context)
{
    int *left = context;
    return --*left > 0;
}

static void calls(shoal_fleet *fleet, uint32_t table)
{
    static const uint64_t keys[] = {1, 2, 3};
    static float weights[3 * 4096], state[3 * 8192];
    uint8_t found[3];
    struct shoal_assigned counts = {.size = sizeof counts};
    say("fetch", shoal_fetch(fleet, table, keys, 3, weights, NULL, found, &e));
    say("state", shoal_fetch(fleet, table, keys, 3, weights, state, found, &e));
    weights[0] = 7;
    say("assign", shoal_assign(fleet, table, keys, 3, weights, NULL, 0, &counts, &e));
    say("again", shoal_fetch(fleet, table, keys, 3, weights, NULL, found, &e));
    if (e.code == SHOAL_OK)
        printf("found %d %d %d, first %g\n", found[0], found[1], found[2], (double)weights[0]);
}

int main(int n, char **v)
{
    struct shoal_fleet_options o = {.size = sizeof o, .coordinator = v[1], .wait_ms = 5000};
    int left = 10;
    struct shoal_work_options w = {.size = sizeof w,
                                   .coordinator = v[1],
                                   .wait_ms = 2000,
                                   .goes_on = patient,
                                   .context = &left};
    shoal_fleet *fleet;
    shoal_work *work;
    uint32_t table;
    if (n < 4)
        return 64;
    if (strcmp(v[2], "-") != 0)
        o.keys = w.keys = v[2];
    if (n > 4)
        o.wait_ms = (uint32_t)atoi(v[4]);
    int rc = shoal_fleet_open(&o, &fleet, &e);
    say("open", rc);
    if (rc == SHOAL_OK) {
        rc = shoal_fleet_find(fleet, v[3], &table, &e);
        say("find", rc);
        if (rc == SHOAL_OK)
            calls(fleet, table);
        shoal_fleet_close(fleet);
    }
    rc = shoal_work_join(&w, &work, &e);
    say("join", rc);
    if (rc == SHOAL_OK)
        shoal_work_close(work);
    return 0;
}
