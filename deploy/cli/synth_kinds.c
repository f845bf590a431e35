/* synth_kinds.c: the teachers of the csv logs: a behaviour sequence with a target, and two
 * labels. */
#include "deploy/cli/synth_row.h"

#include "proto/base/rng.h"

#include <stddef.h>

#define USERS 2000u
#define ITEMS 1000u
#define CLASSES 25u /* an item's class is its number modulo this */
#define FAVOURITES 4u
#define HISTORY_MIN 4u
#define HISTORY_MAX 20u
#define TASK_FIELDS 8u

static const uint32_t task_values[TASK_FIELDS] = {20000, 3000, 400, 100, 50, 24, 12, 7};

const char *synth_label(enum synth_kind kind, uint32_t label)
{
    static const char *const tasks[] = {"click", "buy"};
    if (kind == SYNTH_TASKS) {
        if (label < 2)
            return tasks[label];
        return NULL;
    }
    if (label == 0)
        return "label";
    return NULL;
}

const char *synth_row_kind_head(enum synth_kind kind)
{
    if (kind == SYNTH_SEQUENCE)
        return "label,user,item,history\n";
    if (kind == SYNTH_TASKS)
        return "click,buy,user,item,brand,city,hour_of_week,age,month,weekday\n";
    return "";
}

/* A number from 0 on; small numbers are more frequent. */
static uint32_t draw_popular(struct rng *rng, uint32_t count)
{
    double u = rng_double(rng);
    return (uint32_t)(u * u * (double)count);
}

/* An item, mostly one of the user's favourite classes. */
static uint32_t draw_item(struct rng *rng, uint64_t user_hash, unsigned of_256)
{
    uint32_t class = (uint32_t)rng_below(rng, CLASSES);
    if (rng_below(rng, 256) < of_256)
        class = (uint32_t)(rng_mix(user_hash + rng_below(rng, FAVOURITES)) % CLASSES);
    return class + CLASSES * draw_popular(rng, ITEMS / CLASSES);
}

static char *sequence_put(const struct synth_teacher *t, struct rng *rng, char *to,
                          struct synth_truth *truth)
{
    uint32_t history[HISTORY_MAX], user = draw_popular(rng, USERS);
    uint32_t length = HISTORY_MIN + (uint32_t)rng_below(rng, HISTORY_MAX - HISTORY_MIN + 1);
    uint64_t user_hash = rng_mix(rng_mix(t->seed + 1) ^ user);
    uint32_t item = draw_item(rng, user_hash, 128);
    bool recent = false;
    for (uint32_t i = 0; i < length; i++) {
        history[i] = draw_item(rng, user_hash, 160);
        recent |= i + SYNTH_RECENT >= length && history[i] % CLASSES == item % CLASSES;
    }
    double logit = -2.0 + (recent ? 2.8 : 0.0) +
                   0.5 * synth_row_normal(rng_mix(rng_mix(t->seed + 2) ^ item)) +
                   0.3 * synth_row_normal(rng_mix(user_hash));
    truth->probability[0] = synth_row_probability(logit);
    truth->label[0] = rng_double(rng) < truth->probability[0];
    *to++ = truth->label[0] ? '1' : '0';
    *to++ = ',';
    to = synth_row_put_number(to, user);
    *to++ = ',';
    to = synth_row_put_number(to, item);
    for (uint32_t i = 0; i < length; i++) {
        *to++ = i == 0 ? ',' : '|';
        to = synth_row_put_number(to, history[i]);
    }
    return to;
}

/* The effects of a value: the part that both labels share, and the part of each label. */
static char *tasks_put(const struct synth_teacher *t, struct rng *rng, char *to,
                       struct synth_truth *truth)
{
    uint32_t value[TASK_FIELDS];
    double shared = 0, own[2] = {0, 0};
    for (uint32_t i = 0; i < TASK_FIELDS; i++) {
        value[i] = draw_popular(rng, task_values[i]);
        uint64_t hash = rng_mix(rng_mix(t->seed + 3 + i) ^ value[i]);
        shared += 0.35 * synth_row_normal(hash);
        own[0] += 0.25 * synth_row_normal(rng_mix(hash + 1));
        own[1] += 0.25 * synth_row_normal(rng_mix(hash + 2));
    }
    double click = synth_row_probability(-1.0 + shared + own[0]),
           after = synth_row_probability(-1.2 + shared + own[1]);
    truth->probability[0] = click;
    truth->probability[1] = click * after;
    truth->label[0] = rng_double(rng) < click;
    truth->label[1] = rng_double(rng) < after && truth->label[0];
    *to++ = truth->label[0] ? '1' : '0';
    *to++ = ',';
    *to++ = truth->label[1] ? '1' : '0';
    for (uint32_t i = 0; i < TASK_FIELDS; i++) {
        *to++ = ',';
        to = synth_row_put_number(to, value[i]);
    }
    return to;
}

char *synth_row_kind_put(const struct synth_teacher *t, uint64_t part, uint64_t number_of_row,
                         char *to, struct synth_truth *truth)
{
    struct rng rng = rng_of(t->seed, part, number_of_row);
    to = t->kind == SYNTH_SEQUENCE ? sequence_put(t, &rng, to, truth)
                                   : tasks_put(t, &rng, to, truth);
    *to++ = '\n';
    return to;
}
