/* profile_files.c: finds duplicate files of a job by device and inode. */
#include "worker/data/profile.h"

#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "worker/data/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct known_file {
    dev_t device;
    ino_t inode;
    const char *name; /* points into `names` */
};

struct known_files {
    struct known_file *file; /* owned; (count), sorted */
    size_t count;
    struct string_list names; /* owned */
};

static int compare(const void *a, const void *b)
{
    const struct known_file *x = a, *y = b;
    if (x->device != y->device)
        return (x->device > y->device) - (x->device < y->device);
    return (x->inode > y->inode) - (x->inode < y->inode);
}

/* Adds a split's files; streams and missing files are skipped. */
static void files_of(const struct job *job, uint32_t split, struct known_files *out)
{
    const char *what;
    const struct string_list *list = job_input(job, split, &what);
    struct stat st;
    *out = (struct known_files){.file = NULL};
    for (size_t i = 0; i < list->count; i++) {
        const struct string_list one = {&list->item[i], 1};
        if (!source_is_stream(list->item[i]))
            (void)source_names_any(&one, what, &out->names, NULL);
    }
    out->file = calloc(out->names.count + 1, sizeof *out->file);
    for (size_t i = 0; out->file != NULL && i < out->names.count; i++)
        if (stat(out->names.item[i], &st) == 0 && S_ISREG(st.st_mode))
            out->file[out->count++] = (struct known_file){st.st_dev, st.st_ino, out->names.item[i]};
    if (out->count > 1)
        qsort(out->file, out->count, sizeof *out->file, compare);
}

static void files_free(struct known_files *k)
{
    free(k->file);
    config_list_free(&k->names);
}

static void twice_note(const struct known_files *train, struct json *notes)
{
    size_t twice = 0;
    const char *name = NULL;
    char text[1536];
    for (size_t i = 1; i < train->count; i++)
        if (compare(&train->file[i - 1], &train->file[i]) == 0) {
            if (name == NULL)
                name = train->file[i].name;

            twice++;
        }
    if (twice == 0)
        return;
    (void)snprintf(text, sizeof text,
                   "data.train has the file %s twice%s: each of its rows is learnt twice an epoch; "
                   "take it out of the list, or out of what a glob there finds",
                   name, twice > 1 ? ", and others" : "");
    json_append_string(notes, text);
}

/* True when the split has files of data.train. */
static bool shared_note(const struct job *job, uint32_t split, const struct known_files *train,
                        struct json *notes)
{
    size_t shared = 0;
    const char *name = NULL, *what;
    char text[1536];
    struct known_files own;
    (void)job_input(job, split, &what);
    files_of(job, split, &own);
    for (size_t i = 0; i < own.count && train->count > 0; i++)
        if (bsearch(&own.file[i], train->file, train->count, sizeof *train->file, compare) !=
            NULL) {
            if (name == NULL)
                name = own.file[i].name;

            shared++;
        }
    if (shared > 0) {
        (void)snprintf(text, sizeof text,
                       "%s has the file %s%s, which data.train has too: its figures tell how well "
                       "rows are remembered, not how well others are predicted; evaluate on rows "
                       "that are not trained on",
                       what, name, shared > 1 ? " and others" : "");
        json_append_string(notes, text);
    }
    files_free(&own);
    return shared > 0;
}

bool profile_files(const struct job *job, struct json *notes)
{
    struct known_files train;
    bool shared = false;
    files_of(job, WIRE_TRAIN, &train);
    twice_note(&train, notes);
    for (uint32_t split = WIRE_VALID; split <= WIRE_TEST; split++)
        shared |= shared_note(job, split, &train, notes);
    files_free(&train);
    return shared;
}
