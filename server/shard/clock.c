/* clock.c: gates of waiting pulls. */
#include "server/shard/clock.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <stdlib.h>

int clock_init(struct clock *c)
{
    *c = (struct clock){.gate = calloc(CLOCK_GATES, sizeof *c->gate)};
    if (c->gate == NULL)
        return SHOAL_E_NOMEM;
    return 0;
}

void clock_close(struct clock *c)
{
    free(c->gate);
    *c = (struct clock){0};
}

uint64_t clock_need(uint64_t clock, uint32_t bound)
{
    uint64_t back = (uint64_t)bound + 1;
    return SAT_SUB(clock, back);
}

int clock_range(const struct engine *g, uint64_t run, uint32_t table, uint64_t *low, uint64_t *high)
{
    uint32_t mode, lanes;
    *low = *high = 0;
    if (engine_run_mode(g, run, &mode, &lanes))
        return SHOAL_E_NOT_FOUND;
    uint64_t unused;
    if (mode != WIRE_BSP)
        return engine_clock(g, run, 0, 0, &unused, low);
    *low = UINT64_MAX;
    for (uint32_t i = 0; i < lanes; i++) {
        uint64_t mark = engine_mark(g, run, i, table);
        *low = MIN(mark, *low);
        *high = MAX(mark, *high);
    }
    return 0;
}

uint64_t clock_high(const struct engine *g, const struct lead *lead, uint64_t run)
{
    const struct table_set counts = engine_run_counts(g, run);
    uint64_t low, high, newest = 0;
    uint32_t mode, lanes;
    if (engine_run_mode(g, run, &mode, &lanes) != 0 || mode != WIRE_BSP)
        return 0;
    TABLE_SET_EACH (t, &counts)
        if (lead->range[t].count > 0 && clock_range(g, run, t, &low, &high) == 0 && high > newest)
            newest = high;
    return newest;
}

static struct clock_gate *gate_of(struct clock *c, uint64_t run, uint32_t table)
{
    for (uint32_t i = 0; i < c->gate_count; i++)
        if (c->gate[i].run == run && c->gate[i].table == table)
            return &c->gate[i];
    SHOAL_ASSERT(c->gate_count <= CLOCK_GATES);
    if (c->gate_count == CLOCK_GATES)
        return NULL;
    struct clock_gate *gate = &c->gate[c->gate_count++];
    *gate = (struct clock_gate){.run = run, .table = table};
    return gate;
}

static void close_empty_gates(struct clock *c)
{
    for (uint32_t i = 0; i < c->gate_count;)
        if (c->gate[i].head != NULL)
            i++;
        else
            c->gate[i] = c->gate[--c->gate_count];
    SHOAL_ASSERT(c->gate_count > 0 || c->waiting == 0);
    SHOAL_ASSERT(c->gate_count <= c->waiting); /* each gate has at least one pull */
}

/* Takes out the pull at *at. */
static struct request *unlink_at(struct clock *c, struct request **at)
{
    struct request *q = *at;
    SHOAL_ASSERT(c->waiting > 0 && c->bytes >= q->bytes);
    *at = q->next;
    q->next = NULL;
    c->waiting--;
    c->bytes -= q->bytes;
    return q;
}

struct request *clock_take(struct clock *c, const struct request *q)
{
    struct request *found = NULL;
    for (uint32_t i = 0; i < c->gate_count && found == NULL; i++) {
        struct clock_gate *gate = &c->gate[i];
        if (gate->run != q->pull.run || gate->table != q->pull.table)
            continue;
        for (struct request **at = &gate->head; *at != NULL && found == NULL; at = &(*at)->next)
            if (request_same_pull(*at, q)) {
                found = unlink_at(c, at);
                break;
            }
    }
    close_empty_gates(c);
    return found;
}

bool clock_wait(struct clock *c, struct request *q)
{
    struct clock_gate *gate = gate_of(c, q->pull.run, q->pull.table);
    if (gate == NULL)
        return false;
    SHOAL_ASSERT(c->waiting < LIMIT_WAITING); /* q itself has a place in the pool */
    struct request **at = &gate->head;
    while (*at != NULL && (*at)->pull.need <= q->pull.need)
        at = &(*at)->next;
    q->next = *at;
    *at = q;
    c->waiting++;
    c->bytes += q->bytes;
    return true;
}

void clock_due(struct clock *c, const struct engine *g, struct request_list *out)
{
    for (uint32_t i = 0; i < c->gate_count; i++) {
        struct clock_gate *gate = &c->gate[i];
        uint64_t low, high;
        if (clock_range(g, gate->run, gate->table, &low, &high))
            low = UINT64_MAX; /* the run is gone: its pulls are taken out to be refused */
        while (gate->head != NULL && gate->head->pull.need <= low) {
            struct request *q = unlink_at(c, &gate->head);
            SHOAL_ASSERT(gate->head == NULL || gate->head->pull.need >= q->pull.need);
            request_append(out, q);
        }
    }
    close_empty_gates(c);
}

/* Takes out the pulls of a peer (0: of any) that arrived before an instant. */
static void take_out(struct clock *c, peer_t peer, uint64_t before_ns, struct request_list *out)
{
    for (uint32_t i = 0; i < c->gate_count; i++) {
        struct request **at = &c->gate[i].head;
        while (*at != NULL) {
            struct request *q = *at;
            if ((peer != 0 && q->peer != peer) || q->arrived_ns >= before_ns) {
                at = &q->next;
                continue;
            }
            request_append(out, unlink_at(c, at));
        }
    }
    close_empty_gates(c);
}

void clock_peer_gone(struct clock *c, peer_t peer, struct request_list *out)
{
    SHOAL_ASSERT(peer != 0);
    take_out(c, peer, UINT64_MAX, out);
}

void clock_expire(struct clock *c, uint64_t before_ns, struct request_list *out)
{
    take_out(c, 0, before_ns, out);
}
