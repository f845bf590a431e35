/* worker_split.c: a dataset of rows that are known by their numbers. */
#include "tests/lib/worker_split.h"

#include "proto/base/key.h"
#include "tests/lib/worker_files.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

struct split split;

void split_setup(void)
{
    worker_folder_make();
    split.error = (struct err){0};
    split.data = NULL;
    worker_job(&split.job, DATA_CSV, NULL);
    batch_init(&split.batch);
}

void split_teardown(void)
{
    batch_free(&split.batch);
    dataset_close(split.data);
    job_free(&split.job);
    worker_folder_remove();
}

void split_open(uint32_t of)
{
    dataset_close(split.data);
    split.data = NULL;
    ck_assert_msg(dataset_open(&split.job, of, &split.data, &split.error) == 0, "%s",
                  split.error.text);
}

const char *split_rows(const char *name, uint32_t first, uint32_t rows)
{
    char *text = malloc(32 + 24 * (size_t)rows);
    size_t at = (size_t)sprintf(text, "label,row\n");
    for (uint32_t i = first; i < first + rows; i++)
        at += (size_t)sprintf(text + at, "%u,r%u\n", i & 1, i);
    const char *path = worker_write(name, text, at);
    free(text);
    return path;
}

uint64_t split_row_key(uint32_t row)
{
    char text[16];
    return key_of_value(0, text, (size_t)sprintf(text, "r%u", row));
}

void split_read(uint32_t epoch, uint64_t position, uint32_t rows)
{
    ck_assert_msg(batch_read(split.data, 2026, epoch, position, rows, &split.batch, &split.error) ==
                      0,
                  "%s", split.error.text);
}

uint64_t split_key(uint32_t example)
{
    return split.batch.keys[split.batch.index[example]];
}

uint32_t split_epoch(uint32_t epoch, uint32_t rows, uint32_t batch)
{
    struct pair {
        uint64_t key;
        uint32_t row;
    };
    uint32_t in_place = 0;
    unsigned char *seen = calloc(rows, 1);
    uint32_t slots = 1;
    while (slots < 2 * rows)
        slots *= 2;
    struct pair *table = calloc(slots, sizeof *table);
    for (uint32_t i = 0; i < rows; i++) {
        uint64_t key = split_row_key(i);
        uint32_t at = (uint32_t)key & (slots - 1);
        while (table[at].key != 0)
            at = (at + 1) & (slots - 1);
        table[at] = (struct pair){key, i};
    }
    for (uint32_t at = 0; at < rows; at += batch) {
        uint32_t want = rows - at < batch ? rows - at : batch;
        split_read(epoch, at, want);
        ck_assert_uint_eq(split.batch.examples, want);
        ck_assert_uint_eq(split.batch.bad_lines, 0);
        for (uint32_t i = 0; i < want; i++) {
            uint64_t key = split_key(i);
            uint32_t slot = (uint32_t)key & (slots - 1);
            while (table[slot].key != key) {
                ck_assert_uint_ne(table[slot].key, 0);
                slot = (slot + 1) & (slots - 1);
            }
            uint32_t row = table[slot].row;
            ck_assert_uint_eq(seen[row], 0);
            seen[row] = 1;
            in_place += row == at + i;
            ck_assert(split.batch.label[i] == (float)(row & 1));
        }
    }
    free(seen);
    free(table);
    return in_place;
}
