/* network.c: see network.h. */
#include "server/coord/figures/network.h"

#include "server/coord/work/ring_job.h"

#include <math.h>

double coord_network_age_s(const struct coord_job *j)
{
    const struct coord_ring_job *r = j->ring;
    if (r->ring.published == 0 || r->published_ns == 0)
        return (double)NAN;
    return (double)(env_now_ns(j->fleet->env) - r->published_ns) * 1e-9;
}

static double a_step(double all, const struct wire_WORKER_BEAT *sum)
{
    if (sum->ring_steps == 0)
        return (double)NAN;
    return all / (double)sum->ring_steps;
}

struct json *coord_network_json(const struct coord_job *j, const struct wire_WORKER_BEAT *sum)
{
    const struct coord_ring *r = &j->ring->ring;
    if (!coord_ring_on(j))
        return NULL;
    struct json *of = json_new_object();
    json_set_int(of, "rings", (int64_t)r->number);
    json_set_int(of, "members", r->count);
    json_set_int(of, "starts", r->starts);
    json_set_int(of, "steps", (int64_t)coord_ring_at(r));
    json_set_number(of, "bytes_a_step", a_step((double)sum->ring_bytes, sum));
    json_set_number(of, "wait_ms_a_step", a_step(sum->ring_wait_s * 1e3, sum));
    json_set_int(of, "published", (int64_t)r->published);
    json_set_int(of, "state_bytes", (int64_t)j->ring->state_bytes);
    return of;
}

static struct json *names_json(struct coord_job *j)
{
    const struct coord_ring *r = &j->ring->ring;
    struct json *names = json_new_array();
    for (uint32_t i = 0; i < r->count; i++) {
        const struct coord_worker *w = coord_worker_find(&j->workers, r->member[i].worker);
        if (w != NULL)
            json_append_string(names, w->name);
    }
    return names;
}

struct json *coord_network_status(struct coord_job *j, const struct wire_WORKER_BEAT *sum)
{
    static const char *const states[] = {
        [RING_NONE] = "none", [RING_GATHERS] = "gathers", [RING_STANDS] = "stands"};
    struct json *of = coord_network_json(j, sum);
    if (of == NULL)
        return NULL;
    json_set_string(of, "state", states[j->ring->ring.state]);
    if (j->ring->rest.at != 0)
        json_set_int(of, "rest", (int64_t)j->ring->rest.at);
    json_set_number(of, "published_seconds", coord_network_age_s(j));
    json_set(of, "workers", names_json(j));
    return of;
}
