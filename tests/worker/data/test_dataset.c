/* test_dataset.c: batches by position: every row once an epoch, the same bytes each time, and
 * changed input is noticed. */
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/worker_files.h"
#include "worker/data/dataset.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct job job;
static struct dataset *d;
static struct batch b;
static struct err e;

static void setup(void)
{
    worker_folder_make();
    e = (struct err){0};
    d = NULL;
    worker_job(&job, DATA_CSV, NULL);
    batch_init(&b);
}

static void teardown(void)
{
    batch_free(&b);
    dataset_close(d);
    job_free(&job);
    worker_folder_remove();
}

static void open_split(uint32_t split)
{
    dataset_close(d);
    d = NULL;
    ck_assert_msg(dataset_open(&job, split, &d, &e) == 0, "%s", e.text);
}

/* A csv file whose row i is "i % 2,r<i>". */
static const char *write_rows(const char *name, uint32_t first, uint32_t rows)
{
    char *text = malloc(32 + 24 * (size_t)rows);
    size_t at = (size_t)sprintf(text, "label,row\n");
    for (uint32_t i = first; i < first + rows; i++)
        at += (size_t)sprintf(text + at, "%u,r%u\n", i & 1, i);
    const char *path = worker_write(name, text, at);
    free(text);
    return path;
}

static uint64_t row_key(uint32_t row)
{
    char text[16];
    return key_of_value(0, text, (size_t)sprintf(text, "r%u", row));
}

static void read_batch(uint32_t epoch, uint64_t position, uint32_t rows)
{
    ck_assert_msg(batch_read(d, 2026, epoch, position, rows, &b, &e) == 0, "%s", e.text);
}

static uint64_t key_at(uint32_t example)
{
    return b.keys[b.index[example]];
}

/* Reads an epoch in batches and checks that each row comes once; returns the number of rows in
 * their own place. */
static uint32_t check_epoch(uint32_t epoch, uint32_t rows, uint32_t batch)
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
        uint64_t key = row_key(i);
        uint32_t at = (uint32_t)key & (slots - 1);
        while (table[at].key != 0)
            at = (at + 1) & (slots - 1);
        table[at] = (struct pair){key, i};
    }
    for (uint32_t at = 0; at < rows; at += batch) {
        uint32_t want = rows - at < batch ? rows - at : batch;
        read_batch(epoch, at, want);
        ck_assert_uint_eq(b.examples, want);
        ck_assert_uint_eq(b.bad_lines, 0);
        for (uint32_t i = 0; i < want; i++) {
            uint64_t key = key_at(i);
            uint32_t slot = (uint32_t)key & (slots - 1);
            while (table[slot].key != key) {
                ck_assert_uint_ne(table[slot].key, 0);
                slot = (slot + 1) & (slots - 1);
            }
            uint32_t row = table[slot].row;
            ck_assert_uint_eq(seen[row], 0);
            seen[row] = 1;
            in_place += row == at + i;
            ck_assert(b.label[i] == (float)(row & 1));
        }
    }
    free(seen);
    free(table);
    return in_place;
}

START_TEST(dataset_epoch_visits_every_row_once)
{
    config_list_add(&job.data.train, write_rows("a.csv", 0, 5000));
    open_split(WIRE_TRAIN);
    ck_assert_uint_eq(dataset_rows(d), 5000);
    ck_assert_uint_lt(check_epoch(1, 5000, 512), 20);
    ck_assert_uint_lt(check_epoch(2, 5000, 999), 20);
    ck_assert_uint_eq(check_epoch(0, 5000, 512), 5000); /* epoch 0 is file order */
    job.data.shuffle = false;
    open_split(WIRE_TRAIN);
    ck_assert_uint_eq(check_epoch(1, 5000, 512), 5000);
}
END_TEST

START_TEST(dataset_chunks_of_many_rows_are_visited_once_too)
{
    /* More than 2^18 rows: chunks of two, in three files, so that a chunk may cross the end of a
     * file; batches of odd sizes cut chunks. */
    write_rows("a1.csv", 0, 100001);
    write_rows("a2.csv", 100001, 100000);
    write_rows("a3.csv", 200001, 62200);
    config_list_add(&job.data.train, worker_path("a*.csv"));
    open_split(WIRE_TRAIN);
    ck_assert_uint_eq(dataset_rows(d), 262201);
    ck_assert_uint_lt(check_epoch(1, 262201, 4097), 100);
    ck_assert_uint_eq(check_epoch(0, 262201, 65535), 262201);
}
END_TEST

START_TEST(dataset_eval_is_in_file_order)
{
    config_list_add(&job.data.train, write_rows("a.csv", 0, 10));
    config_list_add(&job.data.valid, write_rows("v.csv", 0, 300));
    open_split(WIRE_VALID);
    ck_assert_uint_eq(check_epoch(1, 300, 64), 300);
}
END_TEST

START_TEST(dataset_batches_are_the_same_bytes_each_time)
{
    struct batch other;
    batch_init(&other);
    config_list_add(&job.data.train, write_rows("a.csv", 0, 3000));
    open_split(WIRE_TRAIN);
    read_batch(3, 1000, 500);
    struct dataset *again;
    ck_assert_int_eq(dataset_open(&job, WIRE_TRAIN, &again, &e), 0);
    /* buffers with another history */
    ck_assert_int_eq(batch_read(again, 2026, 3, 0, 700, &other, &e), 0);
    ck_assert_int_eq(batch_read(again, 2026, 3, 1000, 500, &other, &e), 0);
    ck_assert_uint_eq(b.key_count, other.key_count);
    ck_assert_int_eq(memcmp(b.keys, other.keys, sizeof b.keys[0] * b.key_count), 0);
    ck_assert_int_eq(memcmp(b.index, other.index, sizeof b.index[0] * b.values), 0);
    ck_assert_int_eq(memcmp(b.label, other.label, sizeof b.label[0] * b.examples), 0);
    ck_assert_int_eq(batch_read(again, 2027, 3, 1000, 500, &other, &e), 0);
    ck_assert_int_ne(memcmp(b.keys, other.keys, sizeof b.keys[0] * b.key_count), 0);
    dataset_close(again);
    batch_free(&other);
}
END_TEST

START_TEST(dataset_digest_is_of_content)
{
    const char *plain = write_rows("a.csv", 0, 100);
    config_list_add(&job.data.train, plain);
    open_split(WIRE_TRAIN);
    uint64_t digest = dataset_digest(d);
    char command[4096];
    snprintf(command, sizeof command, "gzip -c %s > %s.gz", plain, plain);
    ck_assert_int_eq(system(command), 0);
    config_list_free(&job.data.train);
    config_list_add(&job.data.train, worker_path("a.csv.gz"));
    open_split(WIRE_TRAIN);
    ck_assert_uint_eq(dataset_digest(d), digest);
    config_list_free(&job.data.train);
    config_list_add(&job.data.train, write_rows("b.csv", 1, 100));
    open_split(WIRE_TRAIN);
    ck_assert_uint_ne(dataset_digest(d), digest);
}
END_TEST

static void overwrite(const char *path, off_t at, const char *text)
{
    int fd = open(path, O_WRONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, text, strlen(text), at), (ssize_t)strlen(text));
    close(fd);
}

START_TEST(dataset_changed_input_is_an_error)
{
    static const char *changes[] = {"X", "\n"}; /* another value; another row */
    for (int i = 0; i < 2; i++) {
        const char *path = write_rows("a.csv", 0, 1000);
        config_list_free(&job.data.train);
        config_list_add(&job.data.train, path);
        open_split(WIRE_TRAIN);
        read_batch(1, 0, 1000);
        overwrite(path, 3003, changes[i]);
        ck_assert_int_eq(batch_read(d, 2026, 1, 0, 1000, &b, &e), SHOAL_E_CHECKSUM);
        ck_assert_ptr_nonnull(strstr(e.text, "a.csv"));
        ck_assert_int_eq(batch_read(d, 2026, 0, 0, 1000, &b, &e), SHOAL_E_CHECKSUM);
        /* unchanged rows are still good */
        ck_assert_int_eq(batch_read(d, 2026, 0, 0, 100, &b, &e), 0);
    }
}
END_TEST

START_TEST(dataset_input_cut_short_is_an_error)
{
    const char *path = write_rows("a.csv", 0, 1000);
    config_list_add(&job.data.train, path);
    open_split(WIRE_TRAIN);
    ck_assert_int_eq(truncate(path, 5000), 0);
    ck_assert_int_eq(batch_read(d, 2026, 1, 0, 1000, &b, &e), SHOAL_E_CHECKSUM);
    ck_assert_ptr_nonnull(strstr(e.text, "shorter"));
}
END_TEST

START_TEST(dataset_replaced_file_does_not_disturb_a_running_job)
{
    const char *path = write_rows("a.csv", 0, 1000);
    config_list_add(&job.data.train, path);
    open_split(WIRE_TRAIN);
    ck_assert_int_eq(rename(worker_text("new.csv", "label,row\n1,x\n"), path), 0);
    check_epoch(1, 1000, 100);
}
END_TEST

START_TEST(dataset_malformed_lines_are_counted_with_their_place)
{
    config_list_add(&job.data.train,
                    worker_text("a.csv", "label,row\n\n1,a\nbroken\n0,b\nx,c\n1,d\n"));
    open_split(WIRE_TRAIN);
    ck_assert_uint_eq(dataset_rows(d), 5);
    read_batch(0, 0, 5);
    ck_assert_uint_eq(b.examples, 3);
    ck_assert_uint_eq(b.bad_lines, 2);
    ck_assert_ptr_nonnull(strstr(b.bad_where, "a.csv:4: 1 columns, not 2"));
    read_batch(0, 2, 3); /* its place is known from the index, wherever reading begins */
    ck_assert_uint_eq(b.bad_lines, 1);
    ck_assert_ptr_nonnull(strstr(b.bad_where, "a.csv:6: no number as label"));
}
END_TEST

START_TEST(dataset_line_over_the_limit_is_malformed)
{
    size_t bytes = (LIMIT_LINE_BYTES + 100u) + 64;
    char *text = malloc(bytes);
    memset(text, 'x', bytes);
    memcpy(text, "label,row\n1,", 12);
    memcpy(text + bytes - 6, "\n0,ok\n", 6);
    config_list_add(&job.data.train, worker_write("a.csv", text, bytes));
    free(text);
    open_split(WIRE_TRAIN);
    read_batch(1, 0, 2);
    ck_assert_uint_eq(b.examples, 1);
    ck_assert_uint_eq(b.bad_lines, 1);
    ck_assert_ptr_nonnull(strstr(b.bad_where, "a.csv:2: the line is longer than"));
}
END_TEST

START_TEST(dataset_position_beyond_the_end_is_refused)
{
    config_list_add(&job.data.train, write_rows("a.csv", 0, 10));
    open_split(WIRE_TRAIN);
    ck_assert_int_eq(batch_read(d, 1, 1, 5, 6, &b, &e), SHOAL_E_DATA);
    ck_assert_int_eq(batch_read(d, 1, 1, UINT64_MAX, 6, &b, &e), SHOAL_E_DATA);
    ck_assert_int_eq(batch_read(d, 1, 1, 10, 0, &b, &e), 0);
}
END_TEST

START_TEST(dataset_columns_are_found_by_name_in_each_split)
{
    config_list_add(&job.data.train, worker_text("t.csv", "label,user,item\n1,u,i\n"));
    config_list_add(&job.data.valid, worker_text("v.csv", "item,user,label\r\ni,u,1\r\n"));
    strcpy(job.data.label[0], "label");
    open_split(WIRE_VALID);
    read_batch(1, 0, 1);
    ck_assert_uint_eq(b.bad_lines, 0);
    ck_assert_uint_eq(key_at(0), key_of_value(0, "u", 1));
    ck_assert_uint_eq(key_at(1), key_of_value(1, "i", 1));
}
END_TEST

START_TEST(dataset_files_of_a_split_need_one_header)
{
    worker_text("t1.csv", "label,user\n1,u\n");
    worker_text("t2.csv", "");
    worker_text("t3.csv", "label,usr\n1,u\n");
    config_list_add(&job.data.train, worker_path("t*.csv"));
    ck_assert_int_eq(dataset_open(&job, WIRE_TRAIN, &d, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "t3.csv:1"));
}
END_TEST

START_TEST(dataset_without_rows_is_refused)
{
    config_list_add(&job.data.train, worker_text("t.csv", "label,user\n\n"));
    ck_assert_int_eq(dataset_open(&job, WIRE_TRAIN, &d, &e), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "no row"));
    ck_assert_int_eq(dataset_open(&job, WIRE_TEST, &d, &e), SHOAL_E_NOINPUT);
    ck_assert_ptr_nonnull(strstr(e.text, "data.test"));
}
END_TEST

START_TEST(dataset_first_file_may_be_empty)
{
    config_list_add(&job.data.train, worker_text("0.csv", ""));
    config_list_add(&job.data.train, write_rows("1.csv", 0, 5));
    open_split(WIRE_TRAIN);
    ck_assert_uint_eq(check_epoch(0, 5, 5), 5);
}
END_TEST

START_TEST(dataset_shape_needs_no_more_than_the_first_line)
{
    struct model_shape shape;
    config_list_add(&job.data.train, worker_text("t.csv", "label,user,n\n"));
    worker_job_column(&job, "label", COLUMN_LABEL);
    worker_job_column(&job, "user", COLUMN_CATEGORY);
    worker_job_column(&job, "n", COLUMN_NUMBER);
    ck_assert_int_eq(dataset_shape(&job, &shape, &e), 0);
    ck_assert_uint_eq(shape.fields, 1);
    ck_assert_uint_eq(shape.numerics, 1);
    job.data.format = DATA_CRITEO;
    job.data.column_count = 0;
    config_list_free(&job.data.train);
    ck_assert_int_eq(dataset_shape(&job, &shape, &e), 0); /* known without reading */
    ck_assert_uint_eq(shape.fields, 26);
    job.data.format = DATA_LIBSVM;
    ck_assert_int_eq(dataset_shape(&job, &shape, &e), SHOAL_E_NOINPUT);
}
END_TEST

static void known(enum legend_list list, const char *name, uint32_t number, bool here)
{
    struct legend *n = &job.legend;
    ck_assert_int_eq(legend_add(n, list, name, "emb", "category", &e), 0);
    n->name[list][n->count[list] - 1].number = number;
    n->name[list][n->count[list] - 1].here = here;
}

/* The tables know the columns by name, even if the input that made them is gone. */
START_TEST(dataset_columns_are_those_that_the_tables_know)
{
    char head[256], long_name[80];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    char as_kept[LEGEND_NAME];
    legend_write(long_name, strlen(long_name), 1, as_kept);
    job.legend.input = strdup("");
    job.legend.labels = strdup("");
    known(LEGEND_FIELDS, "item", 4, true);
    known(LEGEND_FIELDS, "gone", 2, false);
    known(LEGEND_FIELDS, "user", 1, true);
    known(LEGEND_FIELDS, as_kept, 7, true);
    strcpy(job.data.label[0], "label");
    job.predict.on = true;
    config_list_add(&job.data.train, "/nonexistent/log.csv");
    snprintf(head, sizeof head, "more,item,%s,user\nm,i,x,u\n", long_name);
    config_list_add(&job.data.test, worker_text("new.csv", head));
    open_split(WIRE_TEST);
    read_batch(0, 0, 1);
    ck_assert_uint_eq(b.values, 3);
    ck_assert_uint_eq(key_at(0), key_of_value(1, "u", 1));
    ck_assert_uint_eq(key_at(1), key_of_value(4, "i", 1));
    ck_assert_uint_eq(key_at(2), key_of_value(7, "x", 1));
    strcpy(job.data.label[0], "0"); /* a position in a header that no longer exists */
    dataset_close(d);
    d = NULL;
    ck_assert_int_eq(dataset_open(&job, WIRE_TEST, &d, &e), SHOAL_E_NOINPUT);
    ck_assert_ptr_nonnull(strstr(e.text, "/nonexistent/log.csv"));
}
END_TEST

/* A job without training does not run a command, or list a log, for the first line. */
START_TEST(dataset_that_trains_nothing_asks_no_stream)
{
    struct model_shape shape;
    char text[LIMIT_PATH];
    job.legend.input = strdup("");
    job.legend.labels = strdup("");
    known(LEGEND_FIELDS, "user", 1, true);
    strcpy(job.data.label[0], "label");
    job.data.label_count = 1;
    job.train.skip = true;
    snprintf(text, sizeof text, "cmd:touch %s; echo label,user,item", worker_path("ran"));
    config_list_add(&job.data.train, text);
    ck_assert_msg(dataset_shape(&job, &shape, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(shape.fields, 1);
    ck_assert_int_ne(access(worker_path("ran"), F_OK), 0);
    job.data.objects.of[WIRE_TRAIN].on = true;
    config_list_free(&job.data.train);
    config_list_add(&job.data.train, worker_text("log.csv", "label,user,item\n1,a,b\n"));
    ck_assert_msg(dataset_shape(&job, &shape, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(shape.fields, 1);
    ck_assert(dataset_goes_by_names(&job));
    job.data.format = DATA_EVENTS; /* their columns are read from a file */
    ck_assert(!dataset_goes_by_names(&job));
    job.data.format = DATA_CSV;
    strcpy(job.data.label[0], "0"); /* a position: only the header knows it */
    ck_assert_msg(dataset_shape(&job, &shape, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(shape.fields, 2);
}
END_TEST

/* Reads the epoch in batches and sets which rows of label 0 were kept; every row of label 1 must be
 * there. */
static uint32_t kept_negatives(uint32_t epoch, uint32_t rows, uint32_t batch, unsigned char *kept)
{
    uint32_t count = 0, dropped = 0, positive = 0;
    memset(kept, 0, rows);
    for (uint32_t at = 0; at < rows; at += batch) {
        uint32_t want = rows - at < batch ? rows - at : batch;
        read_batch(epoch, at, want);
        dropped += b.dropped;
        ck_assert_uint_eq(b.examples + b.dropped, want);
        for (uint32_t i = 0; i < b.examples; i++) {
            uint32_t row = 0;
            positive += b.label[i] == 1.0f;
            if (b.label[i] == 1.0f)
                continue;
            while (row < rows && row_key(row) != key_at(i))
                row += 2;
            ck_assert_uint_lt(row, rows);
            ck_assert_uint_eq(kept[row], 0);
            kept[row] = 1;
            count++;
        }
    }
    ck_assert_uint_eq(positive, rows / 2);
    ck_assert_uint_eq(count + dropped, rows / 2);
    return count;
}

START_TEST(dataset_negatives_are_a_share_drawn_anew_each_epoch)
{
    enum { ROWS = 4000 };
    static unsigned char first[ROWS], second[ROWS], again[ROWS];
    job.data.negatives = 0.25;
    config_list_add(&job.data.train, write_rows("a.csv", 0, ROWS));
    config_list_add(&job.data.valid, write_rows("v.csv", 0, ROWS));
    open_split(WIRE_TRAIN);
    uint32_t count = kept_negatives(1, ROWS, 512, first);
    ck_assert_uint_eq(count, 507);           /* the same in every release */
    ck_assert_uint_gt(count, 2000 / 4 - 80); /* four deviations of sqrt(2000 0.25 0.75) */
    ck_assert_uint_lt(count, 2000 / 4 + 80);
    /* not by position: other batches, the same rows */
    ck_assert_uint_eq(kept_negatives(1, ROWS, 333, again), count);
    ck_assert_int_eq(memcmp(first, again, ROWS), 0);
    kept_negatives(2, ROWS, 512, second);
    uint32_t both = 0;
    for (uint32_t i = 0; i < ROWS; i++)
        both += first[i] & second[i];
    ck_assert_uint_gt(both, 2000 / 16 - 50);
    ck_assert_uint_lt(both, 2000 / 16 + 50);
    job.data.shuffle = false; /* nor by the order of the epoch */
    open_split(WIRE_TRAIN);
    kept_negatives(1, ROWS, 512, again);
    ck_assert_int_eq(memcmp(first, again, ROWS), 0);
    read_batch(1, 0, ROWS);
    /* counts all rows: a reader in order learns the label later */
    ck_assert_uint_gt(b.drawn, ROWS / 4 - 110);
    ck_assert_uint_lt(b.drawn, ROWS / 4 + 110);
    read_batch(0, 0, ROWS); /* evaluation takes all */
    ck_assert_uint_eq(b.examples, ROWS);
    ck_assert_uint_eq(b.drawn, ROWS);
    open_split(WIRE_VALID);
    read_batch(1, 0, ROWS); /* and so does every split but train */
    ck_assert_uint_eq(b.examples, ROWS);
    job.data.negatives = 0; /* a job made by hand: all */
    open_split(WIRE_TRAIN);
    read_batch(1, 0, ROWS);
    ck_assert_uint_eq(b.examples, ROWS);
}
END_TEST

/* Reads the epoch in batches and sets which rows were taken; returns their number. */
static uint32_t taken_rows(uint64_t seed, uint32_t epoch, uint32_t rows, uint32_t batch,
                           unsigned char *taken)
{
    uint32_t count = 0, drawn = 0;
    memset(taken, 0, rows);
    for (uint32_t at = 0; at < rows; at += batch) {
        uint32_t want = rows - at < batch ? rows - at : batch;
        ck_assert_msg(batch_read(d, seed, epoch, at, want, &b, &e) == 0, "%s", e.text);
        ck_assert_uint_eq(b.examples + b.dropped, want);
        drawn += b.drawn;
        for (uint32_t i = 0; i < b.examples; i++) {
            uint32_t row = 0;
            while (row < rows && row_key(row) != key_at(i))
                row++;
            ck_assert_uint_lt(row, rows);
            ck_assert_uint_eq(taken[row], 0);
            taken[row] = 1;
            count++;
        }
    }
    ck_assert_uint_eq(drawn, count);
    return count;
}

START_TEST(dataset_sample_is_the_same_in_each_epoch)
{
    enum { ROWS = 4000 };
    static unsigned char first[ROWS], again[ROWS];
    job.data.sample = 0.25;
    config_list_add(&job.data.train, write_rows("a.csv", 0, ROWS));
    config_list_add(&job.data.valid, write_rows("v.csv", 0, ROWS));
    open_split(WIRE_TRAIN);
    uint32_t count = taken_rows(2026, 1, ROWS, 512, first);
    ck_assert_uint_gt(count, ROWS / 4 - 110); /* four deviations of sqrt(4000 0.25 0.75) */
    ck_assert_uint_lt(count, ROWS / 4 + 110);
    /* in another epoch, in other batches and in the order of the file */
    ck_assert_uint_eq(taken_rows(2026, 2, ROWS, 333, again), count);
    ck_assert_int_eq(memcmp(first, again, ROWS), 0);
    job.data.shuffle = false;
    open_split(WIRE_TRAIN);
    ck_assert_uint_eq(taken_rows(2026, 7, ROWS, 1000, again), count);
    ck_assert_int_eq(memcmp(first, again, ROWS), 0);
    /* of another seed others, as many of them in both as chance has it */
    uint32_t both = 0;
    taken_rows(2027, 1, ROWS, 512, again);
    for (uint32_t i = 0; i < ROWS; i++)
        both += first[i] & again[i];
    ck_assert_uint_gt(both, ROWS / 16 - 62);
    ck_assert_uint_lt(both, ROWS / 16 + 62);
    read_batch(0, 0, ROWS); /* evaluation takes all */
    ck_assert_uint_eq(b.examples, ROWS);
    open_split(WIRE_VALID);
    read_batch(1, 0, ROWS); /* and so does every split but train */
    ck_assert_uint_eq(b.examples, ROWS);
}
END_TEST

/* A share of the negatives of the sample, and all of its positives. */
START_TEST(dataset_negatives_are_drawn_from_the_sample)
{
    enum { ROWS = 4000 };
    static unsigned char sample[ROWS], both[ROWS];
    config_list_add(&job.data.train, write_rows("a.csv", 0, ROWS));
    job.data.sample = 0.5;
    open_split(WIRE_TRAIN);
    taken_rows(2026, 1, ROWS, 500, sample);
    job.data.negatives = 0.25;
    open_split(WIRE_TRAIN);
    memset(both, 0, ROWS);
    uint32_t negatives = 0;
    read_batch(1, 0, ROWS);
    for (uint32_t i = 0; i < b.examples; i++) {
        uint32_t row = 0;
        while (row < ROWS && row_key(row) != key_at(i))
            row++;
        ck_assert_uint_eq(sample[row], 1);
        both[row] = 1;
        negatives += (row & 1) == 0;
    }
    for (uint32_t i = 1; i < ROWS; i += 2)
        ck_assert_uint_eq(sample[i], both[i]);
    ck_assert_uint_gt(negatives, ROWS / 2 / 8 - 60);
    ck_assert_uint_lt(negatives, ROWS / 2 / 8 + 60);
}
END_TEST

/* Writes a csv "label,user,row" in which row i is of user i * 7 % users; every 10th label is no
 * number where `bad`. */
static const char *write_users(const char *name, uint32_t rows, uint32_t users, bool bad)
{
    char *text = malloc(32 + 32 * (size_t)rows);
    size_t at = (size_t)sprintf(text, "label,user,row\n");
    for (uint32_t i = 0; i < rows; i++)
        at += (size_t)sprintf(text + at, "%s,u%u,r%u\n", bad && i % 10 == 3 ? "?" : "1",
                              i * 7 % users, i);
    const char *path = worker_write(name, text, at);
    free(text);
    return path;
}

/* Sets which users have examples in the split; all of a user's rows must be there, or none. */
static uint32_t taken_users(uint32_t rows, uint32_t users, unsigned char *taken)
{
    static uint32_t count[256];
    char text[16];
    uint32_t all = 0;
    ck_assert_uint_le(users, 256);
    memset(count, 0, sizeof count);
    read_batch(1, 0, rows);
    for (uint32_t i = 0; i < b.examples; i++) {
        uint32_t user = 0;
        while (user < users &&
               b.keys[b.index[2 * i]] != key_of_value(0, text, (size_t)sprintf(text, "u%u", user)))
            user++;
        ck_assert_uint_lt(user, users);
        count[user]++;
    }
    for (uint32_t user = 0; user < users; user++) {
        ck_assert(count[user] == 0 || count[user] == rows / users);
        taken[user] = count[user] > 0;
        all += taken[user];
    }
    return all;
}

START_TEST(dataset_sample_takes_whole_users)
{
    enum { USERS = 200, ROWS = 10 * USERS };
    static unsigned char first[USERS], again[USERS];
    job.data.sample = 0.25;
    strcpy(job.data.sample_by, "user");
    config_list_add(&job.data.train, write_users("a.csv", ROWS, USERS, false));
    open_split(WIRE_TRAIN);
    uint32_t count = taken_users(ROWS, USERS, first);
    ck_assert_uint_gt(count, USERS / 4 - 25); /* four deviations of sqrt(200 0.25 0.75) */
    ck_assert_uint_lt(count, USERS / 4 + 25);
    ck_assert_uint_eq(b.drawn, b.examples);
    /* the same users of another log, and of an object of one */
    config_list_free(&job.data.train);
    config_list_add(&job.data.train, write_users("b.csv", 2 * ROWS, USERS, false));
    open_split(WIRE_TRAIN);
    ck_assert_uint_eq(taken_users(2 * ROWS, USERS, again), count);
    ck_assert_int_eq(memcmp(first, again, USERS), 0);
    dataset_close(d);
    d = NULL;
    job.data.objects.of[WIRE_TRAIN].on = true;
    ck_assert_msg(dataset_open_object(&job, WIRE_TRAIN, job.data.train.item[0], &d, &e) == 0, "%s",
                  e.text);
    ck_assert_uint_eq(taken_users(2 * ROWS, USERS, again), count);
    ck_assert_int_eq(memcmp(first, again, USERS), 0);
}
END_TEST

/* Malformed lines go by their number, so that they keep their share of the lines. */
START_TEST(dataset_sample_has_its_share_of_malformed_lines)
{
    enum { ROWS = 8000 };
    job.data.sample = 0.25;
    if (_i == 1)
        strcpy(job.data.sample_by, "user");
    config_list_add(&job.data.train, write_users("a.csv", ROWS, 1000, true));
    open_split(WIRE_TRAIN);
    read_batch(1, 0, ROWS);
    ck_assert_uint_eq(b.drawn, b.examples + b.bad_lines);
    ck_assert_uint_gt(b.bad_lines, ROWS / 40 - 50); /* four deviations of sqrt(800 0.25 0.75) */
    ck_assert_uint_lt(b.bad_lines, ROWS / 40 + 50);
}
END_TEST

START_TEST(dataset_sample_column_is_needed_for_training_alone)
{
    job.data.sample = 0.5;
    strcpy(job.data.sample_by, "user");
    config_list_add(&job.data.train, worker_text("a.csv", "label,user,row\n1,u,r\n"));
    config_list_add(&job.data.valid, worker_text("v.csv", "label,row\n1,r\n"));
    config_list_add(&job.features.fields, "row");
    job.features.fields_auto = false;
    open_split(WIRE_VALID);
    read_batch(0, 0, 1);
    ck_assert_uint_eq(b.examples, 1);
    strcpy(job.data.sample_by, "label");
    ck_assert_int_eq(dataset_open(&job, WIRE_TRAIN, &d, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "which is a label"));
    strcpy(job.data.sample_by, "session");
    ck_assert_int_eq(dataset_open(&job, WIRE_TRAIN, &d, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "data.sample_by"));
    d = NULL;
}
END_TEST

START_TEST(dataset_dropped_negatives_leave_an_empty_batch)
{
    job.data.negatives = 1e-6;
    config_list_add(&job.data.train, worker_text("a.csv", "label,row\n0,a\n0,b\n0,c\n"));
    open_split(WIRE_TRAIN);
    read_batch(1, 0, 3);
    ck_assert_uint_eq(b.examples, 0);
    ck_assert_uint_eq(b.key_count, 0);
    ck_assert_uint_eq(b.dropped, 3);
}
END_TEST

START_TEST(dataset_groups_are_for_epoch_0)
{
    strcpy(job.evaluate.group, "row");
    config_list_add(&job.evaluate.by, "label");
    config_list_add(&job.data.train, write_rows("a.csv", 0, 10));
    config_list_add(&job.data.valid, worker_text("v.csv", "row,label\nr3,1\n")); /* other columns */
    open_split(WIRE_TRAIN);
    read_batch(1, 0, 10);
    ck_assert_ptr_null(b.group);
    ck_assert_uint_eq(b.by_count, 1); /* training reports by these, too */
    read_batch(0, 0, 10);
    ck_assert_uint_eq(b.group[3], hash_bytes("r3", 2, 0));
    ck_assert_uint_eq(b.by[3], hash_bytes("1", 1, 0));
    open_split(WIRE_VALID);
    read_batch(0, 0, 1);
    ck_assert_uint_eq(b.group[0], hash_bytes("r3", 2, 0));
    ck_assert_uint_eq(b.by[0], hash_bytes("1", 1, 0));
}
END_TEST

/* Opens a log without a header with these columns; its parsed rows are kept for the next job. */
static void open_named(const char *first, const char *second, const char *third)
{
    const char *const name[] = {first, second, third};
    job.data.column_count = 0;
    for (int i = 0; i < 3; i++)
        worker_job_column(&job, name[i], strcmp(name[i], "x") == 0 ? COLUMN_CATEGORY : COLUMN_SKIP);
    open_split(WIRE_TRAIN);
    read_batch(0, 0, 2);
}

/* If the names of such a log are corrected, its columns change, although the file is the same. */
START_TEST(dataset_kept_rows_are_of_the_columns_as_named)
{
    job.data.header = false;
    job.data.cache_max = 1u << 20;
    strcpy(job.data.label[0], "click");
    strcpy(job.data.weight, "weight");
    config_list_add(&job.data.train, worker_text("a.csv", "1,0,7\n0,1,8\n"));
    open_named("click", "weight", "x");
    ck_assert(b.label[0] == 1 && b.weight[0] == 0);
    open_named("weight", "click", "x");
    ck_assert_msg(b.label[0] == 0 && b.weight[0] == 1, "label %g and weight %g of row 1",
                  (double)b.label[0], (double)b.weight[0]);
    strcpy(job.data.weight, "");
    strcpy(job.evaluate.group, "weight");
    config_list_add(&job.evaluate.by, "click");
    open_named("click", "weight", "x");
    ck_assert_uint_eq(b.group[0], hash_bytes("0", 1, 0));
    ck_assert_uint_eq(b.by[0], hash_bytes("1", 1, 0));
    open_named("weight", "click", "x");
    ck_assert_uint_eq(b.group[0], hash_bytes("1", 1, 0));
    ck_assert_uint_eq(b.by[0], hash_bytes("0", 1, 0));
}
END_TEST

/* Each thread reads all batches of the epoch and combines them to one number. */
static void *read_epoch(void *result)
{
    struct batch mine;
    batch_init(&mine);
    uint64_t fold = 0;
    for (uint32_t at = 0; at < 4000; at += 500) {
        if (batch_read(d, 7, 1, at, 500, &mine, NULL) != 0)
            return NULL;
        fold = hash_bytes(mine.keys, sizeof mine.keys[0] * mine.key_count, fold);
        fold = hash_bytes(mine.index, sizeof mine.index[0] * mine.values, fold);
    }
    batch_free(&mine);
    *(uint64_t *)result = fold;
    return result;
}

START_TEST(dataset_is_read_by_several_threads)
{
    pthread_t thread[4];
    uint64_t fold[4] = {0};
    config_list_add(&job.data.train, write_rows("a.csv", 0, 4000));
    open_split(WIRE_TRAIN);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, read_epoch, &fold[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *result;
        ck_assert_int_eq(pthread_join(thread[i], &result), 0);
        ck_assert_ptr_nonnull(result);
        ck_assert_uint_eq(fold[i], fold[0]);
    }
    ck_assert_uint_ne(fold[0], 0);
}
END_TEST

/* Writes `rows` lines; line i has label i % classes + first. */
static void open_labels(uint32_t rows, uint32_t first, uint32_t classes)
{
    char name[32];
    snprintf(name, sizeof name, "l%u-%u-%u.csv", rows, first, classes);
    FILE *f = fopen(worker_path(name), "w");
    fputs("stars,user\n", f);
    for (uint32_t i = 0; i < rows; i++)
        fprintf(f, "%u,u%u\n", first + i * classes / rows, i % 7); /* sorted by the label */
    fclose(f);
    config_list_free(&job.data.train);
    ck_assert_int_eq(config_list_add(&job.data.train, worker_path(name)), 0);
    open_split(WIRE_TRAIN);
}

START_TEST(dataset_labels_that_teach_nothing_are_told)
{
    static const struct {
        uint32_t rows, first, classes;
        const char *says;
    } told[] = {
        {100, 0, 2, ""},
        {90000, 0, 2, ""},
        {100, 1, 1, "label \"stars\": all 100 lines looked at count as 1"},
        {90000, 0, 1, "all 32768 lines looked at count as 0, for their values (0) are not above"},
        {100, 1, 5, "all 100 lines looked at count as 1, for their values (1, 2, 3 and others)"},
        {90000, 0, 3, "label \"stars\" has more than two values (0, 1, 2)"},
        {100, 0, 6, "data.label_above: 0 count as 1"},
    };
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        open_labels(told[i].rows, told[i].first, told[i].classes);
        const char *says = dataset_warning(d);
        ck_assert_msg(told[i].says[0] == '\0' ? says[0] == '\0'
                                              : strstr(says, told[i].says) != NULL,
                      "%zu: %s", i, says);
    }
    job.data.label_above = 3;
    open_labels(100, 1, 5);
    ck_assert_ptr_nonnull(strstr(dataset_warning(d), "data.label_above: 3 count as 1"));
    job.data.label_parted = true; /* the job says it: it is not determined again */
    open_labels(100, 1, 5);
    ck_assert_str_eq(dataset_warning(d), "");
    job.data.label_above = 30;
    open_labels(100, 1, 5);
    ck_assert_ptr_nonnull(strstr(dataset_warning(d), "so there is nothing to learn"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dataset");
    TCase *t = tcase_create("dataset");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, dataset_epoch_visits_every_row_once);
    tcase_add_test(t, dataset_chunks_of_many_rows_are_visited_once_too);
    tcase_add_test(t, dataset_eval_is_in_file_order);
    tcase_add_test(t, dataset_batches_are_the_same_bytes_each_time);
    tcase_add_test(t, dataset_digest_is_of_content);
    tcase_add_test(t, dataset_changed_input_is_an_error);
    tcase_add_test(t, dataset_labels_that_teach_nothing_are_told);
    tcase_add_test(t, dataset_input_cut_short_is_an_error);
    tcase_add_test(t, dataset_replaced_file_does_not_disturb_a_running_job);
    tcase_add_test(t, dataset_malformed_lines_are_counted_with_their_place);
    tcase_add_test(t, dataset_line_over_the_limit_is_malformed);
    tcase_add_test(t, dataset_position_beyond_the_end_is_refused);
    tcase_add_test(t, dataset_columns_are_found_by_name_in_each_split);
    tcase_add_test(t, dataset_files_of_a_split_need_one_header);
    tcase_add_test(t, dataset_without_rows_is_refused);
    tcase_add_test(t, dataset_first_file_may_be_empty);
    tcase_add_test(t, dataset_shape_needs_no_more_than_the_first_line);
    tcase_add_test(t, dataset_columns_are_those_that_the_tables_know);
    tcase_add_test(t, dataset_that_trains_nothing_asks_no_stream);
    tcase_add_test(t, dataset_negatives_are_a_share_drawn_anew_each_epoch);
    tcase_add_test(t, dataset_sample_is_the_same_in_each_epoch);
    tcase_add_test(t, dataset_negatives_are_drawn_from_the_sample);
    tcase_add_test(t, dataset_sample_takes_whole_users);
    tcase_add_loop_test(t, dataset_sample_has_its_share_of_malformed_lines, 0, 2);
    tcase_add_test(t, dataset_sample_column_is_needed_for_training_alone);
    tcase_add_test(t, dataset_dropped_negatives_leave_an_empty_batch);
    tcase_add_test(t, dataset_groups_are_for_epoch_0);
    tcase_add_test(t, dataset_kept_rows_are_of_the_columns_as_named);
    tcase_add_test(t, dataset_is_read_by_several_threads);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
