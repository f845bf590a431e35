/* fuzz_worker.h: shared by the fuzz targets of the readers: one line through reader and features,
 * and the checks afterwards. */
#ifndef TESTS_FUZZ_FUZZ_WORKER_H
#define TESTS_FUZZ_FUZZ_WORKER_H

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "worker/data/feature.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Cells that are read several at a time give the same result, and the same reason, as one at a
 * time. */
static inline void fuzz_plain(const struct features *f, const struct cell *cell, int rc,
                              const struct example *wide, const char *reason)
{
    static struct features plain;
    static float numeric[LIMIT_NUMERIC];
    static uint32_t count[LIMIT_FIELDS];
    char why[REASON_BYTES] = "";
    struct example example = *wide;
    uint64_t *key = malloc(sizeof *key * (wide->keys + f->shape.fields));
    SHOAL_ASSERT(key != NULL);
    plain = *f;
    plain.wide = false;
    example.numeric = numeric;
    example.count = count;
    example.key = key;
    SHOAL_ASSERT(features_example(&plain, cell, &example, why) == rc && strcmp(why, reason) == 0);
    SHOAL_ASSERT(rc != 0 ||
                 (example.keys == wide->keys &&
                  memcmp(key, wide->key, sizeof *key * wide->keys) == 0 &&
                  memcmp(count, wide->count, sizeof *count * f->shape.fields) == 0 &&
                  memcmp(numeric, wide->numeric, sizeof *numeric * f->shape.numerics) == 0));
    free(key);
}

/* The line is copied to a buffer of exactly its size, so that a sanitizer sees every read past
 * it. */
static inline void fuzz_line(format_line read, const struct features *f, const uint8_t *data,
                             size_t size)
{
    static struct cell cell[CELLS_MAX];
    static float numeric[LIMIT_NUMERIC];
    static uint32_t count[LIMIT_FIELDS];
    char reason[REASON_BYTES] = "";
    float label[LIMIT_TASKS], weight = -1;
    uint64_t group, by[LIMIT_BY];
    if (size > LIMIT_LINE_BYTES)
        return;
    char *line = malloc(size + (size == 0));
    uint64_t *key = malloc(sizeof *key * (f->shape.fields + size));
    float *value_weight = malloc(sizeof *value_weight * (f->shape.fields + size));
    SHOAL_ASSERT(line != NULL && key != NULL && value_weight != NULL);
    memcpy(line, data, size);
    struct example example = {.label = label,
                              .weight = &weight,
                              .numeric = numeric,
                              .key = key,
                              .count = count,
                              .value_weight = value_weight,
                              .group = f->group != FEATURE_NO_COLUMN ? &group : NULL,
                              .by = f->by_count > 0 ? by : NULL};
    int rc = read(f, line, size, cell, reason);
    if (rc == 0) {
        rc = features_example(f, cell, &example, reason);
        if (!f->multi)
            fuzz_plain(f, cell, rc, &example, reason);
    }
    if (rc == 0) {
        uint32_t keys = 0;
        bool any = false; /* of several labels some may be missing */
        for (uint32_t i = 0; i < f->shape.tasks; i++) {
            any = any || !isnan(label[i]);
            SHOAL_ASSERT(isnan(label[i]) || (f->real >> i & 1) != 0 || label[i] == 0.0f ||
                         label[i] == 1.0f);
        }
        SHOAL_ASSERT(any);
        SHOAL_ASSERT(f->weight == FEATURE_NO_COLUMN || (isfinite(weight) && weight >= 0));
        for (uint32_t i = 0; i < f->shape.fields; i++) {
            SHOAL_ASSERT(f->shape.most[i] == 0 || count[i] <= f->shape.most[i]);
            for (uint32_t j = 0; j < count[i]; j++)
                SHOAL_ASSERT(key_field(key[keys++]) == f->field[i].key_field);
        }
        SHOAL_ASSERT(keys == example.keys);
        for (uint32_t i = 0; f->weighted && i < keys; i++)
            SHOAL_ASSERT(isfinite(value_weight[i]));
        for (uint32_t i = 0; i < f->shape.numerics; i++)
            SHOAL_ASSERT(isfinite(numeric[i]));
    } else {
        SHOAL_ASSERT(rc == SHOAL_E_DATA && reason[0] != '\0' && strlen(reason) < REASON_BYTES);
    }
    free(line);
    free(key);
    free(value_weight);
}

static inline void fuzz_features(struct features *f, const struct job *job, const char *head)
{
    struct err e = {0};
    if (f->columns == 0)
        SHOAL_ASSERT(features_make(job, "fuzz", head, head != NULL ? strlen(head) : 0, f, &e) == 0);
}

/* Any bytes as the first line of a file: features, or an error with a message. */
static inline void fuzz_head(const struct job *job, const uint8_t *data, size_t size)
{
    struct features f;
    struct err e = {0};
    char *head = malloc(size + (size == 0));
    SHOAL_ASSERT(head != NULL);
    memcpy(head, data, size);
    if (features_make(job, "fuzz", head, size, &f, &e) == 0)
        features_free(&f);
    else
        SHOAL_ASSERT(e.code != 0 && e.text[0] != '\0');
    free(head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
